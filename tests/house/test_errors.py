"""Every error says what happened, what is true now and what to do; and it keeps what it was told."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from lakehouse import errors
from lakehouse.dagster.failures import is_worth_another_try
from lakehouse.errors import LakehouseError
from lakehouse.server import setup_errors
from tests.support.sentences import reading, results, tables
from tests.support.sentences.case import REMEDY, Case

CASES = [*reading.CASES, *results.CASES, *tables.CASES]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.error.__name__)
def test_an_error_says_what_happened_what_is_true_now_and_what_to_do(case: Case):
    assert str(case.raised()) == " ".join(part for part in (case.happened, case.now, case.to_do) if part)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.error.__name__)
def test_what_happened_can_be_told_without_what_an_error_says_is_true_now(case: Case):
    """An error of a second commit says it in a sentence of its own: nothing was written by that one."""
    if case.now.startswith("Nothing was written"):
        how = "give LakehouseError its sentences apart: super().__init__(happened, 'Nothing was written. ...')"
        assert case.raised().happened == case.happened, how


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.error.__name__)
def test_an_error_keeps_what_it_was_told(case: Case):
    raised = case.raised()
    assert inspect.signature(case.error).parameters.keys() == case.told.keys()
    assert {name: getattr(raised, name) for name in case.told} == case.told


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.error.__name__)
def test_whatever_happens_at_run_time_is_followed_by_what_is_true_of_the_table(case: Case):
    assert bool(case.now) == (not issubclass(case.error, errors.DefinitionError))
    assert case.to_do


def test_every_error_with_a_sentence_of_its_own_is_listed_here():
    own = {error for error in classes(errors) if "__init__" in vars(error)} - {errors.LakehouseError}
    assert {case.error for case in CASES} == own


def test_once_is_not_said_as_1_times():
    lost = errors.ConflictError("flights", 1, 0.2, "an OPTIMIZE", "its inputs are as they were", REMEDY)
    assert str(lost).startswith("'flights' lost its commit once in 0.2 s")


def test_a_retry_policy_repeats_what_another_try_may_do_better():
    """Another session, other rivals, other executors; all else would only be said again."""
    assert {case.error for case in CASES if is_worth_another_try(case.raised())} == {
        errors.SessionEndedError,
        errors.ConflictError,
        errors.UnsettledError,
        errors.UnknownOutcomeError,
        errors.MissingFileError,
        errors.ComputeError,
        errors.SecondDriverError,
    }
    assert is_worth_another_try(setup_errors.ServerLostError(Path("/lake"), "It was killed."))
    assert not is_worth_another_try(setup_errors.ServerError(Path("/lake"), "it does not start."))


def test_the_page_on_errors_has_each_and_says_which_a_retry_policy_tries_again():
    page = (Path(__file__).parents[2] / "docs/reference/errors.md").read_text()
    rows = re.findall(r"^\| (`.+?`) \|.*\| (\w+) \|$", page, re.MULTILINE)
    repeats = {name: again for names, again in rows for name in re.findall(r"\w+Error", names)}
    every = {error.__name__ for module in (errors, setup_errors) for error in classes(module)} - {"LakehouseError"}
    assert repeats.keys() == every
    stale = {"LateGapError", "NewColumnsError", "StaleInputsError", "OvertakenError", "RolledBackError"}
    tried = {case.error.__name__ for case in CASES if is_worth_another_try(case.raised())} | {"ServerLostError"}
    assert {name for name, again in repeats.items() if again == "always"} == stale
    assert {name for name, again in repeats.items() if again == "yes"} == tried


def test_each_error_has_a_code_of_its_own_which_the_page_has_beside_its_name():
    page = (Path(__file__).parents[2] / "docs/reference/errors.md").read_text()
    every = {*classes(errors), *classes(setup_errors)}
    codes = {error.__name__: error.code for error in every}
    assert len(set(codes.values())) == len(every)
    assert dict(re.findall(r"`(\w+Error)`<br>`([A-Z_]+)`", page)) == {
        name: code for name, code in codes.items() if name != "LakehouseError"
    }


def classes(module: ModuleType) -> list[type[LakehouseError]]:
    """The errors that a module defines, or those of the files of a package."""
    errors_ = [
        value for value in vars(module).values() if isinstance(value, type) and issubclass(value, LakehouseError)
    ]
    return [error for error in errors_ if error.__module__ == module.__name__ or hasattr(module, "__path__")]


def drawn(module: ModuleType) -> Iterator[tuple[str, str | None]]:
    """The classes that a module's docstring draws, each with the one above it."""
    path: list[tuple[int, str]] = []
    for indent, name in re.findall(r"^( *)[*x-] (\w+Error)\b", str(module.__doc__), re.MULTILINE):
        while path and path[-1][0] >= len(indent):
            path.pop()
        yield name, path[-1][1] if path else None
        path.append((len(indent), name))


@pytest.mark.parametrize("module", [errors, setup_errors], ids=lambda module: module.__name__)
def test_the_tree_in_the_docstring_is_the_tree_of_the_classes(module: ModuleType):
    tree = {error.__name__: error.__bases__[0].__name__ for error in classes(module)}
    assert {name: above for name, above in drawn(module) if name != "LakehouseError"} == {
        name: above for name, above in tree.items() if name != "LakehouseError"
    }
    assert next(drawn(module)) == ("LakehouseError", None)


@pytest.mark.parametrize("error", [*classes(errors), *classes(setup_errors)], ids=lambda error: error.__name__)
def test_one_except_catches_them_all(error: type[Exception]):
    assert issubclass(error, LakehouseError)
    assert error.__name__.endswith("Error")
    assert error.__doc__


def test_an_asset_that_reads_its_own_table_is_told_how_to_begin():
    """To materialize itself first is no advice."""
    assert "begins with an empty table" in str(errors.SourceMissingError("balance", "balance", "/lake/balance"))
    assert "Materialize 'orders' first" in str(errors.SourceMissingError("balance", "orders", "/lake/orders"))


@pytest.mark.parametrize(
    ("adoption", "tag"),
    [
        ("compare", "lakehouse/full_refresh=true"),
        ("go on", "lakehouse/go_on_from/flights="),
        ("take the extract", "lakehouse/allow/flights=version"),
        ("refuse", None),
    ],
)
def test_the_table_of_another_program_is_adopted_by_the_tag_of_the_write_and_by_no_other(
    adoption: errors.Adoption, tag: str | None
):
    sentence = str(errors.ForeignTableError("flights", "/lake/flights", 4, adoption))
    assert re.findall(r"lakehouse/[a-z_]+(?:/flights)?=[a-z]*", sentence) == ([] if tag is None else [tag])
    assert "give the asset another name or root" in sentence


def test_what_happened_never_says_that_nothing_was_written():
    """A run that has committed repeats what happened, and then says what its commit wrote."""
    package = Path(errors.__file__).parents[1]
    calls = [
        (f"{file.relative_to(package)}:{node.lineno}", node)
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("Error") and node.args
    ]
    assert len(calls) > 100
    assert [place for place, call in calls if "Nothing was" in ast.unparse(call.args[0])] == []

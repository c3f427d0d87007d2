"""Every error says what happened, what is true now and what to do; and it keeps what it was told."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from lakehouse import errors
from lakehouse.errors import DefinitionError, LakehouseError, ReadError, SessionError, SetupError, WriteError
from tests.support.sentences import reading, results, tables
from tests.support.sentences.case import REMEDY, Case

CASES = [*reading.CASES, *results.CASES, *tables.CASES]
OF_SETUP = [
    SessionError.server_lost(Path("/lake"), "It was killed."),
    SetupError.not_installed("Java is missing."),
    SetupError.server(Path("/lake"), "it does not start."),
    SetupError.unsafe_setting(["spark.ui.enabled is refused."]),
    SetupError.variable("LAKEHOUSE_ROOT", None, "set it."),
    SetupError.version("Spark", "3.5", "4.2", "pyspark"),
    SetupError.other_spark("Delta's jar is for Spark 4.1", "4.2", "Give it another"),
]
"""What is said before Spark starts, of no table."""
PLAIN = [DefinitionError("It is wrong."), ReadError("It means nothing."), WriteError("It means nothing.")]
"""Errors whose sentences stand where they are raised."""
RAISED = [*(case.raised() for case in CASES), *OF_SETUP, *PLAIN]
CLASSES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, LakehouseError)]
CODES = re.findall(
    r'^    (?:@with_code\(|code = )"([A-Z_]+)"', "\n".join(map(inspect.getsource, CLASSES)), re.MULTILINE
)
"""As the classes say them: of a constructor, or of a class with one sentence."""
ALWAYS = (errors.StaleInputsError, errors.LateGapError, errors.NewColumnsError)
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/errors.md").read_text()
ROWS = re.findall(r"^\| `([A-Z_]+)` \| `(\w+)` \|.*\| (\w+) \|$", PAGE, re.MULTILINE)


def code_of(case: Case) -> str:
    return case.raised().code


@pytest.mark.parametrize("case", CASES, ids=code_of)
def test_an_error_says_what_happened_what_is_true_now_and_what_to_do(case: Case):
    assert str(case.raised()) == " ".join(part for part in (case.happened, case.now, case.to_do) if part)


@pytest.mark.parametrize("case", CASES, ids=code_of)
def test_what_happened_can_be_told_without_what_an_error_says_is_true_now(case: Case):
    """An error of a second commit says it in a sentence of its own: nothing was written by that one."""
    if case.now.startswith("Nothing was written"):
        how = "give the error its sentences apart: cls(happened, 'Nothing was written. ...')"
        assert case.raised().happened == case.happened, how


@pytest.mark.parametrize("case", CASES, ids=code_of)
def test_an_error_keeps_what_it_was_told(case: Case):
    raised = case.raised()
    assert inspect.signature(case.build).parameters.keys() == case.told.keys()
    assert {name: getattr(raised, name) for name in case.told} == case.told


@pytest.mark.parametrize("case", CASES, ids=code_of)
def test_whatever_happens_at_run_time_is_followed_by_what_is_true_of_the_table(case: Case):
    assert bool(case.now) == (not isinstance(case.raised(), DefinitionError))
    assert case.to_do


def test_every_error_with_a_sentence_of_its_own_is_listed_here():
    assert {error.code for error in RAISED} == set(CODES)


def test_each_code_is_of_one_sentence():
    assert len(set(CODES)) == len(CODES)


def test_once_is_not_said_as_1_times():
    lost = errors.CommitError.conflict("flights", 1, 0.2, "an OPTIMIZE", "its inputs are as they were", REMEDY)
    assert str(lost).startswith("'flights' lost its commit once in 0.2 s")


def test_a_retry_policy_repeats_what_another_try_may_do_better():
    """Another session, other rivals, other executors; all else would only be said again."""
    assert {error.code for error in RAISED if error.is_temporary} == {
        "SESSION_ENDED",
        "SERVER_LOST",
        "CONFLICT",
        "UNSETTLED",
        "UNKNOWN_OUTCOME",
        "MISSING_FILE",
        "COMPUTE",
        "SECOND_DRIVER",
    }


def test_the_page_on_errors_has_each_code_with_its_class():
    """Of `UNSETTLED`, say, a search finds one row."""
    assert len(ROWS) == len({code for code, _, _ in ROWS})
    assert {code: kind for code, kind, _ in ROWS} == {error.code: type(error).__name__ for error in RAISED}


def test_the_page_on_errors_says_which_a_retry_policy_tries_again():
    always = {error.code for error in RAISED if isinstance(error, ALWAYS)}
    assert {code for code, _, again in ROWS if again == "always"} == always
    assert {code for code, _, again in ROWS if again == "yes"} == {e.code for e in RAISED if e.is_temporary}
    assert {again for _, _, again in ROWS} == {"always", "yes", "no"}


def drawn() -> Iterator[tuple[str, str | None]]:
    """The classes that the docstring draws, each with the one above it."""
    path: list[tuple[int, str]] = []
    for indent, name in re.findall(r"^( *)[*x-] (\w+Error)\b", str(errors.__doc__), re.MULTILINE):
        while path and path[-1][0] >= len(indent):
            path.pop()
        yield name, path[-1][1] if path else None
        path.append((len(indent), name))


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes():
    tree = {kind.__name__: kind.__bases__[0].__name__ for kind in CLASSES if kind is not LakehouseError}
    root, *others = drawn()
    assert root == ("LakehouseError", None)
    assert dict(others) == tree


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_one_except_catches_them_all(kind: type[LakehouseError]):
    assert kind.__name__.endswith("Error")
    assert kind.__doc__


def test_an_asset_that_reads_its_own_table_is_told_how_to_begin():
    """To materialize itself first is no advice."""
    assert "begins with an empty table" in str(errors.ReadError.source_missing("balance", "balance", "/lake/balance"))
    assert "Materialize 'orders' first" in str(errors.ReadError.source_missing("balance", "orders", "/lake/orders"))


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
    sentence = str(errors.TableError.foreign_table("flights", "/lake/flights", 4, adoption))
    assert re.findall(r"lakehouse/[a-z_]+(?:/flights)?=[a-z]*", sentence) == ([] if tag is None else [tag])
    assert "give the asset another name or root" in sentence


def test_what_happened_never_says_that_nothing_was_written():
    """A run that has committed repeats what happened, and then says what its commit wrote."""
    package = Path(errors.__file__).parents[1]
    calls = [
        (f"{file.relative_to(package)}:{node.lineno}", node)
        for file in package.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and re.search(r"Error(\.[a-z_]+)?$", ast.unparse(node.func)) and node.args
    ]
    assert len(calls) > 100
    assert [place for place, call in calls if "Nothing was" in ast.unparse(call.args[0])] == []


def test_an_error_in_short_is_one_line_and_of_ours_what_happened():
    assert errors.in_short(ReadError("It is gone.", "Nothing was read.")) == "It is gone."
    assert errors.in_short(ReadError("It is gone:\nat once.")) == "It is gone:"
    assert errors.in_short(KeyError("a\nb")) == r"KeyError: 'a\nb'"
    assert errors.in_short(OSError("No room.\nNone.")) == "OSError: No room."
    assert errors.in_short(OSError()) == "OSError"

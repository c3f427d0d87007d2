"""Every error says what happened, what is true now and what to do; and it keeps its arguments."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

from lakehouse import errors
from lakehouse.errors import DefinitionError, LakehouseError, ReadError, SetupError, WriteError
from tests.support.errors_of_all_codes import CLASSES, built

BUILT = list(built())
PLAIN = [DefinitionError("It is wrong."), ReadError("It means nothing."), WriteError("It means nothing.")]
"""Errors whose sentences are written where they are raised."""
RAISED = [*(error for error, _ in BUILT), *PLAIN]
CODES = re.findall(
    r'^    (?:@with_code\(|code = )"([A-Z_]+)"', "\n".join(map(inspect.getsource, CLASSES)), re.MULTILINE
)
"""The codes in the source of the classes: those of constructors, and those of classes with one sentence."""
STATES = (
    r"Nothing was (written|read|changed|committed|started)|not (started|changed)|committed (version|as version)|"
    r"is committed|may be in the table|does not count|What was committed stays"
)
"""Phrases for what is true of the table now."""
ALWAYS = (errors.StaleInputsError, errors.LateGapError, errors.UncomparedError)
ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/errors.md").read_text()
ROWS = re.findall(r"^\| `([A-Z_]+)` \| `(\w+)` \|.*\| (\w+) \|$", PAGE, re.MULTILINE)


def test_an_error_keeps_what_it_was_told() -> None:
    kept = [(error.code, {name: getattr(error, name) for name in told} == told) for error, told in BUILT]
    assert [code for code, is_kept in kept if not is_kept] == []


def test_what_happens_at_run_time_is_followed_by_what_is_true_of_the_table() -> None:
    """A definition, a setting or a machine is refused before any table is reached."""
    silent = [error for error, _ in BUILT if not re.search(STATES, str(error))]
    assert [error.code for error in silent if not isinstance(error, (DefinitionError, SetupError))] == []


def test_what_happened_can_be_told_without_what_is_true_now() -> None:
    """An error about a second commit needs a sentence of its own: nothing was written by that commit."""
    how = "give the error its sentences apart: cls(happened, 'Nothing was written. ...')"
    at_run_time = [error for error, _ in BUILT if not isinstance(error, SetupError)]
    assert [error.code for error in at_run_time if "Nothing was" in error.happened] == [], how


def test_no_value_that_is_missing_is_shown() -> None:
    assert [str(error) for error, _ in BUILT if re.search(r"\bNone\b|  |(?<!\.)\.\.(?!\.)|: *\.", str(error))] == []


def test_every_code_is_built_here_and_is_of_one_sentence() -> None:
    assert {error.code for error in RAISED} == set(CODES)
    assert len(set(CODES)) == len(CODES)


def test_once_is_not_said_as_1_times() -> None:
    lost = errors.CommitError.conflict("flights", 1, 0.2, "an OPTIMIZE", "its inputs are as they were", "Do this.")
    assert str(lost).startswith("'flights' lost its commit once in 0.2 s")


def test_a_retry_policy_repeats_what_another_try_may_do_better() -> None:
    """With another session, other rivals or other executors; any other error would only be raised again."""
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


def test_the_page_on_errors_has_each_code_with_its_class() -> None:
    """A search for `UNSETTLED`, for example, finds one row."""
    assert len(ROWS) == len({code for code, _, _ in ROWS})
    assert {code: kind for code, kind, _ in ROWS} == {error.code: type(error).__name__ for error in RAISED}


def test_the_page_on_errors_says_which_a_retry_policy_tries_again() -> None:
    always = {error.code for error in RAISED if isinstance(error, ALWAYS)}
    assert {code for code, _, again in ROWS if again == "always"} == always
    assert {code for code, _, again in ROWS if again == "yes"} == {e.code for e in RAISED if e.is_temporary}
    assert {again for _, _, again in ROWS} == {"always", "yes", "no"}


def drawn() -> Iterator[tuple[str, str | None]]:
    """The classes in the tree of the docstring, each with the class above it."""
    path: list[tuple[int, str]] = []
    for indent, name in re.findall(r"^( *)[*x-] (\w+Error)\b", str(errors.__doc__), re.MULTILINE):
        while path and path[-1][0] >= len(indent):
            path.pop()
        yield name, path[-1][1] if path else None
        path.append((len(indent), name))


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    tree = {kind.__name__: kind.__bases__[0].__name__ for kind in CLASSES if kind is not LakehouseError}
    root, *others = drawn()
    assert root == ("LakehouseError", None)
    assert dict(others) == tree


def test_one_except_catches_them_all() -> None:
    assert [kind.__name__ for kind in CLASSES if not (kind.__name__.endswith("Error") and kind.__doc__)] == []


def test_an_asset_that_reads_its_own_table_is_told_how_to_begin() -> None:
    """The advice to materialize the asset itself first would not help."""
    assert "begins with an empty table" in str(errors.ReadError.source_missing("balance", "balance", "/lake/balance"))
    assert "the program that writes 'orders'" in str(
        errors.ReadError.source_missing("balance", "orders", "/lake/orders")
    )


def test_the_table_of_another_program_is_adopted_by_the_tag_of_the_write_and_by_no_other() -> None:
    tags: dict[errors.Adoption, list[str]] = {
        "compare": ["lakehouse/full_refresh=true"],
        "go on": ["lakehouse/go_on_from/flights="],
        "take the extract": ["lakehouse/allow/flights=version"],
        "refuse": [],
        "quarantine": [],
    }
    sentences = {how: str(errors.TableError.foreign_table("flights", "/lake/flights", 4, how)) for how in tags}
    assert {how: re.findall(r"lakehouse/[a-z_]+(?:/flights)?=[a-z]*", text) for how, text in sentences.items()} == tags
    assert all("give the asset another name or root" in text for text in sentences.values())


def test_what_happened_never_says_that_nothing_was_written() -> None:
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


def test_an_error_in_short_is_one_line_and_of_ours_what_happened() -> None:
    assert errors.in_short(ReadError("It is gone.", "Nothing was read.")) == "It is gone."
    assert errors.in_short(ReadError("It is gone:\nat once.")) == "It is gone:"
    assert errors.in_short(KeyError("a\nb")) == r"KeyError: 'a\nb'"
    assert errors.in_short(OSError("No room.\nNone.")) == "OSError: No room."
    assert errors.in_short(OSError()) == "OSError"

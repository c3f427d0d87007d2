"""A variable, a parameter and an attribute is a noun that names the thing, or says what is true of it."""

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

PROJECT = Path(__file__).parents[2]
FILES = sorted(
    file
    for part in ("lakehouse", "dagster_delta_lakehouse", "assets", "resources")
    for file in (PROJECT / part).rglob("*.py")
)
NO_NOUNS = frozenset(
    [
        "anew",
        "asked",
        "but",
        "found",
        "gone",
        "held",
        "kept",
        "known",
        "left",
        "mine",
        "ours",
        "said",
        "seen",
        "theirs",
        "there",
        "told",
        "unasked",
        "untold",
        "yours",
    ]
)


def _names(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every name that a file assigns or defines, with its line."""
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, lineno=line) | ast.Name(id=name, ctx=ast.Store(), lineno=line):
                yield line, name
            case ast.Attribute(attr=name, ctx=ast.Store(), lineno=line):
                yield line, name
            case ast.FunctionDef(name=name, lineno=line):
                yield line, name
            case ast.MatchAs(name=str(name), lineno=line) | ast.MatchStar(name=str(name), lineno=line):
                yield line, name
            case _:
                pass


def unnamed(source: str) -> list[tuple[int, str]]:
    """The names of a file that do not name a thing; `left` does if there is a `right`."""
    names = list(_names(ast.parse(source)))
    sides = {"left"} if any(name == "right" for _, name in names) else set[str]()
    return sorted((line, name) for line, name in names if name.strip("_") in NO_NOUNS - sides)


def test_names_are_nouns() -> None:
    listed = {str(file.relative_to(PROJECT)): unnamed(file.read_text()) for file in FILES}

    assert {file: names for file, names in listed.items() if names} == {}


def test_a_name_that_is_no_noun_is_noticed() -> None:
    source = "def told(there):\n    found: int = 1\n    self._said = found\n    for left, right in ours: pass\n"

    assert unnamed(source) == [(1, "there"), (1, "told"), (2, "found"), (3, "_said")]


def test_a_class_has_a_name_of_its_own() -> None:
    """A search for a class finds one class."""
    places = defaultdict[str, list[str]](list)
    for file in sorted((PROJECT / "lakehouse").rglob("*.py")):
        for node in ast.parse(file.read_text()).body:
            if isinstance(node, ast.ClassDef):
                places[node.name].append(str(file.relative_to(PROJECT)))

    assert {name: files for name, files in places.items() if len(files) > 1} == {}


PARTICIPLE = re.compile(r"^_?[a-z]+(?:ed|told|made|held|known|found|given|written|standing)$")
NO_PARTICIPLES = {"feed", "need", "seed", "speed", "embed"}
OF_USERS = {"appended", "touched"}
"""Methods whose names are for users to read: `changes.touched(...)`."""
OF_VALUES = {"checked", "committed", "unknown"}
"""A property, and functions within others."""


def test_a_function_begins_with_a_verb_or_is_the_noun_of_what_it_returns() -> None:
    """A participle is an adjective: `planned(write)` reads as a question, and returns a plan."""
    listed = {
        f"{file.relative_to(PROJECT)}:{node.lineno}: {node.name}"
        for file in FILES
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef)
        and PARTICIPLE.match(node.name)
        and node.name.strip("_") not in NO_PARTICIPLES | OF_USERS | OF_VALUES
    }
    assert listed == set()


def test_a_file_name_occurs_once() -> None:
    names = [file.name for file in (PROJECT / "lakehouse").rglob("*.py") if file.name != "__init__.py"]
    assert sorted({name for name in names if names.count(name) > 1}) == []

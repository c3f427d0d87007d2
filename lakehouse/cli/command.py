"""What the commands share: which lakehouse their arguments name, and what they answer."""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType

DAGSTER_HOME = "DAGSTER_HOME"
"""The variable that names the directory of Dagster's instance."""
_MODULE = "where the definitions are: a module, or module:name; else the code location of the current directory"
_FILE = "where the definitions are: a Python file"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one command.

    Args:
        value: What `--json` prints: dictionaries, lists, texts and numbers.
        text: What is printed without `--json`: a text, or a page that is as wide and as colourful as the terminal.
        code: The exit code: 0, or 1 where something is wrong that the command is there to find.
    """

    value: Any
    text: "str | RenderableType"
    code: int = 0


class UsageError(Exception):
    """The command line does not say what the command needs: exit code 2."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command."""

    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], Answer]


def add_target(parser: ArgumentParser) -> None:
    """The arguments of a command that needs definitions."""
    source = parser.add_mutually_exclusive_group()
    _add_source(source)
    parser.set_defaults(root=None)


def add_place(parser: ArgumentParser) -> None:
    """The arguments of a command that needs a root, with or without definitions."""
    source = parser.add_mutually_exclusive_group()
    _add_source(source)
    source.add_argument(
        "--root", metavar="DIR", type=_directory, help="the directory of the tables, without definitions"
    )


def _add_source(source: Any) -> None:
    source.add_argument("-m", "--module", dest="module", metavar="MODULE", help=_MODULE)
    source.add_argument("-f", "--file", dest="file", metavar="FILE", help=_FILE)


def add_table(parser: ArgumentParser) -> None:
    """The argument that names one table."""
    parser.add_argument("table", metavar="TABLE", help="the asset key, its parts joined by /")


def add_json(parser: ArgumentParser) -> None:
    """The argument that asks for one document instead of text."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def document(text: str) -> Any:
    """The value of an argument that is JSON."""
    try:
        return json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"not JSON: {error}") from error


def about_definitions(begin: str, words: Sequence[str]) -> str:
    """A command with the words that name the definitions; without words, those of the current directory are meant."""
    return " ".join((begin, *map(quote, words)))


def no_such(kind: str, name: str, names: Collection[str], sources: Collection[str] = ()) -> str:
    """The sentence that nothing of a kind has a name: what was meant, or all that there is."""
    if name in sources:
        return f"No function of these definitions makes {name}, so there is no run of it."
    meant = [each for each in sorted(names) if each.rpartition("/")[2] == name] or get_close_matches(name, names)
    if meant:
        return f"There is no {kind} {name}. Did you mean {' or '.join(meant)}?"
    return f"There is no {kind} {name}. There are: {', '.join(sorted(names)) or 'none'}."


def _directory(given: str) -> Path:
    return Path(given).expanduser().absolute()

"""What the commands share: which lakehouse their arguments name, and what they answer."""

import sys
import tomllib
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.io_manager import DeltaIOManager
    from lakehouse.dagster.resources import LocalSpark

_FILES = ("dg.toml", "pyproject.toml")
_MODULE = "where the definitions are: a module, or module:name; else the code location of the current directory"


@dataclass(frozen=True, slots=True)
class Answer:
    """The result of one command.

    Args:
        value: What `--json` prints: dictionaries, lists, texts and numbers.
        text: What is printed without `--json`.
        code: The exit code: 0, or 1 where something is wrong that the command is there to find.
    """

    value: Any
    text: str
    code: int = 0


class UsageError(Exception):
    """The command line does not say what the command needs: exit code 2."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command.

    Args:
        add_arguments: Gives a parser the arguments of the command.
        run: Answers what the arguments ask.
    """

    add_arguments: Callable[[ArgumentParser], None]
    run: Callable[[Namespace], Answer]


def add_module(parser: ArgumentParser) -> None:
    """The argument of a command that needs definitions."""
    parser.add_argument("-m", dest="module", metavar="MODULE", help=_MODULE)


def add_place(parser: ArgumentParser) -> None:
    """The arguments of a command that needs a root, with or without definitions."""
    place = parser.add_mutually_exclusive_group()
    place.add_argument("-m", dest="module", metavar="MODULE", help=_MODULE)
    place.add_argument(
        "--root", metavar="DIR", type=_directory, help="the directory of the tables, without definitions"
    )


def root_of(given: Namespace) -> Path:
    """The directory of the local tables; with `--root` nothing is loaded."""
    return given.root or local_spark(given).directory


def local_spark(given: Namespace) -> "LocalSpark":
    """The resource whose server the command is about.

    Raises:
        UsageError: The definitions have none, or several.
    """
    from lakehouse.dagster.resources import LocalSpark

    if given.root is not None:
        return LocalSpark(root=str(given.root))
    resources = list((definitions(given.module).resources or {}).values())
    nested = [getattr(resource, "spark", None) for resource in resources]
    sparks = {str(spark.directory): spark for spark in (*resources, *nested) if isinstance(spark, LocalSpark)}
    if len(sparks) != 1:
        having = f"several, of {', '.join(sparks)}" if sparks else "none"
        raise UsageError(f"One LocalSpark is needed, and the definitions have {having}. Say which root: --root DIR.")
    return next(iter(sparks.values()))


def manager(given: Namespace) -> "DeltaIOManager":
    """The IO manager of the tables that the command is about, whatever Spark it has.

    Raises:
        UsageError: The definitions have none, or several.
    """
    from lakehouse.dagster.io_manager import DeltaIOManager, managers_of

    if given.root is not None:
        return DeltaIOManager(spark=local_spark(given), root=str(given.root))
    managers = {manager.root: manager for manager in managers_of(definitions(given.module).resources).values()}
    if len(managers) != 1:
        having = f"several, of {', '.join(managers)}" if managers else "none"
        raise UsageError(
            f"One DeltaIOManager is needed, and the definitions have {having}. Say which root: --root DIR."
        )
    return next(iter(managers.values()))


def definitions(module: str | None) -> "dg.Definitions":
    """The definitions of a module, or of the current directory's code location.

    Raises:
        UsageError: There is no such module, or it holds no single `dg.Definitions` or function that makes them.
    """
    import dagster as dg
    from dagster.components.definitions import LazyDefinitions
    from dotenv import load_dotenv

    name = module or _module_here(Path.cwd())
    load_dotenv(Path.cwd() / ".env")  # as every command of Dagster does
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        loaded: object = resolve_name(name)  # the name is the user's, so that it cannot be an import statement
    except ModuleNotFoundError as error:
        if error.name is None or not name.replace(":", ".").startswith(error.name):
            raise  # a module of the user's imports what is not there
        raise UsageError(f"There is no module {name} here ({here}).") from error
    except AttributeError as error:
        raise UsageError(f"{name} is not there: {error}.") from error
    named: list[Any] = list(vars(loaded).values()) if isinstance(loaded, ModuleType) else [loaded]
    values = {id(value): value for value in named}.values()  # an object may have two names
    given = [value for value in values if isinstance(value, dg.Definitions)]
    made: list[Callable[[], object]] = [value for value in values if isinstance(value, LazyDefinitions)]
    candidates = [function() for function in made] or given  # Dagster looks no further if a function makes them
    if len(candidates) != 1 or not isinstance(candidates[0], dg.Definitions):
        raise UsageError(f"{name} holds {len(candidates)} dg.Definitions; say which one: -m {name}:<name>.")
    return candidates[0]


def _module_here(directory: Path) -> str:
    """The module of the code location that `dg` and `dagster` find in a directory, by its configuration files."""
    own, python = ((_content(directory / name)) for name in _FILES)
    tool = python.get("tool", {})
    for project in (own.get("project", {}), tool.get("dg", {}).get("project", {})):
        if "code_location_target_module" in project:
            return project["code_location_target_module"]
        if "root_module" in project:
            return f"{project['root_module']}.definitions"
    if "module_name" in tool.get("dagster", {}):
        return tool["dagster"]["module_name"]
    raise UsageError(
        f"{directory} is no project that dg knows (no [tool.dg.project] in a pyproject.toml). Name the definitions "
        f"with -m MODULE, or the directory of the tables with --root DIR."
    )


def _content(file: Path) -> dict[str, Any]:
    return tomllib.loads(file.read_text()) if file.is_file() else {}


def _directory(given: str) -> Path:
    return Path(given).expanduser().absolute()


def columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Rows of text as aligned lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def at(millis: int | None) -> str:
    """A time in UTC, to the second; nothing if there is none."""
    return "" if millis is None else datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="seconds")

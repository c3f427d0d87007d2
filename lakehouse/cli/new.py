"""A new project (`lakehouse new`): two tables that run, laid out as `dg` does it."""

import re
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator
from importlib.util import find_spec
from keyword import iskeyword
from pathlib import Path
from shlex import quote

from lakehouse import __version__
from lakehouse.cli.command import Answer, Command, UsageError

_BESIDE = frozenset([".git", ".venv"])
"""What the folder may already contain, because the project writes no such file."""
_QUESTION = """\
Will pandas, Polars, delta-rs or another reader without deletion vectors read the tables?
Yes costs a rewrite of the file of each changed row; policy.deletion_vectors in defs.yaml says it. [y/N] """


def _add_new_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("directory", metavar="DIR", type=Path, help="the folder of the project, a new or an empty one")
    parser.add_argument(
        "--deletion-vectors",
        choices=["on", "off"],
        help="off: pandas, Polars and delta-rs read the tables, and a changed row rewrites its file (default: asks)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _run_new(given: Namespace) -> Answer:
    directory: Path = given.directory.expanduser()
    _refuse_occupied(directory)
    name = package_name(directory.resolve().name)
    from dagster_delta_lakehouse.project import write_project

    vectors = (given.deletion_vectors or ("on" if given.json else _asked_for_vectors())) == "on"
    files = write_project(directory, name, __version__, deletion_vectors=vectors)
    enter = "" if directory.resolve() == Path.cwd() else f"cd {quote(str(directory))} && "
    commands = {
        f'{enter}pip install -e ".[dev]"': "the project, and what it needs",
        'dg launch --assets "*"': "fill the tables",
        "dg dev": "open Dagster at http://127.0.0.1:3000",
    }
    value = {"directory": str(directory), "package": name, "files": list(files), "next": list(commands)}
    shown = [
        f"{directory}/",
        *_beside([*files.items()]),
        "",
        "Next:",
        *_beside([*commands.items()]),
    ]
    return Answer(value, "\n".join(shown))


NEW = Command(_add_new_arguments, _run_new)


def package_name(folder: str) -> str:
    """The name of the package of a project.

    Raises:
        UsageError: It is not a valid name of a package, or an installed package has it.
    """
    name = re.sub(r"[-. ]", "_", folder)
    would = f"The package of the project would be called {name!r}"
    if not name.isidentifier() or iskeyword(name):
        raise UsageError(f"{would}. Name the folder as Python names modules.")
    spec = find_spec(name)
    if spec is not None and spec.origin is not None:
        raise UsageError(f"{would}, as that of {spec.origin}. Name another folder.")
    return name


def _asked_for_vectors() -> str:
    """The answer of the user at the terminal; on if there is no terminal."""
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return "on"
    return "off" if input(_QUESTION).strip().lower() in {"y", "yes"} else "on"


def _refuse_occupied(directory: Path) -> None:
    """Refuses a folder that already contains other files."""
    if directory.exists() and not directory.is_dir():
        raise UsageError(f"{directory} is a file. Name a folder that is new or empty.")
    names = sorted({path.name for path in directory.iterdir()} - _BESIDE) if directory.exists() else []
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        raise UsageError(f"{directory} is not empty: it holds {names[0]}{more}. Name a folder that is new or empty.")


def _beside(rows: list[tuple[str, str]]) -> Iterator[str]:
    """Lines, each followed by its meaning, which all begin at the same column."""
    width = max(len(line) for line, _ in rows)
    return (f"  {line.ljust(width)}  {meaning}".rstrip() for line, meaning in rows)

"""The command `lakehouse`: finds the subcommand, prints its answer, ends with its exit code."""

import json
import os
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING

from lakehouse.cli.command import Answer, Command, UsageError, no_such
from lakehouse.delta.location import BRANCH
from lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from rich.console import RenderableType

COMMANDS: Mapping[str, tuple[str, str]] = {
    "adopt": (
        "view files of a dbt project or of SQL files, and how each model would be followed",
        "lakehouse.cli.adoption.adopt:ADOPT",
    ),
    "branch": (
        "clones of all tables, or of some, in which the next run reads what changes there",
        "lakehouse.cli.branch:BRANCH_COMMAND",
    ),
    "changes": (
        "what the commits of a table did, and which run made them",
        "lakehouse.cli.tables:CHANGES",
    ),
    "check": (
        "what no run could do with these definitions: one line for each finding, without Spark",
        "lakehouse.cli.check:CHECK",
    ),
    "compare": (
        "how the tables of a branch differ from those that it was cloned from",
        "lakehouse.cli.branch:COMPARE",
    ),
    "conflicts": (
        "which writers of one table can conflict, with which outcome, and what avoids it",
        "lakehouse.cli.before_a_run:CONFLICTS",
    ),
    "cut": (
        "the newest versions of tables that belong to one state of their sources; as SQL or JSON",
        "lakehouse.cli.retention:CUT",
    ),
    "diff": (
        "which rows two versions of a table hold differently, with the old and the new values",
        "lakehouse.cli.table_rows:DIFF",
    ),
    "doctor": (
        "what is wrong with this machine, and the command that mends it",
        "lakehouse.cli.doctor:DOCTOR",
    ),
    "explain": (
        "what the next run of an asset would read and write, and why; nothing is written",
        "lakehouse.cli.before_a_run:EXPLAIN",
    ),
    "new": (
        "a new project: two tables that run",
        "lakehouse.cli.new:NEW",
    ),
    "readers": (
        "who reads a table, how far, what each reader holds back; registers and releases readers",
        "lakehouse.cli.retention:READERS",
    ),
    "run": (
        "materialize assets, in Dagster's queue or here; takes what only run tags say elsewhere",
        "lakehouse.cli.runs.launch:RUN",
    ),
    "shell": (
        "a Python prompt on the tables",
        "lakehouse.cli.spark:SHELL",
    ),
    "show": (
        "the first rows of a table, as it is or as it was",
        "lakehouse.cli.table_rows:SHOW",
    ),
    "spark": (
        "the Spark server of local tables: start, stop, status, warm, install",
        "lakehouse.cli.spark:SPARK",
    ),
    "status": (
        "where each table stands, and how far it has read its sources",
        "lakehouse.cli.status:STATUS",
    ),
    "upkeep": (
        "compacts tables and removes what no reader needs any more, where that is due",
        "lakehouse.cli.retention:UPKEEP",
    ),
}
"""What each command is for, and where it is defined: only the command that is run is imported."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Returns 0, or 1 if it failed or found something wrong; a wrong command line exits with 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = ArgumentParser("lakehouse", description="Incremental Delta tables with Dagster and Spark.")
    parser.add_argument("-V", "--version", action="store_true", help="print the version and end")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND")
    parsers = {name: commands.add_parser(name, help=text, description=text) for name, (text, _) in COMMANDS.items()}
    name = next((word for word in words if not word.startswith("-")), "")
    command: Command | None = resolve_name(COMMANDS[name][1]) if name in COMMANDS else None
    if command is not None:
        command.add_arguments(parsers[name])
    elif name:
        parser.error(no_such("command", name, COMMANDS))
    given = parser.parse_args(words)
    if getattr(given, "root", None) is not None:
        os.environ.pop(BRANCH, None)  # the directory itself is meant, not a branch of it
    if given.version:
        from lakehouse import __version__

        sys.stdout.write(f"{__version__}\n")
        return 0
    if command is None:
        parser.error("say which command: " + ", ".join(COMMANDS))
    try:
        return _print_answer(command.run(given), given)
    except BrokenPipeError:  # the program that reads the output has closed it
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        return 130
    except UsageError as error:
        sys.stderr.write(f"lakehouse {name}: {error}\n")
        _print_answer(Answer({"error": "UsageError", "code": "USAGE", "message": str(error)}, ""), given)
        raise SystemExit(2) from None
    except LakehouseError as error:
        sys.stderr.write(f"{error} [lakehouse.{error.code}]\n")
        value = {"error": type(error).__name__, "code": error.code, "message": str(error)}
        return _print_answer(Answer(value, "", code=1), given)


def _print_answer(answer: Answer, given: Namespace) -> int:
    if given.json:
        sys.stdout.write(json.dumps(answer.value, indent=2) + "\n")
    elif getattr(given, "html", None) is not None and answer.text:
        _write_page(answer.text, given.html)
    elif isinstance(answer.text, str):
        sys.stdout.write(f"{answer.text}\n" * bool(answer.text))
    else:
        from lakehouse.cli.pages.screen import show

        show(answer.text, sys.stdout)
    return answer.code


def _write_page(page: "str | RenderableType", file: Path) -> None:
    from lakehouse.cli.pages.screen import as_html

    try:
        file.write_text(as_html(page), encoding="utf-8")
    except OSError as error:
        raise UsageError(f"{file} cannot be written: {error.strerror}.") from error
    sys.stdout.write(f"{file}\n")

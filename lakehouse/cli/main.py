"""The command `lakehouse`: finds the subcommand, prints its answer, ends with its exit code."""

import json
import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence

from lakehouse.cli.command import Answer, Command, UsageError
from lakehouse.errors import LakehouseError

_COMMANDS = {
    "changes": "what the commits of a table did, and which run made them",
    "conflicts": "which writers of one table can conflict, with which outcome, and what avoids it",
    "explain": "what the next run of an asset would read and write, and why; nothing is written",
    "new": "a new project: two tables that run",
    "readers": "which tables read a table, and how far",
    "shell": "a Python prompt on the tables",
    "spark": "the Spark server of local tables: start, stop, status, warm, install",
    "status": "where each table stands, and how far it has read its sources",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; 0, 1 where something is wrong that it is there to find, 2 for a wrong command line."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = ArgumentParser("lakehouse", description="Incremental Delta tables with Dagster and Spark.")
    parser.add_argument("--version", action="store_true", help="print the version and end")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    parsers = {name: commands.add_parser(name, help=text, description=text) for name, text in _COMMANDS.items()}
    name = next((word for word in words if not word.startswith("-")), "")
    command = _command(name)
    if command is not None:
        command.add_arguments(parsers[name])
    given = parser.parse_args(words)
    if given.version:
        from lakehouse import __version__

        sys.stdout.write(f"{__version__}\n")
        return 0
    if command is None:
        parser.error("say which command: " + ", ".join(_COMMANDS))
    try:
        return _print_answer(command.run(given), given)
    except UsageError as error:
        parsers[name].error(str(error))
    except LakehouseError as error:
        sys.stderr.write(f"{error} [lakehouse.{error.code}]\n")
        value = {"error": type(error).__name__, "code": error.code, "message": str(error)}
        return _print_answer(Answer(value, "", code=1), given)


def _print_answer(answer: Answer, given: Namespace) -> int:
    if given.json:
        sys.stdout.write(json.dumps(answer.value, indent=2) + "\n")
    elif answer.text:
        sys.stdout.write(f"{answer.text}\n")
    return answer.code


def _command(name: str) -> Command | None:
    """A command by its name; only the command that is run is imported."""
    match name:
        case "changes":
            from lakehouse.cli.tables import CHANGES

            return CHANGES
        case "conflicts":
            from lakehouse.cli.before_a_run import CONFLICTS

            return CONFLICTS
        case "explain":
            from lakehouse.cli.before_a_run import EXPLAIN

            return EXPLAIN
        case "new":
            from lakehouse.cli.new import NEW

            return NEW
        case "readers":
            from lakehouse.cli.tables import READERS

            return READERS
        case "shell":
            from lakehouse.cli.spark import SHELL

            return SHELL
        case "spark":
            from lakehouse.cli.spark import SPARK

            return SPARK
        case "status":
            from lakehouse.cli.status import STATUS

            return STATUS
        case _:
            return None

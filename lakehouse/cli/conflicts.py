"""The command that says who can meet whom: `python -m lakehouse.cli.conflicts assets.definitions`."""

import sys
from argparse import ArgumentParser
from collections.abc import Iterable, Iterator, Sequence
from pkgutil import resolve_name

import dagster as dg

from lakehouse.conflicts.operations import Engine
from lakehouse.conflicts.pairs import conflict_pairs, warnings
from lakehouse.dagster.pools import HEADINGS, row, writers


def _definitions(place: str) -> dg.Definitions:
    """What a user's module holds; the name is the user's, so that it cannot be an import statement."""
    loaded: object = resolve_name(place)
    values: Iterable[object] = [loaded] if isinstance(loaded, dg.Definitions) else vars(loaded).values()
    found = [value for value in values if isinstance(value, dg.Definitions)]
    if len(found) != 1:
        sys.exit(f"{place} holds {len(found)} dg.Definitions; say which one: {place}:<name>.")
    return found[0]


def _columns(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for cells in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def main(arguments: Sequence[str] | None = None) -> None:
    """Prints who can meet whom in the tables of a module's definitions."""
    parser = ArgumentParser(
        "python -m lakehouse.cli.conflicts", description="Who can meet whom in the tables of a location."
    )
    parser.add_argument("module", help="where the definitions are: a module, or module:name")
    parser.add_argument("--engine", choices=["delta", "databricks"], default="delta", help="who commits")
    parser.add_argument("--foreign", action="store_true", help="also writers that no definition tells of")
    given = parser.parse_args(arguments)
    engine = Engine.DATABRICKS if given.engine == "databricks" else Engine.OPEN_SOURCE
    found = writers(_definitions(given.module))
    rows = [row(pair) for pair in conflict_pairs(found, engine) if pair.declared or given.foreign]
    lines = [*_columns([tuple(map(str.upper, HEADINGS)), *rows]), ""]
    lines += [f"{name}: {sentence}" for name, told in warnings(found).items() for sentence in told]
    lines.append(f"Answers of {engine.value}." + ("" if given.foreign else " --foreign adds writers from elsewhere."))
    sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()

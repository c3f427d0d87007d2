"""`lakehouse conflicts`: which writers of one table can conflict, with which outcome, and what avoids it."""

from argparse import ArgumentParser, Namespace

from lakehouse.cli.answer import Answer
from lakehouse.cli.tables import columns
from lakehouse.cli.where import add_module, definitions
from lakehouse.conflicts.operations import Engine
from lakehouse.conflicts.pairs import conflict_pairs, warnings
from lakehouse.dagster.definitions.pools import HEADINGS, row, writers
from lakehouse.dagster.io_manager import code_location_of


def add_arguments(parser: ArgumentParser) -> None:
    add_module(parser)
    parser.add_argument("--engine", choices=["delta", "databricks"], default="delta", help="who commits")
    parser.add_argument("--foreign", action="store_true", help="also writers that no definition tells of")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(given: Namespace) -> Answer:
    engine = Engine.DATABRICKS if given.engine == "databricks" else Engine.OPEN_SOURCE
    defs = definitions(given.module)
    declared = writers(code_location_of(defs), defs.jobs or [])
    rows = [row(pair) for pair in conflict_pairs(declared, engine) if pair.declared or given.foreign]
    warned = warnings(declared)
    lines = [*columns([tuple(map(str.upper, HEADINGS)), *rows]), ""]
    lines += [f"{name}: {sentence}" for name, sentences in warned.items() for sentence in sentences]
    lines.append(f"Answers of {engine.value}." + ("" if given.foreign else " --foreign adds writers from elsewhere."))
    value = {
        "engine": engine.value,
        "conflicts": [dict(zip(HEADINGS, cells, strict=True)) for cells in rows],
        "warnings": {name: list(sentences) for name, sentences in warned.items()},
    }
    return Answer(value, "\n".join(lines))

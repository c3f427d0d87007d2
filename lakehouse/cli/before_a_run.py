"""What definitions say before anything runs: `lakehouse explain` and `lakehouse conflicts`."""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from lakehouse.cli.command import Answer, Command, UsageError, add_module, columns, definitions
from lakehouse.conflicts.operations import Engine
from lakehouse.conflicts.pairs import conflict_pairs, warnings
from lakehouse.dagster.definitions.explaining import explain, explainable, no_asset
from lakehouse.dagster.definitions.pools import HEADINGS, row, writers
from lakehouse.dagster.io_manager import code_location_of
from lakehouse.read.forecast import RunEffect


def _add_explain_arguments(parser: ArgumentParser) -> None:
    add_module(parser)
    parser.add_argument("asset", metavar="ASSET", help="the asset key, its parts joined by /")
    parser.add_argument("--partition", metavar="KEY", help="the partition, if the asset has partitions")
    parser.add_argument("--config", metavar="JSON", type=_document, help="the run config, as Dagster takes it")
    parser.add_argument(
        "--call", action="store_true", help="call the asset's function as well, and plan its result; starts Spark"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _run_explain(given: Namespace) -> Answer:
    defs = definitions(given.module)
    code_location = code_location_of(defs)
    if given.asset not in explainable(code_location):
        raise UsageError(no_asset(code_location, given.asset))
    forecast = explain(defs, given.asset, given.partition, given.config, call=given.call)
    return Answer(forecast.as_document(), str(forecast), code=1 if forecast.verdict is RunEffect.REFUSED else 0)


def _document(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ArgumentTypeError(f"not JSON: {error}") from error


def _add_conflicts_arguments(parser: ArgumentParser) -> None:
    add_module(parser)
    parser.add_argument("--engine", choices=["delta", "databricks"], default="delta", help="who commits")
    parser.add_argument("--foreign", action="store_true", help="also writers that no definition tells of")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def _run_conflicts(given: Namespace) -> Answer:
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


CONFLICTS = Command(_add_conflicts_arguments, _run_conflicts)
EXPLAIN = Command(_add_explain_arguments, _run_explain)

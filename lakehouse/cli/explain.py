"""`lakehouse explain ASSET`: what the next run of an asset would read and write, and why; nothing is written."""

import json
from argparse import ArgumentParser, ArgumentTypeError, Namespace
from typing import Any

from lakehouse.cli.answer import Answer, UsageError
from lakehouse.cli.where import add_module, definitions
from lakehouse.dagster.definitions.explaining import explain, explainable, no_asset
from lakehouse.dagster.io_manager import code_location_of
from lakehouse.read.forecast import RunEffect


def add_arguments(parser: ArgumentParser) -> None:
    add_module(parser)
    parser.add_argument("asset", metavar="ASSET", help="the asset key, its parts joined by /")
    parser.add_argument("--partition", metavar="KEY", help="the partition, if the asset has partitions")
    parser.add_argument("--config", metavar="JSON", type=_document, help="the run config, as Dagster takes it")
    parser.add_argument(
        "--call", action="store_true", help="call the asset's function as well, and plan its result; starts Spark"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(given: Namespace) -> Answer:
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

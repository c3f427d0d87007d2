"""What can be known before anything runs: `lakehouse explain` and `lakehouse conflicts`."""

from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from lakehouse.cli.command import (
    Answer,
    Command,
    UsageError,
    add_json,
    add_target,
    checking_config,
    definitions,
    document,
    no_such,
)
from lakehouse.errors import LakehouseError, in_short

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.code_location import CodeLocation


def _add_explain_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("asset", metavar="ASSET", nargs="?", help="the asset key, its parts joined by /")
    parser.add_argument("--all", action="store_true", help="what each asset would read, in one table")
    parser.add_argument("--partition", metavar="KEY", help="the partition, if the asset has partitions")
    parser.add_argument("--config", metavar="JSON", type=document, help="the run config, as Dagster takes it")
    parser.add_argument("--thaw", metavar="CONDITION", help="which frozen rows the run would rewrite too")
    parser.add_argument(
        "--call", action="store_true", help="call the asset's function as well, and plan its result; starts Spark"
    )
    add_json(parser)


def _run_explain(given: Namespace) -> Answer:
    from lakehouse.cli.pages.run_page import forecast_page
    from lakehouse.dagster.definitions.explaining import explain, explainable
    from lakehouse.dagster.io_manager import code_location_of
    from lakehouse.read.forecast import RunEffect

    if given.all != (given.asset is None) or (
        given.all and (given.partition or given.config or given.call or given.thaw)
    ):
        raise UsageError("Give one of these: an asset, with its options, or --all.")
    defs = definitions(given)
    code_location = code_location_of(defs)
    if given.all:
        return _explain_all(defs, code_location)
    if given.asset not in explainable(code_location):
        raise UsageError(no_such("asset", given.asset, explainable(code_location), code_location.by_name))
    with checking_config():
        forecast = explain(defs, given.asset, given.partition, given.config, call=given.call, thaw=given.thaw)
    return Answer(
        forecast.as_document(), forecast_page(forecast), code=1 if forecast.verdict is RunEffect.REFUSED else 0
    )


def _explain_all(defs: "dg.Definitions", code_location: "CodeLocation") -> Answer:
    """What each asset would read now, in the order of the graph, and which sources would be written before its run."""
    import dagster as dg

    from lakehouse.cli.graph import groups_in_order
    from lakehouse.cli.pages.run_page import ForecastOfMany, forecasts_page
    from lakehouse.dagster.definitions.explaining import explain, explainable
    from lakehouse.read.forecast import RunEffect

    forecasts, left_out = list[ForecastOfMany](), dict[str, str]()
    writing = set[str]()
    for name in groups_in_order(defs, explainable(code_location)):
        try:
            forecast = explain(defs, name)
        except (LakehouseError, dg.DagsterError) as error:
            left_out[name] = in_short(error)
            continue
        followed = code_location.followed_by(code_location.by_name[name])
        after = tuple(source.name for source in followed if source.name in writing)
        writing |= {name} if forecast.verdict is RunEffect.WRITES or after else set()
        forecasts.append(ForecastOfMany(forecast, after))
    value = {"tables": [each.as_document() for each in forecasts], "left_out": left_out}
    is_refused = any(each.forecast.verdict is RunEffect.REFUSED for each in forecasts)
    return Answer(value, forecasts_page(forecasts, left_out), code=int(is_refused))


def _add_conflicts_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument("--engine", choices=["delta", "databricks"], default="delta", help="who commits")
    parser.add_argument("--foreign", action="store_true", help="also writers that no definition tells of")
    add_json(parser)


def _run_conflicts(given: Namespace) -> Answer:
    from lakehouse.cli.pages.table_pages import conflicts_page
    from lakehouse.conflicts.operations import Engine
    from lakehouse.conflicts.pairs import conflict_pairs, warnings
    from lakehouse.dagster.definitions.pools import HEADINGS, row, writers
    from lakehouse.dagster.io_manager import code_location_of

    engine = Engine.DATABRICKS if given.engine == "databricks" else Engine.OPEN_SOURCE
    defs = definitions(given)
    declared = writers(code_location_of(defs), defs.jobs or [])
    rows = [row(pair) for pair in conflict_pairs(declared, engine) if pair.declared or given.foreign]
    warned = warnings(declared)
    answers = f"Answers of {engine.value}." + ("" if given.foreign else " --foreign adds writers from elsewhere.")
    value = {
        "engine": engine.value,
        "conflicts": [dict(zip(HEADINGS, cells, strict=True)) for cells in rows],
        "warnings": {name: list(sentences) for name, sentences in warned.items()},
    }
    return Answer(value, conflicts_page(HEADINGS, rows, warned, answers))


CONFLICTS = Command(_add_conflicts_arguments, _run_conflicts)
EXPLAIN = Command(_add_explain_arguments, _run_explain)

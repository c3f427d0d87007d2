"""The part of a forecast that the query of a view decides: what is read whole, and how changes are followed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from lakehouse.dagster.code.view_texts import only_text_of
from lakehouse.dagster.code_location import AssetTable, function_of
from lakehouse.errors.views import ViewError
from lakehouse.materialization import Materialization
from lakehouse.read.decide import STRICT_REMEDY, NeedOfAllRows, PolicyAnswer, answer_by_policy
from lakehouse.read.feed_trust import Source
from lakehouse.read.forecast import WHOLE, InputForecast, Reading, RunEffect, WriteForecast, read_whole, refusal_of
from lakehouse.read.run import Run
from lakehouse.writes.view import View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.views.analysis import Analysis

_DECIDED = (*WHOLE, Reading.REFUSED)
"""The ways in which an input is read whatever the query is."""
_CHANGES = (Reading.CHANGES, Reading.ARCHIVE)
_NEEDS_A_CALL = "Only a call of its function shows its query: --call (call=True) says how its sources are followed."


def analysis_of(table: AssetTable, run: Run, sources: Mapping[str, Source]) -> "Analysis | ViewError | None":
    """The analysis of a view's text, by the logs of its tables; or its refusal; None if only a call shows the text."""
    from lakehouse.views.on_spark.run_facts import analysis_by_logs  # it imports sqlglot

    assert table.asset is not None, f"an asset makes {table.name}"
    text = only_text_of(function_of(table.asset))
    try:
        return None if text is None else analysis_by_logs(text, run, sources, table.changes)
    except ViewError as error:
        return error


def inputs_of_query(
    spark: "Callable[[], SparkSession]",
    run: Run,
    analysis: "Analysis | ViewError | None",
    sources: Mapping[str, Source],
    inputs: Sequence[InputForecast],
) -> tuple[InputForecast, ...]:
    """The inputs; if the query of a view is computed for all rows, those that are followed are read whole."""
    if analysis is None or isinstance(analysis, ViewError) or any(each.reading in _DECIDED for each in inputs):
        return tuple(inputs)
    from lakehouse.writes.view_run import or_beginning, why_all_rows

    whole, are_changes = why_all_rows(run, analysis), any(each.reading in _CHANGES for each in inputs)
    if whole is None or (whole.need is NeedOfAllRows.PLAN and not are_changes):
        return tuple(inputs)
    whole = or_beginning(spark, run, whole)
    is_refused = answer_by_policy(whole.need, run.asset.policy.chosen_refresh) is PolicyAnswer.REFUSED

    def as_computed(each: InputForecast, source: Source) -> InputForecast:
        if each.reading is Reading.SNAPSHOT_INPUT:
            return each
        if is_refused:
            return refusal_of(source, f"{whole}. {STRICT_REMEDY}")
        return read_whole(source, Reading.EVERYTHING, str(whole))

    return tuple(map(as_computed, inputs, sources.values()))


def with_paths(
    write: WriteForecast, run: Run, analysis: "Analysis | ViewError | None", effect: RunEffect
) -> WriteForecast:
    """The forecast of a view, with how it follows its sources, by its text and by their logs."""
    from lakehouse.views.on_spark.run_facts import with_key

    if analysis is None:
        return replace(write, followed=(_NEEDS_A_CALL,))
    try:
        if isinstance(analysis, ViewError):
            raise analysis
        run = with_key(run, analysis)
        return replace(write, key=run.table.key_columns, followed=View.explain(run, analysis))
    except ViewError as error:
        if effect is RunEffect.WRITES:
            raise
        return replace(write, followed=(f"A run that changes reach will be refused. {error}",))


def with_plan_of_view(write: WriteForecast, view: View, step: Materialization) -> WriteForecast:
    """The forecast with what a view has computed for its plan, and how it follows its sources."""
    from lakehouse.views.on_spark.run_facts import bind, with_key

    analysis = bind(step.spark, step.run, view.text).analysis
    run = with_key(step.run, analysis)
    computed = "" if run.facts.view is None else f"; it computes {run.facts.view.computed}"
    planned = f"{write.planned}{computed}"
    return replace(write, key=run.table.key_columns, planned=planned, followed=view.explain(run, analysis))

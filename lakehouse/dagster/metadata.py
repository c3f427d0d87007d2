"""What a materialization reports to Dagster: from its commit, and from the difference if that knows more."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, TypeVar

import dagster as dg
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.commit.outcome import AlreadyApplied, Committed, NothingToDo, Outcome, Unchanged
from lakehouse.commit.rivals import LostAttempt, describe
from lakehouse.cursor.mark import mark_in, rows_of
from lakehouse.cursor.since_base import may_concern
from lakehouse.dagster.expectation_checks import log_evaluations, warnings_of
from lakehouse.dagster.table_facts import (
    DATA_VERSION,
    LOCATIONS,
    column_schema,
    row_counts,
    size_of,
    table_metadata,
)
from lakehouse.delta.commit_info import NO_ROWS, Rows, count_of
from lakehouse.delta.log import Head, Log
from lakehouse.delta.text import quote
from lakehouse.materialization import Materialization
from lakehouse.read.asset import ViewReport
from lakehouse.read.content import TIMESTAMP, VERSION, Everything, Feed, Nothing, SourceRead
from lakehouse.read.run import Run
from lakehouse.spark.diagnosis import first_line
from lakehouse.spark.table_version import SparkLog, TableVersion
from lakehouse.spark.types import as_struct

_Fact = TypeVar("_Fact")
_PANIC = "PanicException"
"""What `deltalake` raises when its own code panics. It is not an `Exception`, and cannot be imported."""


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """Fetches facts about a table that already holds the result."""

    asset: str
    tell: Callable[[str], None]

    def fetch(self, fact: str, ask: Callable[[], _Fact], otherwise: _Fact) -> _Fact:
        """The fact; `otherwise` if the fact cannot be fetched, whatever the reason."""
        try:
            return ask()
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
                raise
            self.tell(f"The table of {self.asset} holds the result, and {fact} cannot be shown: {first_line(error)}")
            return otherwise


_LINEAGE = "dagster/column_lineage"


def report(
    context: dg.OutputContext,
    execution: dg.AssetExecutionContext,
    run: Run,
    outcome: Outcome | NothingToDo,
    spark: Callable[[], SparkSession],
) -> None:
    """Adds the materialization's metadata and data version, and logs in one line what happened.

    The result is in the table, so nothing here fails the step: a fact that cannot be fetched is left out.
    """
    facts, log = KnownFacts(run.name, context.log.warning), cache(lambda: run.ref.log(spark))
    head = facts.fetch("where the table stands", lambda: log().head(), None)
    metadata, details, sentence = _outcome(run, outcome)
    # What matters comes first: rows, range, version. The details of the write come last.
    metadata |= facts.fetch("what was read", lambda: {"read": _reads(run)}, {})
    metadata |= facts.fetch("how many changes were read", lambda: _changes_read(run), {})
    metadata |= facts.fetch("how old the changes were", lambda: _oldest_change(run, time.time()), {})
    if run.facts.extract is not None:
        metadata["extract"] = str(run.facts.extract)
    if run.facts.view is not None:
        metadata |= {"computed": run.facts.view.computed} | _sentences(run.facts.view)
    behind = sum(changes.behind for changes in run.changes)
    if behind:
        metadata["behind"] = behind
    left_out = outcome.left_out if isinstance(outcome, Committed) else None
    if left_out is not None:
        metadata["left_out"] = left_out
        if left_out:
            sentence += (
                f" {count_of(left_out, 'row')} of the result belong to no partition of the run and were left out."
            )
    metadata |= facts.fetch("the size of the table", lambda: size_of(log(), head), {})
    metadata |= facts.fetch("the changed rows", lambda: _sample(run, outcome, head, spark), {})
    metadata |= facts.fetch("the columns of the table", lambda: _columns(run, log(), head, spark), {})
    metadata |= facts.fetch("from which columns its columns are made", lambda: _lineage(execution, run, outcome), {})
    metadata |= facts.fetch("where the catalog has the table", lambda: _locations(run, spark), {})
    data_version = facts.fetch("the data version", lambda: _data_version(execution, run, log(), head), None)
    if data_version is not None:
        execution.set_data_version(context.asset_key, dg.DataVersion(data_version))
    context.add_output_metadata(metadata | details | table_metadata(run.ref))
    context.log.info(sentence)


def report_plan(
    context: dg.OutputContext,
    execution: dg.AssetExecutionContext,
    step: Materialization,
    outcome: Outcome | NothingToDo,
) -> None:
    """Reports what the run's plan found out about its rows, unless another run's plan has made the table."""
    if isinstance(outcome, AlreadyApplied | NothingToDo):
        return
    run = step.run
    if run.owned is not None:
        counted = {} if step.left_alone is None else {"keys_left_alone": step.left_alone}
        unread = {"frozen_unread": step.frozen_unread} if step.frozen_unread else {}
        context.add_output_metadata({"owned": str(run.owned), **counted, **unread})
    log_evaluations(execution, step.evaluations, run.partitions, fails=False)
    for sentence in warnings_of(run.name, step.evaluations):
        context.log.warning(sentence)
    if step.all_outside:
        context.add_output_metadata({"outside": "each row of the result"})
        context.log.warning(
            f"Each row of the result of {run.name} lies outside the run's partitions ({', '.join(run.partitions[:3])}) "
            f"and was left out. Compare the values in the partition column with the partition keys."
        )


def report_standing(step: Materialization) -> dict[str, Any]:
    """What the table stands for, or over what its inputs disagree; and which tables it waits for."""
    run = step.run
    if run.name not in step.standings.ways.inputs:
        return {}
    standing, waits = step.standings.through(run.name, run.reads), run.agreement.waits_for
    metadata: dict[str, Any] = {"waits_for": "; ".join(map(str, waits))} if waits else {}
    if standing.exact is not None:
        return metadata | {"stands_for": dg.MetadataValue.json(dict(standing.exact))}
    return metadata | ({"torn": str(standing.why_inexact)} if step.standings.ways.common(run.name) else {})


def _changes_read(run: Run) -> dict[str, int]:
    """How many rows of its sources had changed, as a number that Dagster plots; empty if a source was read whole."""
    rows = sum((rows_of(commit) for read in run.changes for commit in read.commits_of_feed), NO_ROWS)
    is_whole = any(isinstance(read.content, Everything) for read in run.changes)
    return {} if is_whole or not run.changes or rows.images is None else {"changes_read": rows.total}


def _oldest_change(run: Run, now: float) -> dict[str, Any]:
    """When the oldest change that the run read was committed, and how long ago: the end-to-end lag."""
    oldest = min((commit.timestamp for read in run.changes for commit in read.commits_of_feed), default=None)
    if oldest is None:
        return {}
    seconds = oldest / 1000
    return {"oldest_change": dg.MetadataValue.timestamp(seconds), "lag_seconds": round(max(0.0, now - seconds), 1)}


def _columns(run: Run, log: Log, head: Head | None, spark: Callable[[], SparkSession]) -> dict[str, Any]:
    if head is None:
        return {}
    declared = log.file_schema(head.version)
    schema = TableVersion.of(spark(), run.ref, head).rows().schema if declared is None else as_struct(declared)
    return {"dagster/column_schema": column_schema(schema)}


def _data_version(execution: dg.AssetExecutionContext, run: Run, log: Log, head: Head | None) -> str | None:
    if head is None:
        return None
    version = data_version_of(log, head.version, run)
    last = _last_materialization(execution, run) if version is None else None
    former = None if last is None or last.tags is None else last.tags.get(DATA_VERSION)
    return former or str(head.version if version is None else version)


def _locations(run: Run, spark: Callable[[], SparkSession]) -> dict[str, Any]:
    """Where the tables with a catalog name are, for the sensor and the condition, which read logs without Spark."""
    named = [ref for ref in (run.ref, *(changes.source_at.ref for changes in run.changes)) if ref.files is None]
    found_at = {ref.name: SparkLog(spark(), ref.identifier, ref.name).location() for ref in named}
    return {LOCATIONS: dg.MetadataValue.json(found_at)} if found_at else {}


def data_version_of(log: Log, version: int, run: Run) -> int | None:
    """The last version, up to `version`, that may have changed a row of the run's partitions.

    None if the log of that version was cleaned up. (The oldest remaining version would change with each cleanup.)
    """
    for commit in log.commits(version):
        if commit.is_first or may_concern(commit, run.name, run.partitions):
            return commit.version
    return None


def _last_materialization(execution: dg.AssetExecutionContext, run: Run) -> dg.AssetMaterialization | None:
    """The last materialization; in a partitioned asset, that of one of the run's partitions."""
    of = dg.AssetRecordsFilter(asset_key=execution.asset_key, asset_partitions=list(run.partitions) or None)
    records = execution.instance.fetch_materializations(of, limit=1).records
    return next((record.asset_materialization for record in records), None)


def _lineage(execution: dg.AssetExecutionContext, run: Run, outcome: Outcome | NothingToDo) -> dict[str, Any]:
    """From which columns of its sources each column of a view takes its value.

    Dagster shows only the lineage of the last materialization, so a step that did not look at the query repeats it.
    """
    if run.facts.view is not None:
        return {_LINEAGE: column_lineage(run.facts.view)} if run.facts.view.lineage else {}
    is_repeated = isinstance(outcome, NothingToDo) and run.asset.has_query
    last = _last_materialization(execution, run) if is_repeated else None
    lineage = None if last is None else last.metadata.get(_LINEAGE)
    return {} if lineage is None else {_LINEAGE: lineage}


def column_lineage(view: ViewReport) -> dg.TableColumnLineage:
    """The lineage of a view's columns as Dagster shows it."""
    return dg.TableColumnLineage(
        {
            name: [dg.TableColumnDep(dg.AssetKey.from_user_string(source), column) for source, column in columns]
            for name, columns in view.lineage.items()
        }
    )


def _sentences(view: ViewReport) -> dict[str, Any]:
    """How a view follows its tables, in the words of `explain`."""
    listed = "\n".join(f"- {sentence}" for sentence in view.followed)
    return {"followed": dg.MetadataValue.md(listed)} if listed else {}


def _outcome(run: Run, outcome: Outcome | NothingToDo) -> tuple[dict[str, Any], dict[str, Any], str]:
    """What became of a run: the metadata that matters most, the details, and the sentence for the log."""
    match outcome:
        case Unchanged(version=version):
            how = {"write": "nothing: no row differs"}
            return _counts(version, NO_ROWS), how, f"{run.name} stays at version {version}: no row differs."
        case NothingToDo(version=version):
            how = {"write": "nothing: no source has changes"}
            sentence = f"{run.name} stays at version {version}: no source has changes, so nothing was computed."
            return _counts(version, NO_ROWS), how, sentence
        case AlreadyApplied(mark=mark, commit=commit, lost=lost):
            how: dict[str, Any] = {
                "write": f"already applied by run {mark.run}, version {commit.version}",
                "applied_by": dg.MetadataValue.dagster_run(mark.run),
            }
            sentence = f"The changes were already applied to {run.name} by run {mark.run} in version {commit.version}."
            return _counts(commit.version, rows_of(commit)), how | _rivals(lost), sentence
        case Committed(commit=commit, lost=lost, recovered=recovered):
            rows, recovery = rows_of(commit), " (its answer was lost; found in the log)" if recovered else ""
            how = {
                "write": outcome.statement.describe() + recovery,
                "files": f"{commit.files_added} added, {commit.files_removed} removed",
            }
            after = f" after {count_of(len(lost), 'lost attempt')}" if lost else ""
            sentence = f"{run.name} is at version {commit.version}{after}. {rows.sentence.capitalize()}."
            return _counts(commit.version, rows), how | _rivals(lost), sentence


def _counts(version: int, rows: Rows) -> dict[str, Any]:
    return {**row_counts(rows), "version": version}


def timing(phases: Mapping[str, float], seconds: float) -> dict[str, Any]:
    """The seconds of a step, as a number that Dagster plots, and how many of them each phase took, as a table."""
    shares = {**phases, "the rest: the asset's function, and Dagster": max(0.0, seconds - sum(phases.values()))}
    records = [dg.TableRecord({"phase": name, "seconds": round(share, 2)}) for name, share in shares.items()]
    return {"seconds": round(seconds, 2), "timings": dg.MetadataValue.table(records)}


def _sample(
    run: Run, outcome: Outcome | NothingToDo, head: Head | None, spark: Callable[[], SparkSession]
) -> dict[str, Any]:
    """Some of the rows that the commit changed, if the table's policy asks for them."""
    most = run.asset.policy.shown_rows
    if not most or not isinstance(outcome, Committed) or head is None or not head.keeps_feed:
        return {}
    version = outcome.commit.version
    changed = TableVersion.of(spark(), run.ref, head).feed(version, version).drop(VERSION, TIMESTAMP).limit(most)
    shown = changed.select(*(F.col(quote(name)).cast("string").alias(name) for name in changed.columns)).collect()
    if not shown:
        return {}
    return {"changed_rows": dg.MetadataValue.table([dg.TableRecord(_shown(row.asDict())) for row in shown])}


def _shown(row: Mapping[str, str | None]) -> dict[str, str]:
    return {name: "NULL" if value is None else value for name, value in row.items()}


def _rivals(lost: tuple[LostAttempt, ...]) -> dict[str, Any]:
    if not lost:
        return {}
    details = [
        {
            "attempt": number,
            "lost to": describe(attempt),
            "kind": attempt.conflict.kind.value,
            "changed": attempt.changed.value,
            "seconds": round(attempt.seconds, 2),
        }
        for number, attempt in enumerate(lost, 1)
    ]
    seconds = sum(attempt.seconds for attempt in lost)
    marks = (mark_in(commit) for attempt in reversed(lost) for commit in attempt.rivals)
    rival = next((mark.run for mark in marks if mark is not None), None)  # the newest, if a run of ours made it
    link = {} if rival is None else {"rival_run": dg.MetadataValue.dagster_run(rival)}
    return link | {
        "attempts_lost": len(lost),
        "rivals": f"{count_of(len(lost), 'attempt')} lost in {seconds:.1f} s, the last to {describe(lost[-1])}",
        "rivals_by_attempt": dg.MetadataValue.json(details),
    }


def _reads(run: Run) -> dg.MetadataValue[Any]:
    records = [_read(changes) for changes in run.changes] + [
        {"table": name, "after": "", "upto": at.version, "changed": "", "how": "snapshot"}
        for name, at in run.snapshot_inputs.items()
    ]
    if not records:
        return dg.MetadataValue.text("no table")
    return dg.MetadataValue.table([dg.TableRecord(record) for record in records])


def _read(changes: SourceRead) -> dict[str, str | int]:
    row: dict[str, str | int] = {"table": changes.name, "after": changes.range.after, "upto": changes.range.upto}
    match changes.content:
        case Everything(reason=reason):
            return row | {"changed": "all rows", "how": "first read" if reason is None else f"everything: {reason}"}
        case Nothing():
            return row | {"changed": "0 rows", "how": "no row changed"}
        case Feed(via=via):
            counts = sum((rows_of(commit) for commit in changes.commits_of_feed), NO_ROWS)
            changed = "no rows" if counts == NO_ROWS else str(counts)
            return row | {"changed": changed, "how": via or "change feed"}

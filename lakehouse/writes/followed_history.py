"""The history of a source that is read as changes: the rows of touched entities since the position.

One law holds for a run, for a repeated run and for a gap: *for each touched entity, rows after the position are
computed from the changes, starting from the entity's state at the position; rows before the position stay.* So a
repeated run changes nothing, and only rows that reach beyond the position are read.
"""

from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.cursor.cursor import Fresh, Known
from lakehouse.cursor.mark import Position
from lakehouse.cursor.since_base import why_names_taken
from lakehouse.delta.log import Head
from lakehouse.delta.text import fold, quote
from lakehouse.difference.by_key import statement_by_key
from lakehouse.difference.statements import Create, MarkOnly, Skip, Statement
from lakehouse.errors import HistoryError, WriteError
from lakehouse.read.archive import read_backwards
from lakehouse.read.changes import Changes
from lakehouse.read.content import (
    CHANGE,
    TIMESTAMP,
    VERSION,
    Everything,
    Feed,
    Nothing,
    SourceRead,
    Times,
    times_of,
)
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.spark.driver_rows import Local, compute_once, is_empty, matching
from lakehouse.spark.fitting import check_new, fit, with_lacking
from lakehouse.spark.table_version import TableVersion
from lakehouse.spark.types import paths
from lakehouse.writes.history_rows import (
    NEVER,
    Shape,
    check_columns,
    dropped_from,
    lay_out,
    refuse_other_shape,
    refuse_taken,
    with_dropped,
)


def open_run(spark: SparkSession, run: Run, shape: Shape, changes: SourceRead) -> tuple[Run, SourceRead]:
    """The run, whose table gets the key of the history's rows, and the changes with their times."""
    run = lay_out_run(run, shape, changes)
    if (head := run.head) is not None:
        stored = TableVersion.of(spark, run.ref, head).rows()
        run = with_dropped(run, changes, stored.columns, shape)
        if isinstance(run.cursor, Known) and not isinstance(changes.content, Everything):
            names = paths(stored.schema) | fold(changes.source.columns)  # the run would add a column again
            refuse_taken(run, why_names_taken(run.ref.log(lambda: spark), head, run.cursor, names))
    check_columns(run.name, shape, f"'{changes.name}'", changes.source.columns)
    changes = _with_times(spark, run, changes, shape)
    return replace(run, changes=(changes,)), changes


def lay_out_run(run: Run, shape: Shape, changes: SourceRead) -> Run:
    """The run, whose table gets the key of the history's rows; needs no Spark."""
    _check(run, changes)
    refuse_other_shape(run, shape)
    return lay_out(run, shape)


def _check(run: Run, changes: SourceRead) -> None:
    """Refuses changes other than those of the history, and a table that was kept from extracts."""
    if [read.name for read in run.changes] != [changes.name]:
        raise WriteError(
            f"'{run.name}' returns the History of '{changes.name}', but reads the changes of "
            f"{', '.join(repr(read.name) for read in run.changes) or 'nothing'}.",
            "Nothing was written. A history has one source. Join the others in an asset upstream; keep its history.",
        )
    if isinstance(run.cursor, Known) and run.cursor.mark.extract is not None:
        raise WriteError(
            f"The table of '{run.name}' was kept from extracts, whose versions are the times of its rows.",
            "Nothing was written. Write the history to another asset.",
        )


def _with_times(spark: SparkSession, run: Run, changes: SourceRead, shape: Shape) -> SourceRead:
    """The changes with the times of their versions; a first read goes back as far as the source can be read."""
    if changes.times is not None:  # a history that is restated
        return changes
    position, head = run.cursor.reads.get(changes.name), run.head
    match changes.content:
        case Everything(committed_at=committed):
            if head is None or isinstance(run.cursor, Fresh):
                upto = changes.range.upto
                as_now = replace(changes, times=Times(None, committed, {upto: committed}))
                if run.request.go_on_from is not None:
                    return as_now
                return read_backwards(changes, changes.source_at.ref.log(lambda: spark)) or as_now
            since = position.time if position is not None else None
            if since is None:
                since = _latest(TableVersion.of(spark, run.ref, head).rows(), shape)
            committed = committed if since is None else max(committed, since + 1)
            return replace(changes, times=Times(since, committed, {changes.range.upto: committed}))
        case Feed() | Nothing():
            if position is None or position.time is None:
                raise WriteError(
                    f"The table of '{run.name}' was not kept by a History: its position has no time.",
                    "Nothing was written. Write the history to another asset.",
                )
            times = _of_range(spark, changes, position, position.time)
            upto = times.get(changes.range.upto, position.time + changes.range.upto - changes.range.after)
            return replace(changes, times=Times(position.time, upto, times))


def _of_range(spark: SparkSession, changes: SourceRead, position: Position, time: int) -> dict[int, int]:
    """The times of the range's versions, from their commits, or from an archive where commits are gone."""
    timestamps: dict[int, int] = {}
    if isinstance(changes.content, Feed) and changes.content.archived:
        versions = changes.content.frame.select(VERSION, F.unix_millis(TIMESTAMP)).distinct().collect()
        timestamps |= {row[0]: row[1] for row in versions}
        log = changes.source_at.ref.log(lambda: spark)
        timestamps |= {at.version: at.timestamp for at in log.commits(changes.range.upto, changes.range.after + 1)}
    timestamps |= {commit.version: commit.timestamp for commit in changes.commits}
    return times_of(sorted(timestamps.items()), (position.version, time))


def _latest(rows: DataFrame, shape: Shape) -> int | None:
    """The latest start or end in the history; None if it has no row."""
    latest = f"unix_millis(max(greatest({quote(shape.start)}, {quote(shape.end)})))"
    latest_moment: int | None = rows.selectExpr(latest).collect()[0][0]
    return latest_moment


def plan_followed_history(
    spark: SparkSession, run: Run, shape: Shape, changes: SourceRead, head: Head | None, rest: MarkOnly | Skip
) -> Statement | Skip:
    """The statement that brings the history up to the end of its changes."""
    times = changes.times
    assert times is not None, "open_run has told the times"
    if head is None:
        rows = shape.rows(changes.feed, _frame_of(spark, times)).drop(*shape.earliest)
        check_new(run.name, rows, run.table, None)
        return Create(rows)
    if isinstance(changes.content, Nothing):
        return rest
    target = TableVersion.of(spark, run.ref, head).rows()
    touched = Changes(changes).touched(*shape.entity)
    restates = run.request.restate_from is not None
    few = not restates and touched.is_one_task
    since = None if times.since is None else f"timestamp_millis({times.since}L)"
    end = quote(shape.end)
    reaching = target if since is None else target.where(f"{end} IS NULL OR {end} > {since}")
    if restates:
        if dropped := dropped_from(changes.source.columns, target.columns, shape):
            reason = f"its source no longer has {', '.join(dropped)}, so that rows would lose their values there"
            raise HistoryError.restate_refused(run.name, str(run.request.restate_from), reason)
        _refuse_unexplained(run, reaching, touched, shape, str(since))
    reached = compute_once(reaching if restates else touched.restrict(reaching), few=few)
    existing = reached.frame if isinstance(reached, Local) else reached
    rows = _rows(run, changes, _frame_of(spark, times), shape, existing, since, few=few)
    columns = fold(target.columns)
    if not isinstance(changes.content, Everything):
        rows = rows.drop(*(column for column in shape.earliest if column.lower() not in columns))
    rows = fit(run.ref, rows, target.schema, may_add=True)
    return statement_by_key(run, rows, None, existing, head, rest, few=few)


def _refuse_unexplained(run: Run, reaching: DataFrame, touched: Touched, shape: Shape, since: str) -> None:
    """Refuses to restate if it is not known what held at the moment, or if the archive does not explain a row.

    - A row began or ended since, and the archive has no change of its entity from that time. The row comes from a first
      read, which begins later than the source, or from a comparison.
    - A comparison found that a row began or ended since, and the change may have come before the moment.
    """
    moment, start, end = str(run.request.restate_from), quote(shape.start), quote(shape.end)
    moved = reaching.where(f"{start} > {since} OR {end} IS NOT NULL")
    if not is_empty(matching(moved, touched.keys, shape.entity, "left_anti")):
        raise HistoryError.restate_refused(
            run.name,
            moment,
            "a row of the table began or ended since, but the archive does not contain the change. Restating would "
            "drop the row or reopen it",
        )
    if shape.earliest[0].lower() not in fold(reaching.columns):
        return
    bounds = zip((start, end), map(quote, shape.earliest), strict=True)
    unsure = " OR ".join(f"({bound} > {since} AND {earliest} < {since})" for bound, earliest in bounds)
    if not is_empty(moved.where(unsure)):
        raise HistoryError.restate_refused(
            run.name,
            moment,
            f"a comparison found that a row began or ended since, and the change may have come before. Give a time "
            f"that is not after {shape.earliest[0]} and {shape.earliest[1]} of such rows",
        )


def _rows(
    run: Run, changes: SourceRead, times: DataFrame, shape: Shape, existing: DataFrame, since: str | None, *, few: bool
) -> DataFrame:
    """The rows that the table is to hold of touched entities since the position, given those that reach beyond it."""
    dropped = dropped_from(changes.source.columns, existing.columns, shape)
    left_out = shape.own | fold(dropped)
    schema = StructType([field for field in existing.schema.fields if field.name.lower() not in left_out])
    images = with_lacking(_images(run, changes.feed, schema), existing.select(*map(quote, dropped)).schema)
    is_compared = isinstance(changes.content, Everything) and since is not None
    return shape.rows(
        images,
        times,
        existing.where("FALSE" if since is None else f"{quote(shape.start)} <= {since}"),
        ends=changes.range.upto if is_compared else None,
        earliest=since if is_compared and since is not None else NEVER,
        exact=run.request.restate_from is None,
        one_task=few,
        dropped=dropped,
    )


def _images(run: Run, feed: DataFrame, schema: StructType) -> DataFrame:
    """The feed in the table's columns and types, with new columns if the policy adds them."""
    own, policy = (CHANGE, VERSION, TIMESTAMP), run.asset.policy.new_columns
    if policy == "fail":
        fit(run.ref, feed.drop(*own), schema, may_add=False)
    if policy == "ignore":
        names = fold((*own, *schema.names))
        feed = feed.drop(*(column for column in feed.columns if column.lower() not in names))
    return fit(run.ref, feed, schema, may_add=True)


def _frame_of(spark: SparkSession, times: Times) -> DataFrame:
    """The time of each version as columns `__version` and `__at`."""
    arrow = pa.table(
        {
            "__version": pa.array(times.of.keys(), pa.int64()),
            "__at": pa.array([time * 1000 for time in times.of.values()], pa.timestamp("us", tz="UTC")),
        }
    )
    return spark.createDataFrame(arrow)

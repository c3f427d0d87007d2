"""What an `Aggregate`, or a `View` of counts and sums, makes of its table: what changes bring and take away is added.

A `Merge` may read a change twice; a sum must not. Before anything is added, the log must show that the table holds the
sums at its position. If it does not, all sums are recomputed and compared.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.since_base import may_concern
from lakehouse.delta.commit_info import SCHEMA_CHANGES
from lakehouse.delta.log import Head, Log, commits_between
from lakehouse.delta.text import literal, quote
from lakehouse.difference.by_key import choose_statement, counts_of, is_one_task
from lakehouse.difference.difference import DELETE, INSERT, OPERATION, UPDATE
from lakehouse.difference.statements import MarkOnly, Skip, Statement
from lakehouse.errors import LakehouseError
from lakehouse.read.content import Feed
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import SomeKeys, UnreadRows
from lakehouse.spark.diagnosis import first_line, is_of_the_asset, why_unreadable
from lakehouse.spark.driver_rows import Local, compute_once, is_empty
from lakehouse.spark.fitting import check_padding, fit
from lakehouse.spark.table_version import TableVersion
from lakehouse.writes.stated import KEPT_AS_NULL
from lakehouse.writes.sums import COUNT, INEXACT, Sums, sums_of

if TYPE_CHECKING:
    from lakehouse.views.adding import Added
    from lakehouse.views.analysis import Analysis
    from lakehouse.views.on_spark.bound_text import BoundText

_INEXACT = "inexact"
"""The `OPERATION` of a group whose count or sum cannot be right."""
_WAS, _ROWS = "__lakehouse_was", "__lakehouse_rows"
NO_SUMS_YET = "its log does not say that it holds them. After the next run that computes all rows it is"
_OF_COLUMNS = SCHEMA_CHANGES - {"SET TBLPROPERTIES", "UNSET TBLPROPERTIES"}


@dataclass(frozen=True, slots=True)
class Recompute:
    """All sums are to be computed from the source and compared.

    Args:
        reason: Why, as the second half of a sentence.
    """

    reason: str


def add(spark: SparkSession, run: Run, sums: Sums, head: Head) -> Statement | Skip | Recompute:
    """The statement that adds the changes to the table's sums, if the table is known to hold the sums at its position.

    Raises:
        WriteError (SCHEMA): The result does not fit the table.
    """
    reason = why_recomputed(run.ref.log(lambda: spark), head, run, sums)
    if reason is not None:
        return Recompute(reason)
    if run.has_nothing_to_do():
        return Skip()
    rest = MarkOnly()
    if sums.changes.is_empty:
        return rest
    target = TableVersion.of(spark, run.ref, head).rows()
    check_padding(run.name, sums.rows, target.schema, run.table.key_columns)
    fit(run.ref, sums.rows, target.schema, may_add=False)
    try:
        return _add(run, sums, target, head, rest)
    except LakehouseError:
        raise
    except Exception as error:
        if not is_of_the_asset(error) or why_unreadable(error) is not None:
            raise
        # A pre-image may hold a value that no row holds any more. If a row does hold it, the recompute fails too.
        return Recompute(f"the changes cannot be added ({first_line(error)[:160]})")


def why_recomputed(log: Log, head: Head, run: Run, sums: Sums) -> str | None:
    """Why the table may not hold the sums at the position; None if the log shows that it does."""
    changes, cursor = sums.changes, run.cursor
    if not isinstance(cursor, Known) or cursor.mark.aggregate != sums.digest:
        return "its last commit had other sums of other rows, or none"
    read = cursor.mark.reads.get(changes.name)
    if read is None or read.version != changes.range.after:
        return "its last run did not read up to where these changes begin"
    if isinstance(changes.content, Feed) and changes.content.archived:
        return "an archive need not hold each change once, as it was"
    since = commits_between(log, run.name, cursor.mark.base, head.version)
    if since is None:
        return "the log was cleaned up to its last commit"
    for commit in reversed(since):
        if commit.operation in _OF_COLUMNS:
            return f"version {commit.version} ({commit.operation}) changed its columns"
        if commit.version != cursor.version and may_concern(commit, run.name, run.partitions):
            return f"version {commit.version} ({commit.operation}) has written to it since"
    return None


def counts_and_sums(run: Run, analysis: "Analysis") -> "Added | str":
    """The counts and sums that a view is, to which changes can be added; else why rows are computed, as a clause."""
    from lakehouse.views.adding import added_of

    if any(each.leaves_out for each in run.table.expectations):
        return "an expectation leaves groups out, to whose sums nothing could be added later"
    return added_of(analysis, run.table.key_columns, run.table.partitioned_by(run.head))


def sums_of_view(run: Run, bound: "BoundText") -> Sums | str:
    """As `counts_and_sums`, over the pinned tables."""
    added = counts_and_sums(run, bound.analysis)
    return added if isinstance(added, str) else sums_of(bound, added)


def may_keep_sums(run: Run) -> bool:
    """Whether the table of such a view is kept by sums, or will be: not if its rows were computed without sums."""
    return run.head is None or not isinstance(run.cursor, Known) or run.cursor.mark.aggregate is not None


def why_no_sums_yet(run: Run, analysis: "Analysis") -> str:
    """Why the table of a view, whose rows are computed by keys, is not kept by sums."""
    added = counts_and_sums(run, analysis)
    return added if isinstance(added, str) else NO_SUMS_YET


def as_marked_before(run: Run) -> Run:
    """The run with the columns, the sums and the query of the newest mark, because the table still holds them."""
    if not isinstance(run.cursor, Known):
        return run
    mark = run.cursor.mark
    return run.with_facts(columns=mark.columns, sums=mark.aggregate, query=mark.query or run.facts.query)


def _add(run: Run, sums: Sums, target: DataFrame, head: Head, rest: MarkOnly) -> Statement | Skip | Recompute:
    within = run.within(target.schema)
    summed = compute_once(_by_group(sums, within, head.partition_columns), few=sums.changes.read_no_feed)
    if isinstance(summed, Local) and not summed.rows:
        return rest
    if _holds(summed, INEXACT, value=True):
        return Recompute("the feed may not represent a value exactly (text that is not UTF-8, or dates before 1600)")
    existing = target if within is None else target.where(within)
    beside = _beside(sums, summed, existing)
    changed = compute_once(_operations(beside, sums, target.schema), few=isinstance(summed, Local))
    if _holds(changed, OPERATION, value=_INEXACT):
        return Recompute("its counts or sums contradict the changes (a count below zero, for example)")
    return choose_statement(run, changed, counts_of(changed), target.schema, head, rest)


def _holds(rows: Local | DataFrame, column: str, *, value: object) -> bool:
    if isinstance(rows, Local):
        return value in rows.column(column).to_pylist()
    return not is_empty(rows.where(F.col(column) == F.lit(value)))


def _by_group(sums: Sums, within: str | None, partitions: tuple[str, ...]) -> DataFrame:
    """What the changes add to each group, without groups to which they certainly add nothing."""
    images = sums.images if within is None else sums.images.where(f"({within}) OR {INEXACT}")
    texts = {column.name.lower() for column in images.schema.fields if isinstance(column.dataType, StringType)}
    # The recompute refuses a text there which Delta would keep as NULL.
    refused = ", ".join(map(literal, KEPT_AS_NULL))
    inexact = [INEXACT, *(f"coalesce({quote(c)} IN ({refused}), FALSE)" for c in partitions if c.lower() in texts)]
    names = [quote(name) for name in sums.sums]
    grouped = images.withColumn(INEXACT, F.expr(" OR ".join(inexact))).groupBy(*map(quote, sums.groups))
    totals = [f"sum({COUNT}) AS {COUNT}", *(f"try_sum({name}) AS {name}" for name in names)]
    is_inexact = " OR ".join([f"max({INEXACT})", *(f"try_sum({name}) IS NULL" for name in names)])
    added = grouped.agg(*map(F.expr, [*totals, f"{is_inexact} AS {INEXACT}"]))
    return added.where(" OR ".join([INEXACT, f"{COUNT} <> 0", *(f"{name} <> 0" for name in names)]))


def _beside(sums: Sums, summed: Local | DataFrame, target: DataFrame) -> DataFrame:
    """The touched groups: their new sums, what the table holds of each (`_WAS`), and in how many rows (`_ROWS`)."""
    groups = tuple(sums.groups)
    keys = SomeKeys(groups, summed, summed.rows) if isinstance(summed, Local) else SomeKeys(groups, UnreadRows(summed))
    touched = Touched(groups, keys, None, (sums.changes,))
    totals = {quote(name): f"try_cast({quote(name)} AS {sums.exact(name)})" for name in sums.sums}
    totals[COUNT] = f"CAST({quote(sums.count)} AS BIGINT)"
    was = ", ".join(f"{total} AS {name}" for name, total in totals.items())
    existing = touched.restrict(target).selectExpr(
        *map(quote, groups), *(f"{total} AS {name}" for name, total in totals.items()), f"struct({was}) AS {_WAS}"
    )
    frame = (summed.frame if isinstance(summed, Local) else summed).drop(INEXACT)
    both = existing.unionByName(frame, allowMissingColumns=True)
    grouped = (both.coalesce(1) if is_one_task(touched) else both).groupBy(*map(quote, groups))
    aggregates = [f"count({_WAS}) AS {_ROWS}", f"first({_WAS}, TRUE) AS {_WAS}"]
    return grouped.agg(*(F.expr(f"try_sum({name}) AS {name}") for name in totals), *map(F.expr, aggregates))


def _operations(beside: DataFrame, sums: Sums, schema: StructType) -> DataFrame:
    """Each touched group as the table should hold it, with its operation, in the form of `difference`."""
    fields = {column.name.lower(): column for column in schema.fields}
    kinds = {name: fields[name.lower()].dataType.simpleString() for name in sums.sums}
    now = {f"try_cast({quote(name)} AS {kinds[name]})": f"{_WAS}.{quote(name)}" for name in sums.sums}
    inexact = [
        f"{_ROWS} > 1",
        f"{COUNT} < 0",
        f"{_ROWS} = 1 AND coalesce({_WAS}.{COUNT} < 1, TRUE)",
        *(f"{total} IS NULL OR {_ROWS} = 1 AND {was} IS NULL" for total, was in now.items()),
        *(f"{COUNT} = 0 AND {total} <> 0" for total in now),
    ]
    differs = " OR ".join(f"{total} <> {was}" for total, was in (now | {COUNT: f"{_WAS}.{COUNT}"}).items())
    operation = (
        f"CASE WHEN {' OR '.join(f'({condition})' for condition in inexact)} THEN '{_INEXACT}' "
        f"WHEN {_ROWS} = 0 AND {COUNT} > 0 THEN '{INSERT}' WHEN {_ROWS} = 1 AND {COUNT} = 0 THEN '{DELETE}' "
        f"WHEN {_ROWS} = 1 AND ({differs}) THEN '{UPDATE}' END AS {OPERATION}"
    )
    own = {name.lower(): F.col(quote(name)) for name in sums.groups} | {sums.count.lower(): F.col(COUNT)}
    own |= {name.lower(): F.expr(total) for name, total in zip(sums.sums, now, strict=True)}
    columns = [own[name].cast(column.dataType).alias(column.name) for name, column in fields.items()]
    return beside.select(*columns, F.expr(operation)).where(f"{OPERATION} IS NOT NULL")

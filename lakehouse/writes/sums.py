"""Counts and sums of rows by groups, and how an `Aggregate`, or a `View` that is such sums, adds to its table.

A `Merge` may read a change twice; a sum must not. Before anything is added, the log must show that the table holds the
sums at its position. If it does not, all sums are recomputed and compared.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StringType, StructField, StructType

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.since_base import why_other_rows
from lakehouse.delta.log import Head, Log
from lakehouse.delta.text import literal, quote
from lakehouse.difference.by_key import choose_statement, counts_of
from lakehouse.difference.row_comparison import DELETE, INSERT, OPERATION, UPDATE
from lakehouse.difference.statements import MarkOnly, Skip, Statement
from lakehouse.errors import LakehouseError, WriteError
from lakehouse.read.content import BEFORE, CHANGE, Feed, SourceRead
from lakehouse.read.content import DELETE as ROW_WENT
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import SomeKeys, UnreadRows
from lakehouse.spark.diagnosis import first_line, is_of_the_asset, why_unreadable
from lakehouse.spark.driver_rows import Local, compute_once, is_empty
from lakehouse.spark.exactness import inexact_in_sql, named_in
from lakehouse.spark.fitting import check_padding, fit
from lakehouse.spark.session import why_sums_may_be_lost
from lakehouse.spark.table_version import TableVersion
from lakehouse.spark.types import INTEGERS
from lakehouse.writes.stated import KEPT_AS_NULL

if TYPE_CHECKING:
    from lakehouse.views.adding import Added
    from lakehouse.views.on_spark.bound_text import BoundText

COUNT, INEXACT = "__lakehouse_count", "__lakehouse_inexact"


@dataclass(frozen=True)
class Sums:
    """For every group of a source's rows: how many rows there are, and sums over them."""

    changes: SourceRead
    groups: Mapping[str, str]
    count: str
    sums: Mapping[str, str]
    where: str | None

    @cached_property
    def digest(self) -> str:
        """A digest of the sums and their rows. The commits of the table record which sums it holds."""
        source, groups = self.changes.source_at, list(self.groups.items())
        used = [(column.name, column.dataType.simpleString()) for column in self._usable_columns]
        sums = [(name, sql, self._kinds[name].simpleString()) for name, sql in sorted(self.sums.items())]
        zone = source.spark.conf.get("spark.sql.session.timeZone")
        parts = [self.changes.name, source.where, groups, self.count, sums, self.where, used, zone]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @cached_property
    def rows(self) -> DataFrame:
        """Every group of the source, as of the end of the range."""
        nothing = {name: f"CAST(0 AS {kind.simpleString()})" for name, kind in self._kinds.items()}
        summed = {name: f"coalesce({sql}, {nothing[name]})" for name, sql in self.sums.items()}
        sums = [F.sum(quote(name)).alias(name) for name in self.sums]
        rows = _counting(self.changes.source, {**self.groups, **summed}, self.where)
        return rows.groupBy(*map(quote, self.groups)).agg(F.count("*").alias(self.count), *sums)

    @cached_property
    def images(self) -> DataFrame:
        """What each image of the feed adds to the count and the sums of its group, and whether it may be inexact."""
        minus = f"{CHANGE} IN ('{ROW_WENT}', '{BEFORE}')"
        exact = {name: self.exact(name) for name in self.sums}
        added = {name: f"coalesce(CAST({self.sums[name]} AS {to}), CAST(0 AS {to}))" for name, to in exact.items()}
        signed = {name: f"IF({minus}, -{sql}, {sql})" for name, sql in added.items()}
        inexact = [
            condition
            for column in self._usable_columns
            for condition in inexact_in_sql(quote(column.name), column.dataType)
        ]
        is_inexact = f"coalesce({' OR '.join(inexact) or 'FALSE'}, FALSE)"
        own = {COUNT: f"IF({minus}, -1, 1)", INEXACT: is_inexact}
        # A row that the feed does not represent exactly may count in the source although its image here does not.
        where = None if self.where is None else f"({self.where}) OR {is_inexact}"
        return _counting(self.changes.feed, {**self.groups, **signed, **own}, where)

    def exact(self, name: str) -> str:
        """The type in which a sum is computed: the scale of its values, and the largest precision."""
        kind = self._kinds[name]
        return f"DECIMAL(38,{kind.scale if isinstance(kind, DecimalType) else 0})"

    def check(self, asset: str) -> None:
        """Refuses sums that depend on the order of their values.

        Raises:
            WriteError (SCHEMA): A sum of something other than whole numbers or decimals.
        """
        problems = {
            name: f"sums {kind.simpleString()}"
            for name, kind in self._kinds.items()
            if not isinstance(kind, (*INTEGERS, DecimalType))
        }
        if problems:
            raise WriteError.schema(
                asset, problems, "An Aggregate sums whole numbers and decimals: CAST the values to one."
            )

    @cached_property
    def _kinds(self) -> dict[str, DataType]:
        """The type of each sum's values."""
        # In an aggregate Spark refuses what depends on more than the row: windows, aggregates, generators, randomness.
        sums = [f"max({sql})" for sql in self.sums.values()]
        others = [f"max(({sql}) IS NULL)" for sql in self.expressions]
        fields = self.changes.source.selectExpr(*sums, *others).schema.fields
        return {name: column.dataType for name, column in zip(self.sums, fields, strict=False)}

    @property
    def expressions(self) -> tuple[str, ...]:
        """All SQL expressions of the aggregate."""
        return (*self.groups.values(), *self.sums.values(), *(() if self.where is None else (self.where,)))

    @cached_property
    def _usable_columns(self) -> list[StructField]:
        """The source's columns that the groups, the sums and the condition may name."""
        return named_in(self.changes.source, self.expressions)


def _counting(frame: DataFrame, columns: Mapping[str, str], where: str | None) -> DataFrame:
    """Computed columns of the rows that meet the condition."""
    counting = frame if where is None else frame.where(where)
    return counting.selectExpr(*(f"{sql} AS {quote(name)}" for name, sql in columns.items()))


def sums_of(bound: "BoundText", added: "Added") -> Sums | str:
    """The sums of a view over its pinned tables; else why they do not fit its columns, as a clause."""
    from lakehouse.views.on_spark.bound_text import refuse_null
    from lakehouse.views.on_spark.key_conditions import with_values

    values = {name: with_values(sql, bound.text.args) for name, sql in {**added.by, **added.sums}.items()}
    groups = {name: refuse_null(values[name], name, bound.text) for name in added.by}
    where = None if added.where is None else with_values(added.where, bound.text.args)
    sums = Sums(bound.reads[added.source], groups, added.count, {name: values[name] for name in added.sums}, where)
    types = {field.name: field.dataType for field in sums.rows.schema.fields}
    if any(types[field.name] != field.dataType for field in bound.rows.schema.fields):
        return "a column is declared with another type than its sum has"
    return why_sums_may_be_lost(bound.rows.sparkSession, bound.rows.schema) or sums


_INEXACT = "inexact"
"""The `OPERATION` of a group whose count or sum cannot be right."""
_WAS, _ROWS = "__lakehouse_was", "__lakehouse_rows"


def add(spark: SparkSession, run: Run, sums: Sums, head: Head) -> Statement | Skip | str:
    """The statement that adds the changes to the table's sums; else why all sums have to be computed and compared.

    Raises:
        WriteError (SCHEMA): The result does not fit the table.
    """
    reason = why_recomputed(run.ref.log(lambda: spark), head, run, sums)
    if reason is not None:
        return reason
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
        return f"the changes cannot be added ({first_line(error)[:160]})"


def why_recomputed(log: Log, head: Head, run: Run, sums: Sums) -> str | None:
    """Why the table may not hold the sums at the position; None if the log shows that it does."""
    changes, cursor = sums.changes, run.cursor
    if not isinstance(cursor, Known) or cursor.mark.aggregate != sums.digest:
        return "its last commit had other sums of other rows, or none"
    if (why := why_other_beginning(cursor, changes)) is not None:
        return why
    if isinstance(changes.content, Feed) and changes.content.archived:
        return "an archive need not hold each change once, as it was"
    return why_other_rows(log, head, cursor, run.partitions)


def why_other_beginning(cursor: Known, changes: SourceRead) -> str | None:
    """Why changes do not begin where the table's last run stopped reading, as a clause; None if they do."""
    read = cursor.mark.reads.get(changes.name)
    if read is None or read.version != changes.range.after:
        return "its last run did not read up to where these changes begin"
    return None


def as_marked_before(run: Run) -> Run:
    """The run with the columns, the sums and the query of the newest mark, because the table still holds them."""
    if not isinstance(run.cursor, Known):
        return run
    mark = run.cursor.mark
    return run.with_facts(columns=mark.columns, sums=mark.aggregate, query=mark.query or run.facts.query)


def _add(run: Run, sums: Sums, target: DataFrame, head: Head, rest: MarkOnly) -> Statement | Skip | str:
    within = run.within(target.schema)
    summed = compute_once(_by_group(sums, within, head.partition_columns), few=sums.changes.read_no_feed)
    if isinstance(summed, Local) and not summed.rows:
        return rest
    if _holds(summed, INEXACT, value=True):
        return "the feed may not represent a value exactly (text that is not UTF-8, or dates before 1600)"
    existing = target if within is None else target.where(within)
    beside = _beside(sums, summed, existing)
    changed = compute_once(_operations(beside, sums, target.schema), few=isinstance(summed, Local))
    if _holds(changed, OPERATION, value=_INEXACT):
        return "its counts or sums contradict the changes (a count below zero, for example)"
    return choose_statement(run, changed, counts_of(changed), target.schema, head, rest)


def _holds(rows: Local | DataFrame, column: str, *, value: object) -> bool:
    if isinstance(rows, Local):
        return value in rows.column(column).to_pylist()
    return not is_empty(rows.where(F.col(column) == F.lit(value)))


def _by_group(sums: Sums, within: str | None, partitions: tuple[str, ...]) -> DataFrame:
    """What the changes add to each group, without groups to which they certainly add nothing."""
    images = sums.images if within is None else sums.images.where(f"({within}) OR {INEXACT}")
    texts = {column.name.lower() for column in images.schema.fields if isinstance(column.dataType, StringType)}
    # A text that Delta would keep as NULL makes its group inexact, because the recompute refuses such a text.
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
    grouped = (both.coalesce(1) if touched.is_one_task else both).groupBy(*map(quote, groups))
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

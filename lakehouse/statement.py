"""A write as one Delta statement, and how it is executed.

Planned anew for every attempt, against the table as that attempt finds it; the inputs stay pinned.
"""

from dataclasses import dataclass
from typing import TypeAlias, assert_never

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.difference import (
    AGAIN,
    DELETE,
    ELSEWHERE,
    INSERT,
    OPERATION,
    UPDATE,
    bag_difference,
    difference,
    missing_from,
    promised,
)
from lakehouse.errors import MissingKeyError
from lakehouse.key_predicate import key_predicate
from lakehouse.local import Local, collected, small, travels
from lakehouse.log import Head, Rows
from lakehouse.mark import Mark
from lakehouse.run import Run
from lakehouse.schema import check_new, fit
from lakehouse.session import handed_over
from lakehouse.sql import literal, quote, quote_all, same
from lakehouse.table import Table
from lakehouse.tables import Pinned
from lakehouse.touched import Touched
from lakehouse.writes import Append, Merge, Overwrite, Write

ONE_TASK = 100
"""Touched keys up to which a comparison is one task: their rows are in a few files, and a shuffle costs more."""


@dataclass(frozen=True, slots=True)
class Create:
    """The table does not exist: it is created with its rows, in one commit."""

    rows: DataFrame


@dataclass(frozen=True, slots=True)
class Insert:
    """Rows are added, none is read or changed."""

    rows: DataFrame
    why: str
    compared: bool = False


@dataclass(frozen=True, slots=True)
class MergeRows:
    """Rows are inserted, updated and deleted by key, as a difference says."""

    difference: DataFrame
    rows: int | None
    within: str | None


@dataclass(frozen=True, slots=True)
class ReplaceRows:
    """The rows of the few keys that differ are replaced: the effect of `MergeRows` in fewer jobs."""

    rows: DataFrame
    where: str
    counts: Rows


@dataclass(frozen=True, slots=True)
class Replace:
    """The rows of the run's partitions, or of the table, are replaced."""

    rows: DataFrame
    where: str | None


@dataclass(frozen=True, slots=True)
class Touch:
    """No row differs: the commit only keeps the position."""


@dataclass(frozen=True, slots=True)
class Skip:
    """No row differs and no position moves: there is nothing to commit."""


Statement: TypeAlias = Create | Insert | MergeRows | ReplaceRows | Replace | Touch | Skip


def plan(spark: SparkSession, run: Run, write: Write, head: Head | None) -> Statement:
    """The statement that makes a write true of the table as `head` found it.

    Raises:
        SchemaError: The result does not fit the table.
        MissingKeyError: A write by key, and no key.
    """
    check_new(run.asset, write.rows, run.table)
    if head is None:
        return Create(_sliced(run, _whole(run, write), write.rows.schema))
    if run.changes and not run.moves:
        return Skip()
    rest = Touch() if run.moves else Skip()
    target = Pinned(spark, run.ref, head.table_id, head.version).rows()
    rows = fit(run.asset, write.rows, target.schema, may_add=_may_add(write))
    within = _predicate(run, target.schema)
    match write:
        case Append():
            rows = rows if within is None else rows.where(within)
            if run.slice is None or run.changes:
                return Insert(rows, "append")
            # Read inside the transaction, not pinned: a rival in the same partition then conflicts with us.
            now = spark.read.table(run.ref.identifier).where(str(within))
            missing = missing_from(run.asset, rows, now)
            return rest if missing.isEmpty() else Insert(missing, "append of what the partition lacked")
        case Overwrite() if not run.table.key_columns:
            rows = rows if within is None else rows.where(within)
            held = target if within is None else target.where(within)
            same_columns = len(rows.columns) == len(held.columns)
            if same_columns and bag_difference(rows, held).isEmpty():
                return rest
            return Replace(rows, within)
        case Overwrite():
            return _by_key(run, rows, None, target, within, rest)
        case Merge(touched=touched):
            return _by_key(run, rows, touched, target, within, rest)
        case _:
            assert_never(write)


def execute(spark: SparkSession, statement: Statement, run: Run, mark: Mark) -> None:
    """Runs the statement as one commit that carries the mark.

    Args:
        spark: The session.
        statement: What to do.
        run: The run.
        mark: What the commit says of itself.
    """
    match statement:
        case Create(rows=rows):
            _create(rows, run, mark)
        case Insert(rows=rows):
            _write(rows, run, mark, "append", None)
        case ReplaceRows(rows=rows, where=where) | Replace(rows=rows, where=where):
            _write(rows, run, mark, "overwrite", where)
        case Touch():
            _write(spark.read.table(run.ref.identifier).limit(0), run, mark, "append", None)
        case MergeRows(difference=rows, within=within):
            with handed_over(rows, mark.application_id, mark.epoch, mark.to_json()) as (own, view):
                own.sql(merge_sql(run, rows, view, within)).collect()
        case Skip():
            pass
        case _:
            assert_never(statement)


def merge_sql(run: Run, difference_: DataFrame, view: str, within: str | None) -> str:
    """The one MERGE of a difference; a row that is inserted although its key is there is an error, not an update."""
    columns = [column for column in difference_.columns if column != OPERATION]
    on = " AND ".join(same(f"t.{quote(k)}", f"s.{quote(k)}") for k in run.table.key_columns)
    on = f"({within}) AND {on}" if within else on
    # Of a key that the table holds more than once the rows are deleted, and the one row is inserted: it matches none.
    on = f"{on} AND s.{quote(OPERATION)} <> '{AGAIN}'"
    keys = {k.lower() for k in run.table.key_columns}
    changed = [c for c in columns if c.lower() not in keys]
    updates = changed or columns[:1]
    operation = f"s.{quote(OPERATION)}"
    return (
        f"MERGE WITH SCHEMA EVOLUTION INTO {run.ref.identifier} t USING {view} s ON {on} "
        f"WHEN MATCHED AND {operation} = '{DELETE}' THEN DELETE "
        f"WHEN MATCHED AND {operation} = '{INSERT}' THEN UPDATE SET {_refused(run, difference_)} "
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{quote(c)} = s.{quote(c)}' for c in updates)} "
        f"WHEN NOT MATCHED AND {operation} <> '{DELETE}' "
        f"THEN INSERT ({quote_all(columns)}) VALUES ({quote_all(columns, 's.')})"
    )


def _refused(run: Run, difference_: DataFrame) -> str:
    """An assignment that fails: the row is new among the touched keys, yet its key is elsewhere in the table."""
    name = run.table.key_columns[0]
    kind = next(c.dataType for c in difference_.schema.fields if c.name.lower() == name.lower()).simpleString()
    return f"t.{quote(name)} = CAST(raise_error({literal(ELSEWHERE)}) AS {kind})"


def _by_key(
    run: Run, rows: DataFrame, touched: Touched | None, target: DataFrame, within: str | None, rest: Touch | Skip
) -> Statement:
    key = run.table.key_columns
    if not key:
        raise MissingKeyError(run.asset, "Merge")
    if touched is not None and not touched.is_everything:
        target = touched.of(target)
    if within is not None:
        rows, target = rows.where(within), target.where(within)
    changed = _compared(run.asset, rows, touched, target, key)
    if not isinstance(changed, Local):
        return MergeRows(changed, None, _prefixed(run, target.schema))
    if changed.rows == 0:
        return rest
    counts = _counts(changed)
    within_key = touched is None or {c.lower() for c in touched.columns} <= {k.lower() for k in key}
    if within_key and changed.rows == counts.inserted:
        return Insert(changed.frame.drop(OPERATION), "append: every row that differs is new", compared=True)
    where = _keys_that_differ(run, changed, within) if within_key and len(rows.columns) == len(target.columns) else None
    if where is None:
        return MergeRows(changed.frame, changed.rows, _prefixed(run, target.schema))
    kept = changed.frame.where(f"{OPERATION} <> '{DELETE}'").drop(OPERATION)
    return ReplaceRows(kept, where, counts)


def _counts(changed: Local) -> Rows:
    operations: list[str] = changed.arrow.column(OPERATION).to_pylist()
    return Rows(operations.count(INSERT) + operations.count(AGAIN), operations.count(UPDATE), operations.count(DELETE))


def _keys_that_differ(run: Run, changed: Local, within: str | None) -> str | None:
    """The predicate of exactly the keys that differ; None where it cannot be said, or the table wants a MERGE."""
    values = changed.values(run.table.key_columns) if run.table.statement == "auto" else None
    if values is None:
        return None
    these = key_predicate(run.table.key_columns, values)
    if not these.is_exact:
        return None
    return these.sql if within is None else f"({within}) AND ({these.sql})"


def _compared(
    asset: str, rows: DataFrame, touched: Touched | None, target: DataFrame, key: tuple[str, ...]
) -> DataFrame | Local:
    """The difference; at the driver where it is small, and in one task where both its sides are."""
    if touched is not None and _is_bounded(touched, key) and travels(rows):
        return collected(difference(promised(asset, rows, touched), target, key, one_task=True))
    ours = small(rows)
    theirs = None if ours is None else small(target)
    if ours is not None and theirs is not None:
        return collected(difference(promised(asset, ours.frame, touched), theirs.frame, key, one_task=True))
    changed = difference(promised(asset, rows, touched), target, key)
    return small(changed) or changed


def _is_bounded(touched: Touched, key: tuple[str, ...]) -> bool:
    """Whether so few rows can be meant that one task computes and compares them all."""
    same_columns = {column.lower() for column in touched.columns} == {column.lower() for column in key}
    count = touched.count_if_few()
    return same_columns and count is not None and count <= ONE_TASK


def _whole(run: Run, write: Write) -> DataFrame:
    """The rows of a new table; the promises hold for them too."""
    match write:
        case Merge(rows=rows, touched=touched):
            if not run.table.key_columns:
                raise MissingKeyError(run.asset, "Merge")
            return difference(promised(run.asset, rows, touched), None, run.table.key_columns).drop(OPERATION)
        case Overwrite(rows=rows) if run.table.key_columns:
            return difference(promised(run.asset, rows, None), None, run.table.key_columns).drop(OPERATION)
        case Overwrite(rows=rows):
            return rows
        case Append(rows=rows):
            return rows
        case _:
            assert_never(write)


def _may_add(write: Write) -> bool:
    match write:
        case Merge(touched=touched):
            return touched.is_everything
        case Overwrite():
            return True
        case Append():
            return True


def _sliced(run: Run, rows: DataFrame, schema: StructType) -> DataFrame:
    within = _predicate(run, schema)
    return rows if within is None else rows.where(within)


def _predicate(run: Run, schema: StructType, prefix: str = "") -> str | None:
    if run.slice is None:
        return None
    kinds = {column.name.lower(): column.dataType.simpleString() for column in schema.fields}
    return run.slice.predicate({column: kinds[column.lower()] for column in run.slice.columns}, prefix)


def _prefixed(run: Run, schema: StructType) -> str | None:
    return _predicate(run, schema, "t.")


def _write(rows: DataFrame, run: Run, mark: Mark, mode: str, where: str | None) -> None:
    writer = (
        rows.write.format("delta")
        .mode(mode)
        .option("txnAppId", mark.application_id)
        .option("txnVersion", str(mark.epoch))
        .option("userMetadata", mark.to_json())
        .option("mergeSchema", "true")
    )
    if mode == "overwrite":
        # Without a predicate saveAsTable would replace the table itself, with another id and without its history.
        writer = writer.option("replaceWhere", where or "true")
    if run.ref.path is not None:
        writer.save(run.ref.path)
        return
    # On a thread without an active session classic Spark takes the table for a new one and finds that it exists.
    rows.sparkSession.createDataFrame(pa.table({"active": [True]}))
    writer.saveAsTable(run.ref.identifier)


def _create(rows: DataFrame, run: Run, mark: Mark) -> None:
    """CREATE TABLE AS SELECT: schema, properties, rows, position and mark in the table's first commit."""
    table = run.table
    if table.cluster_columns:
        rows = rows.repartitionByRange(*(F.col(quote(column)) for column in table.cluster_columns))
    described = rows.select(*(_described(column, table) for column in rows.columns))
    properties = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in table.all_properties.items())
    layout = ""
    if table.partition_columns:
        layout = f"PARTITIONED BY ({quote_all(table.partition_columns)}) "
    elif table.cluster_columns:
        layout = f"CLUSTER BY ({quote_all(table.cluster_columns)}) "
    rest = f"{run.ref.identifier} USING delta {layout}TBLPROPERTIES ({properties}) AS SELECT * FROM"
    with handed_over(described, mark.application_id, mark.epoch, mark.to_json()) as (own, view):
        try:
            own.sql(f"CREATE TABLE {rest} {view}").collect()
        except AnalysisException as error:
            if error.getCondition() != "TABLE_OR_VIEW_ALREADY_EXISTS" or run.ref.log(lambda: own).head() is not None:
                raise
            # A directory without a log: what a writer left that died before its first commit. Should a twin commit
            # now, its epoch is ours, and Delta leaves the replacement out.
            own.sql(f"CREATE OR REPLACE TABLE {rest} {view}").collect()


def _described(column: str, table: Table) -> Column:
    comment = table.descriptions.get(column)
    return F.col(quote(column)).alias(column, metadata={"comment": comment}) if comment else F.col(quote(column))

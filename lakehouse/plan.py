"""From a write to the statement that makes it true of the table.

Planned anew for every attempt, against the table as that attempt finds it; the inputs stay pinned.
"""

from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.difference import (
    AGAIN,
    DELETE,
    HELD,
    INSERT,
    OPERATION,
    UPDATE,
    bag_difference,
    difference,
    missing_from,
    promised,
)
from lakehouse.errors import MissingKeyError
from lakehouse.key_predicate import KeyPredicate, key_predicate
from lakehouse.local import Local, collected, small
from lakehouse.log import Head, Rows
from lakehouse.run import Run
from lakehouse.schema import check_new, column_types, fit
from lakehouse.session import knows
from lakehouse.sql import literal, quote, same
from lakehouse.statement import (
    HELD_BY,
    TAKEN_BY,
    Create,
    Insert,
    MergeRows,
    Replace,
    ReplaceMatched,
    ReplaceRows,
    Skip,
    Statement,
    Touch,
)
from lakehouse.stored import stored
from lakehouse.tables import Pinned
from lakehouse.touched import Touched
from lakehouse.writes import Append, Merge, Overwrite, Write

REPLACE_ON = "spark.databricks.delta.replaceOn.dataframe.writer.enabled"
"""Known to every Delta that knows `replaceOn` (4.3 and later); another would ignore it, and replace the whole table."""
KEYS_READ, ROWS_EACH = 20_000_000, 500
"""The keys of so many rows are read sooner than a `MERGE` has begun; of more, so many for each row that differs."""
ONE_TASK = 100
"""Touched keys up to which a comparison is one task: their rows are in a few files, and a shuffle costs more."""


def plan(spark: SparkSession, run: Run, write: Write, head: Head | None) -> Statement:
    """The statement that makes a write true of the table as `head` found it.

    Raises:
        SchemaError: The result does not fit the table.
        MissingKeyError: A write by key, and no key.
    """
    check_new(run.asset, write.rows, run.table)
    write = stored(write, run.table.partition_columns if head is None else head.partition_columns)
    if head is None:
        return Create(_sliced(run, _whole(run, write), write.rows.schema))
    if run.changes and not run.moves and not (isinstance(write, Overwrite) and run.looks_up_anew):
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
            return _by_key(run, rows, None, target, head, rest)
        case Merge(touched=touched):
            return _by_key(run, rows, touched, target, head, rest)
        case _:
            assert_never(write)


def _by_key(
    run: Run, rows: DataFrame, touched: Touched | None, target: DataFrame, head: Head, rest: Touch | Skip
) -> Statement:
    key = run.table.key_columns
    if not key:
        raise MissingKeyError(run.asset, "Merge")
    if touched is not None and not touched.is_everything:
        target = touched.of(target)
    within = _predicate(run, target.schema)
    if within is not None:
        rows, target = rows.where(within), target.where(within)
    within_key = touched is None or {c.lower() for c in touched.columns} <= {k.lower() for k in key}
    # A run without partitions of its own may yet write into few of them. A key that is elsewhere must still be found.
    partitions = head.partition_columns if within is None and within_key else ()
    changed = _compared(run.asset, rows, touched, target, key, partitions)
    if not isinstance(changed, Local):
        return MergeRows(changed.drop(HELD), None, _predicate(run, target.schema, "t."))
    same_columns = len(rows.columns) == len(target.columns)
    if changed.rows == 0:
        return rest if same_columns else Insert(rows.limit(0), "new columns: no row differs", compared=True)
    counts, differing = _counts(changed), changed.frame.drop(HELD)
    if within_key and changed.rows == counts.inserted:
        return Insert(differing.drop(OPERATION), "append: every row that differs is new", compared=True)
    if within_key and same_columns and run.table.statement == "auto":
        where = _narrow(run, changed, partitions, target.schema)
        if where.is_exact:
            return ReplaceRows(_written(differing), where.sql, counts)
        on = _matching(run.table.key_columns, changed) if _is_one_pass(run, head, counts, rows.sparkSession) else None
        if on is not None:
            return ReplaceMatched(_written(differing), on, counts)
    narrow = _narrow(run, changed, partitions, target.schema, "t.").sql or None
    return MergeRows(differing, counts, narrow, nulls=changed.has_nulls(key))


def _written(differing: DataFrame) -> DataFrame:
    return differing.where(f"{OPERATION} <> '{DELETE}'").drop(OPERATION)


def _is_one_pass(run: Run, head: Head, counts: Rows, spark: SparkSession) -> bool:
    """Whether a `MERGE` would cost more than to read all keys of the table, and nobody minds that they are read.

    Whoever writes other partitions would. Updates of files that are written again anyway are no cheaper this way.
    """
    if head.partition_columns or run.slice is not None or not (head.has_vectors or counts.inserted):
        return False
    size = run.ref.log(lambda: spark).size()
    return size is not None and size.rows <= max(KEYS_READ, ROWS_EACH * counts.total) and knows(spark, REPLACE_ON)


def _matching(key: tuple[str, ...], changed: Local) -> str | None:
    """The condition under which a row of the table gives way to one that is written; None where it cannot be said.

    A row to delete has none that takes its place: it is made to match one that is written anyway.
    """
    operations: list[str] = changed.arrow.column(OPERATION).to_pylist()
    gone = [index for index, operation in enumerate(operations) if operation == DELETE]
    names = [f"{HELD_BY}.{quote(column)}" for column in key]
    if gone:
        anyway = [index for index, operation in enumerate(operations) if operation != DELETE][:1]
        those, this = changed.take(gone).values(key), changed.take(anyway).values(key)
        if not those or not this:
            return None
        deleted = key_predicate(key, those, f"{HELD_BY}.")
        if not deleted.is_exact:
            return None
        names = [f"IF({deleted.sql}, {literal(value)}, {name})" for name, value in zip(names, this[0], strict=True)]
    nulls = changed.has_nulls(key)
    pairs = zip(names, (f"{TAKEN_BY}.{quote(column)}" for column in key), strict=True)
    return " AND ".join(same(name, written, nulls=nulls) for name, written in pairs)


def _narrow(
    run: Run, changed: Local, partitions: tuple[str, ...], schema: StructType, prefix: str = ""
) -> KeyPredicate:
    """What holds for every row of the table that differs: literals, for files to be left out and rivals to be missed.

    Exact where it says the keys themselves. The partitions are those that rows come from and those that they go to.
    """
    terms = [_predicate(run, schema, prefix)]
    go = changed.values(partitions) if partitions else None
    if go is not None:
        came = [tuple(row.values()) for rows in changed.arrow.column(HELD).to_pylist() for row in rows]
        terms.append(key_predicate(partitions, list(dict.fromkeys([*came, *go])), prefix).sql)
    keys = changed.values(run.table.key_columns)
    these = None if keys is None else key_predicate(run.table.key_columns, keys, prefix)
    terms.append(None if these is None else these.sql)
    said = [f"({term})" for term in terms if term is not None]
    return KeyPredicate(" AND ".join(said), is_exact=these is not None and these.is_exact)


def _counts(changed: Local) -> Rows:
    operations: list[str] = changed.arrow.column(OPERATION).to_pylist()
    return Rows(operations.count(INSERT) + operations.count(AGAIN), operations.count(UPDATE), operations.count(DELETE))


def _compared(
    asset: str,
    rows: DataFrame,
    touched: Touched | None,
    target: DataFrame,
    key: tuple[str, ...],
    partitions: tuple[str, ...],
) -> DataFrame | Local:
    """The difference; at the driver where it is small."""
    if touched is not None and _is_bounded(touched, key):
        changed = difference(promised(asset, rows, touched), target, key, one_task=True, held=partitions)
        return small(changed) or changed.localCheckpoint()
    few = touched is not None and touched.few and not touched.is_everything
    ours = small(rows) if few else None  # else they are not worth a try
    theirs = None if ours is None else small(target)
    if ours is not None and theirs is not None:
        mine = promised(asset, ours.frame, touched)
        return collected(difference(mine, theirs.frame, key, one_task=True, held=partitions))
    mine = promised(asset, rows if ours is None else ours.frame, touched)
    # Computed once, however often the MERGE reads it.
    changed = difference(mine, target, key, held=partitions).localCheckpoint()
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
        case Overwrite(rows=rows) | Append(rows=rows):
            return rows
        case _:
            assert_never(write)


def _may_add(write: Write) -> bool:
    """Whether the result may bring the table new columns: one that is about some of its rows may not."""
    return not isinstance(write, Merge) or write.touched.is_everything


def _sliced(run: Run, rows: DataFrame, schema: StructType) -> DataFrame:
    within = _predicate(run, schema)
    return rows if within is None else rows.where(within)


def _predicate(run: Run, schema: StructType, prefix: str = "") -> str | None:
    if run.slice is None:
        return None
    return run.slice.predicate(column_types(schema), prefix)

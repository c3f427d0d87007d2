"""From the rows of a result to the statement that writes those that differ, by key."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.delta.commit_info import NO_ROWS, Rows
from lakehouse.delta.keys import KeyPredicate, KeySet
from lakehouse.delta.limits import limits
from lakehouse.delta.log import Head, rows_about
from lakehouse.delta.text import Literal, fold, literal, quote, same
from lakehouse.difference.row_comparison import AGAIN, DELETE, HELD, INSERT, OPERATION, UPDATE, compare
from lakehouse.difference.statements import (
    DELETE_WHERE_EXISTS,
    HELD_BY,
    TAKEN_BY,
    DeleteMatched,
    Insert,
    MarkOnly,
    MergeRows,
    ReplaceMatched,
    ReplaceRows,
    Skip,
    Statement,
)
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.spark.abilities import abilities
from lakehouse.spark.broken_promises import Breach, breach_text
from lakehouse.spark.driver_rows import Local
from lakehouse.spark.session import setting
from lakehouse.spark.types import column_types

REPLACE_ON = "spark.databricks.delta.replaceOn.dataframe.writer.enabled"
"""Declared by every Delta that has `replaceOn` (4.3 and later). Others would ignore it and replace the whole table."""


def statement_by_key(
    run: Run,
    rows: DataFrame,
    touched: Touched | None,
    target: DataFrame,
    head: Head,
    rest: MarkOnly | Skip,
    judge: Callable[[Rows], None] = lambda _: None,
    *,
    few: bool = False,
    asset: str | None = None,
    stamp: Callable[[DataFrame | Local], DataFrame | Local] = lambda changed: changed,
) -> Statement | Skip:
    """The statement after which the table holds exactly these rows of the touched keys.

    Args:
        run: The run.
        rows: The result, of the run's partitions.
        touched: The keys that the result is about; None if it is about all keys.
        target: The rows of the run's partitions that the table holds at `head`.
        head: The table.
        rest: What remains to be done if no row differs.
        judge: Receives how many rows differ, and raises an error if there are too many.
        few: Whether a result that is about all keys probably has few rows.
        asset: The asset that promised the rows, if it is not the run's.
        stamp: Adds columns that are not compared to the rows that differ.
    """
    key = run.table.key_columns
    within_key = touched is None or fold(touched.columns) <= fold(key)
    partitions = _few_partitions(run, head, within_key=within_key)
    is_small = (touched is None or touched.is_everything) and _is_small(run, head, rows.sparkSession)
    changed = compare(asset or run.name, rows, touched, target, key, partitions, few=few, is_small=is_small)
    counts, same_columns = counts_of(changed), len(rows.columns) == len(target.columns)
    judge(counts)
    return choose_statement(
        run, stamp(changed), counts, target.schema, head, rest, within_key=within_key, same_columns=same_columns
    )


def choose_statement(
    run: Run,
    changed: Local | DataFrame,
    counts: Rows,
    schema: StructType,
    head: Head,
    rest: Statement | Skip,
    *,
    within_key: bool = True,
    same_columns: bool = True,
) -> Statement | Skip:
    """The statement that writes a difference: the first of these that is possible.

    - What remains to be done (`rest`) if no row differs; an `Insert` without rows adds columns that the table lacks.
    - An `Insert` (append), if every row that differs is new.
    - `ReplaceRows` (`replaceWhere`), if a predicate of the keys' own literals selects exactly the rows of the keys.
    - `DeleteMatched` (DELETE) or `ReplaceMatched` (`replaceOn`), in one pass, if the table has few files to open.
    - `MergeRows` (MERGE): always with `Policy(statement="merge")`, with new columns, or if rows may change their key's
      partition.

    Where a statement cannot carry a transaction in this session, `ReplaceMatched` replaces the last two if it can;
    otherwise it is `ReplaceRows` of all rows that the condition of a `MERGE` would reach.

    A write without keys chooses by itself: lakehouse/writes/overwrite.py and lakehouse/writes/append.py.
    """
    if counts == NO_ROWS:
        if same_columns:
            return rest
        return Insert(_without(changed, HELD, OPERATION).limit(0), "new columns: no row differs", compared=True)
    key = run.table.key_columns
    if within_key and counts.total == counts.inserted:
        return Insert(_without(changed, HELD, OPERATION), "append: every row that differs is new", compared=True)
    few = isinstance(changed, Local)
    nulls = not few or changed.has_nulls(key)
    whereabouts = _Whereabouts.of(run, changed, _few_partitions(run, head, within_key=within_key), schema)
    spark = changed.spark if isinstance(changed, Local) else changed.sparkSession
    allowed = abilities(spark).statements is None
    if within_key and same_columns and (run.asset.policy.chosen_statement == "auto" or not allowed):
        where = whereabouts.predicate()
        if where.is_exact:
            return ReplaceRows(_rows_to_write(changed), where.sql, counts)
        if not allowed or _is_one_pass(run, head, counts, spark):
            if counts.total == counts.deleted and allowed:
                keys = _without(changed, HELD).select(*map(quote, key))
                return DeleteMatched(keys, counts, whereabouts.predicate("t.").sql or None, nulls)
            on = _matching(key, changed, counts, nulls=nulls) if _replaces_on(spark) else None
            if on is not None:
                within = whereabouts.predicate(f"{HELD_BY}.").sql
                return ReplaceMatched(_rows_to_write(changed), f"({within}) AND {on}" if within else on, counts)
    if not allowed:
        where = whereabouts.predicate().sql or "true"
        rows = _rows_beside(run, spark, changed, where)
        return ReplaceRows(rows, where, counts, differing=_rows_to_write(changed))
    return MergeRows(_without(changed, HELD), counts, whereabouts.predicate("t.").sql or None, few, nulls)


def _is_small(run: Run, head: Head, spark: SparkSession) -> bool:
    """Whether a difference probably comes to the driver though each row of the table goes, and another one comes."""
    rows = rows_about(run.ref.log(lambda: spark), head.version)
    return rows is not None and 2 * rows <= limits().driver_rows


def _rows_beside(run: Run, spark: SparkSession, changed: Local | DataFrame, where: str) -> DataFrame:
    """The rows that meet a condition once a difference is written: the rows to write, and the rows of other keys.

    The table is read at no pinned version, so a write of these rows reads it in its own transaction, as a `MERGE` does.
    A new row whose key is elsewhere in the table is an error.
    """
    key, keys = run.table.key_columns, [f"__key_{index}" for index in range(len(run.table.key_columns))]
    differing = changed.frame if isinstance(changed, Local) else changed
    named = [f"{quote(column)} AS {alias}" for column, alias in zip(key, keys, strict=True)]
    # A key that the table held more than once has two rows in the difference.
    by_key = differing.selectExpr(*named, OPERATION).groupBy(*keys).agg(F.min(OPERATION).alias(OPERATION))
    on = " AND ".join(same(quote(column), alias) for column, alias in zip(key, keys, strict=True))
    elsewhere = f"CAST(raise_error({literal(breach_text(Breach.ELSEWHERE))}) AS BOOLEAN)"
    beside = (
        spark.read.table(run.ref.identifier)
        .where(where)
        .join(by_key, F.expr(on), "left")
        .where(f"CASE {OPERATION} WHEN '{INSERT}' THEN {elsewhere} ELSE {OPERATION} IS NULL END")
    )
    return beside.drop(OPERATION, *keys).unionByName(_rows_to_write(changed), allowMissingColumns=True)


def _few_partitions(run: Run, head: Head, *, within_key: bool) -> tuple[str, ...]:
    """The partition columns, if a run of the whole table may write into few of them; none if a key may be anywhere."""
    return head.partition_columns if within_key and run.slice is None else ()


def _without(changed: Local | DataFrame, *columns: str) -> DataFrame:
    """The rows without some columns, which are not sent to Spark if the rows are at the driver."""
    if isinstance(changed, Local):
        return changed.select([name for name in changed.schema.names if name not in columns]).frame
    return changed.drop(*columns)


def _rows_to_write(changed: Local | DataFrame) -> DataFrame:
    """The rows that the table should hold: those of the difference that are not deleted."""
    if isinstance(changed, Local):
        return _without(changed.where(pc.not_equal(changed.column(OPERATION), pa.scalar(DELETE))), HELD, OPERATION)
    return changed.where(f"{OPERATION} <> '{DELETE}'").drop(HELD, OPERATION)


def _is_one_pass(run: Run, head: Head, counts: Rows, spark: SparkSession) -> bool:
    """Whether opening all files of the table costs less than a `MERGE`, which joins with its files three times.

    Not in a partitioned table, where it would conflict with writers of other partitions; nor for updates and deletes
    without deletion vectors, whose files are written again anyway.
    """
    if head.partition_columns or run.slice is not None or not (head.has_vectors or counts.inserted):
        return False
    size = run.ref.log(lambda: spark).size()
    if size is None or size.files > max(limits().opened_files, counts.total):
        return False
    return _replaces_on(spark) and setting(spark, DELETE_WHERE_EXISTS) is not None


def _replaces_on(spark: SparkSession) -> bool:
    return setting(spark, REPLACE_ON) == "true"


def _matching(key: tuple[str, ...], changed: Local | DataFrame, counts: Rows, *, nulls: bool) -> str | None:
    """The condition under which a written row replaces a row of the table; None if it cannot be written in literals.

    No written row has the key of a row to delete, so that row is made to match a row that is written anyway.
    """
    names = [f"{HELD_BY}.{quote(column)}" for column in key]
    if counts.deleted:
        matched = _key_or_written_key(key, names, changed) if isinstance(changed, Local) else None
        if matched is None:
            return None
        names = matched
    pairs = zip(names, (f"{TAKEN_BY}.{quote(column)}" for column in key), strict=True)
    return " AND ".join(same(name, written, nulls=nulls) for name, written in pairs)


def _key_or_written_key(key: tuple[str, ...], names: list[str], changed: Local) -> list[str] | None:
    """For each key column, the SQL to match by: the column, or, for a row to delete, the key of a row that is written.

    `replaceOn` removes only rows that match a written row. None if the keys have no literals, or no row is written.
    """
    operations: list[str] = changed.arrow.column(OPERATION).to_pylist()
    deleted = [index for index, operation in enumerate(operations) if operation == DELETE]
    others = [index for index, operation in enumerate(operations) if operation != DELETE][:1]
    deleted_keys, written_keys = changed.take(deleted).values(key), changed.take(others).values(key)
    if not deleted_keys or not written_keys:
        return None
    kinds = column_types(changed.schema)
    types = [kinds[column.lower()] for column in key]
    is_deleted = KeySet.of(key, deleted_keys, types).predicate(f"{HELD_BY}.")
    if not is_deleted.is_exact:
        return None
    values = map(literal, written_keys[0], types)
    return [f"IF({is_deleted.sql}, {value}, {name})" for name, value in zip(names, values, strict=True)]


@dataclass(frozen=True, slots=True)
class _Whereabouts:
    """Where the table may hold the rows that differ, as a condition in literals that holds for each of them.

    With it, Delta skips other files, and rivals in other partitions do not conflict.

    Args:
        run: The run.
        schema: The table's columns.
        partitions: The partitions that rows leave and that they enter; None if the rows may be in any partition.
        keys: The keys of the rows; None if the rows are not at the driver, or if their keys have no literals.
    """

    run: Run
    schema: StructType
    partitions: KeySet | None
    keys: KeySet | None

    @classmethod
    def of(
        cls, run: Run, changed: Local | DataFrame, partitions: tuple[str, ...], schema: StructType
    ) -> "_Whereabouts":
        if not isinstance(changed, Local):
            return cls(run, schema, None, None)
        kinds = column_types(schema)

        def as_set(columns: tuple[str, ...], keys: list[tuple[Literal, ...]] | None) -> KeySet | None:
            return None if keys is None else KeySet.of(columns, keys, [kinds[column.lower()] for column in columns])

        key, of_partitions = run.table.key_columns, _partitions_of(changed, partitions)
        return cls(run, schema, as_set(partitions, of_partitions), as_set(key, changed.values(key)))

    def predicate(self, prefix: str = "") -> KeyPredicate:
        """The condition, exact if it names every key; empty if nothing is known."""
        of_keys = None if self.keys is None else self.keys.predicate(prefix)
        terms = [
            self.run.within(self.schema, prefix),
            None if self.partitions is None else self.partitions.predicate(prefix).sql,
            None if of_keys is None else of_keys.sql,
        ]
        if self.keys is None and self.partitions is None:
            return KeyPredicate(terms[0] or "", is_exact=False)
        sql = " AND ".join(f"({term})" for term in terms if term is not None)
        return KeyPredicate(sql, is_exact=of_keys is not None and of_keys.is_exact)


def _partitions_of(changed: Local, partitions: tuple[str, ...]) -> list[tuple[Literal, ...]] | None:
    """The partitions that held the rows, and those that will hold them; None if they cannot be named."""
    new_values = changed.values(partitions) if partitions else None
    if new_values is None:
        return None
    rows_held: list[Any] = changed.arrow.column(HELD).to_pylist() if HELD in changed.schema.names else []
    old_values = [tuple(row.values()) for rows in rows_held for row in rows]
    return list(dict.fromkeys([*old_values, *new_values]))


def counts_of(changed: Local | DataFrame) -> Rows:
    """How many rows a difference inserts, updates and deletes: a Spark job if the rows are not at the driver."""
    if isinstance(changed, Local):
        counts = Counter[str](changed.arrow.column(OPERATION).to_pylist())
    else:
        counts = Counter[str]({row[0]: row[1] for row in changed.groupBy(OPERATION).count().collect()})
    return Rows(counts[INSERT] + counts[AGAIN], counts[UPDATE], counts[DELETE])

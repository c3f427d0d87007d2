"""Columns that a result has and its table lacks: what a run makes of them, by the table's policy."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.definition import digest
from lakehouse.errors import NewColumnsError
from lakehouse.frames.types import paths
from lakehouse.read.run import Run
from lakehouse.results.aggregate import Aggregate
from lakehouse.results.writes import Append, History, Merge, Overwrite, Snapshot, Write
from lakehouse.spark.snapshot import TableVersion
from lakehouse.sql.text import folded


def columns_of(given: Merge, write: Merge) -> str:
    """The digest of the columns that the asset gave and of those that are written, with the fields within them.

    A column that is ignored counts as well, because other columns may be computed of whatever a source has.
    """
    return digest([sorted(paths(each.rows.schema)) for each in (given, write)])


def without_new_columns(spark: Callable[[], SparkSession], run: Run, write: Write) -> Write:
    """The write without columns that its table lacks, if the policy ignores them. What a key needs is never ignored.

    Args:
        spark: Returns the session; called only if columns are ignored.
        run: What has been pinned.
        write: What the asset returned.
    """
    if run.asset.policy.new_columns != "ignore" or run.head is None:
        return write
    stored = folded(TableVersion.of(spark(), run.ref, run.head).rows().columns)
    return _restricted(write, stored | folded((*run.table.key_columns, *run.table.partition_columns)))


def _restricted(write: Write, columns: Collection[str]) -> Write:
    """The write with these columns alone, names in lower case."""
    match write:
        case Merge(rows=rows, touched=touched):
            return replace(write, rows=_of(rows, (*columns, *folded(touched.columns))))
        case Snapshot(rows=rows):
            return replace(write, rows=_of(rows, (*columns, *folded(write.scope_columns))))
        case Append(rows=rows) | Overwrite(rows=rows):
            return replace(write, rows=_of(rows, columns))
        case Aggregate(sums=sums):
            return replace(write, sums={name: sql for name, sql in sums.items() if name.lower() in columns})
        case History(changes=Snapshot() as extract):
            restricted = _restricted(extract, columns)
            assert isinstance(restricted, Snapshot)
            return replace(write, changes=restricted)
        case History():  # of the columns of its source: lakehouse.history.history
            return write
        case _:
            assert_never(write)


def _of(rows: DataFrame, columns: Collection[str]) -> DataFrame:
    new = [column for column in rows.columns if column.lower() not in columns]
    return rows.drop(*new) if new else rows


def refuse_uncompared(spark: SparkSession, run: Run, write: Merge, stored: StructType) -> None:
    """Refuses rows of touched keys alone where other rows of the table may lack values of a column.

    What the table lacks is not enough to know: another partition, or somebody by hand, may have added the column since.
    So the columns of the last result stand in the mark.

    Args:
        spark: The session.
        run: The run.
        write: The result.
        stored: The table's columns.

    Raises:
        NewColumnsError: A column is new, or the last result had other columns.
    """
    if write.touched.is_everything or run.compares_everything:
        return
    lacking = [column for column in write.rows.columns if column.lower() not in folded(stored.names)]
    if lacking and run.asset.policy.new_columns != "add":
        return  # the column is refused by `fit`
    new = lacking or _since_last_commit(spark, run, write)
    if new:
        raise NewColumnsError(
            run.name,
            f"its result has {_named(new)}, which the table lacked, and rows that no change touched may have a value "
            f"there",
        )
    mark = run.cursor.mark if isinstance(run.cursor, Known) else None
    if mark is not None and mark.columns not in (None, run.columns):
        raise NewColumnsError(run.name, "the last result had other columns, and rows that no change touched may differ")


def _since_last_commit(spark: SparkSession, run: Run, write: Merge) -> list[str]:
    """The columns of the result that the table lacked at its position, by the log: of a mark that tells no columns."""
    if not isinstance(run.cursor, Known) or run.cursor.mark.columns is not None:
        return []
    then = run.ref.log(lambda: spark).file_schema(run.cursor.version)
    return [] if then is None else [column for column in write.rows.columns if column.lower() not in then.types]


def _named(columns: list[str]) -> str:
    more = f" and {len(columns) - 3} more" if len(columns) > 3 else ""
    return f"the column{'s' if len(columns) > 1 else ''} {', '.join(columns[:3])}{more}"

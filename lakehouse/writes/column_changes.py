"""Columns that a result has and its table lacks, and columns that the source of a history has dropped."""

from collections.abc import Callable, Collection
from dataclasses import replace
from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.definition import DROPPED, digest
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.text import fold, quote
from lakehouse.errors import GO_ON_FROM, NewColumnsError, SchemaError, WriteError
from lakehouse.read.changes import Changes
from lakehouse.read.content import Everything
from lakehouse.read.run import Run
from lakehouse.spark.table_version import TableVersion
from lakehouse.spark.types import paths
from lakehouse.writes.aggregate import Aggregate
from lakehouse.writes.history_rows import Shape
from lakehouse.writes.writes import Append, History, Merge, Overwrite, Snapshot, Write


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
    stored = fold(TableVersion.of(spark(), run.ref, run.head).rows().columns)
    return _restrict(write, stored | fold((*run.table.key_columns, *run.table.partition_columns)))


def _restrict(write: Write, columns: Collection[str]) -> Write:
    """The write with these columns alone, names in lower case."""
    match write:
        case Merge(rows=rows, touched=touched):
            return replace(write, rows=_of(rows, (*columns, *fold(touched.columns))))
        case Snapshot(rows=rows):
            return replace(write, rows=_of(rows, (*columns, *fold(write.scope_columns))))
        case Append(rows=rows) | Overwrite(rows=rows):
            return replace(write, rows=_of(rows, columns))
        case Aggregate(sums=sums):
            return replace(write, sums={name: sql for name, sql in sums.items() if name.lower() in columns})
        case History(changes=Snapshot() as extract):
            restricted = _restrict(extract, columns)
            assert isinstance(restricted, Snapshot)
            return replace(write, changes=restricted)
        case History():  # of the columns of its source: lakehouse.writes.history
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
    lacking = [column for column in write.rows.columns if column.lower() not in fold(stored.names)]
    if lacking and run.asset.policy.new_columns != "add":
        return  # the column is refused by `fit`
    new = lacking or _since_last_commit(spark, run, write)
    if new:
        raise NewColumnsError(
            run.name,
            f"its result has {_listing(new)}, which the table lacked, and rows that no change touched may have a value "
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


def _listing(columns: list[str]) -> str:
    more = f" and {len(columns) - 3} more" if len(columns) > 3 else ""
    return f"the column{'s' if len(columns) > 1 else ''} {', '.join(columns[:3])}{more}"


def dropped_from(source: Collection[str], stored: Collection[str], shape: Shape) -> list[str]:
    """The columns of the history's table that its source lacks."""
    return [column for column in stored if column.lower() not in fold(source) | shape.own]


def with_dropped(run: Run, changes: Changes, stored: Collection[str], shape: Shape) -> Run:
    """The run whose mark says which columns the source has dropped.

    Args:
        run: The run, with what its last mark says of them.
        changes: The changes of the source.
        stored: The columns of the history's table.
        shape: The columns of the history.

    Raises:
        WriteError: A column that the history tracks by name was dropped.
        SchemaError: A column may have been renamed, or a column that was dropped is there again.
    """
    source = changes.whole.columns
    lacking = dropped_from(source, stored, shape)
    tracked = [column for column in lacking if column.lower() in fold(shape.track or ())]
    if tracked:
        raise WriteError(
            f"The history '{run.name}' tracks {', '.join(tracked)}, which '{changes.name}' no longer has.",
            "Nothing was written. Give the source the column back, or keep the history of its other columns in another "
            "asset.",
        )
    before = {part.removeprefix(DROPPED) for part in run.definition if part.startswith(DROPPED)}
    if not isinstance(changes.content, Everything):
        _refuse_renamed(run, changes, [column for column in lacking if column.lower() not in before])
        _refuse_again(run, changes, before & fold(source))
    others = {part: value for part, value in run.definition.items() if not part.startswith(DROPPED)}
    return replace(run, definition=others | {DROPPED + column.lower(): "" for column in lacking})


def _refuse_renamed(run: Run, changes: Changes, columns: list[str]) -> None:
    """Refuses to go on from the changes alone where a column may have another name by now."""
    alter = f"ALTER TABLE {run.ref.identifier}"
    for column in columns:
        if not changes.are_of_the_feed or any(_may_rename(commit, column) for commit in changes.commits):
            raise SchemaError(
                run.name,
                {column: f"is missing from '{changes.name}', which may have renamed the column"},
                f"If the column was renamed, rename that of the history: {alter} SET TBLPROPERTIES "
                f"('delta.columnMapping.mode' = 'name'); {alter} RENAME COLUMN {quote(column)} TO <its new name>. If "
                f"the column was dropped, materialize once with the run tag {GO_ON_FROM}{run.name}=now.",
            )


def _refuse_again(run: Run, changes: Changes, again: Collection[str]) -> None:
    """Refuses to go on from the changes alone where rows that go on have a value from before the column was dropped."""
    if again:
        raise SchemaError(
            run.name,
            dict.fromkeys(sorted(again), f"'{changes.name}' had dropped the column and has one of this name again"),
            f"Materialize once with the run tag {GO_ON_FROM}{run.name}=now: the history takes the rows of the source "
            f"as they are then.",
        )


def _may_rename(commit: Commit, column: str) -> bool:
    match commit.operation:
        case "RENAME COLUMN":
            return commit.renaming is None or commit.renaming[0].lower() == column.lower()
        case operation:
            return operation in ("REPLACE COLUMNS", "RESTORE")

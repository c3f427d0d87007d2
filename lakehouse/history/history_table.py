"""The table of a history, whatever it is kept from: its columns, its layout and what it tracks."""

from collections.abc import Iterable
from dataclasses import replace

from lakehouse.changes.touched import require
from lakehouse.cursor.cursor import Known
from lakehouse.cursor.definition import DROPPED, TRACK, Definition, short
from lakehouse.errors import MissingKeyError, SchemaError, TrackChangedError, WriteError
from lakehouse.history.history_rows import Shape
from lakehouse.read.run import Run
from lakehouse.results.writes import History


def shape_of(run: Run, write: History) -> Shape:
    """The columns of the history; of a run under the row key, too.

    Raises:
        MissingKeyError: The table declares no key, which names the entity.
        TrackChangedError: The history has tracked other columns.
        WriteError: The table has another layout, or was not kept by a `History`.
    """
    if not run.table.key_columns:
        raise MissingKeyError(run.name, "History")
    if run.slice is not None or run.table.partition_columns:
        raise WriteError(
            f"The history '{run.name}' cannot be partitioned: its rows lie by their end, so that the current ones are "
            f"found without reading the past.",
            "Nothing was written. Leave partitions_def and partition_by out.",
        )
    mark = run.cursor.mark if isinstance(run.cursor, Known) else None
    if mark is not None and mark.definition is not None:
        if mark.extract is not None and TRACK not in mark.definition:
            raise WriteError(
                f"The table of '{run.name}' was kept by a Snapshot, not by a History.",
                "Nothing was written. Write the history to another asset.",
            )
        was, now = mark.definition.get(TRACK, ""), short(write.tracked_text)
        if was != now:
            raise TrackChangedError(run.name, was, now)
    return Shape(run.table.key_columns, write.start_at, write.end_at, write.tracked)


def laid_out_shape(run: Run, write: History) -> Shape:
    """The columns of a history whose run is under the row key, from `laid_out`."""
    return Shape(Shape.entity_of(run.table.key_columns), write.start_at, write.end_at, write.tracked)


def check_columns(asset: str, shape: Shape, source: str, columns: list[str], stored: Iterable[str] = ()) -> None:
    """Refuses rows of which no history of this shape can be kept.

    Args:
        asset: The asset.
        shape: The columns of the history.
        source: What the rows are of, for messages.
        columns: Their columns.
        stored: Columns that the table has; a tracked one need not be delivered.

    Raises:
        ColumnMissingError: A column of the entity, or a tracked one, is missing.
        SchemaError: They have a column that the history adds.
    """
    require(columns, shape.entity, source)
    require([*columns, *stored], shape.track or (), source)
    taken = {column: "is a column of the source too" for column in columns if column.lower() in shape.own}
    if taken:
        raise SchemaError(asset, taken, "Choose other names in History(start_at=..., end_at=...).")


def laid_out(run: Run, write: History, shape: Shape) -> Run:
    """The run under the key of the history's rows, whose mark says what is tracked."""
    layout = run.table.cluster_columns or (shape.end,)  # so that OPTIMIZE puts the current rows together
    run = run.with_table(replace(run.table, key=shape.row_key, cluster_by=layout))
    dropped = {part: value for part, value in _before(run).items() if part.startswith(DROPPED)}
    return replace(run, definition={**run.definition, **dropped, TRACK: short(write.tracked_text)})


def _before(run: Run) -> Definition:
    """The definition in the mark; nothing if there is no mark, or if an earlier version wrote it."""
    return (run.cursor.mark.definition or {}) if isinstance(run.cursor, Known) else {}

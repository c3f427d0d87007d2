"""Columns of a history that its source no longer has: they stay, and are NULL in rows that begin from then on.

A row that goes on keeps its value, because no change of the source has ended it. So the history must not be told that a
column was dropped if it was renamed: its current rows would lack what the source has by the new name.
"""

from collections.abc import Collection
from dataclasses import replace

from lakehouse.changes.changes import Changes
from lakehouse.changes.content import Everything
from lakehouse.cursor.definition import DROPPED
from lakehouse.errors import GO_ON_FROM, SchemaError, WriteError
from lakehouse.history.history_rows import Shape
from lakehouse.log.commit_info import Commit
from lakehouse.read.run import Run
from lakehouse.sql.text import folded, quote


def dropped_from(source: Collection[str], stored: Collection[str], shape: Shape) -> list[str]:
    """The columns of the history's table that its source lacks."""
    return [column for column in stored if column.lower() not in folded(source) | shape.own]


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
    tracked = [column for column in lacking if column.lower() in folded(shape.track or ())]
    if tracked:
        raise WriteError(
            f"The history '{run.name}' tracks {', '.join(tracked)}, which '{changes.name}' no longer has.",
            "Nothing was written. Give the source the column back, or keep the history of its other columns in another "
            "asset.",
        )
    before = {part.removeprefix(DROPPED) for part in run.definition if part.startswith(DROPPED)}
    if not isinstance(changes.content, Everything):
        _refuse_renamed(run, changes, [column for column in lacking if column.lower() not in before])
        _refuse_again(run, changes, before & folded(source))
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
            return commit.renamed is None or commit.renamed[0].lower() == column.lower()
        case operation:
            return operation in ("REPLACE COLUMNS", "RESTORE")

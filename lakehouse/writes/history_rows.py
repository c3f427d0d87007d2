"""The rows of a history, and its table: the values of each entity, from when to when they held, what is tracked."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.definition import DROPPED, TRACK, short
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.text import fold, quote, quote_all
from lakehouse.errors import GO_ON_FROM, HistoryError, WriteError
from lakehouse.read.content import AFTER, BEFORE, CHANGE, DELETE, INSERT, TIMESTAMP, VERSION, Everything, SourceRead
from lakehouse.read.run import Run
from lakehouse.read.touched import require
from lakehouse.scd.dimensions import BEGIN, END, runs_of_upserts
from lakehouse.scd.events import over_keys
from lakehouse.spark.broken_promises import Breach, breach_sql
from lakehouse.spark.fitting import with_lacking
from lakehouse.spark.types import comparable

EARLIEST = "_EARLIEST"
"""Suffix of two columns with the earliest possible time of a change whose exact time is unknown. The columns appear
once a history was compared with its source, because the source's changes could not be read."""
NEVER = "CAST(NULL AS TIMESTAMP)"
BEFORE_ALL = -1
"""The version of the state in which the changes find an entity: before all others."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a history.

    Args:
        entity: The columns that identify what the history is about; with the start they identify one of its rows.
        start: The column with the moment from which a row holds.
        end: The column with the moment at which a row ceased to hold; NULL while it holds.
        track: The columns whose change begins a new row; None for all except the entity's.
    """

    entity: tuple[str, ...]
    start: str
    end: str
    track: tuple[str, ...] | None = None

    @property
    def row_key(self) -> tuple[str, ...]:
        return (*self.entity, self.start)

    @property
    def earliest(self) -> tuple[str, str]:
        return self.start + EARLIEST, self.end + EARLIEST

    @property
    def own(self) -> frozenset[str]:
        """The columns that a history adds to its source's, in lower case."""
        return fold((self.start, self.end, *self.earliest))

    @property
    def tracked_text(self) -> str:
        """The tracked columns as a text, for the mark: another choice would have ended other rows in the past."""
        if self.track is None:
            return "all columns"
        return ", ".join(sorted(fold(self.track))) or "no column"

    def tracked_columns(self, columns: list[str]) -> list[str]:
        """The columns of the source that are tracked."""
        entity = fold(self.entity)
        track = None if self.track is None else fold(self.track)
        return [
            column for column in columns if column.lower() not in entity and (track is None or column.lower() in track)
        ]

    def rows(
        self,
        images: DataFrame,
        times: DataFrame,
        before: DataFrame | None = None,
        *,
        ends: int | None = None,
        earliest: str = NEVER,
        exact: bool = True,
        one_task: bool = False,
        dropped: Collection[str] = (),
    ) -> DataFrame:
        """The rows of the history from a moment on, of the entities that had a row then or have changed since.

        Args:
            images: The images of the changes since, as a feed gives them.
            times: The time of each version, as columns `__version` and `__at`.
            before: The rows that held at the moment; None if nothing is known of the time before it.
            ends: The version at which a row of `before` without an image there ended; None if such a row goes on.
            earliest: SQL of the moment after which the changes came, where their times are not known; else NULL.
            exact: Whether each entity of `before` certainly had a row in the source.
            one_task: Whether one task takes less time than a shuffle.
            dropped: The columns that the source no longer has.
        """
        feed = fold((CHANGE, VERSION, TIMESTAMP))
        images = images.drop(TIMESTAMP)
        schema = StructType([column for column in images.schema.fields if column.name.lower() not in feed])
        if before is not None:
            before = with_lacking(before, schema)
            if ends is not None:
                last = before.select(*map(quote, schema.names))
                marks = {CHANGE: F.lit(DELETE), VERSION: F.lit(ends).cast("bigint")}
                images = images.unionByName(last.withColumns(marks))
        states = self._states(images, schema.names, times, earliest)
        if before is not None:
            states = self._states_before(before, schema.names, exact=exact).unionByName(states)
        return self._fold(states, schema, one_task=one_task, dropped=dropped)

    def _states(self, images: DataFrame, columns: list[str], times: DataFrame, earliest: str) -> DataFrame:
        """The state of each entity after each commit that changed it; a NULL row if the entity is gone.

        `__held` is the number of the entity's rows that the commit put into the source, `__gone` of those it removed.
        """
        is_after = f"{CHANGE} IN ('{INSERT}', '{AFTER}')"
        each = images.selectExpr(
            *self._keys,
            f"{VERSION} AS __version",
            f"IF({is_after}, struct({quote_all(columns)}), NULL) AS __row",
            f"IF({CHANGE} IN ('{DELETE}', '{BEFORE}'), 1, NULL) AS __taken",
        )
        commits = each.groupBy(*self._names, "__version").agg(
            F.first("__row", ignorenulls=True).alias("__row"),
            F.count("__row").alias("__held"),
            F.count("__taken").alias("__gone"),
        )
        return (
            commits.where(self._refused_where("__held > 1"))
            .join(F.broadcast(times), "__version")
            .selectExpr(*self._names, "__version", "__at", f"{earliest} AS __earliest", "__row", "__held", "__gone")
        )

    def _refused_where(self, several_rows: str) -> str:
        """A condition that is true of each state, and raises where the source has more than one row of an entity."""
        several = breach_sql(Breach.SEVERAL, dict(zip(self.entity, self._names, strict=True)))
        return f"CASE WHEN {several_rows} THEN CAST(raise_error({several}) AS BOOLEAN) ELSE TRUE END"

    def _states_before(self, rows: DataFrame, columns: list[str], *, exact: bool) -> DataFrame:
        """The state in which the changes find each entity."""
        earliest = quote(self.earliest[0]) if self.earliest[0].lower() in fold(rows.columns) else NEVER
        return rows.selectExpr(
            *self._keys,
            f"CAST({BEFORE_ALL} AS BIGINT) AS __version",
            f"{quote(self.start)} AS __at",
            f"{earliest} AS __earliest",
            f"struct({quote_all(columns)}) AS __row",
            f"CAST({int(exact)} AS BIGINT) AS __held",
            "0L AS __gone",
        )

    def _fold(self, states: DataFrame, schema: StructType, *, one_task: bool, dropped: Collection[str]) -> DataFrame:
        """The rows that the states of each entity make up, with their intervals."""
        values = comparable(schema, "__row.")
        tracked = [values[column] for column in self.tracked_columns(schema.names) if column not in dropped]
        at_first = ", ".join(f"__row.{quote(name)} AS {quote(name)}" for name in schema.names if name in dropped)
        bounds = ["__at", "__earliest", *([f"struct({at_first}) AS __row"] if at_first else [])]
        together = states.coalesce(1) if one_task else states.repartition(*self._names)
        beside = together.selectExpr("*", f"lag(__held) {over_keys(self._names, '__version')} AS __had")
        single = beside.where(self._refused_where(f"__version > {BEFORE_ALL} AND __had - __gone + __held > 1"))
        runs = runs_of_upserts(single, self._names, "__version", "__row IS NULL", tracked, bounds)
        return runs.selectExpr(*self._columns(schema.names, dropped))

    def _columns(self, names: list[str], dropped: Collection[str]) -> list[str]:
        """The history's columns: what finds its rows comes first, because Delta keeps statistics of the first ones."""
        entity = fold(self.entity)
        start, end = self.earliest
        return [
            *(f"__row.{quote(name)} AS {quote(name)}" for name in names if name.lower() in entity),
            f"{BEGIN}.__at AS {quote(self.start)}",
            f"{END}.__at AS {quote(self.end)}",
            f"{BEGIN}.__earliest AS {quote(start)}",
            f"{END}.__earliest AS {quote(end)}",
            *(
                f"{f'{BEGIN}.__row' if name in dropped else '__row'}.{quote(name)} AS {quote(name)}"
                for name in names
                if name.lower() not in entity
            ),
        ]

    @property
    def _names(self) -> tuple[str, ...]:
        return tuple(f"__key_{index}" for index, _ in enumerate(self.entity))

    @property
    def _keys(self) -> list[str]:
        return [f"{quote(column)} AS {name}" for column, name in zip(self.entity, self._names, strict=True)]


def refuse_other_shape(run: Run, shape: Shape) -> None:
    """Refuses a table that holds a history of another shape.

    Raises:
        HistoryError (TRACK_CHANGED): The history has tracked other columns.
        WriteError: The table was not kept by a `History`.
    """
    mark = run.cursor.mark if isinstance(run.cursor, Known) else None
    if mark is not None and mark.definition is not None:
        if mark.extract is not None and TRACK not in mark.definition:
            raise WriteError(
                f"The table of '{run.name}' was kept by a Snapshot, not by a History.",
                "Nothing was written. Write the history to another asset.",
            )
        was, now = mark.definition.get(TRACK, ""), short(shape.tracked_text)
        if was != now:
            raise HistoryError.track_changed(run.name, was, now)


def check_columns(asset: str, shape: Shape, source: str, columns: list[str], stored: Iterable[str] = ()) -> None:
    """Refuses rows from which a history of this shape cannot be kept.

    A tracked column that the table has need not be delivered.

    Raises:
        ReadError (COLUMN_MISSING): A column of the entity, or a tracked one, is missing.
        WriteError (SCHEMA): A column has the name of one that the history adds.
    """
    require(columns, shape.entity, source)
    require([*columns, *stored], shape.track or (), source)
    taken = {column: "is a column of the source too" for column in columns if column.lower() in shape.own}
    if taken:
        raise WriteError.schema(asset, taken, "Choose other names in History(start_at=..., end_at=...).")


def lay_out(run: Run, shape: Shape) -> Run:
    """The run with a table that has the key of the history's rows, and with a mark that records what is tracked."""
    layout = run.table.cluster_columns or (shape.end,)  # so that OPTIMIZE puts the current rows together
    run = run.with_table(replace(run.table, key=shape.row_key, cluster_by=layout))
    before = (run.cursor.mark.definition or {}) if isinstance(run.cursor, Known) else {}
    dropped = {part: value for part, value in before.items() if part.startswith(DROPPED)}
    return replace(run, definition={**run.definition, **dropped, TRACK: short(shape.tracked_text)})


def dropped_from(source: Collection[str], stored: Collection[str], shape: Shape) -> list[str]:
    """The columns of the history's table that its source lacks."""
    return [column for column in stored if column.lower() not in fold(source) | shape.own]


def with_dropped(run: Run, changes: SourceRead, stored: Collection[str], shape: Shape) -> Run:
    """The run with a mark that records which columns the source has dropped.

    Raises:
        WriteError: A column that the history tracks by name was dropped.
        WriteError (SCHEMA): A column may have been renamed, or a column that was dropped is there again.
    """
    source = changes.source.columns
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


def _refuse_renamed(run: Run, changes: SourceRead, columns: list[str]) -> None:
    """Refuses to go on from the changes alone where a missing column may have been renamed."""
    alter = f"ALTER TABLE {run.ref.identifier}"
    for column in columns:
        if not changes.are_of_the_feed or any(_may_rename(commit, column) for commit in changes.commits):
            raise WriteError.schema(
                run.name,
                {column: f"is missing from '{changes.name}', which may have renamed the column"},
                f"If the column was renamed, rename that of the history: {alter} SET TBLPROPERTIES "
                f"('delta.columnMapping.mode' = 'name'); {alter} RENAME COLUMN {quote(column)} TO <its new name>. If "
                f"the column was dropped, materialize once with the run tag {GO_ON_FROM}{run.name}=now.",
            )


def _refuse_again(run: Run, changes: SourceRead, again: Collection[str]) -> None:
    """Refuses to go on from the changes alone where a dropped column is back: unchanged rows have its former values."""
    if again:
        raise WriteError.schema(
            run.name,
            dict.fromkeys(sorted(again), f"'{changes.name}' had dropped the column and has one of this name again"),
            _TAKEN_NOW.format(tag=GO_ON_FROM + run.name),
        )


def refuse_taken(run: Run, why: str | None) -> None:
    """Refuses to go on from the changes alone where a name of the history's table may belong to another column.

    Raises:
        WriteError: `why` says that.
    """
    if why is not None:
        raise WriteError(
            f"The current rows of the history '{run.name}' may not be those of its last run: {why}.",
            f"Nothing was written. {_TAKEN_NOW.format(tag=GO_ON_FROM + run.name)}",
        )


_TAKEN_NOW = "Materialize once with the run tag {tag}=now: the history takes the rows of the source as they are then."


def _may_rename(commit: Commit, column: str) -> bool:
    match commit.operation:
        case "RENAME COLUMN":
            return commit.renaming is None or commit.renaming[0].lower() == column.lower()
        case operation:
            return operation in ("REPLACE COLUMNS", "RESTORE")

"""The closed set of writes: what an asset returns, and what its annotation says before there is a result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from types import UnionType
from typing import Literal, TypeAlias

from pyspark.sql import DataFrame

from lakehouse.cursor.extract_version import ExtractVersion, SnapshotVersion
from lakehouse.delta.text import Literal as Value
from lakehouse.delta.text import fold
from lakehouse.read.asset import PastRows
from lakehouse.read.changes import Changes
from lakehouse.read.touched import Touched
from lakehouse.writes.aggregate import Aggregate


@dataclass(frozen=True, slots=True)
class Append:
    """Adds rows and never touches an existing row.

    An asset with `Changes` adds each change once. A partitioned asset without `Changes` adds what the partition lacks,
    and fails if the result lacks rows that were added before. An asset with neither adds its rows at every
    materialization.

    Args:
        rows: The rows to add.

    Raises:
        TypeError: Something else than rows of Spark.
    """

    rows: DataFrame

    def __post_init__(self) -> None:
        _refuse_other(self, "rows", DataFrame, "a DataFrame of Spark")


@dataclass(frozen=True, slots=True)
class Overwrite:
    """The table, or this run's partitions of it, holds exactly these rows.

    Quiet: with a key only rows that differ are written. Without a key nothing is written if the content is the same.
    Rows of other partitions than the run's are left out.

    Args:
        rows: What the table holds afterwards.

    Raises:
        TypeError: Something else than rows of Spark.
    """

    rows: DataFrame

    def __post_init__(self) -> None:
        _refuse_other(self, "rows", DataFrame, "a DataFrame of Spark")


@dataclass(frozen=True, slots=True)
class Merge:
    """For every touched key the table holds exactly these rows; all other keys keep theirs.

    A filter, a delete, a key change or a re-insert upstream therefore needs no special case. NULL is a key like any
    other. Rows that did not change are not written.

    Args:
        rows: The rows of the touched keys, and of no other.
        touched: The keys that this write is about. Their columns are columns of the table.

    Raises:
        TypeError: Something else than rows of Spark and touched keys.
    """

    rows: DataFrame
    touched: Touched

    def __post_init__(self) -> None:
        _refuse_other(self, "rows", DataFrame, "a DataFrame of Spark")
        _refuse_other(self, "touched", Touched, "touched keys, as changes.touched(...) gives them")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The table holds exactly this extract, the whole of a source at one version; inside the scope, if there is one.

    An extract that is older than the table's is refused. The same version again replaces what it wrote, and the same
    rows again write nothing. A column that the extract lacks keeps its stored values, and is NULL for new keys.

    Args:
        rows: The extract: one row for each key of the table.
        version: The version of the extract: an int, a date or a datetime (UTC if it has no zone), of one type for ever.
        scope: The columns that say for which part of the table the extract is complete. That part is every stored row
            whose values in these columns occur in the extract. A mapping lists the delivered values of each column, so
            a value without rows deletes its rows. Empty: the extract is complete for the whole table.
        max_deleted: The largest share of the stored rows in scope that one extract may delete, from 0 to 1; None for
            any. An extract without rows is held back unless the share is 1.
        on_older: What to do with an extract that is older than the table's.

    Raises:
        TypeError: Something else than rows of Spark, or a version of another type.
        ValueError: A share outside 0 to 1, another word for `on_older`, a scope without values or with a column twice.

    AUTO CDC from snapshots: R28 to R30 (docs/reference/scd.md).
    """

    rows: DataFrame
    version: SnapshotVersion
    scope: str | Sequence[str] | Mapping[str, Sequence[Value]] = ()
    max_deleted: float | None = None
    on_older: Literal["fail", "ignore"] = "fail"

    def __post_init__(self) -> None:
        _refuse_other(self, "rows", DataFrame, "a DataFrame of Spark")
        ExtractVersion.of(self.version)
        if self.max_deleted is not None and not 0 <= self.max_deleted <= 1:
            raise ValueError(f"max_deleted is a share of rows from 0 to 1, not {self.max_deleted}.")
        if self.on_older not in ("fail", "ignore"):
            raise ValueError(f"on_older is 'fail' or 'ignore', not {self.on_older!r}.")
        if len(fold(self.scope_columns)) < len(self.scope_columns):
            raise ValueError(f"scope names a column once, not {', '.join(self.scope_columns)}.")
        if isinstance(self.scope, Mapping):
            for name, values in self.scope.items():
                if isinstance(values, str | bytes) or not values:
                    raise ValueError(f"scope lists the delivered values of {name}, not {values!r}.")

    @property
    def scope_columns(self) -> tuple[str, ...]:
        return (self.scope,) if isinstance(self.scope, str) else tuple(self.scope)


@dataclass(frozen=True, slots=True)
class History:
    """The table holds every row that the source has had, each with the interval in which it was there (SCD type 2).

    `Table(key=...)` names the entity: the columns that identify a row of the source. A row of the history is identified
    by them and its start. Of one commit of the source only its net effect on an entity counts. A change of a tracked
    column ends the current row and begins another; a change of other columns alone updates it in place; a delete ends
    it, and an insert of the same key begins another. What the table says of the past stays, even if the source forgets.

    Args:
        changes: The changes of the source, read without `start`, `exclude_operations` and `exclude_metadata`; or an
            extract of the source, whose version is the moment from which its rows hold.
        track: The columns a change of which begins a new row; None for all but the entity's.
        start_at: The column with the moment from which a row holds: the time of the commit, or the extract's version.
        end_at: The column with the moment at which it ceased to; NULL while it holds.

    Raises:
        TypeError: Something else than changes or an extract.
        ValueError: One name for two things.

    The rules of SCD type 2 in AUTO CDC: R19 to R21 (docs/reference/scd.md).
    """

    changes: Changes | Snapshot
    track: str | Sequence[str] | None = None
    start_at: str = "__START_AT"
    end_at: str = "__END_AT"

    def __post_init__(self) -> None:
        _refuse_other(self, "changes", Changes | Snapshot, "the Changes of an input, or a Snapshot")
        tracked = self.tracked_columns or ()
        if len(fold(tracked)) < len(tracked):
            raise ValueError(f"A History tracks a column once, not {', '.join(tracked)}.")
        if self.start_at.lower() == self.end_at.lower() or not self.start_at or not self.end_at:
            raise ValueError(f"A History names its start and its end differently, not {self.start_at!r} both times.")

    @property
    def tracked_columns(self) -> tuple[str, ...] | None:
        """The columns that were named; None for all but the entity's."""
        if self.track is None:
            return None
        return (self.track,) if isinstance(self.track, str) else tuple(self.track)

    @property
    def tracked_text(self) -> str:
        """The tracked columns as a text, for the mark: another choice would have ended other rows in the past."""
        return (
            "all columns"
            if self.tracked_columns is None
            else ", ".join(sorted(fold(self.tracked_columns))) or "no column"
        )


def _refuse_other(write: object, name: str, kind: type | UnionType, words: str) -> None:
    """Refuses an argument of another type where it is passed, and not where its table is written."""
    value = getattr(write, name)
    if not isinstance(value, kind):
        package = type(value).__module__.partition(".")[0]
        given = type(value).__name__ if package in ("builtins", "lakehouse") else f"{type(value).__name__} of {package}"
        raise TypeError(f"The argument `{name}` of {type(write).__name__} is {words}, and not: {given}.")


Stated: TypeAlias = Append | Overwrite | Merge | Snapshot
"""The writes that state rows which the table is to hold."""
Write: TypeAlias = Stated | Aggregate | History
"""What an asset returns."""


class Kind(Enum):
    """The write that an asset returns."""

    APPEND = Append
    OVERWRITE = Overwrite
    MERGE = Merge
    AGGREGATE = Aggregate
    HISTORY = History
    SNAPSHOT = Snapshot

    @property
    def needs_key(self) -> bool:
        """Whether the table must declare a key, because rows are found by it."""
        return self not in (Kind.APPEND, Kind.OVERWRITE)

    @property
    def past(self) -> PastRows:
        """What the write does with the rows of earlier runs."""
        match self:
            case Kind.APPEND:
                return PastRows.APPENDED
            case Kind.OVERWRITE | Kind.MERGE | Kind.AGGREGATE:
                return PastRows.COMPUTED
            case Kind.HISTORY:
                return PastRows.KEPT
            case Kind.SNAPSHOT:
                return PastRows.DELIVERED

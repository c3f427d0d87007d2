"""One version of a Delta table as its `commitInfo` describes it: its operation, and how many rows it changed."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self, cast


@dataclass(frozen=True, slots=True)
class Rows:
    """How many rows a commit inserted, updated and deleted; a count is None if it is not recorded."""

    inserted: int | None
    updated: int | None
    deleted: int | None

    def __str__(self) -> str:
        named = {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}
        counts = [f"{count:,} {name}" for name, count in named.items() if count]
        unknown = [name for name, count in named.items() if count is None]
        return ", ".join(counts + [f"{' or '.join(unknown)} not counted"] * bool(unknown)) or "none"

    @property
    def sentence(self) -> str:
        """What changed, in words: "2 rows changed: 1 updated, 1 deleted", "3 rows inserted"."""
        if self.images is None:
            return f"rows changed: {self}" if self.total else "rows changed, and the commit does not say how many"
        named = {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}
        match [(name, count) for name, count in named.items() if count]:
            case []:
                return "no row changed"
            case [(name, count)]:
                return f"{count_of(count, 'row')} {name}"
            case _:
                return f"{count_of(self.total, 'row')} changed: {self}"

    @property
    def total(self) -> int:
        """The sum of the counts that are known."""
        return sum(count or 0 for count in (self.inserted, self.updated, self.deleted))

    @property
    def images(self) -> int | None:
        """How many rows of the feed describe these changes; None if a count is not known."""
        if self.inserted is None or self.updated is None or self.deleted is None:
            return None
        return self.inserted + 2 * self.updated + self.deleted

    def __add__(self, other: "Rows") -> "Rows":
        def add(a: int | None, b: int | None) -> int | None:
            return None if a is None or b is None else a + b

        return Rows(
            add(self.inserted, other.inserted), add(self.updated, other.updated), add(self.deleted, other.deleted)
        )


NO_ROWS = Rows(0, 0, 0)


def count_of(count: int, noun: str) -> str:
    """A count with its noun: "1 row", "2,000 rows"."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


WITHOUT_ROWS = frozenset(
    {
        "OPTIMIZE",
        "REORG",
        "OPTIMIZE CHECKPOINT",
        "VACUUM START",
        "VACUUM END",
        "CREATE TABLE",
        "SET TBLPROPERTIES",
        "UNSET TBLPROPERTIES",
        "ADD COLUMNS",
        "ADD COLUMN",  # as delta-rs names it
        "CHANGE COLUMN",
        "CHANGE COLUMNS",
        "REPLACE COLUMNS",
        "RENAME COLUMN",
        "DROP COLUMNS",
        "ADD CONSTRAINT",
        "DROP CONSTRAINT",
        "UPGRADE PROTOCOL",
        "DROP FEATURE",
        "Deletion Vector Tombstones",  # committed by DROP FEATURE deletionVectors
        "CLUSTER BY",
        "COMPUTE STATS",
        "ROW TRACKING BACKFILL",
        "ROW TRACKING UNBACKFILL",
        "DOMAIN METADATA CLEANUP",
        "Empty Commit",
    }
)
"""Operations that change no row, by Delta's names. An unknown operation is assumed to change rows."""

COMPACTING = frozenset({"OPTIMIZE", "REORG"})
"""Operations that Delta may commit by itself after another commit, with the `userMetadata` of that commit."""

UPKEEP = COMPACTING | {"VACUUM START", "VACUUM END"}
"""Operations that keep a table in shape."""

REPLACING = frozenset(
    {
        "REPLACE TABLE",
        "REPLACE TABLE AS SELECT",
        "CREATE OR REPLACE TABLE",
        "CREATE OR REPLACE TABLE AS SELECT",
        "CLONE",
        "TRUNCATE",
    }
)
"""Operations after which the table's rows no longer come from its earlier commits."""

RETYPING = frozenset({"CHANGE COLUMN", "CHANGE COLUMNS", "REPLACE COLUMNS"})
"""Operations that change no row but may change the type of a column."""
COLUMN_CHANGES = RETYPING | {"RENAME COLUMN", "DROP COLUMNS"}
"""Operations that change no row, but the columns that rows have."""
SCHEMA_CHANGES = COLUMN_CHANGES | {"SET TBLPROPERTIES", "UNSET TBLPROPERTIES"}
"""Operations that change no row, but across which the feed cannot be read; it is read before and after them."""

_COUNTS = {
    "MERGE": ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted"),
    "UPDATE": (None, "numUpdatedRows", None),
    "DELETE": (None, None, "numDeletedRows"),
}
_OF_SOME = ("replaceOnCond", "replaceUsingCols")
"""Parameters of an overwrite that select the rows it replaces, as a predicate does."""
_FILES_ADDED = ("numTargetFilesAdded", "numAddedFiles", "numFiles")
_FILES_REMOVED = ("numTargetFilesRemoved", "numRemovedFiles")


@dataclass(frozen=True, slots=True)
class Commit:
    """One version of a table, as its `commitInfo` describes it.

    Args:
        version: The Delta version.
        timestamp: Milliseconds since the epoch.
        operation: Delta's name of the operation: MERGE, WRITE, OPTIMIZE, RESTORE, ...
        parameters: The operation's parameters, as text.
        metrics: The operation's metrics.
        user_metadata: What the writer recorded; in a commit of this library, a mark.
        identity: A text that no other commit has: Delta's transaction id, or the path of a file that the commit adds
            or removes. None if it was not read, as through `DESCRIBE HISTORY`.
    """

    version: int
    timestamp: int
    operation: str
    parameters: Mapping[str, str | None] = field(default_factory=dict[str, str | None])
    metrics: Mapping[str, int] = field(default_factory=dict[str, int])
    user_metadata: str | None = None
    identity: str | None = None

    @classmethod
    def of(cls, version: int, timestamp: int, info: Mapping[str, Any], identity: str | None = None) -> Self:
        """A commit from its `commitInfo`, with the metrics that are numbers."""
        parameters: Mapping[str, Any] = info.get("operationParameters") or {}
        metrics: Mapping[str, Any] = info.get("operationMetrics") or {}
        return cls(
            version,
            timestamp,
            str(info.get("operation") or "UNKNOWN"),
            {name: None if value is None else str(value) for name, value in parameters.items()},
            {name: int(value) for name, value in metrics.items() if str(value).lstrip("-").isdigit()},
            info.get("userMetadata"),
            identity,
        )

    @property
    def digest(self) -> str:
        """Distinguishes commits of the same version: a digest of the operation, the metrics and the `userMetadata`.

        If the identity is known, a digest of it follows after a dot. The time is left out: Delta takes the time from
        the file, and a copy of the file has another time.
        """
        described = _short(json.dumps([self.operation, sorted(self.metrics.items()), self.user_metadata]), 16)
        return described if self.identity is None else f"{described}.{_short(self.identity, 8)}"

    def has_digest(self, digest: str) -> bool:
        """Whether a digest may belong to this commit. The identities are compared if both digests contain one."""
        described, _, identity = self.digest.partition(".")
        other, _, of_other = digest.partition(".")
        return described == other and (not identity or not of_other or identity == of_other)

    @property
    def rows(self) -> Rows:
        """What the commit did to rows, by its own metrics."""
        if self.operation in WITHOUT_ROWS:
            return NO_ROWS
        if names := _COUNTS.get(self.operation):
            counts = [0 if name is None else self.metrics.get(name) for name in names]
            return Rows(*counts)
        written = self.metrics.get("numOutputRows")
        match self._mode:
            case "Append" | "ErrorIfExists":
                return Rows(written, 0, 0)
            case "Overwrite" | "Ignore" | "Complete":
                copied = self.metrics.get("numCopiedRows", 0)
                inserted = None if written is None else written - copied
                return Rows(inserted, 0, self.metrics.get("numDeletedRows", 0 if self.is_first else None))
            case _:
                return Rows(None, None, None)

    @property
    def _mode(self) -> str | None:
        """How a write of whole files treats the existing rows; None for every other operation."""
        match self.operation:
            case "WRITE":
                return self.parameters.get("mode")
            case "STREAMING UPDATE":
                return self.parameters.get("outputMode")
            case "CREATE TABLE AS SELECT":
                return "ErrorIfExists"
            case _:
                return None

    @property
    def is_first(self) -> bool:
        return self.version == 0

    @property
    def is_quiet(self) -> bool:
        """Whether the commit is known to have changed no row."""
        return self.rows == NO_ROWS

    @property
    def concerns_readers(self) -> bool:
        """Whether readers have to look at the commit: it may have changed a row, or the columns that rows have."""
        return not self.is_quiet or self.operation in COLUMN_CHANGES

    @property
    def freed_columns(self) -> frozenset[str] | None:
        """The columns that the commit itself dropped or renamed, as paths in lower case; None: it may be any column.

        Delta names them in the parameters of the operation; other writers may record no parameters.
        """
        match self.operation:
            case "RENAME COLUMN":
                paths = [self.renaming[0]] if self.renaming is not None else None
            case "DROP COLUMNS":
                columns = _json(self.parameters.get("columns"))
                paths = cast("list[Any]", columns) if isinstance(columns, list) else None
            case _:
                paths = []
        return None if paths is None else frozenset(str(path).replace("`", "").lower() for path in paths)

    @property
    def renaming(self) -> tuple[str, str] | None:
        """The old and the new name of the column that the commit renamed; a field within a column is a path.

        None if the commit renamed no column, or if it does not record which; then `freed_columns` is None too.
        """
        old, new = (self.parameters.get(name) for name in ("oldColumnPath", "newColumnPath"))
        if self.operation != "RENAME COLUMN" or old is None or new is None:
            return None
        return _one_part(old), _one_part(new)

    @property
    def keeps_feed(self) -> bool | None:
        """Whether the commit switched the change data feed on (True) or off (False); None if it did neither."""
        name = "delta.enablechangedatafeed"
        match self.operation, _json(self.parameters.get("properties")):
            case "SET TBLPROPERTIES", {**properties}:
                value = next((value for key, value in properties.items() if key.lower() == name), None)
                return None if value is None else str(value).lower() == "true"
            case "UNSET TBLPROPERTIES", [*names]:
                return False if name in (str(each).lower() for each in names) else None
            case _:
                return None

    @property
    def bytes_written(self) -> int:
        """Bytes of the rows that the commit added, by its metrics; 0 without such a metric, or if it changed no row."""
        names = () if self.is_quiet else ("numOutputBytes", "numTargetBytesAdded", "numAddedBytes")
        return next((self.metrics[name] for name in names if self.metrics.get(name)), 0)

    @property
    def files_added(self) -> int:
        """Files that the commit added, by its metrics; 0 if it has no such metric."""
        return next((self.metrics[name] for name in _FILES_ADDED if name in self.metrics), 0)

    @property
    def files_removed(self) -> int:
        """Files that the commit removed, by its metrics; 0 if it has no such metric."""
        return next((self.metrics[name] for name in _FILES_REMOVED if name in self.metrics), 0)

    @property
    def empties(self) -> bool:
        """Whether the commit removed every row that the table had before."""
        if self.operation in REPLACING:
            return True
        predicate = self.parameters.get("predicate")
        if self.operation == "DELETE":
            return predicate in (None, "", "[]", '["true"]')
        return self._mode == "Complete" or (
            self._mode == "Overwrite"
            and predicate in (None, "", "[]", "true")
            and self.parameters.keys().isdisjoint(_OF_SOME)
            and not (self._is_dynamic and self.parameters.get("partitionBy") not in (None, "[]"))
            and not self.is_first
        )

    @property
    def _is_dynamic(self) -> bool:
        """Whether an overwrite replaced only partitions that it has rows for. Delta records it for every table."""
        return (self.parameters.get("isDynamicPartitionOverwrite") or "").lower() == "true"

    @property
    def leaves_nothing(self) -> bool:
        """Whether the table is known to have no row afterwards. Some writers record no predicate for a `DELETE`."""
        emptied = self.operation in ("TRUNCATE", "REPLACE TABLE", "CREATE OR REPLACE TABLE") or (
            self.operation == "DELETE" and "predicate" in self.parameters
        )
        return self.empties and (emptied or (self.metrics.get("numOutputRows") == 0 and not self._is_dynamic))

    @property
    def may_change_layout(self) -> bool:
        """Whether the commit may have changed rows together with the partitioning or the types of columns."""
        free = self.parameters.get("canOverwriteSchema") or ""
        return not self.is_first and (
            self.operation == "RESTORE"
            or (self.operation in REPLACING and self.operation != "TRUNCATE")
            or free.lower() == "true"
        )

    @property
    def overwrites_all(self) -> bool:
        """Whether the commit replaced the whole table. Delta before 4.1 and streams do not record what else changed."""
        return self._mode is not None and self.empties

    @property
    def restored_version(self) -> int | None:
        """The version that a RESTORE restored; None if the statement gave a timestamp."""
        version = self.parameters.get("version")
        return int(version) if version is not None and version.isdecimal() else None


def _short(text: str, characters: int) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:characters]


def _json(text: str | None) -> Any:
    """The value of a text as JSON; None if there is not a text, or if it is not JSON."""
    try:
        return json.loads(text or "")
    except ValueError:
        return None


def _one_part(path: str) -> str:
    """A path of one part as a name without quotes: Delta quotes only names that contain a dot."""
    inner = path[1:-1]
    return inner if path == f"`{inner}`" and "`" not in inner else path

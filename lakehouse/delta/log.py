"""The log of a Delta table: where it stands, its commits, how much it holds, how long it keeps what readers need."""

import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol, Self, TypeAlias

from lakehouse.delta.commit_info import NO_ROWS, Commit
from lakehouse.delta.limits import limits
from lakehouse.delta.text import fold
from lakehouse.errors import UnreadableLogError

NOTHING_READ = -1
READER = "lakehouse.readers."
"""The prefix of the properties that name the registered readers of a table."""
BRANCH_READER = "branch/"
"""The prefix of the names of readers that are branches: they need the files of one version, and read no changes."""


@dataclass(frozen=True, slots=True)
class VersionRange:
    """The versions `(after, upto]` of one table: `after` exclusive, `upto` inclusive, never open-ended.

    Args:
        after: The last version read before; `NOTHING_READ` if nothing was read.
        upto: The last version of this range, pinned before anything is read.

    Raises:
        ValueError: The range ends before it starts, or starts before the first possible version.
    """

    after: int
    upto: int

    def __post_init__(self) -> None:
        if self.after < NOTHING_READ:
            raise ValueError(f"A range starts after version {NOTHING_READ} or later, not after {self.after}.")
        if self.upto < self.after:
            raise ValueError(f"The range ({self.after}, {self.upto}] ends before it starts.")

    @property
    def is_empty(self) -> bool:
        return self.upto == self.after

    def __len__(self) -> int:
        return self.upto - self.after

    def __str__(self) -> str:
        return f"({self.after}, {self.upto}]"


@dataclass(frozen=True, slots=True)
class Size:
    """What the files of a table hold, including the rows that deletion vectors hide."""

    rows: int
    bytes: int
    files: int = 0

    def __add__(self, other: "Size") -> "Size":
        return Size(self.rows + other.rows, self.bytes + other.bytes, self.files + other.files)

    def fits(self, most: "Size") -> bool:
        """Whether neither rows nor bytes exceed `most`."""
        return self.rows <= most.rows and self.bytes <= most.bytes


def total(sizes: Sequence[Size | None]) -> Size | None:
    """The sum of the sizes; None if there are none, or if one of them is not known."""
    present = [size for size in sizes if size is not None]
    return sum(present, Size(0, 0)) if present and len(present) == len(sizes) else None


BRING_IT_BACK = "Restore the missing files of _delta_log from a backup, or recreate the table."
"""The remedy if commits are missing."""
READ_IT_LATER = "Check _delta_log, its permissions and storage credentials, and run it again when the log can be read."
"""The remedy if commits cannot be read."""


@dataclass(frozen=True, slots=True)
class Head:
    """Where a table stands, all of it read from one snapshot.

    Args:
        version: The latest version.
        table_id: The id in the table's metadata; a recreated table has another id.
        properties: The table's properties.
        partition_columns: The columns its files are partitioned by.
    """

    version: int
    table_id: str
    properties: Mapping[str, str]
    partition_columns: tuple[str, ...]

    @property
    def maps_columns(self) -> bool:
        """Whether columns can be dropped and renamed, because they have other names in the files."""
        return self.properties.get("delta.columnMapping.mode", "none").lower() != "none"

    @property
    def widens_types(self) -> bool:
        """Whether any write may give a column a wider type."""
        return self.properties.get("delta.enableTypeWidening", "false").lower() == "true"

    @property
    def has_vectors(self) -> bool:
        """Whether a row can be deleted without rewriting its file."""
        return self.properties.get("delta.enableDeletionVectors", "false").lower() == "true"

    @property
    def keeps_feed(self) -> bool:
        return keeps_feed(self.properties)


def keeps_feed(properties: Mapping[str, str]) -> bool:
    """Whether a table with these properties keeps a change data feed."""
    return properties.get("delta.enableChangeDataFeed", "false").lower() == "true"


NO_TABLE = -1
"""The version of a table that does not exist: its first commit has the next version."""


def version_of(head: Head | None) -> int:
    """The version of a table; `NO_TABLE` if it does not exist."""
    return NO_TABLE if head is None else head.version


@dataclass(frozen=True, slots=True)
class FileSchema:
    """What is needed to read the files of one version of a table.

    Args:
        partition_columns: The columns that the version is partitioned by.
        fields: The columns as Delta's log writes them: `name`, `type`, `nullable`, `metadata`.
        keeps_feed: Whether the commit of the version has a change data feed.
    """

    partition_columns: tuple[str, ...]
    fields: tuple[Mapping[str, Any], ...]
    keeps_feed: bool = True

    @property
    def types(self) -> dict[str, str]:
        """The type of each column, as Delta's log writes it, or Spark for a CHAR; names in lower case."""
        described = ((field, padded_type(field.get("metadata") or {})) for field in self.fields)
        return {field["name"].lower(): padded or json.dumps(field["type"]) for field, padded in described}

    @property
    def fillings(self) -> dict[str, str]:
        """How Delta itself fills each column that a writer may leave out, as a clause; names in lower case."""
        words = {field["name"].lower(): _filling_of(field.get("metadata") or {}) for field in self.fields}
        return {name: how for name, how in words.items() if how is not None}

    @property
    def computed_columns(self) -> frozenset[str]:
        """The columns whose values Delta itself computes, in lower case: generated columns and identity columns."""
        return frozenset(field["name"].lower() for field in self.fields if _COMPUTED & set(field.get("metadata") or ()))

    def reads_as(self, older: Self) -> bool:
        """Whether files of the older version have the same meaning if they are read with this schema."""
        now, then = (fold(of.partition_columns) for of in (self, older))
        columns, former = self._columns_of_files, older._columns_of_files
        names, former_names = ({of_file: name for name, (of_file, _) in of.items()} for of in (columns, former))
        return (
            now == then
            and all(former.get(name, column) == column for name, column in columns.items())
            and all(former_names.get(of_file, name) == name for of_file, name in names.items())
        )

    @property
    def _columns_of_files(self) -> dict[str, tuple[str, str]]:
        """The name of each column in files, and its type; names in lower case."""
        of_files = map(_physical_name, self.fields)
        return {name: (of_file, kind) for (name, kind), of_file in zip(self.types.items(), of_files, strict=True)}


CHAR = "__CHAR_VARCHAR_TYPE_STRING"
"""The metadata key with which Spark marks a column that it shows as STRING as a CHAR."""
_PADDED = re.compile(r"\bchar\(")


def padded_type(metadata: Mapping[str, Any]) -> str | None:
    """The type of a column with CHARs, which Delta's log writes as texts; None for other columns."""
    kind = str(metadata.get(CHAR))
    return kind if _PADDED.search(kind) else None


def _physical_name(field: Mapping[str, Any]) -> str:
    """The name of a column in files, in lower case: with column mapping, it may be another one than in the table."""
    metadata: Mapping[str, Any] = field.get("metadata") or {}
    return str(metadata.get("delta.columnMapping.physicalName", field["name"])).lower()


_COMPUTED = {"delta.generationExpression", "delta.identity.start"}


def _filling_of(metadata: Mapping[str, Any]) -> str | None:
    """How Delta fills a column, by PROTOCOL.md: "Generated Columns", "Identity Columns", "Default Columns"."""
    if "delta.generationExpression" in metadata:
        expression = metadata["delta.generationExpression"]
        return f"which Delta generates as {expression}: add it to the result with this expression"
    if "delta.identity.start" in metadata:
        return (
            "an identity column, whose numbers no recompute gives again: drop it from the table, and number the rows "
            "by their key in the asset, for example xxhash64(...)"
        )
    if "CURRENT_DEFAULT" in metadata:
        default = metadata["CURRENT_DEFAULT"]
        return f"whose default {default} is for INSERT statements: add it to the result, for example as {default}"
    return None


class Commits(Protocol):
    """The commits of a table."""

    def commits(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        """The commits from `newest` down to `oldest`, lazily; fewer if older commits were cleaned up."""
        ...


class Log(Commits, Protocol):
    """The log of a table. No row is read: the cost depends on the commits read, and for `size` on the files listed."""

    def head(self) -> Head | None:
        """Where the table stands now; None if there is no Delta table."""
        ...

    def size(self) -> Size | None:
        """How much the table holds now, an empty size if there is no table; None if this log does not know."""
        ...

    def live_rows(self, version: int) -> int | None:
        """How many rows the table holds at a version; None if this log cannot count them, or only by reading much."""
        ...

    def file_schema(self, version: int) -> FileSchema | None:
        """How the files of a version are read; None if this log does not know, or no longer knows."""
        ...

    def growths(self, versions: Collection[int]) -> Mapping[int, int | None]:
        """By how many rows the table grew in each of the given commits that tells its changes itself.

        A growth is None if no statistics show it. A log that does not know which commits tell their changes gives None
        for all of them.
        """
        ...

    def epoch(self, application_id: str, version: int) -> int | None:
        """The highest `txnVersion` of an application id at a version; 0 if there is none, None if unknown."""
        ...


Opened: TypeAlias = Mapping[str, tuple[Log, Head]]
"""Logs that are open, and where their tables stand, by the names of the tables."""


def commits_between(log: Commits, table: str, after: int, upto: int) -> tuple[Commit, ...] | None:
    """The commits `(after, upto]` in order; None if the oldest of them were cleaned up.

    Raises:
        UnreadableLogError: A commit in the middle is missing. Delta itself only logs this (`CDCReader`), and the
            changes of that commit would be lost.
    """
    if after >= upto:
        return ()
    commits = sorted(log.commits(upto, after + 1), key=lambda commit: commit.version)
    versions = [commit.version for commit in commits]
    if not versions or versions[-1] != upto or versions != list(range(versions[0], upto + 1)):
        present = set(versions)
        missing = [v for v in range(versions[0] if versions else after + 1, upto + 1) if v not in present]
        more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
        raise UnreadableLogError.unreadable_log(
            table,
            f"of versions ({after}, {upto}] these are missing: {', '.join(map(str, missing[:10]))}{more}",
            BRING_IT_BACK,
        )
    return tuple(commits) if versions[0] == after + 1 else None


def commit_at(log: Commits, version: int) -> Commit | None:
    """The commit of a version; None if it was cleaned up."""
    return next(log.commits(version, version), None)


def newest_first(read: Callable[[int], Sequence[Commit]], newest: int, oldest: int) -> Iterator[Commit]:
    """The commits from `newest` down to `oldest`, in pages of the latest commits that `read` returns.

    The first page is small, because the cursor is nearly always near. The pages grow, so that the cost of a long walk
    stays linear.
    """
    oldest_read, page = newest + 1, 32
    while oldest_read > oldest:
        batch = read(page)
        for commit in sorted(batch, key=lambda commit: -commit.version):
            if commit.version < oldest_read:
                oldest_read = commit.version
                if commit.version >= oldest:
                    yield commit
        if len(batch) < page:
            return
        page *= 8


LOG_RETENTION, FILE_RETENTION = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"
UNITS = ("microsecond", "millisecond", "second", "minute", "hour", "day", "week")
_PART = re.compile(r"(-?\d+)\s+([a-z]+?)s?\b")


def interval(text: str) -> timedelta | None:
    """A duration as Delta writes one ("interval 30 days"); None if the text has another form.

    Delta: `DeltaConfigs.parseCalendarInterval`; months and years are refused there.
    """
    body = text.strip().lower().removeprefix("interval").strip()
    parts = _PART.findall(body)
    if not parts or _PART.sub("", body).strip() or any(unit not in UNITS for _, unit in parts):
        return None
    return sum((timedelta(**{f"{unit}s": int(number)}) for number, unit in parts), timedelta())


_SHORT = re.compile(r"(\d+)\s*(min|h|d|w)")
_LONG = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def limit_from(text: str) -> timedelta | None:
    """A limit as a user writes one: "14d", "36 h", "2 weeks", "interval 14 days"; None if it is not above zero."""
    short = _SHORT.fullmatch(text.strip())
    limit = interval(text if short is None else f"{short[1]} {_LONG[short[2]]}")
    return limit if limit is not None and limit > timedelta() else None


def as_interval(limit: timedelta) -> str:
    """A limit as Delta writes one, in the largest unit that gives a whole number."""
    seconds = int(limit.total_seconds())
    sizes = (("days", 86_400), ("hours", 3_600), ("seconds", 1))
    unit, size = next((unit, size) for unit, size in sizes if seconds % size == 0)
    return f"interval {seconds // size} {unit}"


def files_kept(head: Head) -> timedelta:
    """For how long Delta keeps files that the newest version does not use; seven days unless a property sets it."""
    return interval(head.properties.get(FILE_RETENTION, "")) or timedelta(days=7)


def log_kept(head: Head) -> timedelta:
    """For how long Delta keeps the log; thirty days unless a property sets it."""
    return interval(head.properties.get(LOG_RETENTION, "")) or timedelta(days=30)


def feed_retention(head: Head) -> timedelta:
    """For how long after its commit a change can be read: the log and the files of the change must both be there.

    A cleanup may come late, never early. Delta's defaults are 30 days for the log and 7 days for files that VACUUM
    may remove, change files among them.
    """
    return min(log_kept(head), files_kept(head))


def rows_about(log: Log, version: int) -> int | None:
    """How many rows a table holds; if counting them costs too much, including those that deletion vectors hide."""
    rows, size = log.live_rows(version), log.size()
    return rows if rows is not None or size is None else size.rows


def images_of_many_rows(
    commits: Iterable[Commit], tables: Iterable[tuple[Log, int]], share: float
) -> tuple[int, int] | None:
    """How many images of changed rows commits have, and how many rows the largest table has; None if images are few.

    Images are many from `share` images per row of the largest table on, and never below `Limits.changes_to_count`.
    """
    images = sum((commit.rows for commit in commits), NO_ROWS).images
    if images is None or images < limits().changes_to_count:
        return None
    counts = [rows_about(log, version) for log, version in tables]
    rows = max(filter(None, counts), default=0)
    return None if None in counts or images < rows * share else (images, rows)

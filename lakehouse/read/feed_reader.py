"""The changes of a pinned source's range as rows: from its feed, or by comparing two versions."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.cursor.mark import mark_in
from lakehouse.delta.commit_info import NO_ROWS, SCHEMA_CHANGES, Commit
from lakehouse.delta.limits import limits
from lakehouse.delta.log import Log
from lakehouse.delta.text import quote
from lakehouse.read.changes import LOG_NAMES
from lakehouse.read.content import CHANGE, DELETE, INSERT, TIMESTAMP, VERSION, Feed, Nothing
from lakehouse.read.feed_trust import Telling, find_contradiction, images_of, telling
from lakehouse.spark.diagnosis import Meaning, OtherFieldsError, diagnose
from lakehouse.spark.driver_rows import MORE, Local, bag_difference, is_empty, small
from lakehouse.spark.fitting import conform
from lakehouse.spark.progress import watching
from lakehouse.spark.session import interpreting
from lakehouse.spark.table_version import TableRef, TableVersion
from lakehouse.spark.types import field_names, padding_like


def replaced_within(commits: tuple[Commit, ...]) -> str | None:
    """A condition that every removed or added row of the commits fulfils; None if none is known."""
    predicates = [_predicate(commit) for commit in commits if not commit.is_quiet]
    terms = [f"({predicate})" for predicate in predicates if predicate is not None]
    return " OR ".join(terms) if terms and len(terms) == len(predicates) <= limits().replaced_predicates else None


def _predicate(commit: Commit) -> str | None:
    """The predicate of an own overwrite, of keys alone: one of a user may depend on session or time zone (ADR 39)."""
    predicate, mark = commit.parameters.get("predicate"), mark_in(commit)
    if (
        mark is None
        or mark.owned is not None
        or commit.operation != "WRITE"
        or commit.parameters.get("mode") != "Overwrite"
    ):
        return None
    return None if predicate in (None, "", "[]", "true") or "TIMESTAMP" in predicate else predicate


def feed_by_commit(at: TableVersion, commits: tuple[Commit, ...], first: int, last: int) -> DataFrame:
    """The feed of a range, read version by version. A version whose feed fails is compared with the version before it.

    The versions `first` to `last` have one schema.
    """
    with_rows = (commit for commit in commits if first <= commit.version <= last and not commit.is_quiet)
    return at.unite([_feed_of(at, commit) for commit in with_rows])


def _feed_of(at: TableVersion, commit: Commit) -> DataFrame:
    feed = at.feed(commit.version, commit.version)
    try:
        is_empty(feed)
    except Exception as error:
        if Meaning.VECTORS_TOO_LARGE not in diagnose(error):
            raise
        return _compare(at, commit)
    return feed


def _compare(at: TableVersion, commit: Commit) -> DataFrame:
    """The rows by which a version differs from the version before; an update shows as a delete and an insert."""
    after, before = (
        replace(at, version=version, where=None).rows() for version in (commit.version, commit.version - 1)
    )
    differing = bag_difference(after, conform(before, after.schema))
    change = f"IF({MORE} > 0, '{INSERT}', '{DELETE}') AS {CHANGE}"
    columns = [quote(name) for name in after.columns]
    each = differing.selectExpr(*columns, change, f"explode(sequence(1L, abs({MORE}))) AS __n")
    return each.drop("__n").withColumns(
        {VERSION: F.lit(commit.version).cast("bigint"), TIMESTAMP: F.timestamp_millis(F.lit(commit.timestamp))}
    )


_Range: TypeAlias = tuple[TableRef, str, int, str | None, tuple[Commit, ...]]
"""A table, its id, the version whose schema the rows have, a predicate, and the commits."""
_Read: TypeAlias = Callable[[int, int], DataFrame]
"""Reads the feed from a first version to a last one."""
_Piece: TypeAlias = tuple[int, int, Mapping[str, str]]
"""The first and the last version of a piece, and the columns that were renamed after it."""


@dataclass(frozen=True, slots=True)
class _Held:
    range: _Range
    schema: StructType
    arrow: Any


@dataclass(frozen=True, slots=True)
class _FeedPlan:
    """How the feed of a range is read.

    Args:
        at: The table, pinned at the end of the range.
        pieces: The pieces of the range.
        within: A condition that every row of the pieces fulfils; None if none is known.
        weighed: The commits whose changes are weighed.
        many: Whether the commits changed more rows, by their metrics, than come to the driver.
    """

    at: TableVersion
    pieces: Sequence[_Piece]
    within: str | None
    weighed: Sequence[Telling]
    many: bool

    def read(self, feed: _Read) -> Local | DataFrame | str:
        """The rows, at the driver if they are few; or why they are not believed."""
        frame = self._frame(feed)
        local = None if self.many else small(frame)
        rows = frame if local is None else local
        if not self.weighed:
            return rows
        types = rows if isinstance(rows, Local) and self.at.where is None else self._types(feed)
        return find_contradiction(self.weighed, images_of(types)) or rows

    def _frame(self, feed: _Read) -> DataFrame:
        """The rows under the present column names: a piece may have a column under a former name."""
        today = self.at.rows()
        fits = [fit(feed(first, last), renames, today) for first, last, renames in self.pieces]
        for where in filter(None, (self.at.where, self.within)):
            fits = [frame.where(where) for frame in fits]
        return self.at.unite(fits)

    def _types(self, feed: _Read) -> DataFrame:
        """The version and the type of each row of the whole table, without its values."""
        return self.at.unite([feed(first, last).select(VERSION, CHANGE) for first, last, _ in self.pieces])


@dataclass(slots=True)
class Feeds:
    """The feeds that a run keeps for its other assets: the last that came to the driver, within a limit of bytes."""

    _feeds: list[_Held] = field(default_factory=list[_Held])

    def read(self, at: TableVersion, commits: tuple[Commit, ...], log: Log, *, stable: bool) -> Feed | Nothing | str:
        """What the commits did to rows; or why their feed is not believed, as half a sentence."""
        pieces = _pieces(commits)
        if not pieces:
            return Nothing()
        via = None if len(pieces) == 1 else f"the feed in {len(pieces)} pieces"
        range_ = (at.ref, at.table_id, at.version, at.where, commits)
        for feed in self._feeds:
            if feed.range == range_:  # in this session: another one may have read it
                return Feed(Local(at.spark, feed.schema, feed.arrow), via, commits)
        within = replaced_within(commits) if stable else None
        images = sum((commit.rows for commit in commits), NO_ROWS).images  # None if a commit does not record how many
        are_many = at.where is None and images is not None and images > limits().driver_rows
        plan = _FeedPlan(at, pieces, within, telling(log, commits), are_many)
        with interpreting(at.spark, log.size()), watching(at.spark, f"reading the changes of {at.ref.name}"):
            try:
                rows = plan.read(at.feed)
            except Exception as error:
                if Meaning.VECTORS_TOO_LARGE not in diagnose(error):
                    raise
                rows = plan.read(partial(feed_by_commit, at, commits))
                via = "two versions compared, where the feed fails"
        if isinstance(rows, str):
            return rows
        if isinstance(rows, Local):
            self._keep(_Held(range_, rows.schema, rows.arrow))
        return Feed(rows, via, commits)

    def _keep(self, feed: _Held) -> None:
        self._feeds.append(feed)
        while sum(feed.arrow.nbytes for feed in self._feeds) > limits().kept_feed_bytes:
            self._feeds.pop(0)


def _pieces(commits: tuple[Commit, ...]) -> list[_Piece]:
    """Runs of versions that one scan of the feed can read, each with the columns renamed after it.

    Commits without rows are left out at both ends, so a table that was only compacted for a month is still read from
    its first real change. A commit that the input leaves out, or that changed the schema, ends a piece.
    """
    pieces: list[tuple[int, int]] = []
    current: list[Commit] = []
    renames: list[tuple[int, str, str]] = []

    def close() -> None:
        with_rows = [commit.version for commit in current if not commit.is_quiet]
        if with_rows:
            pieces.append((with_rows[0], with_rows[-1]))
        current.clear()

    for commit in commits:
        if commit.operation in SCHEMA_CHANGES or (current and commit.version != current[-1].version + 1):
            close()
        if commit.renaming is not None:
            renames.append((commit.version, *commit.renaming))
        if commit.operation not in SCHEMA_CHANGES:
            current.append(commit)
    close()
    return [(first, last, _renamed_after(last, renames)) for first, last in pieces]


def _renamed_after(version: int, renames: list[tuple[int, str, str]]) -> Mapping[str, str]:
    names: dict[str, str] = {}
    for at, old, new in renames:
        if at > version:
            origin = next((first for first, now in names.items() if now.lower() == old.lower()), old.lower())
            names[origin] = new
    return names


def fit(feed: DataFrame, renames: Mapping[str, str], rows: DataFrame) -> DataFrame:
    """A piece of the feed under the column names and types that the source has at the end of the range."""
    named = feed.withColumnsRenamed(dict(renames))
    refuse_other_fields(named.schema, rows.schema)
    rows_of_feed = conform(named, StructType([*rows.schema.fields, *(named.schema[name] for name in LOG_NAMES)]))
    return padding_like(rows.schema, rows_of_feed)


def refuse_other_fields(earlier: StructType, now: StructType) -> None:
    """Refuses rows of an earlier version that have other fields within a column than the table has now.

    Raises:
        OtherFieldsError: A column has other fields, or has them in another order.
    """
    types = {column.name.lower(): column.dataType for column in earlier.fields}
    for column in now.fields:
        if field_names(types.get(column.name.lower(), column.dataType)) != field_names(column.dataType):
            raise OtherFieldsError(column.name)

"""A Delta table's history in memory, by Delta's own rules, and a log of it that obeys `lakehouse.delta.log.Log`."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import SparkSession

from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.digests import QueryDigest
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.generation import FIRST_GENERATION, Generation
from lakehouse.cursor.mark import Mark, Position
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.log import FileSchema, Head, Size, newest_first
from lakehouse.read.asset import Asset, UserRequest
from lakehouse.read.decide import Reconcile, Refuse
from lakehouse.read.feed_trust import Source
from lakehouse.read.run import Run
from lakehouse.spark.table_version import TableRef, TableVersion

TABLE_ID = "6b1c"
FEED = {"delta.enableChangeDataFeed": "true"}
WHOLE: tuple[str, ...] = ()


@dataclass
class History:
    """A table: its commits, the versions that log cleanup removed, and the epoch of each application id.

    Args:
        asset: The asset that owns the table.
        knows_epochs: Whether its log can be asked for an application id's epoch.
        properties: The table's properties.
    """

    asset: str = "silver/flights"
    knows_epochs: bool = True
    entries: list[Commit] = field(default_factory=list)
    oldest: int = 0
    transactions: dict[str, int] = field(default_factory=dict)
    pages: list[int] = field(default_factory=list)
    properties: dict[str, str] = field(default_factory=dict)

    def head(self) -> Head | None:
        return Head(self.entries[-1].version, TABLE_ID, dict(self.properties), ()) if self.entries else None

    def size(self) -> Size | None:
        return None

    def commits(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        return newest_first(self._page, newest, oldest)

    def live_rows(self, version: int) -> int | None:
        return None

    def file_schema(self, version: int) -> FileSchema | None:
        return None

    def growths(self, versions: Collection[int]) -> Mapping[int, int | None]:
        return {}

    def epoch(self, application_id: str, version: int) -> int | None:
        return self.transactions.get(application_id, 0) if self.knows_epochs else None

    def _page(self, count: int) -> list[Commit]:
        self.pages.append(count)
        return [commit for commit in self.entries[-count:] if commit.version >= self.oldest][::-1]

    def add(self, operation: str, parameters: Mapping[str, str | None] | None = None, **metrics: int) -> int:
        """A commit by another program."""
        return self._add(operation, parameters or {}, metrics, None)

    def append(self, rows: int = 1) -> int:
        return self.add("WRITE", {"mode": "Append"}, numOutputRows=rows)

    def restore(self, version: int | None) -> int:
        return self.add("RESTORE", {"version": None if version is None else str(version)})

    def say(self, user_metadata: str) -> int:
        """A commit with this `userMetadata`."""
        return self._add("WRITE", {"mode": "Append"}, {"numOutputRows": 1}, user_metadata)

    def own(
        self,
        version: int = 0,
        partitions: tuple[str, ...] = WHOLE,
        generation: str | Generation = "0",
        epoch: int = 1,
        base: int | None = None,
        reads: Mapping[str, Position] | None = None,
        asset: str | None = None,
        *,
        compared: bool = False,
        query: QueryDigest | None = None,
    ) -> int:
        """An own commit that has read the source `src` up to a version."""
        at = len(self.entries)
        mark = Mark(
            asset=asset or self.asset,
            partitions=partitions,
            generation=Generation.parse(generation) if isinstance(generation, str) else generation,
            epoch=epoch,
            run="run",
            attempt=f"attempt-{at}",
            base=at - 1 if base is None else base,
            reads={"src": Position("s", version)} if reads is None else reads,
            compared=compared,
            query=query,
        )
        landed = self.land(mark)
        assert landed is not None
        return landed

    def land(self, mark: Mark) -> int | None:
        """The version of an own commit; None if Delta skips it, because the application id already has this epoch."""
        if self.transactions.get(mark.application_id, 0) >= mark.epoch:
            return None
        self.transactions[mark.application_id] = mark.epoch
        return self._add("MERGE", {}, {"numTargetRowsInserted": 1}, mark.to_json())

    def clean(self, oldest: int) -> None:
        """Log cleanup: the commits before `oldest` are gone; application ids are kept in the checkpoint."""
        self.oldest = max(self.oldest, min(oldest, len(self.entries) - 1))

    def _add(
        self, operation: str, parameters: Mapping[str, str | None], metrics: Mapping[str, int], says: str | None
    ) -> int:
        version = len(self.entries)
        self.entries.append(Commit(version, 1000 * version, operation, parameters, metrics, says))
        return version


def source_of(history: History, table_id: str = TABLE_ID, mapped: str | None = None) -> Source:
    """The table as a run finds it, without a session."""
    head = history.head()
    assert head is not None
    at = TableVersion(_no_session, TableRef.at_path("src", "/src"), table_id, head.version, mapped=mapped)
    return Source(at, history, replace(head, table_id=table_id))


def run_of(asset: Asset, cursor: Cursor, together: Reconcile | Refuse | None = None, **request: Any) -> Run:
    """A run of an asset whose table has this cursor."""
    return Run(asset, "run", cursor, together=together, request=UserRequest(**request))


def cursor_at(position: Position) -> Known:
    """The cursor of a table that has read `src` up to a position."""
    return Known.of(Mark("asset", (), FIRST_GENERATION, 1, "run", "attempt", 0, reads={"src": position}), 1)


def _no_session() -> SparkSession:
    raise AssertionError("no row is read")


def cursor(history: History, *partitions: str, positions: bool = True) -> Cursor:
    return find_cursor(history, history.head(), history.asset, partitions, positions=positions)


def known(history: History, *partitions: str) -> Known:
    found = cursor(history, *partitions)
    assert isinstance(found, Known), found
    return found


def read_to(history: History, *partitions: str) -> int:
    return known(history, *partitions).reads["src"].version

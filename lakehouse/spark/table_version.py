"""Tables as Spark names them: one pinned version, a log that only Spark can reach, a snapshot loaded before its use."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Thread
from typing import Any, Self

from pyspark.sql import DataFrame, Row, SparkSession

from lakehouse.delta.commit_info import Commit
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.delta.log import BRING_IT_BACK, READ_IT_LATER, FileSchema, Head, Log, Size, newest_first
from lakehouse.delta.text import name_parts, quote
from lakehouse.errors import LakehouseError, ReadError, UnreadableLogError
from lakehouse.spark.abilities import keep
from lakehouse.spark.diagnosis import (
    Meaning,
    RowsNotKeptError,
    diagnose,
    first_line,
    said_by,
    unsupported_features,
)
from lakehouse.spark.driver_rows import small
from lakehouse.spark.session import is_connect

_OF_THE_HEAD = ("id", "properties", "partitionColumns")


class SparkLog:
    """The log of a Delta table, read through `DESCRIBE DETAIL` and `DESCRIBE HISTORY`."""

    def __init__(self, spark: SparkSession, identifier: str, table: str) -> None:
        self._spark = spark
        self._identifier = identifier
        self._table = table

    def head(self) -> Head | None:
        # Two statements are two snapshots: what was the same before and after the version was read is true of it.
        detail = self._detail()
        while detail is not None:
            newest = self._history(1)
            again = self._detail()
            if again is not None and all(again[name] == detail[name] for name in _OF_THE_HEAD):
                return Head(
                    version=int(newest[0]["version"]),
                    table_id=str(detail["id"]),
                    properties=dict(detail["properties"]),
                    partition_columns=tuple(detail["partitionColumns"]),
                )
            detail = again
        return None

    def location(self) -> str | None:
        """Where the table's directory is; None if there is no table."""
        detail = self._detail()
        return None if detail is None else str(detail["location"])

    def size(self) -> Size | None:
        return None  # DESCRIBE DETAIL returns bytes, but no rows

    def commits(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        yield from newest_first(lambda count: [_commit(row) for row in self._history(count)], newest, oldest)

    def live_rows(self, version: int) -> int | None:
        return None

    def file_schema(self, version: int) -> FileSchema | None:
        return None  # SQL shows how a table is partitioned now, not how it was

    def growths(self, versions: Collection[int]) -> Mapping[int, int | None]:
        return dict.fromkeys(versions)  # SQL shows nothing of a commit's files

    def epoch(self, application_id: str, version: int) -> int | None:
        return None

    def _detail(self) -> dict[str, Any] | None:
        rows = self._answer(f"DESCRIBE DETAIL {self._identifier}", "*")
        if rows is None:
            return None
        detail = rows[0].asDict()
        return detail if detail["format"] == "delta" and detail["id"] is not None else None

    def _history(self, limit: int) -> list[Row]:
        # As a number: where clocks are set back an hour, two moments have the same local time.
        columns = ("* EXCEPT (timestamp)", "unix_millis(timestamp) AS timestamp")
        rows = self._answer(f"DESCRIBE HISTORY {self._identifier} LIMIT {limit}", *columns)
        if rows is None:
            raise UnreadableLogError.unreadable_log(
                self._table, "there is no table of this name any more", READ_IT_LATER
            )
        return rows

    def _answer(self, statement: str, *columns: str) -> list[Row] | None:
        """The rows of a statement about the table; None if there is no table.

        Raises:
            ReadError (VIEW): The name is that of a view.
            ReadError (NO_SCHEMA): The catalog or the schema of the name is not there.
            UnreadableLogError: Spark cannot answer, whether Delta refuses or the connection is lost.
        """
        try:
            return self._spark.sql(statement).selectExpr(*columns).collect()
        except LakehouseError:
            raise
        except Exception as error:
            meanings = said_by(error)
            if Meaning.TABLE_MISSING in meanings:
                return None
            if Meaning.IS_VIEW in meanings:
                raise ReadError.view(self._table, self._identifier) from error
            if Meaning.NO_SCHEMA in meanings:
                raise ReadError.no_schema(self._table, self._identifier, first_line(error)) from error
            if Meaning.CATALOG_COMMITS in meanings:
                raise UnreadableLogError.unknown_feature(
                    self._table, "catalogManaged", "a Spark without its catalog"
                ) from error
            if Meaning.FEATURE_UNSUPPORTED in meanings:
                feature = unsupported_features(error)
                raise UnreadableLogError.unknown_feature(self._table, feature, "the Delta of this Spark") from error
            remedy = BRING_IT_BACK if Meaning.LOG_BROKEN in meanings else READ_IT_LATER
            raise UnreadableLogError.unreadable_log(self._table, first_line(error), remedy) from error


def _commit(row: Row) -> Commit:
    return Commit.of(int(row["version"]), row["timestamp"], row.asDict())


@dataclass(frozen=True, slots=True)
class TableRef:
    """One Delta table.

    Args:
        name: The asset key, its parts joined by "/": the name in marks and messages.
        identifier: The table in SQL: a quoted catalog name, or delta.`path`.
        files: Where its directory is; None for a catalog name.
    """

    name: str
    identifier: str
    files: Location | None

    @classmethod
    def at(cls, name: str, files: Location) -> "TableRef":
        return cls(name, f"delta.{quote(files.address)}", files)

    @classmethod
    def at_path(cls, name: str, path: str) -> "TableRef":
        return cls.at(name, Location(path))

    @classmethod
    def in_catalog(cls, name: str, catalog_name: str) -> "TableRef":
        return cls(name, ".".join(quote(part) for part in name_parts(catalog_name)), None)

    def found_among(self, addresses: Mapping[str, str]) -> "TableRef":
        """The same table at the address that runs found for its catalog name. The log is read there; SQL uses the name.

        `addresses` are the addresses by asset name.
        """
        address = addresses.get(self.name) if self.files is None else None
        return self if address is None else TableRef(self.name, self.identifier, Location(address))

    def beside(self, suffix: str) -> "TableRef":
        """The table whose name, and whose address or catalog name, are those of this table with a suffix."""
        name = self.name + suffix
        if not self.identifier.startswith("delta.") or self.files is None:
            return TableRef(name, f"{self.identifier[:-1]}{suffix}`", None)
        return TableRef.at(name, replace(self.files, address=self.files.address.rstrip("/") + suffix))

    @property
    def path(self) -> str | None:
        """The address of its directory; None for a catalog name."""
        return None if self.files is None else self.files.address

    @property
    def location(self) -> str:
        return self.path or self.identifier

    def why_only_spark(self) -> str | None:
        """Why this process cannot read the table's log without Spark, as the end of a sentence; None if it can."""
        if self.files is None:
            return f"where {self.identifier} is, is not known before a run has resolved the name"
        return self.files.unreadable()

    def log(self, spark: Callable[[], SparkSession]) -> Log:
        """The table's log. `spark` is called only if this process cannot read the files itself."""
        if self.files is not None and self.why_only_spark() is None:
            return FileLog(self.files, self.name)
        return SparkLog(spark(), self.identifier, self.name)


@dataclass(frozen=True)
class ReadableLogs:
    """The logs of tables that can be read without Spark, and why the others cannot."""

    logs: Mapping[str, FileLog]
    out_of_reach: Mapping[str, str]

    @classmethod
    def of(cls, refs: Iterable[TableRef]) -> "ReadableLogs":
        logs, out_of_reach = dict[str, FileLog](), dict[str, str]()
        for ref in refs:
            why = ref.why_only_spark()
            if why is not None:
                out_of_reach[ref.name] = why
            elif ref.files is not None:
                logs[ref.name] = FileLog(ref.files, ref.name)
        return cls(logs, out_of_reach)


@dataclass(frozen=True)
class TableVersion:
    """A table at one version: whatever is committed later, this reads the same rows.

    Args:
        session: Returns the session that reads it; called only if its rows are read.
        ref: The table.
        table_id: Its id at that version.
        version: The version.
        where: A predicate on its rows, by today's column names (the partitions of the run); None for all rows.
        mapped: Which partitions these are, as a digest of their windows or values; None for all partitions.
    """

    session: Callable[[], SparkSession] = field(compare=False)
    ref: TableRef
    table_id: str
    version: int
    where: str | None = None
    mapped: str | None = None

    @classmethod
    def of(cls, spark: SparkSession, ref: TableRef, head: Head) -> Self:
        """The table at the version of its head."""
        return cls(lambda: spark, ref, head.table_id, head.version)

    @property
    def spark(self) -> SparkSession:
        return self.session()

    def rows(self) -> DataFrame:
        return self._rows

    @cached_property
    def _rows(self) -> DataFrame:
        # One frame, so that over Connect its schema is requested only once.
        frame = self._read(versionAsOf=str(self.version))
        return frame if self.where is None else frame.where(self.where)

    def feed(self, first: int, last: int) -> DataFrame:
        """The change data feed of versions `first` to `last`, both inclusive, of the whole table."""
        return self._read(readChangeFeed="true", startingVersion=str(first), endingVersion=str(last))

    def _read(self, **options: str) -> DataFrame:
        # By its path if it has one. Connect looks a name up each time that it analyzes a plan: for an older version
        # Delta then replays the log again, and a table that was dropped and created again would be read in the middle
        # of a run. The location of a named table is no substitute: a catalog that grants access refuses the path.
        reader = self.spark.read.format("delta").options(**options)
        try:
            return reader.table(self.ref.identifier) if self.ref.path is None else reader.load(self.ref.path)
        except Exception as error:
            if Meaning.FILE_REFUSED not in diagnose(error):
                raise
            raise ReadError.source_denied(self.ref.name, self.version, self.ref.location, first_line(error)) from error

    def unite(self, feeds: Sequence[DataFrame]) -> DataFrame:
        """Feeds of the table as one, each with its own versions.

        Spark (`RelationResolution`) takes a name that a plan contains twice for one read with the options of the first,
        also in `table_changes`, and Connect sees only whole plans: rows of one version were read twice, and those of
        another not at all. A path is always a read of its own. Through Connect, feeds that were read by name are
        therefore evaluated first. A view for each would have to live as long as any frame that reads it.
        """
        if self.ref.path is None and len(feeds) > 1 and is_connect(self.spark):
            feeds = [_evaluate(feed) for feed in feeds]
        return _unite(feeds)


def _evaluate(feed: DataFrame) -> DataFrame:
    """The rows of a feed, kept by Spark, or at the driver on a platform that keeps no rows.

    Raises:
        RowsNotKeptError: The platform keeps no rows, and there are too many for the driver.
    """
    rows = keep(feed)
    local = small(feed) if rows is feed else None
    if rows is feed and local is None:
        raise RowsNotKeptError
    return rows if local is None else local.frame


def _unite(frames: Sequence[DataFrame]) -> DataFrame:
    """Unites by halves, because neither PySpark nor the server can handle a chain of five hundred."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return _unite(frames[:half]).unionByName(_unite(frames[half:]))


def prefetch(spark: SparkSession, ref: TableRef) -> Thread:
    """Makes Delta replay the table's log in a thread of its own. A query that needs the snapshot waits for it.

    The thread need not be waited for. An error in it appears again in the query that needs the table.
    """
    # As a daemon, so that a server which never answers does not keep alive a process whose step has failed.
    thread = Thread(target=_replay, args=(spark, ref), name=f"lakehouse-prefetch {ref.name}", daemon=True)
    thread.start()
    return thread


def _replay(spark: SparkSession, ref: TableRef) -> None:
    with suppress(Exception):
        # It returns the number of files, which Delta counts over the whole state; a plan without rows needs no state.
        spark.sql(f"DESCRIBE DETAIL {ref.identifier}").collect()

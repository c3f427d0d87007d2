"""Tables as Spark names them, and one pinned version of a table."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from lakehouse.errors import SourceDeniedError
from lakehouse.log.file_log import FileLog
from lakehouse.log.location import Location
from lakehouse.log.log import Head, Log
from lakehouse.spark.diagnosis import Meaning, diagnose
from lakehouse.spark.evidence import first_line
from lakehouse.spark.session import is_connect
from lakehouse.spark.spark_log import SparkLog
from lakehouse.sql.text import name_parts, quote


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

    def found_at(self, address: str) -> "TableRef":
        """The same table, whose directory is known: its log can be read there, and SQL still goes by its name."""
        return TableRef(self.name, self.identifier, Location(address))

    @property
    def path(self) -> str | None:
        """The address of its directory; None for a catalog name."""
        return None if self.files is None else self.files.address

    @property
    def location(self) -> str:
        return self.path or self.identifier

    def why_only_spark(self) -> str | None:
        """Why this process cannot read the table's log without Spark, as the end of a sentence; None if it can."""
        return "a catalog name is resolved by Spark" if self.files is None else self.files.unreadable()

    def log(self, spark: Callable[[], SparkSession]) -> Log:
        """The table's log. `spark` is called only if this process cannot read the files itself."""
        if self.files is not None and self.why_only_spark() is None:
            return FileLog(self.files, self.name)
        return SparkLog(spark(), self.identifier, self.name)


@dataclass(frozen=True)
class TableVersion:
    """A table at one version: whatever is committed later, this reads the same rows.

    Args:
        session: Returns the session that reads it; called only if its rows are read.
        ref: The table.
        table_id: Its id at that version.
        version: The version.
        where: A predicate on its rows, by today's column names (the partitions of the run); None for all rows.
        mapped: Which partitions these are, as a digest of their windows or values; None if they are all.
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
        # One frame, which over Connect is asked for its schema once.
        frame = self._read(versionAsOf=str(self.version))
        return frame if self.where is None else frame.where(self.where)

    def feed(self, first: int, last: int) -> DataFrame:
        """The change data feed of versions `first` to `last`, both inclusive, of the whole table."""
        return self._read(readChangeFeed="true", startingVersion=str(first), endingVersion=str(last))

    def _read(self, **options: str) -> DataFrame:
        # By its path if it has one, because Connect looks a name up each time that it analyzes a plan.
        reader = self.spark.read.format("delta").options(**options)
        try:
            return reader.table(self.ref.identifier) if self.ref.path is None else reader.load(self.ref.path)
        except Exception as error:
            if Meaning.FILE_REFUSED not in diagnose(error):
                raise
            raise SourceDeniedError(self.ref.name, self.version, self.ref.location, first_line(error)) from error

    def united(self, feeds: Sequence[DataFrame]) -> DataFrame:
        """Feeds of the table as one, each with its own versions.

        Spark treats a name that a plan contains twice as one read, whatever the options, and Connect sees only whole
        plans. A path is always a read of its own. Through Connect, feeds that were read by name are therefore evaluated
        first.
        """
        if self.ref.path is None and len(feeds) > 1 and is_connect(self.spark):
            feeds = [feed.localCheckpoint() for feed in feeds]
        return _united(feeds)


def _united(frames: Sequence[DataFrame]) -> DataFrame:
    """Unites by halves, because neither PySpark nor the server can handle a chain of five hundred."""
    if len(frames) == 1:
        return frames[0]
    half = len(frames) // 2
    return _united(frames[:half]).unionByName(_united(frames[half:]))

"""The log of a table that only Spark can reach: a catalog name, or storage with Spark's credentials.

SQL only, so it is the same on classic Spark, through Spark Connect and on a cluster.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from pyspark.sql import Row, SparkSession

from lakehouse.errors import LakehouseError, UnreadableLogError, ViewError
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import BRING_IT_BACK, READ_IT_LATER, FileSchema, Head, newest_first
from lakehouse.log.size import Size
from lakehouse.spark.diagnosis import Meaning, said_by
from lakehouse.spark.evidence import first_line

_OF_THE_HEAD = ("id", "properties", "partitionColumns")


class SparkLog:
    """The log of a Delta table, read through `DESCRIBE DETAIL` and `DESCRIBE HISTORY`.

    Args:
        spark: A session that can see the table.
        identifier: The table as SQL names it.
        table: The table's name in messages.
    """

    def __init__(self, spark: SparkSession, identifier: str, table: str) -> None:
        self._spark = spark
        self._identifier = identifier
        self._table = table

    def head(self) -> Head | None:
        # Two statements are two snapshots: what holds before and after the version was asked for holds of it.
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
        return None  # DESCRIBE DETAIL tells bytes, and no rows

    def commits(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        yield from newest_first(lambda count: [_commit(row) for row in self._history(count)], newest, oldest)

    def live_rows(self, version: int) -> int | None:
        return None

    def file_schema(self, version: int) -> FileSchema | None:
        return None  # SQL tells how a table is partitioned now, and not how it was

    def growths(self, versions: Collection[int]) -> Mapping[int, int | None]:
        return dict.fromkeys(versions)  # SQL tells nothing of a commit's files

    def epoch(self, application_id: str, version: int) -> int | None:
        return None

    def _detail(self) -> dict[str, Any] | None:
        rows = self._answer(f"DESCRIBE DETAIL {self._identifier}", "*")
        if rows is None:
            return None
        detail = rows[0].asDict()
        return detail if detail["format"] == "delta" and detail["id"] is not None else None

    def _history(self, limit: int) -> list[Row]:
        # As a number: a Python clock that is set back an hour has two moments with one name.
        columns = ("* EXCEPT (timestamp)", "unix_millis(timestamp) AS timestamp")
        rows = self._answer(f"DESCRIBE HISTORY {self._identifier} LIMIT {limit}", *columns)
        if rows is None:
            raise UnreadableLogError(self._table, "there is no table of this name any more", READ_IT_LATER)
        return rows

    def _answer(self, statement: str, *columns: str) -> list[Row] | None:
        """The rows of a statement about the table; None if there is no table.

        Raises:
            ViewError: The name is that of a view.
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
                raise ViewError(self._table, self._identifier) from error
            remedy = BRING_IT_BACK if Meaning.LOG_BROKEN in meanings else READ_IT_LATER
            raise UnreadableLogError(self._table, first_line(error), remedy) from error


def _commit(row: Row) -> Commit:
    return Commit.of(int(row["version"]), row["timestamp"], row.asDict())

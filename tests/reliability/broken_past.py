"""Histories and extracts kept in plain Spark, right and with one mistake each; see `broken`."""

import json
from typing import ClassVar

from pyspark.sql import DataFrame

from tests.reliability.broken import LatestTwice, NoEpoch, Plain, SideFile


class PlainPast(Plain):
    """Keeps `past`: each version that changes a row ends its current row and begins another."""

    def intervals(self, feed: DataFrame) -> DataFrame:
        """One row for each id and version of the feed that changed it; `gone` where it was deleted."""
        moments = ", ".join(f"({at.version}, timestamp_millis({at.timestamp}L))" for at in self.lake.commits("src"))
        feed.createOrReplaceTempView("feed")
        return feed.sparkSession.sql(
            f"SELECT id, at AS __START_AT, lead(at) OVER (PARTITION BY id ORDER BY at) AS __END_AT, row.*, "
            f"row IS NULL AS gone FROM (SELECT id, _commit_version AS version, max(IF(_change_type IN ('insert', "
            f"'update_postimage'), struct(k, v, token), NULL)) AS row FROM feed GROUP BY id, _commit_version) "
            f"JOIN (SELECT * FROM VALUES {moments} AS moments(version, at)) USING (version)"
        )

    def write(self, feed: DataFrame, mark: str, transaction: tuple[str, int] | None) -> None:
        rows = self.intervals(feed)
        if not self.exists():
            self.append(rows.where("NOT gone").drop("gone"), mark, transaction)
            return
        ends = rows.groupBy("id").agg({"__START_AT": "min"}).withColumnRenamed("min(__START_AT)", "__END_AT")
        staged = ends.selectExpr("id AS ends", "*").unionByName(rows.where("NOT gone"), allowMissingColumns=True)
        columns = ("id", "__START_AT", "__END_AT", "k", "v", "token")
        self.merge(
            staged,
            f"t.id = s.ends AND t.__END_AT IS NULL WHEN MATCHED THEN UPDATE SET __END_AT = s.__END_AT WHEN NOT MATCHED "
            f"AND s.ends IS NULL THEN INSERT ({', '.join(columns)}) VALUES ({', '.join(f's.{c}' for c in columns)})",
            mark,
            transaction,
        )


class NewestAlone(PlainPast):
    """Only the newest change of each row in a range is taken."""

    def intervals(self, feed: DataFrame) -> DataFrame:
        newest = feed.groupBy("id").agg({"_commit_version": "max"}).withColumnRenamed("max(_commit_version)", "newest")
        alone = feed.join(newest, "id").where("_commit_version = newest").drop("newest")
        return super().intervals(alone)


class PastWithoutEpoch(NoEpoch, PlainPast):
    """The history of a range is committed even if another run has committed since."""


class PastInASideFile(SideFile, PlainPast):
    """The cursor of a history is a file outside the table."""


class PlainExtracts(Plain):
    """Keeps `kept`: the newest extract replaces the rows that differ, and its version is in the mark."""

    source: ClassVar[str] = "extracts"

    def feed(self, after: int, upto: int) -> DataFrame:
        deliveries = self._deliveries(upto)
        return deliveries.where(f"number = {self._newest(upto)}").drop("number")

    def mark(self, generation: str, epoch: int, base: int, upto: int) -> str:
        body = json.loads(super().mark(generation, epoch, base, upto))["lakehouse"]
        return json.dumps({"lakehouse": body | {"extract": f"int {self._newest(upto)}"}})

    def write(self, feed: DataFrame, mark: str, transaction: tuple[str, int] | None) -> None:
        if not self.exists():
            self.append(feed, mark, transaction)
            return
        self.merge(
            feed,
            "t.id = s.id WHEN MATCHED AND t.token <> s.token THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
            "WHEN NOT MATCHED BY SOURCE THEN DELETE",
            mark,
            transaction,
        )

    def _deliveries(self, version: int) -> DataFrame:
        reader = self.lake.spark.read.option("versionAsOf", str(version))
        return reader.table(self.lake.ref(self.source).identifier)

    def _newest(self, version: int) -> int:
        return int(self._deliveries(version).agg({"number": "max"}).collect()[0][0])


class ExtractWithoutEpoch(NoEpoch, PlainExtracts):
    """An extract is committed even if another run has committed since: an older extract on top of a newer one."""


class LatestExtractTwice(LatestTwice, PlainExtracts):
    """The newest extract is looked up when the rows are read, and once more when their version is recorded."""

"""What a competent user writes without this project.

Each contestant applies the source's change data feed by key, where the last change of a key wins, and keeps its own
position.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable
from deltalake import DeltaTable as RustTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.harness.data import KEY, Pair, name

FEED = ("_change_type", "_commit_version", "_commit_timestamp")


def latest(feed: DataFrame, key: Sequence[str] = (KEY,)) -> DataFrame:
    """The last change of each key."""
    newest_first = Window.partitionBy(*key).orderBy(F.col("_commit_version").desc())
    images = feed.where("_change_type <> 'update_preimage'")
    return images.withColumn("rank", F.row_number().over(newest_first)).where("rank = 1").drop("rank")


def merge(spark: SparkSession, pair: Pair, changes: DataFrame, also: str = "", key: Sequence[str] = (KEY,)) -> None:
    """Merges the changes into the target, deletes included."""
    same_key = " AND ".join(f"t.{column} = s.{column}" for column in key)
    columns = {column: f"s.`{column}`" for column in changes.columns if column not in FEED}
    (
        DeltaTable.forPath(spark, str(pair.target))
        .alias("t")
        .merge(changes.alias("s"), also + same_key)
        .whenMatchedDelete("s._change_type = 'delete'")
        .whenMatchedUpdate(set=columns)
        .whenNotMatchedInsert("s._change_type <> 'delete'", values=columns)
        .execute()
    )


@dataclass
class Stream:
    """R1: the recipe of Delta's documentation, `foreachBatch` with a MERGE, started when there is something to do.

    The checkpoint is kept from step to step.
    """

    spark: SparkSession
    name: str = "R1 foreachBatch"

    def prepare(self, pair: Pair) -> None:
        """Its first step makes the checkpoint."""

    def step(self, pair: Pair) -> None:
        def upsert(batch: DataFrame, _: int) -> None:
            merge(batch.sparkSession, pair, latest(batch))

        feed = (
            self.spark.readStream.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", "1")
            .load(str(pair.source))
        )
        query = (
            feed.writeStream.foreachBatch(upsert)
            .option("checkpointLocation", str(pair.checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()


@dataclass
class Batch:
    """R2: a MERGE of the last change of each key in the feed, from the position in a file of the user's own.

    Args:
        spark: The session.
        name: The name of the contestant.
        expert: Whether the user knows that a feed has no statistics, and adds the hint and the range of its keys.
        key: The columns of the key; an expert adds the range of the first one.
    """

    spark: SparkSession
    name: str = "R2 batch MERGE"
    expert: bool = False
    key: tuple[str, ...] = (KEY,)

    def prepare(self, pair: Pair) -> None:
        self._keep(pair, self._version(pair))

    def step(self, pair: Pair) -> None:
        position, version = json.loads(pair.position.read_text()), self._version(pair)
        if version == position:
            return
        feed = (
            self.spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", position + 1)
            .option("endingVersion", version)
            .load(str(pair.source))
        )
        changes, first = latest(feed, self.key), self.key[0]
        if self.expert:
            changes = changes.cache()
            low, high = changes.agg(F.min(first), F.max(first)).collect()[0]
            merge(self.spark, pair, F.broadcast(changes), f"t.{first} BETWEEN {low} AND {high} AND ", self.key)
            changes.unpersist()
        else:
            merge(self.spark, pair, changes, key=self.key)
        self._keep(pair, version)

    def _version(self, pair: Pair) -> int:
        return int(DeltaTable.forPath(self.spark, str(pair.source)).history(1).collect()[0]["version"])

    def _keep(self, pair: Pair, version: int) -> None:
        pair.position.write_text(json.dumps(version))


@dataclass
class Recompute:
    """R3: computes all rows again."""

    spark: SparkSession
    name: str = "R3 recompute"

    def prepare(self, pair: Pair) -> None:
        """It keeps nothing."""

    def step(self, pair: Pair) -> None:
        rows = self.spark.read.table(name(pair.source))
        rows.write.format("delta").mode("overwrite").save(str(pair.target))


@dataclass
class Rust:
    """R4: delta-rs, which does not need a JVM."""

    name: str = "R4 delta-rs merge"

    def prepare(self, pair: Pair) -> None:
        pair.position.write_text(json.dumps(RustTable(str(pair.source)).version()))

    def step(self, pair: Pair) -> None:
        position, source = json.loads(pair.position.read_text()), RustTable(str(pair.source))
        version = source.version()
        feed = plain(pa.table(source.load_cdf(starting_version=position + 1, ending_version=version)))
        images = feed.filter(pc.not_equal(feed["_change_type"], "update_preimage"))
        newest = images.group_by(KEY).aggregate([("_commit_version", "max")])
        changes = images.join(newest, [KEY, "_commit_version"], [KEY, "_commit_version_max"], "left semi")
        columns = {column: f"s.{column}" for column in changes.column_names if column not in FEED}
        low, high = pc.min_max(changes[KEY]).as_py().values()
        (
            RustTable(str(pair.target))
            .merge(
                changes, f"t.{KEY} = s.{KEY} AND t.{KEY} BETWEEN {low} AND {high}", source_alias="s", target_alias="t"
            )
            .when_matched_delete("s._change_type = 'delete'")
            .when_matched_update(columns)
            .when_not_matched_insert(columns, "s._change_type <> 'delete'")
            .execute()
        )
        pair.position.write_text(json.dumps(version))


def plain(table: pa.Table) -> pa.Table:
    """The table with string views as plain strings, because pyarrow cannot compare views."""
    kinds = [pa.field(f.name, pa.string() if pa.types.is_string_view(f.type) else f.type) for f in table.schema]
    return table.cast(pa.schema(kinds))

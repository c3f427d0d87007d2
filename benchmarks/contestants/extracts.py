"""A table kept from full extracts of its source, as this project keeps it and as a user would write it by hand.

The extract is the current source of a pair: all of its rows, without any sign of what changed.
"""

from dataclasses import dataclass

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession

from benchmarks.contestants.ours import Lake
from benchmarks.harness import log_files
from benchmarks.harness.data import KEY, Pair, name
from lakehouse import Snapshot, Table


@dataclass
class Extracts:
    """A `Snapshot`; its own first run has made the target."""

    spark: SparkSession
    name: str = "ours"

    def prepare(self, pair: Pair) -> None:
        """The version of its extract is in the target."""

    def step(self, pair: Pair) -> None:
        def kept(source: DataFrame) -> Snapshot:
            return Snapshot(source, version=log_files.version(pair.source))

        Lake(self.spark, pair.root, {}).materialize(kept, Table(key=KEY), target="target")


@dataclass
class SyncMerge:
    """Delta's documented MERGE that makes a target equal to its source: update, insert, and delete what is missing.

    Args:
        spark: The session.
        name: The name of the contestant.
        expert: Whether its author updates only rows that differ.
    """

    spark: SparkSession
    name: str = "MERGE"
    expert: bool = False

    def prepare(self, pair: Pair) -> None:
        """It keeps nothing."""

    def step(self, pair: Pair) -> None:
        extract = self.spark.read.table(name(pair.source))
        differs = " OR ".join(f"NOT (t.{column} <=> s.{column})" for column in extract.columns)
        (
            DeltaTable.forPath(self.spark, str(pair.target))
            .alias("t")
            .merge(extract.alias("s"), f"t.{KEY} = s.{KEY}")
            .whenMatchedUpdateAll(differs if self.expert else None)
            .whenNotMatchedInsertAll()
            .whenNotMatchedBySourceDelete()
            .execute()
        )

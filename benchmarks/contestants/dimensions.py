"""Type 2, as this project keeps it and as a user would write it by hand.

Every event opens a row, because it has another value than the event before it. A source of events has the columns `id`,
`seq`, `status` and `value`; its target has the same without `seq`, and `__START_AT` and `__END_AT`.
"""

import json
from dataclasses import dataclass
from datetime import UTC, datetime

from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from benchmarks.contestants.ours import Lake
from benchmarks.harness.data import KEY, Pair, name
from lakehouse import Changes, History, Merge, Table, scd
from lakehouse.scd.columns import END_AT, START_AT

ROW = (KEY, "status", "value")
MEMORY = "memory"
"""The table next to a pair's target for the events that AUTO CDC's way keeps."""
TABLE = Table(key=(KEY, START_AT))


def target(source: Changes) -> Merge:
    touched = source.touched(KEY)
    return Merge(scd.type2(touched.rows, keys=KEY, sequence_by="seq", column_list=ROW), touched)


@dataclass
class Type2:
    """`scd.type2` in a `Merge`; its own first run has made the target."""

    spark: SparkSession
    name: str = "ours"

    def prepare(self, pair: Pair) -> None:
        """Its position is in the target."""

    def step(self, pair: Pair) -> None:
        Lake(self.spark, pair.root, {}).materialize(target, TABLE)


def past(source: Changes) -> History:
    return History(source)


@dataclass
class StateHistory:
    """A `History` of a state table; its own first run has made the target."""

    spark: SparkSession
    name: str = "ours"

    def prepare(self, pair: Pair) -> None:
        """Its position is in the target."""

    def step(self, pair: Pair) -> None:
        Lake(self.spark, pair.root, {"source": KEY}).materialize(past, Table(key=KEY), target="target")


@dataclass
class WholePast:
    """The history of a state table: compares its current rows with the source's rows, and overwrites the whole history.

    Args:
        spark: The session.
        name: The name of the contestant.
        columns: The columns that the target shares with the source.
    """

    spark: SparkSession
    name: str = "overwrite"
    columns: tuple[str, ...] = ROW

    def prepare(self, pair: Pair) -> None:
        """It keeps nothing."""

    def step(self, pair: Pair) -> None:
        history, source = (self.spark.read.table(name(path)) for path in (pair.target, pair.source))
        current = history.where(f"{END_AT} IS NULL").alias("t")
        both = current.join(source.alias("s"), F.expr(f"t.{KEY} = s.{KEY}"), "full")
        values = [column for column in self.columns if column != KEY]
        differs = " OR ".join(f"NOT (t.{c} <=> s.{c})" for c in (KEY, *values))
        now = f"TIMESTAMP '{datetime.now(UTC):%Y-%m-%d %H:%M:%S.%fZ}'"
        before = f"IF({differs}, {now}, NULL) AS {END_AT}, {', '.join(f't.{c}' for c in values)}"
        after = f"CAST(NULL AS TIMESTAMP) AS {END_AT}, {', '.join(f's.{c}' for c in values)}"
        rows = (
            f"filter(array(IF(t.{KEY} IS NULL, NULL, struct(t.{KEY}, t.{START_AT}, {before})), "
            f"IF(s.{KEY} IS NULL OR NOT ({differs}), NULL, struct(s.{KEY}, {now} AS {START_AT}, {after}))), "
            f"each -> each IS NOT NULL)"
        )
        past = history.where(f"{END_AT} IS NOT NULL")
        each = both.selectExpr(f"inline({rows})")
        each.unionByName(past).write.format("delta").mode("overwrite").save(str(pair.target))


def intervals(events: DataFrame) -> DataFrame:
    """Type 2 of all events, computed with a window."""
    following = F.lead("seq").over(Window.partitionBy(KEY).orderBy("seq"))
    return events.select(*ROW, F.col("seq").alias(START_AT), following.alias(END_AT))


@dataclass
class WholeHistory:
    """Overwrites the target with type 2 of all events."""

    spark: SparkSession
    name: str = "recompute"

    def prepare(self, pair: Pair) -> None:
        """It keeps nothing."""

    def step(self, pair: Pair) -> None:
        rows = intervals(self.spark.read.table(name(pair.source)))
        rows.write.format("delta").mode("overwrite").save(str(pair.target))


@dataclass
class Position:
    """How far a contestant has read the source, in a file of its own.

    Args:
        spark: The session.
        columns: The columns that the target shares with the source.
        at: The column of the feed by which rows begin and end.
    """

    spark: SparkSession
    columns: tuple[str, ...] = ROW
    at: str = "seq"

    def note(self, pair: Pair) -> None:
        pair.position.write_text(json.dumps(self._version(pair)))

    def events(self, pair: Pair) -> DataFrame:
        """The rows that came since the position, with `seq`."""
        feed = self.spark.read.format("delta").option("readChangeFeed", "true")
        position = json.loads(pair.position.read_text())
        rows = feed.option("startingVersion", position + 1).option("endingVersion", self._version(pair))
        images = rows.load(str(pair.source)).where("_change_type IN ('insert', 'update_postimage')")
        return images.select(*self.columns, F.col(self.at).alias("seq"))

    def _version(self, pair: Pair) -> int:
        return int(DeltaTable.forPath(self.spark, str(pair.source)).history(1).collect()[0]["version"])


@dataclass
class UnionMerge:
    """Delta's documented SCD type 2: a MERGE of the updates that begin rows and, by UNION, the updates that end rows.

    Args:
        spark: The session.
        name: The name of the contestant.
        expert: Whether its author gives the hint to broadcast, and the condition lets only current rows match.
        columns: The columns that the target shares with the source.
        at: The column of the feed by which rows begin and end.
    """

    spark: SparkSession
    name: str = "union MERGE"
    expert: bool = False
    columns: tuple[str, ...] = ROW
    at: str = "seq"

    @property
    def position(self) -> Position:
        return Position(self.spark, self.columns, self.at)

    def prepare(self, pair: Pair) -> None:
        self.position.note(pair)

    def step(self, pair: Pair) -> None:
        updates = self.position.events(pair)
        if self.expert:
            updates = F.broadcast(updates.cache())
        table = DeltaTable.forPath(self.spark, str(pair.target))
        current = table.toDF().alias("t").where(f"t.{END_AT} IS NULL")
        changed = updates.alias("u").join(current, KEY).where("u.value <> t.value").select("u.*")
        staged = changed.selectExpr("NULL AS merge_key", "*").union(updates.selectExpr(f"{KEY} AS merge_key", "*"))
        only = f"t.{END_AT} IS NULL AND " if self.expert else ""
        (
            table.alias("t")
            .merge((F.broadcast(staged) if self.expert else staged).alias("s"), f"{only}t.{KEY} = s.merge_key")
            .whenMatchedUpdate(f"t.{END_AT} IS NULL AND t.value <> s.value", {f"`{END_AT}`": "s.seq"})
            .whenNotMatchedInsert(
                values={**{column: f"s.{column}" for column in self.columns}, START_AT: "s.seq", END_AT: "NULL"}
            )
            .execute()
        )
        self.position.note(pair)


@dataclass
class TwoMerges:
    """AUTO CDC's way: merges the events into a table of their own, then the rows of the touched keys into the target.

    Args:
        spark: The session.
        name: The name of the contestant.
        expert: Whether its author gives the hints to broadcast.
    """

    spark: SparkSession
    name: str = "two MERGEs"
    expert: bool = False

    @property
    def position(self) -> Position:
        return Position(self.spark)

    def prepare(self, pair: Pair) -> None:
        self.position.note(pair)

    def step(self, pair: Pair) -> None:
        events = self.position.events(pair)
        if self.expert:
            events = events.cache()
        memory = DeltaTable.forPath(self.spark, str(pair.root / MEMORY))
        new = self._hinted(events).alias("s")
        memory.alias("t").merge(new, f"t.{KEY} = s.{KEY} AND t.seq = s.seq").whenNotMatchedInsertAll().execute()
        keys = self._hinted(events.select(KEY).distinct())
        rows = intervals(memory.toDF().join(keys, KEY, "leftsemi"))
        (
            DeltaTable.forPath(self.spark, str(pair.target))
            .alias("t")
            .merge(self._hinted(rows).alias("s"), f"t.{KEY} = s.{KEY} AND t.{START_AT} = s.{START_AT}")
            .whenMatchedUpdate(f"NOT (t.{END_AT} <=> s.{END_AT})", {f"`{END_AT}`": f"s.{END_AT}"})
            .whenNotMatchedInsertAll()
            .execute()
        )
        self.position.note(pair)

    def _hinted(self, rows: DataFrame) -> DataFrame:
        return F.broadcast(rows) if self.expert else rows

"""Concurrent writers of one table: which steps succeed, how much work is in vain, how long until all are done."""

import threading
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from itertools import product
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from delta.tables import DeltaTable
from deltalake import DeltaTable as RustTable
from deltalake import write_deltalake
from pyspark.sql import SparkSession

from benchmarks.contestants.by_hand import latest
from benchmarks.contestants.ours import Lake
from benchmarks.harness.data import FEED, KEY, PROPERTIES, name
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost
from benchmarks.harness.report import Goal, Result
from lakehouse import Changes, Merge, Retry, Table
from lakehouse.commit.outcome import AlreadyApplied, Committed, Unchanged
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.errors import LakehouseError

ROWS, STEPS, CHANGED = 10_000, 3, 10
WRITERS, PATIENCE = (2, 4, 8), 100


class Meeting(Enum):
    """What the writers of one table have in common."""

    PARTITIONS = "other partitions"
    ROWS = "other rows"
    SAME = "the same rows"


@dataclass
class Score:
    """The outcomes of the steps of all writers."""

    done: int = 0
    failed: int = 0
    lost: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def add(self, *, done: bool, lost: int) -> None:
        with self.lock:
            self.done, self.failed, self.lost = self.done + done, self.failed + (not done), self.lost + lost


class Writer(Protocol):
    """Writes the changes of its own source into the table that all writers share."""

    def prepare(self) -> None: ...

    def step(self, version: int) -> tuple[bool, int]:
        """Writes a version of the source into the table; whether that succeeded, and how many attempts were lost."""
        ...


@dataclass
class OurWriter:
    """The writer of this project."""

    spark: SparkSession
    root: Path
    number: int
    meeting: Meeting

    def __post_init__(self) -> None:
        def asset(source: Changes) -> Merge:
            touched = source.touched(KEY, "part") if self.meeting is Meeting.PARTITIONS else source.touched(KEY)
            return Merge(touched.rows, touched)

        asset.__name__ = f"writer{self.number}"
        asset.__annotations__ = {f"source{self.number}": Changes, "return": Merge}
        self._asset: Callable[..., Merge] = lambda **inputs: asset(*inputs.values())
        self._asset.__name__, self._asset.__annotations__ = asset.__name__, asset.__annotations__
        self._lake = Lake(self.spark, self.root, {f"source{self.number}": KEY})
        own = str(self.number)
        whole = self.meeting is not Meeting.PARTITIONS
        self._table = Table(key=KEY if whole else (KEY, "part"), partition_by=None if whole else "part")
        self._slice = None if whole else Slice((PartitionKey(own, {"part": own}, {}),))

    def prepare(self) -> None:
        self._lake.adopt(self._asset, self._table, target="target", slice_=self._slice, upto=0)

    def step(self, version: int) -> tuple[bool, int]:
        retry = Retry(attempts=PATIENCE, deadline=3600)
        try:
            outcome = self._lake.materialize(
                self._asset, self._table, target="target", slice_=self._slice, retry=retry, upto=version
            )
        except LakehouseError:
            return False, PATIENCE
        match outcome:
            case Committed(lost=lost):
                return True, len(lost)
            case AlreadyApplied(lost=lost):
                return False, len(lost)
            case Unchanged():
                return False, 0


@dataclass
class TheirWriter:
    """A MERGE of the version's changes, its partition named as Delta's documentation advises.

    Args:
        spark: A session.
        root: Where the tables are.
        number: The number of the writer.
        meeting: What it has in common with the other writers.
        attempts: How often it tries: once, or in a loop with a second's pause, as a user would write it by hand.
    """

    spark: SparkSession
    root: Path
    number: int
    meeting: Meeting
    attempts: int = 1

    def prepare(self) -> None:
        """It keeps nothing."""

    def step(self, version: int) -> tuple[bool, int]:
        for attempt in range(self.attempts):
            try:
                self._merge(version)
            except Exception:
                if attempt + 1 < self.attempts:
                    time.sleep(1)
            else:
                return True, attempt
        return False, self.attempts

    def _merge(self, version: int) -> None:
        feed = (
            self.spark.read.format("delta")
            .option("readChangeFeed", "true")
            .option("startingVersion", version)
            .option("endingVersion", version)
            .load(str(self.root / f"source{self.number}"))
        )
        partition = f"t.part = {self.number} AND " if self.meeting is Meeting.PARTITIONS else ""
        (
            DeltaTable.forPath(self.spark, str(self.root / "target"))
            .alias("t")
            .merge(latest(feed).alias("s"), f"{partition}t.{KEY} = s.{KEY}")
            .whenMatchedDelete("s._change_type = 'delete'")
            .whenMatchedUpdate(set={"value": "s.value"})
            .whenNotMatchedInsert("s._change_type <> 'delete'", values={c: f"s.{c}" for c in (KEY, "part", "value")})
            .execute()
        )


def lay_out(root: Path, spark: SparkSession, writers: int, meeting: Meeting) -> None:
    """A target, and for each writer a source with one version for each of its steps."""
    for number in range(writers):
        first = 0 if meeting is Meeting.SAME else number * ROWS
        keys = range(first, first + ROWS)
        rows = {KEY: keys, "part": [0 if meeting is Meeting.SAME else number] * ROWS, "value": [0] * ROWS}
        frame = pa.table({column: pa.array(values, pa.int64()) for column, values in rows.items()})
        source = str(root / f"source{number}")
        write_deltalake(source, frame, configuration={FEED: "true"})
        for step in range(STEPS):
            low = first + step * CHANGED
            told = {"value": str(1 + step + 100 * number)}
            RustTable(source).update(predicate=f"{KEY} >= {low} AND {KEY} < {low + CHANGED}", updates=told)
        if meeting is Meeting.SAME and number > 0:
            continue
        writer = spark.createDataFrame(frame).coalesce(1).write.format("delta").options(**PROPERTIES).mode("append")
        (writer.partitionBy("part") if meeting is Meeting.PARTITIONS else writer).save(str(root / "target"))


def contested(lab: Lab, kind: str, writers: int, meeting: Meeting) -> tuple[Score, Cost]:
    """Runs all steps of all writers at the same time; their outcomes and their cost."""
    with lab.room() as room:
        lay_out(room, lab.spark, writers, meeting)
        team: list[Writer] = [
            OurWriter(lab.ours(), room, number, meeting)
            if kind == "ours"
            else TheirWriter(lab.ours(), room, number, meeting, PATIENCE if kind == "naive loop" else 1)
            for number in range(writers)
        ]
        for writer in team:
            writer.prepare()
        score = Score()

        def work(writer: Writer) -> None:
            for version in range(1, STEPS + 1):
                done, lost = writer.step(version)
                score.add(done=done, lost=lost)

        def all_of_them() -> None:
            with ThreadPoolExecutor(writers) as pool:
                list(pool.map(work, team))

        _, lap = lab.meter.measure(kind, all_of_them)
        if score.failed == 0 and meeting is not Meeting.SAME:
            changed = lab.spark.sql(f"SELECT count(*) FROM {name(room / 'target')} WHERE value > 0").collect()[0][0]
            assert changed == writers * STEPS * CHANGED, "an acknowledged change was lost"
        return score, lap.cost


def run(lab: Lab) -> Result:
    kinds = ("ours", "bare MERGE", "naive loop")
    for meeting, kind in product(Meeting, kinds):  # warms up: Java's compilation would count as work in vain
        contested(lab, kind, WRITERS[1], meeting)
    met = {of: contested(lab, of[2], of[1], of[0]) for of in product(Meeting, WRITERS, kinds)}
    # Measured last: Java goes on compiling, and against a lone step measured earlier the others would look cheap.
    step = {kind: contested(lab, kind, 1, Meeting.ROWS)[1].cpu / STEPS for kind in kinds}
    rows: list[tuple[str, ...]] = []
    in_vain: dict[str, float] = defaultdict(float)
    lost_apart = failed = 0
    for (meeting, writers, kind), (score, cost) in met.items():
        vain = max(0.0, cost.cpu - step[kind] * score.done)
        if meeting is not Meeting.PARTITIONS:
            in_vain[kind] += vain
        if kind == "ours":
            failed += score.failed
            lost_apart += score.lost if meeting is Meeting.PARTITIONS else 0
        done = f"{score.done / (score.done + score.failed):.0%}"
        what = f"{meeting.value}, {writers} writers: {kind}"
        rows.append((what, done, str(score.lost), f"{cost.cpu:.1f}", f"{vain:.1f}", f"{cost.wall:.1f}"))
    ours, naive = in_vain["ours"], in_vain["naive loop"]
    return Result(
        "contention",
        "Writers that meet",
        f"{STEPS} steps of {CHANGED} rows by each writer, in one JVM. Of writers of the same rows the last wins. A "
        f"bare MERGE is tried once, the naive loop up to {PATIENCE} times, a second apart. CPU in vain is what "
        "goes beyond the steps that came through, at the cost of the same step without a rival.",
        ("", "steps done", "attempts lost", "CPU s", "in vain s", "wall s"),
        rows,
        [
            Goal("ours: every step done", f"{failed} failed", failed == 0),
            Goal("ours: no conflict between partitions", f"{lost_apart} attempts lost", lost_apart == 0),
            Goal(
                "CPU in vain where they meet: under half of the naive loop's",
                f"{ours:.1f} s against {naive:.1f} s",
                ours < naive / 2,
            ),
        ],
    )

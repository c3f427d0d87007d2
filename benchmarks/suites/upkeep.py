"""A table of many small commits: the cost of reading it and of reading its changes, before upkeep and after."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from benchmarks.contestants.ours import Ours
from benchmarks.harness.data import Pair, change, name, neighbours
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.report import Goal, Result, at_most, figures
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.spark.table_version import TableRef
from lakehouse.upkeep.carry_out import Worker
from lakehouse.upkeep.due import Rules, TableUpkeep, steps_of, upkeep_of
from lakehouse.upkeep.readers import readers_of

ROWS, COMMITS, EACH = 100_000, 10_000, 10
DAY = 86_400_000
KEPT = "'delta.deletedFileRetentionDuration' = 'interval 30 days', 'lakehouse.timeTravel' = 'interval 7 days'"
"""With these properties past files are removed by a list, which does not go by the age of the files."""
COLUMNS = ("", "files", "MB", "files on disk", "MB on disk", "wall s", "CPU s", "jobs", "tasks", "rows read", "MB read")


def run(lab: Lab) -> Result:
    ours, commits = Ours(lab.ours()), max(50, int(COMMITS * lab.scale))
    with lab.room() as room:
        pair = Pair.of(lab.table(ROWS, 2, vectors=False), room / "pair")
        ours.prepare(pair)
        lab.spark.sql(f"ALTER TABLE {name(pair.source)} SET TBLPROPERTIES ({KEPT})").collect()
        append_often(pair.source, commits)
        DeltaTable(str(pair.source)).create_checkpoint()
        ours.step(pair)
        table = Measured(lab, ours, pair)
        before = table.read_and_step("before")
        compacted = table.keep("upkeep (OPTIMIZE)", 0)
        after = table.read_and_step("after OPTIMIZE")
        freed = table.keep("upkeep 8 days later (VACUUM)", 8)
        nothing = table.keep("upkeep if nothing is due", 8)
        last = table.read_and_step("after VACUUM")
    return Result(
        "upkeep",
        f"Upkeep of a table of {commits:,} small commits",
        f"{lab.rows(ROWS):,} rows, to which another program has appended {EACH} rows {commits:,} times. Its commits "
        "and files are written by hand, as Delta's protocol has them, and then a checkpoint. A read sums a column of "
        "the whole table. A step carries one changed row of it into a table that follows it. Upkeep goes by its rules; "
        "for VACUUM the clock is moved on by eight days.",
        COLUMNS,
        table.lines,
        [
            at_most("CPU of a read after upkeep: at most 0.2x", after[0].cpu / before[0].cpu, 0.2),
            at_most("CPU of a step after upkeep: at most 1.0x", after[1].cpu / before[1].cpu, 1.0),
            Goal("jobs of Spark if nothing is due", f"{nothing.jobs:.0f}", nothing.jobs == 0),
            Goal("upkeep, both together", f"{compacted.wall + freed.wall:.1f} s", None),
            at_most("CPU of a step after VACUUM: at most 1.1x of before it", last[1].cpu / after[1].cpu, 1.1),
        ],
    )


def append_often(table: Path, commits: int, done: int = 0) -> None:
    """Appends a few rows in each of many commits, as an ingestion that runs all day does; `done` such commits exist.

    Written by hand, because delta-rs replays the table for each commit: an hour for ten thousand of them.
    """
    first = DeltaTable(str(table)).version() + 1 - done
    for number in range(done, done + commits):
        ids, file = range(-EACH * (number + 1), -EACH * number), table / f"part-{first + number:05}-appended.parquet"
        columns = {column: pa.array(ids, pa.int64()) for column in ("id", "value")}
        pq.write_table(pa.table(columns), file)
        size, now = file.stat().st_size, int(time.time() * 1000)
        info = {
            "timestamp": now,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            "isBlindAppend": True,
            "operationMetrics": {"numFiles": "1", "numOutputRows": str(EACH), "numOutputBytes": str(size)},
        }
        add: dict[str, Any] = {
            "path": file.name,
            "partitionValues": {},
            "size": size,
            "modificationTime": now,
            "dataChange": True,
            "stats": json.dumps({"numRecords": EACH}),
        }
        lines = [json.dumps({"commitInfo": info}), json.dumps({"add": add})]
        (table / "_delta_log" / f"{first + number:020}.json").write_text("\n".join(lines) + "\n")


def due_of(pair: Pair, table: str, now: int) -> TableUpkeep:
    """The upkeep that one of the two tables needs by the rules; `now` is in milliseconds since the epoch."""
    paths = {"source": pair.source, "target": pair.target}
    logs = {each: FileLog(Location(str(path)), each) for each, path in paths.items()}
    readers = readers_of(table, logs, now)
    assert readers is not None
    due = upkeep_of(logs[table], readers, Rules())
    assert due is not None
    return due


class Measured:
    """Measures a table in the course of its upkeep, and collects the lines of the result."""

    def __init__(self, lab: Lab, ours: Ours, pair: Pair) -> None:
        self.lab, self.ours, self.pair, self.turn = lab, ours, pair, 0
        self.lines = list[tuple[str, ...]]()

    def read_and_step(self, when: str) -> tuple[Cost, Cost]:
        """The median cost of a read of the table, and of a step of a table that follows it."""
        query = f"SELECT sum(value) FROM {name(self.pair.source)}"
        reads, steps = list[Cost](), list[Cost]()
        for _ in range(self.lab.rounds + 1):
            reads.append(self.lab.meter.measure("read", lambda: self.lab.spark.sql(query).collect())[1].cost)
            self.turn += 1
            change(self.ours.spark, self.pair.source, neighbours(self.turn * 100))
            steps.append(self.lab.meter.measure("step", lambda: self.ours.step(self.pair))[1].cost)
        read, step = medians(reads[1:]), medians(steps[1:])
        self._line(f"read {when}", read)
        self._line(f"step {when}", step)
        return read, step

    def keep(self, what: str, days: int) -> Cost:
        """Carries out the upkeep that is due after this many days; its cost."""
        cost = self.lab.meter.measure("upkeep", lambda: self._keep(days))[1].cost
        self._line(what, cost)
        return cost

    def _keep(self, days: int) -> None:
        due = self._look(days)
        if due.tasks:
            ref = TableRef.at_path("source", str(self.pair.source))
            Worker(self.lab.spark, ref, "benchmark").carry_out(due, steps_of(due.tasks).now)

    def _look(self, days: int) -> TableUpkeep:
        return due_of(self.pair, "source", int(time.time() * 1000) + days * DAY)

    def _line(self, what: str, cost: Cost) -> None:
        live = self._look(0).live
        disk = [file.stat().st_size for file in self.pair.source.rglob("*.parquet") if "_delta_log" not in file.parts]
        sizes = (len(live), sum(file.bytes for file in live) / 1e6, len(disk), sum(disk) / 1e6)
        texts = (f"{size:,.1f}" if isinstance(size, float) else f"{size:,}" for size in sizes)
        self.lines.append((what, *texts, *figures(cost)[:6]))

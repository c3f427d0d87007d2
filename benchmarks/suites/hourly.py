"""Fifty days of a table that grows every hour, once with upkeep at night and once without."""

import time
from dataclasses import dataclass, field

from benchmarks.contestants.ours import Ours
from benchmarks.harness.data import Pair, change, name, neighbours
from benchmarks.harness.earlier import set_back
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.report import Goal, Result, at_most, figures
from benchmarks.suites.upkeep import KEPT, append_often, due_of
from lakehouse.spark.table_version import TableRef
from lakehouse.upkeep.carry_out import Worker
from lakehouse.upkeep.due import steps_of

ROWS, DAYS, HOURS, CORRECTED = 1_000_000, 50, 24, 1_000
WITH, WITHOUT = "with upkeep", "without"
COLUMNS = ("", "files", "files on disk", "MB on disk", "wall s", "CPU s", "jobs", "tasks", "rows read", "MB read")


def run(lab: Lab) -> Result:
    days = max(5, int(DAYS * lab.scale))
    with lab.room() as room:
        sides = [
            Side(what, lab, Pair.of(lab.table(ROWS, 2, vectors=False), room / what.split()[0]))
            for what in (WITH, WITHOUT)
        ]
        for side in sides:
            side.begin()
        lines = list[tuple[str, ...]]()
        for day in range(1, days + 1):
            for side in sides:
                side.day(day)
                if day % max(1, days // 5) == 0:
                    lines += side.lines(day)
        files = [side.files for side in sides]
    kept, left = sides
    nights = sum(cost.cpu for cost in kept.nights)
    return Result(
        "hourly",
        f"{days} days of an hourly table",
        f"A table of {lab.rows(ROWS):,} rows. Every hour another program appends a file to it; once a day "
        f"{lab.rows(CORRECTED):,} rows next to each other are corrected, and a table of ours follows. Then a day "
        "passes: all times in the logs and of the files are set back. One of two such pairs has upkeep every night, "
        "by its rules. A read sums a column of the whole table.",
        COLUMNS,
        lines,
        [
            at_most("CPU of a read, with against without: at most 0.5x", kept.read.cpu / left.read.cpu, 0.5),
            at_most("CPU of a step, with against without: at most 1.0x", kept.step.cpu / left.step.cpu, 1.0),
            at_most("files, with against without: at most 0.1x", files[0] / files[1], 0.1),
            Goal("CPU of upkeep, in all", f"{nights:.0f} s for {len(kept.nights)} tables in {days} nights", None),
        ],
    )


@dataclass
class Side:
    """A table that grows, a table that follows it, and what both cost."""

    what: str
    lab: Lab
    pair: Pair
    steps: list[Cost] = field(default_factory=list[Cost])
    nights: list[Cost] = field(default_factory=list[Cost])
    read: Cost = Cost()

    def begin(self) -> None:
        self.ours = Ours(self.lab.ours())
        self.ours.prepare(self.pair)
        for table in (self.pair.source, self.pair.target):
            self.lab.spark.sql(f"ALTER TABLE {name(table)} SET TBLPROPERTIES ({KEPT})").collect()

    def day(self, day: int) -> None:
        """Plays a day: its hourly appends, its correction, the step, and the night."""
        append_often(self.pair.source, HOURS, done=HOURS * (day - 1))
        count = self.lab.rows(CORRECTED)
        change(self.ours.spark, self.pair.source, neighbours(count * day, count))
        self.steps.append(self.lab.meter.measure("step", lambda: self.ours.step(self.pair))[1].cost)
        if self.what == WITH:
            measure = self.lab.meter.measure
            did = [measure("night", lambda table=table: self._keep(table)) for table in ("source", "target")]
            self.nights += [lap.cost for any_work, lap in did if any_work]
        for table in (self.pair.source, self.pair.target):
            set_back(table, 1)

    @property
    def step(self) -> Cost:
        return medians(self.steps[-5:])

    @property
    def files(self) -> int:
        return len(due_of(self.pair, "source", int(time.time() * 1000)).live)

    def lines(self, day: int) -> list[tuple[str, ...]]:
        """The figures of a day: a read, and the median step of the last days."""
        query = f"SELECT sum(value) FROM {name(self.pair.source)}"
        reads = [
            self.lab.meter.measure("read", lambda: self.lab.spark.sql(query).collect())[1].cost
            for _ in range(1 + self.lab.rounds)
        ]
        self.read = medians(reads[1:])
        disk = [file.stat().st_size for file in self.pair.source.rglob("*.parquet") if "_delta_log" not in file.parts]
        sizes = (f"{self.files:,}", f"{len(disk):,}", f"{sum(disk) / 1e6:,.1f}")
        print(f"  day {day} {self.what}: {sizes}", flush=True)
        return [
            (f"day {day}, read {self.what}", *sizes, *figures(self.read)[:6]),
            (f"day {day}, step {self.what}", *sizes, *figures(self.step)[:6]),
        ]

    def _keep(self, table: str) -> bool:
        due, path = due_of(self.pair, table, int(time.time() * 1000)), self.pair.root / table
        if due.tasks:
            worker = Worker(self.lab.spark, TableRef.at_path(table, str(path)), "benchmark")
            worker.carry_out(due, steps_of(due.tasks).now)
        return bool(due.tasks)

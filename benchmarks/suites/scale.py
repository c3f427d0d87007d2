"""How looks at the logs grow with the number of tables, versions, partitions, readers, waiting commits, diamonds.

The logs are written by hand and there are no rows, so Spark has no part in the figures.
"""

import cProfile
import json
import pstats
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self
from unittest.mock import patch

import dagster as dg
from deltalake import DeltaTable

from benchmarks.harness.lab import Lab
from benchmarks.harness.report import Result
from benchmarks.suites.cliffs import cpu, hours_of, metadata, unmarked
from lakehouse import Changes, DeltaIOManager, Merge, Policy, Table, cut
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position
from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.definitions.keeping import look, tables_to_keep
from lakehouse.dagster.follow.sensor import sensor_of
from lakehouse.dagster.io_manager import managed_tables
from lakehouse.spark.table_version import ReadableLogs
from lakehouse.status.lakehouse_status import lakehouse_status

SIZES = (10, 100, 1_000, 10_000, 100_000)
TABLES, VERSIONS = 10_000, 100_000
"""The largest number of tables that are laid out, and of versions of one table."""
FEW = 3
"""The number of versions of a table if it is not the number that grows."""
POOLS = (
    "dagster.follow.watch",
    "dagster.follow.cutting",
    "status.lakehouse_status",
    "status.table_status",
    "upkeep.readers",
)
"""The modules that read logs with several threads."""


def reader(name: str, *sources: str) -> dg.AssetsDefinition:
    """A table that reads the changes of one table or of two."""
    if len(sources) == 1:

        @dg.asset(name=name, ins={"source": dg.AssetIn(sources[0])}, metadata=Table(key="id"))
        def of_one(source: Changes) -> Merge: ...

        return of_one

    @dg.asset(name=name, ins={"one": dg.AssetIn(sources[0]), "other": dg.AssetIn(sources[1])}, metadata=Table(key="id"))
    def of_two(one: Changes, other: Changes) -> Merge: ...

    return of_two


@dataclass
class Lake:
    """Tables by their logs alone, and the definitions over them."""

    root: Path
    assets: list[Any] = field(default_factory=list[Any])

    def source(self, name: str, versions: int = FEW) -> None:
        """A table that another program writes."""
        self.assets.append(dg.AssetSpec(name, metadata=Table(key="id")))
        write(self.root / name, versions, unmarked)

    def table(self, name: str, *sources: str, versions: int = FEW) -> None:
        """A table whose n-th version has read the n-th version of its sources."""
        self.assets.append(reader(name, *sources))
        write(self.root / name, versions, partial(mark, name, sources))

    @cached_property
    def manager(self) -> DeltaIOManager:
        spark: Any = object()
        return DeltaIOManager(spark=spark, root=str(self.root), policy=Policy(inputs="agree"))

    @cached_property
    def definitions(self) -> dg.Definitions:
        return dg.Definitions(self.assets, resources={"io_manager": self.manager})

    @cached_property
    def code_location(self) -> CodeLocation:
        return managed_tables(self.assets, {"io_manager": self.manager})

    @cached_property
    def instance(self) -> dg.DagsterInstance:
        return dg.DagsterInstance.ephemeral()

    @cached_property
    def sensor(self) -> dg.SensorDefinition:
        return sensor_of(self.code_location, "follow")

    def tick(self) -> None:
        self.sensor(dg.build_sensor_context(instance=self.instance))

    def cut(self) -> None:
        cut(self.definitions)

    def status(self) -> None:
        lakehouse_status(ReadableLogs.of(self.code_location.refs).logs, int(time.time() * 1000))

    def upkeep(self) -> None:
        readable = ReadableLogs.of(self.code_location.refs)
        for table in tables_to_keep(self.code_location):
            look(table, self.code_location, readable)


def mark(name: str, sources: Iterable[str], version: int, partitions: tuple[str, ...] = ()) -> str:
    """The mark of a run that has read its sources up to the same version."""
    reads = {source: Position(source, version) for source in sources}
    run, attempt = f"run {version}", f"attempt {version}"
    return Mark(name, partitions, FIRST_GENERATION, version + 1, run, attempt, version - 1, reads=reads).to_json()


def write(path: Path, versions: int, says: Callable[[int], str | None], *, keeps: bool = False) -> None:
    """Writes a log: each commit adds the file of an hour and, without `keeps`, removes the file of the one before."""
    log, began = path / "_delta_log", int(time.time() * 1000) - versions
    log.mkdir(parents=True)
    for version in range(versions):
        told = says(version)
        info: dict[str, Any] = {
            "timestamp": began + version,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            "operationMetrics": {"numOutputRows": "1"},
        }
        (hour,) = hours_of(version, 1)
        file = {"partitionValues": {"hour": str(hour)}, "size": 1_000, "dataChange": True}
        added = file | {"path": f"part-{version}.parquet", "modificationTime": 0, "stats": '{"numRecords": 1}'}
        actions: list[dict[str, Any]] = [
            {"commitInfo": info | ({"userMetadata": told} if told else {})},
            {"add": added},
        ]
        if version == 0:
            actions += [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}, metadata(path.name)]
        elif not keeps:
            actions.append(
                {"remove": {"path": f"part-{version - 1}.parquet", "deletionTimestamp": began, "dataChange": True}}
            )
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    if versions > FEW:
        DeltaTable(str(path)).create_checkpoint()


def by_tables(lake: Lake, size: int) -> None:
    for n in range(size // 2):
        lake.source(f"source{n}")
        lake.table(f"table{n}", f"source{n}")


def by_versions(lake: Lake, size: int) -> None:
    lake.source("source", size)
    lake.table("table", "source", versions=size)


def by_readers(lake: Lake, size: int) -> None:
    lake.source("source")
    for n in range(size):
        lake.table(f"table{n}", "source")


def by_waiting(lake: Lake, size: int) -> None:
    lake.source("source", size + FEW)
    lake.table("table", "source")


def by_diamonds(lake: Lake, size: int) -> None:
    for n in range(size // 4 or 1):
        lake.source(f"source{n}")
        for side in ("left", "right"):
            lake.table(f"{side}{n}", f"source{n}")
        lake.table(f"meeting{n}", f"left{n}", f"right{n}")


def by_siblings(lake: Lake, size: int) -> None:
    lake.source("source")
    lake.table("left", "source")
    for n in range(size // 2):
        lake.table(f"right{n}", "source")
        lake.table(f"meeting{n}", "left", f"right{n}")


def by_partitions(lake: Lake, size: int) -> None:
    hours = dg.HourlyPartitionsDefinition("2023-01-01-00:00", end_offset=0, end_date=_end(size))
    declared = Table(key="id", partition_by="hour")

    @dg.asset(name="table", partitions_def=hours, metadata=declared, ins={"source": dg.AssetIn("source")})
    def hourly(source: Changes) -> Merge: ...

    lake.assets += [dg.AssetSpec("source", partitions_def=hours, metadata=declared), hourly]
    keys = hours.get_partition_keys()
    write(lake.root / "source", size, unmarked, keeps=True)
    write(lake.root / "table", size, lambda n: mark("table", ["source"], n, (keys[n],)), keeps=True)


def _end(size: int) -> str:
    return (datetime(2023, 1, 1) + timedelta(hours=size)).strftime("%Y-%m-%d-%H:%M")  # noqa: DTZ001


GROWN: Mapping[str, tuple[Callable[[Lake, int], None], tuple[str, ...]]] = {
    "tables": (by_tables, ("tick", "status", "upkeep")),
    "versions of a table": (by_versions, ("tick", "status", "upkeep")),
    "partitions": (by_partitions, ("tick", "status", "upkeep")),
    "readers of a source": (by_readers, ("tick", "status", "upkeep", "cut")),
    "commits that wait": (by_waiting, ("tick", "status", "cut")),
    "tables in diamonds": (by_diamonds, ("tick", "cut", "status")),
    "tables in diamonds with one side in common": (by_siblings, ("tick", "cut", "status")),
}
"""What grows, how it is laid out, and the looks that it may make more expensive."""


class _InTurn:
    """A stand-in for a pool of threads that uses none, so that a profile or a trace sees all of the work."""

    def __init__(self, *_: object) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def map(self, act: Callable[..., Any], *given: Iterable[Any]) -> Iterator[Any]:
        return map(act, *given)


@contextmanager
def in_turn() -> Generator[None]:
    """Lets this thread read all logs itself, one after the other."""
    with ExitStack() as stack:
        for module in POOLS:
            stack.enter_context(patch(f"lakehouse.{module}.ThreadPoolExecutor", _InTurn))
        yield


def most_of(act: Callable[[], None]) -> str:
    """The function in which the most time is spent, without the functions that it calls, and its share."""
    profile = cProfile.Profile()
    with in_turn():
        profile.runcall(act)
    # A figure is (calls, calls that are not recursive, time of its own, time with what it calls, callers).
    stats: Any = pstats.Stats(profile)
    figures: dict[tuple[str, int, str], tuple[Any, ...]] = stats.stats
    (file, _, name), figure = max(figures.items(), key=lambda each: each[1][2])
    place = name if file == "~" else f"{Path(file).stem}.{name}"
    return f"{place} {figure[2] / sum(each[2] for each in figures.values()):.0%}"


def run(lab: Lab) -> Result:
    rows = list[tuple[str, ...]]()
    sizes = [size for size in SIZES if size <= max(SIZES) * lab.scale]
    for what, (lay_out, looks) in GROWN.items():
        seconds, most = dict[str, list[float]](), dict[str, str]()
        own = [size for size in sizes if size <= (VERSIONS if lay_out is by_versions else TABLES)]
        for size in own:
            with lab.room() as room:
                lake = Lake(room)
                lay_out(lake, size)
                for name in looks:
                    act: Callable[[], None] = getattr(lake, name)
                    act()  # the second look is like every later one
                    seconds.setdefault(name, []).append(cpu(act))
                    most[name] = most_of(act) if size == own[-1] else ""
                lake.instance.dispose()
        for name, each in seconds.items():
            figures = [f"{s:.3f}" for s in each] + [""] * (len(sizes) - len(each))
            rows.append((f"{what}: {name}", *figures, most[name]))
    return Result(
        "scale",
        "What grows",
        "CPU seconds of this process for one look at the logs, on this disk; the second look, which every later one "
        f"is like. One number grows, and the others stay: {FEW} versions of a table, one reader. A tick is "
        "that of `change_sensor`, which asks for the tables that are behind; upkeep decides what is due of each table. "
        "Sizes stand above the columns; beside them the function with the most time of its own at the largest.",
        ("", *(f"{size:,}" for size in sizes), "most of it"),
        rows,
    )

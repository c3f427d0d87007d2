"""Where the cost of a look at the logs could grow with the product of two numbers: partitions, commits, files.

The logs are written by hand and there are no rows, so Spark has no part in the figures.
"""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg

from benchmarks.harness.lab import Lab
from benchmarks.harness.report import Result, at_most
from lakehouse import Changes, DeltaIOManager, Merge, Read, Table
from lakehouse.cursor.find import cursor_of_each
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position
from lakehouse.cursor.unread import pending
from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.follow.watch import Watch
from lakehouse.dagster.io_manager import roots_of
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.read.feed_trust import telling

HOURS, COMMITS, FILES, PENDING, TOLD = 8_760, 2_000, 20_000, 10_000, 1_000
YEAR = dg.HourlyPartitionsDefinition("2023-01-01-00:00", end_date="2024-01-01-00:00")
FIRST = datetime(2023, 1, 1)  # noqa: DTZ001  (as the log writes the values)
SCHEMA = json.dumps(
    {
        "type": "struct",
        "fields": [
            {"name": name, "type": kind, "nullable": True, "metadata": {}}
            for name, kind in (("id", "integer"), ("hour", "timestamp"))
        ],
    }
)


@dg.asset(partitions_def=YEAR, metadata=Table(key="id", partition_by="hour"))
def hourly(events: Changes) -> Merge: ...


events = dg.AssetSpec("events", partitions_def=YEAR, metadata=Table(key="id", partition_by="hour"))


def run(lab: Lab) -> Result:
    with lab.room() as room:
        write(room / "events", COMMITS, unmarked, per_commit=HOURS // COMMITS + 1)
        write(room / "hourly", COMMITS, marked, per_commit=HOURS // COMMITS + 1)
        write(room / "wide", 1, unmarked, per_commit=FILES)
        log = FileLog(Location(str(room / "hourly")), "hourly")
        head, hours = log.head(), YEAR.get_partition_keys()
        each = cpu(lambda: cursor_of_each(log, head, "hourly", hours))
        manager = DeltaIOManager(spark=object(), root=str(room))
        watch = Watch(CodeLocation.of([events, hourly], roots_of({"io_manager": manager})))
        instance = dg.DagsterInstance.ephemeral()
        look = cpu(lambda: watch.look(instance))
        write(room / "backlog", PENDING, unmarked, per_commit=1)
        pending_log = FileLog(Location(str(room / "backlog")), "backlog")
        newest = pending_log.head()
        assert newest is not None

        def batches(read: Read, positions: Sequence[int]) -> float:
            upto = newest.version
            return cpu(lambda: [pending(pending_log, "backlog", each, upto, read, 0) for each in positions]) / len(
                positions
            )

        spread = range(0, PENDING - 100, PENDING // 20)
        one, everything = batches(Read(max_versions=1), spread), batches(Read(), spread)
        wide = Location(str(room / "wide"))
        first = cpu(lambda: FileLog(wide, "wide").size())
        few, many = (weighed(room / name, files) for name, files in (("few", TOLD), ("many", FILES)))
        dozen = cpu(lambda: [FileLog(wide, "wide").size() for _ in range(12)])
    rows = {
        f"positions of {HOURS:,} partitions, one walk": each,
        "a tick of the sensor over that table and its source": look,
        f"{PENDING:,} pending commits in batches of one: a batch": one,
        "the same, if each batch reads all that is pending": everything,
        f"a table of {FILES:,} files opened": first,
        "the same table asked a dozen times more": dozen,
        f"{TOLD:,} pending commits that tell their changes, weighed": few,
        f"the same, in a table of {FILES:,} files": many,
    }
    return Result(
        "cliffs",
        "Cliffs",
        f"A year of hourly partitions, {COMMITS:,} commits in the table and in its source; a table of {FILES:,} files; "
        f"a backlog of {PENDING:,} commits; {TOLD:,} commits of others, each of which replaces a file and tells "
        "the row that it changes. Metadata only, CPU seconds of this process. A batch of the backlog is the mean of "
        "twenty; the goal takes it times the number of commits.",
        ("", "CPU s"),
        [(what, f"{seconds:.3f}") for what, seconds in rows.items()],
        [
            at_most("positions of a year of hours: at most 1 CPU s", each, 1),
            at_most(f"{PENDING:,} pending commits in batches of one: at most 60 CPU s", one * PENDING, 60),
            at_most(f"{TOLD:,} pending commits that tell their changes, weighed: at most 1 CPU s", few, 1),
            at_most("a dozen looks at a table of 20,000 files: at most 0.2 CPU s", dozen, 0.2),
        ],
    )


def cpu(action: Callable[[], Any]) -> float:
    """CPU seconds of all threads."""
    before = time.process_time()
    action()
    return time.process_time() - before


def hours_of(version: int, per_commit: int) -> Iterator[datetime]:
    return (FIRST + timedelta(hours=(version * per_commit + place) % HOURS) for place in range(per_commit))


def marked(version: int) -> str:
    """The mark of a run of one hour, which has read the source up to the same version."""
    hour = (FIRST + timedelta(hours=version * (HOURS // COMMITS + 1) % HOURS)).strftime("%Y-%m-%d-%H:%M")
    reads = {"events": Position("events", version)}
    return Mark(
        "hourly", (hour,), FIRST_GENERATION, 1, f"run {version}", f"attempt {version}", version - 1, reads=reads
    ).to_json()


def unmarked(version: int) -> None:
    """The `userMetadata` of a commit by another program: none."""


def weighed(path: Path, files: int) -> float:
    """The cost of weighing commits of a table with `files` files, which each replace a row as Delta's `UPDATE` does."""
    write(path, 1, unmarked, per_commit=files)
    log = path / "_delta_log"
    for version in range(1, TOLD + 1):
        info = {"timestamp": version, "operation": "UPDATE", "operationMetrics": {"numUpdatedRows": "1"}}
        file = {"partitionValues": {}, "size": 1_000, "modificationTime": 0, "dataChange": True}
        actions: list[dict[str, Any]] = [
            {"commitInfo": info},
            {"remove": {"path": f"part-0-{version - 1}.parquet", "deletionTimestamp": 0, "dataChange": True}},
            {"add": file | {"path": f"updated-{version}.parquet", "stats": json.dumps({"numRecords": 1})}},
            {"cdc": {"path": f"_change_data/{version}.parquet", "size": 1, "partitionValues": {}, "dataChange": False}},
        ]
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    table = FileLog(Location(str(path)), path.name)
    commits = tuple(table.commits(TOLD, 1))

    def weigh() -> None:
        assert [each.growth for each in telling(table, commits)] == [0] * TOLD

    return cpu(weigh)


def write(
    path: Path, commits: int, says: Callable[[int], str | None], *, per_commit: int, began: int = 1_700_000_000_000
) -> None:
    """Writes the log of a table: each commit adds the files of some hours."""
    log = path / "_delta_log"
    log.mkdir(parents=True)
    for version in range(commits):
        info: dict[str, Any] = {
            "timestamp": began + version,
            "operation": "WRITE",
            "operationParameters": {"mode": "Append"},
            "operationMetrics": {"numOutputRows": str(per_commit)},
        }
        told = says(version)
        actions: list[dict[str, Any]] = [{"commitInfo": info | ({"userMetadata": told} if told else {})}]
        if version == 0:
            actions += [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 4}}, metadata(path.name)]
        for place, hour in enumerate(hours_of(version, per_commit)):
            actions.append(
                {
                    "add": {
                        "path": f"part-{version}-{place}.parquet",
                        "partitionValues": {"hour": str(hour)},
                        "size": 1_000,
                        "modificationTime": 0,
                        "dataChange": True,
                        "stats": json.dumps({"numRecords": 1}),
                    }
                }
            )
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))


def metadata(name: str) -> dict[str, Any]:
    return {
        "metaData": {
            "id": name,
            "format": {"provider": "parquet", "options": {}},
            "schemaString": SCHEMA,
            "partitionColumns": ["hour"],
            "configuration": {"delta.enableChangeDataFeed": "true"},
        }
    }

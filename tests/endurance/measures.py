"""What is measured throughout: memory, open files and sizes, and, by the logs, how late the last table is."""

import json
import time
from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from statistics import median, quantiles
from typing import Any

from tests.endurance.processes import Processes
from tests.reliability.delta_files import log_files

WAY = ("orders", "orders_named", "revenue_by_city", "cities")
"""The tables from a source to the table that is farthest from it."""


@dataclass
class Measures:
    """Samples of one soak.

    Args:
        processes: Its processes.
        began: When it began, in seconds since the epoch.
    """

    processes: Processes
    began: float
    samples: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    sizes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def sample(self) -> None:
        """Samples memory and open files of the largest process of each kind."""
        memory, files = defaultdict[str, int](int), defaultdict[str, int](int)
        for process in self.processes.found():
            memory[process.role] = max(memory[process.role], process.memory)
            files[process.role] = max(files[process.role], process.open_files)
        self.samples.append({"at": self._now, "memory": memory, "files": files})

    def size(self) -> None:
        """Samples the bytes of the tables, of Spark's own files and of Dagster's history, and the number of commits."""
        root = self.processes.root
        tables = [path.parent for path in root.glob("*/_delta_log")]
        of_tables, of_logs, files, commits = 0, 0, 0, 0
        for table in tables:
            for file in table.rglob("*"):
                size = _size(file)
                files += 1
                of_tables += size
                if file.parent.name == "_delta_log":
                    of_logs += size
                    commits += file.suffix == ".json"
        scratch = sum(_size(file) for file in (root / "_spark").rglob("*"))
        history = sum(_size(file) for file in self.processes.home.rglob("*"))
        row = {"at": self._now, "tables": of_tables, "logs": of_logs, "files": files, "commits": commits}
        self.sizes.append(row | {"Spark's own files": scratch, "Dagster's history": history})

    def growth(self) -> dict[str, str]:
        """The memory of each kind of process in the first and in the last third; and what a commit leaves on disk."""
        third = len(self.samples) // 3 or 1
        found: dict[str, str] = {}
        for role in sorted({role for sample in self.samples for role in sample["memory"]}):
            first, last = (
                [sample["memory"][role] / 1e6 for sample in part if role in sample["memory"]]
                for part in (self.samples[:third], self.samples[-third:])
            )
            if first and last:
                found[role] = f"{median(first):.0f} MB, then {median(last):.0f} MB"
        begin, end = self.sizes[0], self.sizes[-1]
        commits = max(end["commits"] - begin["commits"], 1)
        for share in ("tables", "logs", "Dagster's history"):
            found[share] = f"{(end[share] - begin[share]) / commits / 1000:.1f} kB a commit"
        return found

    @property
    def _now(self) -> float:
        return time.time() - self.began


def _size(file: Path) -> int:
    try:
        return file.stat().st_blocks * 512
    except OSError:  # a file that came and went
        return 0


@dataclass(frozen=True, slots=True)
class Lateness:
    """Seconds from a commit of the first source to the first commit of the last table that holds it.

    Args:
        at: When the source committed, in seconds since the epoch.
        seconds: How much later the table committed.
    """

    at: float
    seconds: float


def lateness(root: Path) -> list[Lateness]:
    """How late the last table of `WAY` was with each commit of the source, by the logs."""
    position = {version: version for version in range(len(log_files(root / WAY[0])))}
    for before, table in pairwise(WAY):
        read = dict[int, int]()
        for file in log_files(root / table):
            upto = _read(file, before)
            if upto is not None:
                known = [version for version in position if version <= upto]
                if known:
                    read[int(file.stem)] = position[max(known)]
        position = read
    ends = sorted((source, _time(root, WAY[-1], version)) for version, source in position.items())
    found: list[Lateness] = []
    for file in log_files(root / WAY[0]):
        index = bisect_left(ends, (int(file.stem), 0.0))
        if index < len(ends):
            at = file.stat().st_mtime
            found.append(Lateness(at, max(min(end for _, end in ends[index:]) - at, 0)))
    return found


def _read(file: Path, source: str) -> int | None:
    for line in file.read_text().splitlines():
        info = json.loads(line).get("commitInfo")
        if info is not None:
            mark = json.loads(info.get("userMetadata") or "{}").get("lakehouse", {})
            return mark.get("reads", {}).get(source, {}).get("version")
    return None


def _time(root: Path, table: str, version: int) -> float:
    return (root / table / "_delta_log" / f"{version:020}.json").stat().st_mtime


def summary(late: list[Lateness]) -> dict[str, float]:
    seconds = [each.seconds for each in late]
    if len(seconds) < 2:
        return {}
    return {"median": median(seconds), "95 of 100": quantiles(seconds, n=20)[-1], "most": max(seconds)}

"""Contestants side by side in one run: in each round each of them does the same step, and only the step is measured."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol, TypeVar

from pyspark.sql import SparkSession

from benchmarks.harness import data, log_files
from benchmarks.harness.data import Pair
from benchmarks.harness.log_files import Files
from benchmarks.harness.meter import Cost, Meter, medians

T = TypeVar("T")


class Contestant(Protocol):
    """A way to keep a target equal to its source."""

    name: str

    def prepare(self, pair: Pair) -> None:
        """Notes how far the target has read, before anything changes."""
        ...

    def step(self, pair: Pair) -> None:
        """Brings the target up to the source."""
        ...


@dataclass
class Tally:
    """What a contestant's steps cost, and how they changed the files of the target."""

    costs: list[Cost] = field(default_factory=list)
    files: list[Files] = field(default_factory=list)

    @property
    def cost(self) -> Cost:
        return medians(self.costs)

    @property
    def added(self) -> Files:
        return self.files[len(self.files) // 2]


Check = Callable[[SparkSession, Contestant, Pair], None]
"""Ends the run if a contestant's target is wrong."""
Change = Callable[[Path, int], None]
"""Changes a source for a round."""
WARM = 3
"""Steps of each contestant that are not counted, because a lakehouse's server runs for days and is warm."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A contestant, its tables, and the source that its own source follows: all contestants get the same commits."""

    contestant: Contestant
    pair: Pair
    leader: Path


def kept(meter: Meter, entries: Mapping[str, Entry], change: Change, rounds: int) -> dict[str, Tally]:
    """Steps on lasting tables, as a schedule makes them: each round changes the source a little.

    The order of the contestants changes from round to round; the first rounds are warm-up.
    """
    tallies: dict[str, Tally] = defaultdict(Tally)
    for entry in entries.values():
        entry.contestant.prepare(entry.pair)
    for turn in range(WARM + rounds):
        changed(entries, change, turn)
        for name, entry in rotated(list(entries.items()), turn):
            tally = measured(meter, name, entry.contestant, entry.pair)
            if turn >= WARM:
                tallies[name].costs += tally.costs
                tallies[name].files += tally.files
    for entry in entries.values():
        checked(meter.spark, entry.contestant, entry.pair)
    return {name: tallies[name] for name in entries}


def fresh(
    meter: Meter, entries: Mapping[str, Entry], change: Change, rounds: int, scratch: Path, check: Check | None = None
) -> dict[str, Tally]:
    """The same large change again and again, each time on a fresh clone of the tables from before the change.

    At the end each target is checked, against its source if no other check is given.
    """
    tallies: dict[str, Tally] = defaultdict(Tally)
    for entry in entries.values():
        entry.contestant.prepare(entry.pair)
    for turn in range(WARM):
        changed(entries, change, turn)
        for entry in entries.values():
            entry.contestant.step(entry.pair)  # warms up, and makes the checkpoint of a stream
    changed(entries, change, WARM)
    for turn in range(rounds):
        for name, entry in rotated(list(entries.items()), turn):
            copy = Pair(scratch / f"clone-{turn}-{name.replace(' ', '-')}")
            data.clone(entry.pair.root, copy.root)
            tally = measured(meter, name, entry.contestant, copy)
            tallies[name].costs += tally.costs
            tallies[name].files += tally.files
            if turn == rounds - 1:
                (check or checked)(meter.spark, entry.contestant, copy)
            shutil.rmtree(copy.root)
    return {name: tallies[name] for name in entries}


def changed(entries: Mapping[str, Entry], change: Change, turn: int) -> None:
    for leader in dict.fromkeys(entry.leader for entry in entries.values()):
        change(leader, turn)
    for entry in entries.values():
        data.follow(entry.leader, entry.pair.source)


def measured(meter: Meter, name: str, contestant: Contestant, pair: Pair) -> Tally:
    before = log_files.version(pair.target)
    _, lap = meter.measure(name, lambda: contestant.step(pair))
    cost = lap.cost
    print(f"  {name:36} {cost.wall:7.2f} s wall {cost.cpu:7.2f} s CPU {cost.jobs:4.0f} jobs", flush=True)
    return Tally([lap.cost], [log_files.since(pair.target, before)])


def checked(spark: SparkSession, contestant: Contestant, pair: Pair) -> None:
    assert data.same(spark, pair.source, pair.target), f"{contestant.name} left another table than its source"


def entered(table: Path, contestants: Sequence[Contestant], root: Path) -> dict[str, Entry]:
    """An entry for each contestant, with tables of its own; all of them follow one source."""
    data.clone(table, root / "leader")
    return {c.name: Entry(c, Pair.of(table, root / f"{i}"), root / "leader") for i, c in enumerate(contestants)}


def rotated(items: list[T], by: int) -> list[T]:
    by %= max(1, len(items))
    return items[by:] + items[:by]

"""Contestants side by side in one run: round after round each does the same step, and only the step is measured."""

import shutil
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from pyspark.sql import SparkSession

from benchmarks import data, log_files
from benchmarks.data import Pair
from benchmarks.log_files import Files
from benchmarks.meter import Cost, Meter, medians


class Contestant(Protocol):
    """Somebody who keeps a target equal to its source."""

    spark: SparkSession
    name: str

    def prepare(self, pair: Pair) -> None:
        """Before anything changes: notes how far the target has read."""
        ...

    def step(self, pair: Pair) -> None:
        """Brings the target up to the source."""
        ...


@dataclass
class Tally:
    """What a contestant's steps cost, and what they did to the files of the target."""

    costs: list[Cost] = field(default_factory=list)
    files: list[Files] = field(default_factory=list)

    @property
    def cost(self) -> Cost:
        return medians(self.costs)

    @property
    def added(self) -> Files:
        return self.files[len(self.files) // 2]


Change = Callable[[Contestant, Pair, int], None]
"""Changes the source of a contestant's pair for a round: the same for everybody."""


def kept(meter: Meter, entries: Mapping[str, tuple[Contestant, Pair]], change: Change, rounds: int) -> dict[str, Tally]:
    """Steps on tables that stay, as a schedule makes them: each round changes the source a little.

    The order changes from round to round; the first round is warm-up.
    """
    tallies: dict[str, Tally] = defaultdict(Tally)
    for contestant, pair in entries.values():
        contestant.prepare(pair)
    for turn in range(rounds + 1):
        for name, (contestant, pair) in rotated(list(entries.items()), turn):
            change(contestant, pair, turn)
            before = log_files.version(pair.target)
            _, lap = meter.measure(name, lambda c=contestant, p=pair: c.step(p))
            if turn > 0:
                tallies[name].costs.append(lap.cost)
                tallies[name].files.append(log_files.since(pair.target, before))
    for name, (contestant, pair) in entries.items():
        assert data.same(contestant.spark, pair.source, pair.target), f"{name} left another table than its source"
    return {name: tallies[name] for name in entries}


def fresh(
    meter: Meter, entries: Mapping[str, tuple[Contestant, Pair]], change: Change, rounds: int, scratch: Path
) -> dict[str, Tally]:
    """The same large change again and again, each time on a fresh clone of the tables as they were before it."""
    tallies: dict[str, Tally] = defaultdict(Tally)
    for contestant, pair in entries.values():
        contestant.prepare(pair)
        change(contestant, pair, 0)
        contestant.step(pair)  # warms up, and makes a checkpoint where there is one
        assert data.same(contestant.spark, pair.source, pair.target), f"{contestant.name} left another table"
        change(contestant, pair, 1)
    for turn in range(rounds):
        for name, (contestant, pair) in rotated(list(entries.items()), turn):
            copy = Pair(scratch / f"clone-{turn}-{name.replace(' ', '-')}")
            data.clone(pair.root, copy.root)
            before = log_files.version(copy.target)
            _, lap = meter.measure(name, lambda c=contestant, p=copy: c.step(p))
            tallies[name].costs.append(lap.cost)
            tallies[name].files.append(log_files.since(copy.target, before))
            if turn == rounds - 1:
                assert data.same(contestant.spark, copy.source, copy.target), f"{name} left another table"
            shutil.rmtree(copy.root)
    return {name: tallies[name] for name in entries}


def pairs(table: Path, contestants: Sequence[Contestant], root: Path) -> dict[str, tuple[Contestant, Pair]]:
    """A pair of its own for each contestant."""
    return {c.name: (c, Pair.of(table, root / f"{index}")) for index, c in enumerate(contestants)}


def rotated(items: list[Any], by: int) -> list[Any]:
    by %= max(1, len(items))
    return items[by:] + items[:by]

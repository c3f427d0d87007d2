"""A table and its quarantine are the recompute, split by the conditions, whichever rows break them, whenever runs end.

Random histories on Delta: rows break a condition and are mended later, keys have two rows or NULL, conditions that
quarantine rows, drop them or warn are edited between runs, runs end at any point of the two commits, and others come too
late. The oracle is plain Python over the rows of the source. `LAKEHOUSE_HISTORIES` sets how many histories there are of
each kind of write.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

import pytest

from lakehouse import Changes, Expect, Merge, Overwrite, Table, View
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors import StaleInputsError
from lakehouse.materialization import Materialization
from lakehouse.spark.progress import Notice, PhaseBegan, PhaseEnded, listening
from lakehouse.writes.write import Write
from tests.support.judged import CONDITIONS, KilledError
from tests.support.lake import NO_WAIT, Lake
from tests.support.ready_runs import ready
from tests.support.slow import slow

HISTORIES = int(os.environ.get("LAKEHOUSE_HISTORIES", "1"))
FIRST = 3
"""With this seed, runs of `merge` end between the two commits, come too late, and have other conditions."""
STEPS = 7
Row = tuple[int, int | None, str, int | None]
Result = tuple[object, ...]


def by_key(src: Changes) -> Merge:
    touched = src.touched("k")
    return Merge(touched.rows.select("k", "g", "v"), touched)


def whole(src: Changes) -> Overwrite:
    return Overwrite(src.source.select("k", "g", "v"))


def by_group(src: Changes) -> Merge:
    """The touched keys are not those of the table."""
    touched = src.touched("g")
    return Merge(touched.rows.select("k", "g", "v"), touched)


def unkeyed(src: Changes) -> Overwrite:
    return whole(src)


def of_groups(src: Changes) -> View:
    return View("SELECT g, max(v) AS v, count(*) AS n FROM src GROUP BY g")


def summed(src: Changes) -> View:
    """Kept by sums while no expectation leaves a group out."""
    return View("SELECT g, count(*) AS n, sum(v) AS v FROM src GROUP BY g")


def rows_of(rows: Iterable[Row]) -> list[Result]:
    return [row[1:] for row in rows]


def maxima(rows: Iterable[Row]) -> list[Result]:
    return [(g, max(values, default=None), n) for g, (n, values) in groups(rows).items()]


def sums(rows: Iterable[Row]) -> list[Result]:
    return [(g, n, sum(values) if values else None) for g, (n, values) in groups(rows).items()]


def groups(rows: Iterable[Row]) -> dict[str, tuple[int, list[int]]]:
    """How many rows each group has, and its values that are not NULL."""
    listed = list(rows)
    each = {g: [v for _, _, of, v in listed if of == g] for _, _, g, _ in listed}
    return {g: (len(values), [v for v in values if v is not None]) for g, values in each.items()}


@dataclass(frozen=True)
class Kind:
    """A kind of write: its asset, its key, its result in plain Python, and where the result has key, group and value."""

    asset: Callable[..., object]
    key: str | None
    compute: Callable[[Iterable[Row]], list[Result]]
    places: tuple[int, int, int]
    repeats: bool = True
    """Whether several rows of the source may have the same key."""


KINDS = [
    pytest.param(Kind(by_key, "k", rows_of, (0, 1, 2)), id="merge"),
    slow(Kind(whole, "k", rows_of, (0, 1, 2)), id="overwrite"),
    slow(Kind(by_group, "k", rows_of, (0, 1, 2), repeats=False), id="merge by other keys"),
    slow(Kind(of_groups, "g", maxima, (0, 0, 1)), id="view"),
    slow(Kind(unkeyed, None, rows_of, (0, 1, 2)), id="no key"),
    slow(Kind(summed, "g", sums, (0, 0, 2)), id="sums"),
]


@dataclass
class World:
    lake: Lake
    random: Random
    kind: Kind
    rows: dict[int, Row] = field(default_factory=dict[int, Row])
    expectations: tuple[Expect, ...] = ()
    late: list[tuple[Materialization, Write]] = field(default_factory=list[tuple[Materialization, Write]])

    @property
    def name(self) -> str:
        return self.kind.asset.__name__

    @property
    def table(self) -> Table:
        return Table(key=self.kind.key, expect=self.expectations)

    def row(self, id_: int) -> Row:
        key = self.random.choice([None, 1, 2, 3, 4, 5]) if self.kind.repeats else id_
        return id_, key, self.random.choice("pqr"), self.random.choice([None, -1, 0, 1, 2, 3])

    def change(self) -> None:
        """Inserts, updates or deletes a row."""
        act = self.random.choice(["insert", "update", "update", "delete"])
        if act == "insert" or not self.rows:
            row = self.row(max(self.rows, default=0) + 1)
            self.lake.insert("src", [row])
            self.rows[row[0]] = row
            return
        id_ = self.random.choice(list(self.rows))
        if act == "delete":
            del self.rows[id_]
            self.lake.sql(f"DELETE FROM {{src}} WHERE id = {id_}")
            return
        _, k, g, v = self.rows[id_] = self.row(id_)
        k_, v_ = ("NULL" if value is None else value for value in (k, v))
        self.lake.sql(f"UPDATE {{src}} SET k = {k_}, g = '{g}', v = {v_} WHERE id = {id_}")

    def edit(self) -> None:
        """Sets other expectations. Where keys repeat, one of them is about the key: otherwise no run could write."""
        conditions = self.random.sample(list(CONDITIONS), self.random.choice([0, 1, 1, 2]))
        words = [self.random.choice(["quarantine", "quarantine", "drop", "warn"]) for _ in conditions]
        if self.kind.key is None:  # there is no quarantine without a key
            words = ["drop" if word == "quarantine" else word for word in words]
        listed = [Expect(c, w) for c, w in zip(conditions, words, strict=True)]
        of_key = self.kind.asset not in (by_group, unkeyed) and self.kind.compute is rows_of
        of_key = of_key and (self.kind.repeats or self.random.random() < 0.5)
        self.expectations = (*listed, *([Expect.unique_key()] if of_key else []))

    def split(self) -> tuple[list[Result], list[tuple[Result, tuple[str, ...]]]]:
        """The results for the table, and those for the quarantine with the names of expectations that they break."""
        key, g, v = self.kind.places
        taken, rejected = list[Result](), list[tuple[Result, tuple[str, ...]]]()
        for result in self.kind.compute(self.rows.values()):
            group, value = str(result[g]), result[v]
            breaks = [
                each
                for each in self.expectations
                if not each.is_of_key
                and not CONDITIONS[each.condition](group, value if isinstance(value, int) else None)
            ]
            names = tuple(sorted(each.check_name for each in breaks if each.quarantines))
            if names:
                rejected.append((result, names))
            elif not any(each.leaves_out for each in breaks):
                taken.append(result)
        if not any(each.is_of_key for each in self.expectations):
            return taken, rejected
        keys = [result[key] for result in taken]
        alone = [result for result in taken if result[key] is not None and keys.count(result[key]) == 1]
        rejected += [(result, ("unique_key",)) for result in taken if result not in alone]
        return alone, rejected

    def run(self) -> None:
        """Brings the table up to date, perhaps after runs that are killed, or before one that comes too late."""
        if self.random.random() < 0.25:
            self.late.append(ready(self.lake, self.kind.asset, self.table))
        kept = self.expectations
        while self.random.random() < 0.35:
            if self.random.random() < 0.3:  # a definition that is taken back
                self.edit()
            asked = "a full refresh was asked for" if self.random.random() < 0.2 else None
            with suppress(KilledError), listening(ending(self.random.randrange(1, 14))):
                self.lake.materialize(self.kind.asset, self.table, compare=asked)
        if self.random.random() < 0.5:
            self.expectations = kept
        if self.late and self.random.random() < 0.4:
            step, write = self.late.pop()
            with suppress(StaleInputsError):
                step.commit(write, self.lake.retry, NO_WAIT)
        asked = "a full refresh was asked for" if self.random.random() < 0.1 else None
        self.lake.materialize(self.kind.asset, self.table, compare=asked)

    def check(self) -> None:
        taken, rejected = self.split()
        assert self.lake.rows(self.name) == sorted(taken, key=repr), self.expectations
        if not self.lake.exists(f"{self.name}_quarantine"):
            assert not rejected
            return
        held = [(row[:-3], tuple(row[-3])) for row in self.lake.rows(f"{self.name}_quarantine")]
        assert sorted(held, key=repr) == sorted(rejected, key=repr), self.expectations
        self.check_numbers([(row[self.kind.places[0]], row[-2]) for row in self.lake.rows(f"{self.name}_quarantine")])

    def check_numbers(self, pairs: Sequence[tuple[object, object]]) -> None:
        """The rows of a key are numbered from 1."""
        for key in {key for key, _ in pairs}:
            numbers = sorted(int(str(nth)) for of, nth in pairs if of == key)
            assert numbers == list(range(1, len(numbers) + 1))


def ending(after: int) -> Callable[[Notice], None]:
    """A listener that ends the run when this many phases have begun or ended."""
    seen = 0

    def listen(notice: Notice) -> None:
        nonlocal seen
        seen += isinstance(notice, PhaseBegan | PhaseEnded)
        if seen == after:
            seen += 1
            raise KilledError

    return listen


@pytest.mark.parametrize("seed", range(FIRST, FIRST + HISTORIES))
@pytest.mark.parametrize("kind", KINDS)
def test_a_table_and_its_quarantine_are_its_recompute_split_by_the_conditions(
    lake: Lake, kind: Kind, seed: int
) -> None:
    random = Random(f"{kind.asset.__name__} {seed}")
    world = World(lake, random, kind)
    world.rows = {id_: world.row(id_) for id_ in range(1, 6)}
    lake.create("src", world.rows.values(), "id int, k int, g string, v int")
    world.edit()
    with in_force(Limits() if random.random() < 0.7 else Limits(driver_rows=0)):
        for _ in range(STEPS):
            for _ in range(random.choice([0, 1, 1, 3])):
                world.change()
            if random.random() < 0.3:
                world.edit()
            world.run()
            world.check()

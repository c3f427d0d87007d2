"""A table equals its recompute without the rows that its expectations leave out, whatever rows break them, and when.

Random histories on Delta: rows break a condition and are mended later, keys lose their last row that is taken, conditions
are edited between runs, a run compares everything. The oracle is plain Python over the rows of the source.
`LAKEHOUSE_HISTORIES` says how many histories there are of each kind of write.
"""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from random import Random

import pytest

from lakehouse import Changes, Expect, Merge, Overwrite, Table, View
from lakehouse.delta.limits import Limits, in_force
from tests.support.judged import CONDITIONS
from tests.support.lake import Lake
from tests.support.slow import slow

HISTORIES = int(os.environ.get("LAKEHOUSE_HISTORIES", "1"))
STEPS = 7
Row = tuple[int, str, int | None]
Result = tuple[object, ...]


def by_id(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.select("id", "g", "v"), touched)


def whole(src: Changes) -> Overwrite:
    return Overwrite(src.source.select("id", "g", "v"))


def unkeyed(src: Changes) -> Overwrite:
    return Overwrite(src.source.select("id", "g", "v"))


def of_groups(src: Changes) -> View:
    return View("SELECT g, max(v) AS v, count(*) AS n FROM src GROUP BY g")


def summed(src: Changes) -> View:
    """Kept by sums while no expectation leaves a group out."""
    return View("SELECT g, count(*) AS n, sum(v) AS v FROM src GROUP BY g")


def rows_of(rows: Iterable[Row]) -> list[Result]:
    return list(rows)


def maxima(rows: Iterable[Row]) -> list[Result]:
    listed = list(rows)
    groups = {g: [v for _, of, v in listed if of == g] for _, g, _ in listed}
    return [(g, max((v for v in of if v is not None), default=None), len(of)) for g, of in groups.items()]


def sums(rows: Iterable[Row]) -> list[Result]:
    listed = list(rows)
    groups = {g: [v for _, of, v in listed if of == g] for _, g, _ in listed}
    return [
        (g, len(of), sum(v for v in of if v is not None) if any(v is not None for v in of) else None)
        for g, of in groups.items()
    ]


KINDS = [
    pytest.param(by_id, "id", rows_of, (1, 2), id="merge"),
    slow(whole, "id", rows_of, (1, 2)),
    slow(unkeyed, None, rows_of, (1, 2)),
    slow(of_groups, "g", maxima, (0, 1), id="view"),
    slow(summed, "g", sums, (0, 2)),
]


@dataclass
class World:
    lake: Lake
    random: Random
    rows: dict[int, Row] = field(default_factory=dict[int, Row])
    expectations: tuple[Expect, ...] = ()

    def row(self, id_: int) -> Row:
        return id_, self.random.choice("pqr"), self.random.choice([None, -1, 0, 1, 2, 3])

    def change(self) -> None:
        """Inserts, updates or deletes a row."""
        act = self.random.choice(["insert", "insert", "update", "update", "delete"])
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
        _, g, v = self.rows[id_] = self.row(id_)
        self.lake.sql(f"UPDATE {{src}} SET g = '{g}', v = {'NULL' if v is None else v} WHERE id = {id_}")

    def edit(self) -> None:
        """Writes other expectations."""
        conditions = self.random.sample(list(CONDITIONS), self.random.choice([0, 1, 1, 2]))
        words = [self.random.choice(["drop", "drop", "warn"]) for _ in conditions]
        self.expectations = tuple(
            Expect(c, "drop" if w == "drop" else "warn") for c, w in zip(conditions, words, strict=True)
        )

    def left(self, results: Iterable[Result], columns: tuple[int, int]) -> list[Result]:
        """The results that no expectation leaves out."""
        leaving = [CONDITIONS[each.condition] for each in self.expectations if each.leaves_out]
        g, v = columns

        def stays(result: Result) -> bool:
            value = result[v]
            return all(holds(str(result[g]), value if isinstance(value, int) else None) for holds in leaving)

        return [result for result in results if stays(result)]


@pytest.mark.parametrize("seed", range(HISTORIES))
@pytest.mark.parametrize(("asset", "key", "compute", "columns"), KINDS)
def test_a_table_is_its_recompute_without_the_rows_that_are_left_out(
    lake: Lake,
    asset: Callable[..., object],
    key: str | None,
    compute: Callable[[Iterable[Row]], list[Result]],
    columns: tuple[int, int],
    seed: int,
) -> None:
    random = Random(f"{asset.__name__} {seed}")
    world = World(lake, random)
    world.rows = {id_: world.row(id_) for id_ in range(1, 6)}
    lake.create("src", world.rows.values(), "id int, g string, v int")
    world.edit()
    with in_force(Limits() if random.random() < 0.7 else Limits(driver_rows=0)):
        for _ in range(STEPS):
            for _ in range(random.choice([0, 1, 1, 3])):
                world.change()
            if random.random() < 0.4:
                world.edit()
            options = {"compare": "a full refresh was asked for"} if random.random() < 0.1 else {}
            lake.materialize(asset, Table(key=key, expect=world.expectations), **options)
            due = sorted(world.left(compute(world.rows.values()), columns), key=repr)
            assert lake.rows(asset.__name__) == due, world.expectations

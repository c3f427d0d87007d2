"""After a corrected extract a table holds what it would hold if it had seen only the corrected extract."""

import copy
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from lakehouse import History, Snapshot, Table
from lakehouse.commit.outcome import Unchanged
from lakehouse.errors import WriteError
from tests.support.extracts import HISTORIES, Delivery, Kept, Values
from tests.support.lake import Lake
from tests.support.slow import slow

KEYED = Table(key="id")
COUNTRIES = ("x", "y", "z")
TRACKED = ("g", "a", "b")


def history(lake: Lake, delivery: Delivery, track: tuple[str, ...]) -> Callable[[], Any]:
    def table() -> History:
        return History(delivery.snapshot(lake, max_deleted=1), track=track)

    return table


def current(lake: Lake, delivery: Delivery, track: tuple[str, ...]) -> Callable[[], Any]:
    def table() -> Snapshot:
        return delivery.snapshot(lake, max_deleted=1)

    return table


def held(lake: Lake, write: Callable[..., Any]) -> list[tuple[Any, ...]]:
    columns = ("id", "__START_AT", "__END_AT", "g", "a", "b") if write is history else ("id", "g", "a", "b")
    return sorted((tuple(row) for row in lake.frame("table").select(*columns).collect()), key=repr)


def due(kept: Kept, write: Callable[..., Any]) -> list[tuple[Any, ...]]:
    return kept.type_2() if write is history else kept.type_1()


def row(country: str, a: int = 1) -> Values:
    return {"g": country, "a": a, "b": "p"}


FIRST = Delivery(1, {1: row("x"), 7: row("y"), 8: row("y")})


@pytest.mark.slow
@pytest.mark.parametrize("by_name", [True, slow(False)], ids=["the columns", "the values"])
@pytest.mark.parametrize("write", [history, slow(current)], ids=["history", "current"])
def test_a_key_of_another_country_that_a_file_had_by_mistake_keeps_its_row(
    lake: Lake, write: Callable[..., Any], *, by_name: bool
) -> None:
    scope: Any = ("g",) if by_name else {"g": ("x",)}
    for delivery in (
        FIRST,
        Delivery(2, {1: row("x"), 7: row("x", 2)}, scope),
        Delivery(2, {1: row("x"), 7: row("x", 3)}, scope),
        Delivery(2, {1: row("x")}, scope),
    ):
        lake.materialize(write(lake, delivery, TRACKED), KEYED)
    kept = Kept(TRACKED)
    kept.deliver(FIRST)
    kept.deliver(Delivery(2, {1: row("x")}, scope))
    assert held(lake, write) == due(kept, write)
    assert isinstance(lake.materialize(write(lake, Delivery(2, {1: row("x")}, scope), TRACKED), KEYED), Unchanged)


@pytest.mark.slow
@pytest.mark.parametrize("write", [history, current])
def test_whether_a_key_was_left_out_by_its_own_country_too_decides(lake: Lake, write: Callable[..., Any]) -> None:
    """Before the mistake the table's past shows that; after the mistake nothing shows it, and a user has to decide."""
    kept = Kept(TRACKED)

    def deliver(version: int, rows: dict[int, Values], scope: tuple[str, ...], *, right: bool = True) -> None:
        delivery = Delivery(version, rows, scope)
        lake.materialize(write(lake, delivery, TRACKED), KEYED)
        if right:
            kept.deliver(delivery)

    without, mistaken, corrected = {8: row("y")}, {1: row("x"), 7: row("x")}, {1: row("x")}
    deliver(1, dict(FIRST.rows), ())
    deliver(2, without, ("g",))
    deliver(2, mistaken, ("g",), right=False)
    deliver(2, corrected, ("g",))
    assert held(lake, write) == due(kept, write)
    deliver(3, dict(FIRST.rows), ())
    deliver(4, mistaken, ("g",), right=False)
    deliver(4, without, ("g",), right=False)
    version = lake.version("table")
    with pytest.raises(
        WriteError, match=rf"of another scope was delivered.* RESTORE the table to version {version - 2}"
    ):
        deliver(4, corrected, ("g",))
    assert lake.version("table") == version
    deliver(4, corrected | without, ("g",))
    assert held(lake, write) == due(kept, write)


@dataclass
class World:
    """Customers, each in one country or gone, and the files of a version: one for each country.

    Args:
        chance: The source of random choices.
        customers: The country and the values of each.
    """

    chance: random.Random
    customers: dict[int, Values] = field(default_factory=dict)

    def moves(self) -> None:
        """A day passes."""
        for key in range(8):
            if key not in self.customers or self.chance.random() < 0.4:
                self.customers[key] = row(self.chance.choice(COUNTRIES), self.chance.choice([1, 2]))
            if self.chance.random() < 0.15:
                del self.customers[key]

    def file(self, version: int, country: str) -> Delivery:
        rows = {key: dict(values) for key, values in self.customers.items() if values["g"] == country}
        return Delivery(version, rows, {"g": (country,)})

    def mistaken(self, right: Delivery, country: str) -> Delivery:
        """A file with customers of other countries, without some of its own, or with other values."""
        rows = {key: dict(values) for key, values in right.rows.items() if self.chance.random() < 0.8}
        for key in self.chance.sample(range(8), 2):
            rows[key] = row(country, self.chance.choice([1, 2, 3]))
        return Delivery(right.version, rows, right.scope)


@pytest.mark.parametrize("write", [history, current])
@pytest.mark.parametrize("track", [TRACKED, slow(("a",))], ids=["all", "one"])
@pytest.mark.parametrize("seed", [slow(1), slow(2), *map(slow, HISTORIES)])
def test_a_table_whose_mistakes_were_corrected_is_one_that_saw_none(
    lake: Lake, write: Callable[..., Any], track: tuple[str, ...], seed: int
) -> None:
    chance, kept = random.Random(seed), Kept(track)
    world = World(chance)
    refusals = list[str]()

    def deliver(delivery: Delivery) -> None:
        lake.materialize(write(lake, delivery, track), KEYED)

    for version in range(1, 4):
        world.moves()
        files = [(country, world.file(version, country)) for country in chance.sample(COUNTRIES, 3)]
        if version == 1:
            first = Delivery(1, world.customers)
            deliver(first)
            kept.deliver(first)
            continue
        place = chance.randrange(3)
        later = chance.randrange(place, 3)
        before = copy.deepcopy(kept)
        for at, (country, right) in enumerate(files):
            if at != place:
                deliver(right)
                kept.deliver(right)
            else:
                for _ in range(chance.choice([1, 2])):
                    deliver(world.mistaken(right, country))
            if at == later:
                corrected = files[place][1]
                try:
                    deliver(corrected)
                except WriteError as error:
                    refusals.append(str(error))
                    kept, corrected = before, together(files)
                    deliver(corrected)
                kept.deliver(corrected)
            if not place <= at < later:
                assert held(lake, write) == due(kept, write), (seed, version, refusals)
    assert all("of another scope" in refusal for refusal in refusals)


def together(files: list[tuple[str, Delivery]]) -> Delivery:
    """The files of several countries as one extract."""
    rows = {key: values for _, file in files for key, values in file.rows.items()}
    return Delivery(files[0][1].version, rows, {"g": tuple(country for country, _ in files)})


def test_null_and_the_text_none_are_two_scopes(lake: Lake) -> None:
    """The second scope took the key 1 over, and the third said that it is gone: no correction brings it back."""
    none = {"g": "None", "a": 1, "b": "p"}
    for delivery in (
        Delivery(1, {1: {**none, "g": None}, 5: {**none, "g": None}, 9: none}),
        Delivery(2, {1: none, 9: none}, {"g": ("None",)}),
        Delivery(2, {5: {**none, "g": None}}, {"g": (None,)}),
    ):
        lake.materialize(current(lake, delivery, TRACKED), KEYED)
    with pytest.raises(WriteError, match="an extract of another scope was delivered as well"):
        lake.materialize(current(lake, Delivery(2, {9: none}, {"g": ("None",)}), TRACKED), KEYED)


def test_a_column_that_delta_computes_is_asked_for_because_a_stored_value_may_not_fit(lake: Lake) -> None:
    where, feed = lake.root / "table", "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lake.spark.sql(
        f"CREATE TABLE delta.`{where}` (id INT, a INT, n INT GENERATED ALWAYS AS (a + 1)) USING delta {feed}"
    )
    lake.sql("INSERT INTO {table} (id, a) VALUES (1, 1)")

    def table() -> Snapshot:
        return Snapshot(lake.values([(1, 5)], "id INT, a INT"), version=1)

    with pytest.raises(WriteError, match=r"n: is missing from the result, which Delta generates as a \+ 1"):
        lake.materialize(table, KEYED, allowed=frozenset({"version"}))


@pytest.mark.parametrize("write", [history, slow(current)], ids=["history", "current"])
def test_no_row_comes_back_from_before_a_column_was_renamed(lake: Lake, write: Callable[..., Any]) -> None:
    mapped = Table(key="id", properties={"delta.columnMapping.mode": "name"})
    tracked = ("g", "a")
    for delivery in (FIRST, Delivery(2, {1: row("x"), 7: row("x")}, ("g",))):
        lake.materialize(write(lake, delivery, tracked), mapped)
    lake.sql("ALTER TABLE {table} RENAME COLUMN b TO c")
    with pytest.raises(WriteError, match=r"\(RENAME COLUMN\) has changed its columns since"):
        lake.materialize(write(lake, Delivery(2, {1: row("x")}, ("g",), ("b",)), tracked), mapped)


def test_a_number_in_a_scope_is_the_text_that_it_makes(lake: Lake) -> None:
    rows = {1: row("1"), 2: row("01"), 3: row("one")}
    lake.materialize(current(lake, Delivery(1, rows), TRACKED), KEYED)
    lake.materialize(current(lake, Delivery(2, {1: row("1", 5)}, {"g": (1,)}), TRACKED), KEYED)
    assert [id_ for id_, *_ in lake.rows("table")] == [1, 2, 3]

"""A table that owns some rows: inside it equals a recompute, outside no run changes a row, and none changes sides."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse import Changes, Expect, Merge, Overwrite, Table
from lakehouse.commit.outcome import Committed
from lakehouse.cursor.cursor import Fresh
from lakehouse.cursor.find import newest_own
from lakehouse.cursor.walk import Past
from lakehouse.delta.limits import Limits, in_force
from lakehouse.delta.owned import moment_of
from lakehouse.difference.between_versions import is_same
from lakehouse.difference.statements import MarkOnly
from lakehouse.read.asset import Asset, PastRows
from lakehouse.read.run import Run
from lakehouse.spark.progress import KeysLeftAlone, Notice
from lakehouse.spark.table_version import TableRef, TableVersion
from lakehouse.views.on_spark.owned_rows import refuse_unknown_columns, rewritable_since
from lakehouse.views.sql.owned_text import owned_at
from tests.delta.test_owned import EDGES, MOMENT
from tests.support.lake import NO_WAIT, Lake
from tests.support.owned_tables import FIRST, TABLES, OwnedHouse, copied, drawn, per_day
from tests.support.raises import raises_code
from tests.support.slow import slow


@pytest.fixture
def house(spark: SparkSession, tmp_path: Path) -> OwnedHouse:
    house = OwnedHouse(Lake(spark, tmp_path))
    house.begin()
    return house


def day(number: int) -> date:
    return FIRST + timedelta(days=number)


@pytest.mark.parametrize("kinds", ["by keys", slow("the others")])
def test_the_past_stays_whatever_happens_upstream_until_a_run_thaws_it(house: OwnedHouse, kinds: str) -> None:
    house.kept = TABLES[:2] if kinds == "by keys" else TABLES[1:]
    house.run()  # the first one: everything that the sources have
    house.purge(day(8))  # the days that are owned begin with the tenth
    house.insert((100, day(3), 0, 70), (101, day(19), 3, 80))
    house.move(0, "Ulm")
    house.run()
    house.day += timedelta(days=6)  # a pause: the edge moves, and what changes meanwhile is never read
    house.change(12, 77)
    house.insert((102, day(14), 1, 90), (103, day(25), 1, 99))
    house.run()
    house.run((day(2), day(4)))
    house.change(12, 78)
    house.owned_days = 15  # the slice grows
    house.run()
    house.owned_days = 5
    house.purge(day(24))
    house.run()
    house.restore(1)
    house.run()
    for kept in house.kept:
        assert_no_run_touched_what_none_owned(house.lake, kept.name)


def assert_no_run_touched_what_none_owned(lake: Lake, name: str) -> None:
    """The frozen rows that the check compares are the same at each version, whatever version it begins with."""
    log = lake.ref(name).log(lambda: lake.spark)
    head = log.head()
    assert head is not None
    own = newest_own(log, head, name)
    assert own is not None and own.mark.owned is not None
    for version in range(1, head.version, 3):
        since, rewritable = rewritable_since(Past.of(log, head), name, version, own.mark.owned)
        after = replace(TableVersion.of(lake.spark, lake.ref(name), head), where=f"NOT coalesce({rewritable}, FALSE)")
        assert since >= version and is_same(replace(after, version=since), after), (name, version, rewritable)


@pytest.mark.slow
@pytest.mark.parametrize(
    "limits", [Limits(), Limits(one_task_keys=0, driver_rows=0, compared_rows=0)], ids=["few", "many"]
)
@pytest.mark.parametrize("seed", range(8))
def test_the_past_stays_in_random_histories(house: OwnedHouse, seed: int, limits: Limits) -> None:
    chance = Random(seed)
    house.kept = drawn(chance, 4)
    with in_force(limits):
        house.run()
        for _ in range(10):
            house.act(chance)


def test_changes_of_the_past_alone_move_the_position_and_nothing_is_computed(house: OwnedHouse) -> None:
    alone = list[int]()
    hear = house.lake.hear

    def listen(notice: Notice) -> None:
        hear(notice)
        if isinstance(notice, KeysLeftAlone):
            alone.append(notice.keys)

    house.lake.hear = listen  # type: ignore[method-assign]
    house.kept = tuple(kept for kept in TABLES if kept.name in ("per_day", "largest", "summed"))
    house.run()
    house.insert((100, day(3), 0, 70), (101, day(4), 0, 70))
    for name, outcome in house.run().items():
        assert isinstance(outcome, Committed) and isinstance(outcome.statement, MarkOnly), name
        assert outcome.mark.reads["orders"].version == house.lake.version("orders")
    assert alone == [2], "a view does not look for the keys that it leaves alone"


def test_a_run_after_a_pause_says_which_keys_froze_unread_and_reads_them_once_if_asked(house: OwnedHouse) -> None:
    house.kept = tuple(kept for kept in TABLES if kept.name in ("per_day", "largest"))
    house.run()
    house.insert((100, day(19), 0, 70))
    house.run()  # the first commit that records which days it owned
    house.day += timedelta(days=3)
    house.insert((101, day(10), 0, 75), (102, day(3), 0, 70))
    house.run()
    begin = "froze with changes that no run has read (for example 2026-01-11"
    end = "To read them, thaw day >= DATE'2026-01-11'."
    of_day, of_city = house.lake.told
    assert of_day == f"1 key of per_day {begin}). {end}"
    assert of_city.startswith(f"1 key of largest {begin}, ") and of_city.endswith(end)
    house.day += timedelta(days=3)
    house.insert((103, day(13), 0, 76), (104, day(3), 0, 70))
    for outcome in house.run((day(13), day(15)), unread=True).values():  # the days between the two edges
        assert isinstance(outcome, Committed) and not outcome.mark.everything, "by keys"
    house.purge(day(15))  # rows that were thawed once are frozen again
    house.run()
    assert len(house.lake.told) == 2


def test_a_run_that_began_earlier_thaws_nothing_and_a_zombie_writes_nothing(house: OwnedHouse) -> None:
    house.kept = tuple(kept for kept in TABLES if kept.name in ("per_day", "listed"))
    house.run()
    kept = house.kept[0]
    house.insert((100, day(12), 0, 70))
    zombie = house.lake.begin(per_day, kept.table(house.owns), moment=house.moment)
    inputs: dict[str, Any] = dict(house.lake.read(zombie, per_day))
    write = per_day(**inputs)
    house.day += timedelta(days=5)
    house.run()
    before = house.lake.version("per_day")
    zombie.commit(write, house.lake.retry, NO_WAIT)
    assert house.lake.version("per_day") == before
    house.kept = (kept,)
    house.purge(day(18))
    house.run(moment=moment_of(0))  # a wrong clock: the moment of the last commit is used
    mark = house.lake.commits("per_day")[-1].user_metadata
    assert mark is not None and f"{house.moment:%Y-%m-%dT%H}" in mark


def by_day(orders: Changes) -> Merge:
    touched = orders.touched("day")
    return Merge(touched.rows.select("id", "day", "amount"), touched)


@pytest.mark.parametrize("asset", [copied, slow(by_day)])
def test_a_row_that_changes_sides_stops_the_run_until_both_rows_are_thawed(house: OwnedHouse, asset: Any) -> None:
    house.kept = (replace(next(kept for kept in TABLES if kept.name == "copied"), asset=asset),)
    table = house.kept[0].table(house.owns)
    house.run()
    for id_, to in ((3, day(18)), (15, day(5))):  # one row becomes owned, one frozen
        before, version = house.orders[id_], house.lake.version(asset.__name__)
        house.orders[id_] = (id_, to, *before[2:])
        house.lake.sql(f"UPDATE {{orders}} SET day = DATE'{to}' WHERE id = {id_}")
        for _ in range(2):
            with raises_code("CHANGED_SIDES", match=rf"\(id={id_}\)"):
                house.lake.materialize(asset, table, moment=house.moment)
        assert house.lake.version(asset.__name__) == version
        house.run((min(to, before[1]), min(to, before[1])))


def test_a_condition_that_names_no_column_of_the_table_is_refused_before_it_is_there(house: OwnedHouse) -> None:
    with raises_code("CONDITION", match="no column region"):
        house.lake.materialize(per_day, Table(key="day", owns="region = 'EU'"))
    assert not house.lake.exists("per_day")


def test_a_condition_on_a_column_that_the_table_has_not_got_yet_is_refused_before_it_is_added(
    house: OwnedHouse,
) -> None:
    columns = ["id", "day", "amount"]

    def listed(orders: DataFrame) -> Overwrite:
        return Overwrite(orders.select(*columns))

    house.lake.materialize(listed, Table(owns=house.owns), moment=house.moment)
    columns.append("customer")
    for key in ((), ("id",)):
        with raises_code("CONDITION", match="no column customer"):
            house.lake.materialize(listed, Table(key=key, owns="customer = 1"), moment=house.moment)
    house.lake.materialize(listed, Table(owns=house.owns), moment=house.moment)
    house.lake.materialize(listed, Table(owns="customer = 1"), moment=house.moment)


def by_customer(orders: Changes) -> Merge:
    touched = orders.touched("customer")
    return Merge(touched.rows.select("customer", "id", "day"), touched)


def test_a_key_that_is_touched_by_other_columns_keeps_its_frozen_rows(house: OwnedHouse) -> None:
    table = Table(key="id", owns=house.owns)
    house.lake.materialize(by_customer, table, moment=house.moment)
    before = house.lake.rows("by_customer")
    house.purge(day(12))
    house.lake.materialize(by_customer, table, moment=house.moment)
    gone = {(id_ % 3, id_, day(id_)) for id_ in (10, 11)}
    assert house.lake.rows("by_customer") == [row for row in before if row not in gone]


def test_a_frozen_row_that_other_columns_no_longer_touch_stops_the_run_that_takes_its_key_in(house: OwnedHouse) -> None:
    table = Table(key="id", owns=house.owns)
    house.lake.materialize(by_customer, table, moment=house.moment)
    house.lake.sql("UPDATE {orders} SET customer = 7 WHERE id = 3")  # the frozen row keeps its customer
    house.lake.materialize(by_customer, table, moment=house.moment)
    house.lake.sql(f"UPDATE {{orders}} SET day = DATE'{day(19)}' WHERE id = 3")
    with raises_code("CHANGED_SIDES", match=r"\(id=3\)"):
        house.lake.materialize(by_customer, table, moment=house.moment)


def test_a_quarantine_keeps_the_rows_that_its_table_does_not_own(house: OwnedHouse) -> None:
    table = Table(key="day", owns=house.owns, expect=Expect("amount % 2 = 0", "quarantine"))
    for before in (day(0), day(14)):  # the first of the owned days is the tenth
        house.purge(before)
        house.lake.materialize(per_day, table, moment=house.moment)
    days = [day(number) for number in (*range(10), *range(14, 20))]
    kept = sorted([*house.lake.rows("per_day"), *(row[:2] for row in house.lake.rows("per_day_quarantine"))])
    assert [row[0] for row in kept] == days
    assert {row[1] % 2 for row in house.lake.rows("per_day")} == {0}


def test_a_column_that_is_added_is_null_in_frozen_rows(house: OwnedHouse) -> None:
    columns = ["day", "amount"]

    def listed(orders: DataFrame) -> Overwrite:
        return Overwrite(orders.select(*columns))

    for _ in range(2):
        house.lake.materialize(listed, Table(owns=house.owns), moment=house.moment)
        columns = ["day", "amount", "customer"]
    assert {row[0]: row[2] for row in house.lake.rows("listed")} == {
        day(number): number % 3 if number >= 10 else None for number in range(20)
    }


HOURS = range(-60, 60)
ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Auckland")
BY_EDGE: dict[str, Callable[[datetime, datetime], bool]] = {
    "day >= :today": lambda at, moment: at.date() >= moment.date(),
    "local >= date_sub(:today, 1)": lambda at, moment: at.date() >= moment.date() - timedelta(days=1),
    "at >= :now - INTERVAL 1 DAY": lambda at, moment: at >= moment - timedelta(days=1),
}
MOVED_BY_ZONES = ("at >= :today", "day(at) >= year(:today) - 1996", "day >= :now", "local >= :now - INTERVAL 36 HOURS")


def test_no_zone_of_a_session_moves_an_edge_and_a_condition_that_one_would_move_is_refused(spark: SparkSession) -> None:
    before, moved = spark.conf.get("spark.sql.session.timeZone"), set[str]()
    for moment in (datetime(2026, 3, 29, 1, tzinfo=UTC), datetime(2026, 11, 1, 6, tzinfo=UTC)):  # Berlin; New York
        times = [moment + timedelta(hours=hour) for hour in HOURS]
        values = ", ".join(
            f"(TIMESTAMP'{t}', DATE'{t:%F}', TIMESTAMP_NTZ'{t:%F %T}', {n})" for n, t in enumerate(times)
        )
        kept: dict[str, set[tuple[int, ...]]] = {text: set() for text in (*BY_EDGE, *MOVED_BY_ZONES)}
        query = f"SELECT * FROM VALUES {values} AS t(at, day, local, n)"
        schema = spark.sql(query).schema
        try:
            for zone in ZONES:
                spark.conf.set("spark.sql.session.timeZone", zone)
                rows = spark.sql(query)
                for text, numbers in kept.items():
                    of_zone = rows.where(owned_at("orders", text, moment, None).predicate()).select("n").collect()
                    numbers.add(tuple(sorted(row.n for row in of_zone)))
        finally:
            spark.conf.set("spark.sql.session.timeZone", str(before))
        for text, keeps in BY_EDGE.items():
            assert kept[text] == {tuple(n for n, at in enumerate(times) if keeps(at, moment))}, text
            refuse_unknown_columns(run_of(text), schema)
        for text in MOVED_BY_ZONES:
            moved |= {text} if len(kept[text]) > 1 else set()
            with raises_code("CONDITION", match="time zone of a session"):
                refuse_unknown_columns(run_of(text), schema)
    assert moved == set(MOVED_BY_ZONES)


def run_of(owns: str) -> Run:
    asset = Asset("orders", Table(owns=owns), TableRef.at_path("orders", "orders"), PastRows.COMPUTED)
    return Run(asset, "run", Fresh())


def test_an_edge_of_days_is_what_spark_says_of_that_day(spark: SparkSession) -> None:
    for text, edge in EDGES.items():
        if ":today" in text:
            sql = text.split("> ")[-1].split(">= ")[-1].replace(":today", f"DATE'{MOMENT.date()}'")
            assert spark.sql(f"SELECT {sql}").collect()[0][0] == edge, text


SAME = "id INT, a STRING, b STRING, listed ARRAY<STRING>, parts STRUCT<x: INT, y: INT>"
OTHER_NULLS = [
    ("(1, NULL, 'x', NULL, NULL)", "(1, 'x', NULL, NULL, NULL)"),
    ("(1, NULL, NULL, array(), NULL)", "(1, NULL, NULL, NULL, NULL)"),
    ("(1, NULL, NULL, array('q'), NULL)", "(1, NULL, NULL, array('q', NULL), NULL)"),
    (
        "(1, NULL, NULL, NULL, named_struct('x', 1, 'y', NULL))",
        "(1, NULL, NULL, NULL, named_struct('x', NULL, 'y', 1))",
    ),
]


@pytest.mark.parametrize("columns", [3, 5])
def test_versions_with_null_in_other_places_are_not_the_same(lake: Lake, columns: int) -> None:
    lake.create("plain", [(1, None, "x")], ", ".join(SAME.split(", ")[:3]))
    lake.create("nested", [(1, None, "x", None, None)], SAME)
    name = "plain" if columns == 3 else "nested"
    for rows in OTHER_NULLS if columns == 5 else [("(1, NULL, 'x')", "(1, 'x', NULL)")]:
        versions = list[TableVersion]()
        for row in rows:
            lake.sql(f"INSERT OVERWRITE {{{name}}} VALUES {row}")
            versions.append(lake.source(name).at)
        assert not is_same(*versions), rows
        assert is_same(versions[1], versions[1])

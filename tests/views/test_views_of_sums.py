"""A view of counts and sums is kept by its sums: a step adds what changed, and reads no row of its source."""

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pytest

from benchmarks.harness.earlier import set_back
from lakehouse import Changes, Policy, Table, View
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors import WriteError
from lakehouse.errors.views import ViewError
from lakehouse.views.view_text import OutputColumn, ViewText
from tests.support.lake import Lake
from tests.support.ready_runs import SRC
from tests.support.slow import slow
from tests.support.views import Kept, Shop, asset_of

pytestmark = pytest.mark.anywhere
ADDED = "computes what the changes add to the counts and sums of their groups"
SUMS = [
    Kept(
        "by_status",
        """SELECT status, count(*) AS orders, coalesce(sum(amount), 0) AS revenue, count(tags) AS tagged
           FROM orders GROUP BY status""",
    ),
    Kept(
        "by_size",
        """WITH paid AS (SELECT *, amount DIV 10 AS size FROM orders WHERE status = 'paid' OR customer IS NULL)
           SELECT coalesce(sum(amount * 1.5 - id), 0) AS odd, size, count(1) AS n, customer,
                  sum(CASE WHEN customer > 12 THEN coalesce(amount, 1) ELSE 0 END) AS large
           FROM paid p WHERE id > 3 GROUP BY size, customer""",
    ),
    Kept(
        "by_hour",
        """SELECT window.start AS hour, count(*) AS orders, coalesce(sum(amount), 0) AS revenue
           FROM orders GROUP BY window(timestamp_seconds(amount * 600), '1 hour')""",
    ),
]


@pytest.mark.parametrize("seed", [0, slow(1), slow(2)])
def test_a_view_of_sums_is_its_query_after_every_step(lake: Lake, seed: int) -> None:
    shop = Shop(lake, Random(seed))
    shop.open()
    for view in SUMS:
        lake.materialize(view.asset)
    lake.said.clear()
    for step in range(3):
        shop.edit()
        for view in SUMS:
            lake.materialize(view.asset)
            assert lake.rows(view.name) == shop.expected(view.sql), (step, view.name)
    assert all(ADDED in said for said in lake.said), lake.said


def counted(src: Changes) -> View:
    return View("SELECT g, count(*) AS n, coalesce(sum(v), 0) AS v FROM src WHERE v > :least GROUP BY g", {"least": 1})


def follow(lake: Lake, said: str, table: Table = Table()) -> None:
    lake.materialize(counted, table)
    due = lake.sql("SELECT g, count(*), coalesce(sum(v), 0) FROM {src} WHERE v > 1 GROUP BY g")
    assert lake.rows("counted") == sorted(map(tuple, due), key=repr)
    assert said in lake.said[-1]


@pytest.fixture
def source(lake: Lake) -> Lake:
    lake.create("src", [(i, None if i % 4 == 0 else f"g{i % 4}", i) for i in range(24)], SRC)
    follow(lake, "all rows, because there is no table yet")
    return lake


def test_many_changed_rows_are_added_to_sums_unless_the_policy_may_choose_by_cost(source: Lake) -> None:
    source.sql("UPDATE {src} SET v = v + 1")
    with in_force(Limits(changes_to_count=0)):
        follow(source, ADDED, Table(policy=Policy(refresh="incremental")))
        source.sql("UPDATE {src} SET v = v + 1")
        follow(source, "all rows, because the log of 'src' tells 48 images of changed rows, and all 24 rows")
    source.insert("src", [(90, "g1", 5)])
    follow(source, ADDED)


def test_no_row_of_the_source_is_read(source: Lake) -> None:
    for file in Path(source.ref("src").location).glob("*.parquet"):
        file.unlink()
    source.insert("src", [(90, "g1", 5), (91, "new", 7)])
    source.materialize(counted)
    assert ADDED in source.said[-1]
    assert {row[0]: row[1:] for row in source.rows("counted")} == {
        None: (5, 60),
        "g1": (6, 70),
        "g2": (6, 72),
        "g3": (6, 78),
        "new": (1, 7),
    }


@pytest.mark.slow
def test_another_writer_of_the_table_has_all_rows_compared_and_the_next_step_adds_again(source: Lake) -> None:
    source.sql("UPDATE {counted} SET v = 0 WHERE g = 'g2'")
    source.insert("src", [(90, "g1", 5)])
    follow(source, "computes all rows, because version 1 (UPDATE) has written to it since")
    source.insert("src", [(91, "g2", 5)])
    follow(source, ADDED)
    source.sql("DELETE FROM {src} WHERE g = 'g3'")
    follow(source, ADDED)


@pytest.mark.slow
def test_a_step_without_changes_keeps_what_the_mark_says_of_sums(source: Lake) -> None:
    source.sql("UPDATE {src} SET id = id + 100")
    follow(source, ADDED)
    source.sql("ALTER TABLE {src} SET TBLPROPERTIES ('a.b' = 'c')")
    source.materialize(counted)
    source.sql("UPDATE {src} SET v = v + 1")
    follow(source, ADDED)


@pytest.mark.slow
def test_strict_refuses_to_compare_a_table_that_others_wrote_to(source: Lake) -> None:
    source.sql("UPDATE {counted} SET v = 0 WHERE g = 'g2'")
    source.insert("src", [(90, "g1", 5)])
    strict = Table(policy=Policy(refresh="strict"))
    with pytest.raises(ViewError, match=r"because version 1 \(UPDATE\) has written to it since"):
        follow(source, "", strict)


@pytest.mark.slow
def test_touch_has_rows_computed_until_all_of_them_are_compared(lake: Lake) -> None:
    lake.create("src", [(i, f"g{i % 4}", i) for i in range(24)], SRC)
    query = counted(None).query  # type: ignore[arg-type]
    args = {"least": 1}
    by_keys, by_sums = (asset_of("counted", query, ["src"], args=args, **more) for more in ({"touch": "g"}, {}))
    for asset, words in ((by_keys, "all rows"), (by_keys, "touched keys (g)"), (by_sums, "touched keys (g)")):
        lake.insert("src", [(90, "g1", 5)])
        lake.materialize(asset, code_version="1")
        assert words in lake.said[-1]
    for words in ("all rows", ADDED):
        lake.insert("src", [(90, "g1", 5)])
        lake.materialize(by_sums, code_version="2")
        assert words in lake.said[-1]
    assert lake.rows("counted")[1] == ("g1", 10, 90)


@pytest.mark.slow
def test_a_declared_key_refuses_null_and_declared_types_hold(lake: Lake) -> None:
    lake.create("src", [(i, f"g{i % 4}", i) for i in range(24)], SRC)
    query = "SELECT g, count(*), coalesce(sum(v), 0) FROM src GROUP BY g"
    columns = (OutputColumn("kind"), OutputColumn("n"), OutputColumn("total", "BIGINT"))
    text = ViewText(query, columns=columns, required=frozenset({"kind"}))
    narrow = replace(text, columns=(*columns[:2], OutputColumn("total", "INT")))
    assets = asset_of("declared", text, ["src"]), asset_of("narrow", narrow, ["src"])  # type: ignore[arg-type]
    for words in ("all rows", "all rows"), (ADDED, "touched keys (kind)"):
        for asset, how in zip(assets, words, strict=True):
            lake.materialize(asset)
            assert how in lake.said[-1]
        lake.insert("src", [(90, "g1", 5)])
    lake.insert("src", [(91, None, 5)])
    with pytest.raises(WriteError, match="kind"):
        lake.materialize(assets[0])


def held(src: Changes) -> View:
    return View("SELECT g, count(*) AS n, coalesce(sum(v), 0) AS v FROM src GROUP BY g")


def test_without_ansi_mode_a_sum_that_did_not_fit_is_not_added_to(lake: Lake) -> None:
    """Spark makes NULL of such a sum, and the text a 0, from which no later sum follows."""
    ansi = lake.spark.conf.get("spark.sql.ansi.enabled")
    lake.spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        large = Decimal(9 * 10**37)
        lake.create(
            "src", [(1, "a", large), (2, "a", large), (3, "b", Decimal(1))], "id INT, g STRING, v DECIMAL(38, 0)"
        )
        for edit in ("", "INSERT INTO {src} VALUES (4, 'a', 5)", "DELETE FROM {src} WHERE id = 1"):
            if edit:
                lake.sql(edit)
            lake.materialize(held, Table(key="g"))
            now = lake.sql("SELECT g, count(*), coalesce(sum(v), 0) FROM {src} GROUP BY g ORDER BY g")
            assert lake.rows("held") == list(map(tuple, now)), edit
    finally:
        lake.spark.conf.set("spark.sql.ansi.enabled", ansi or "true")


def rows_of_all(src: Changes) -> View:
    return View("SELECT count(*) AS n, coalesce(sum(v), 0) AS v, max(v) AS m FROM src")


@pytest.mark.parametrize("asset", [held, rows_of_all], ids=["sums", "one row"])
def test_a_run_that_only_records_its_position_does_not_hide_another_program_s_write(lake: Lake, asset: Any) -> None:
    lake.create("src", [(id_, "g", id_) for id_ in range(9)], SRC)
    lake.materialize(asset)
    lake.sql(f"UPDATE {{{asset.__name__}}} SET v = v + 7")
    set_back(lake.root / asset.__name__, 9)
    lake.materialize(asset)
    lake.insert("src", [(100, "g", 50)])
    lake.materialize(asset)
    text = (
        "SELECT g, count(*), sum(v) FROM {src} GROUP BY g"
        if asset is held
        else "SELECT count(*), sum(v), max(v) FROM {src}"
    )
    assert lake.rows(asset.__name__) == list(map(tuple, lake.sql(text)))

"""`lakehouse compare` on rows and tables that are easily compared wrongly."""

from datetime import timedelta
from pathlib import Path
from shutil import rmtree

import dagster as dg

from lakehouse import Changes, Merge, Table, View
from lakehouse.cli.branch import TableComparison, _compare  # pyright: ignore[reportPrivateUsage]
from lakehouse.cli.tables import NamedTable
from lakehouse.dagster.branches import make_branch, on_branch
from lakehouse.delta.commit_info import NO_ROWS
from tests.support.dagster_house import House, failure
from tests.support.lake import Lake, aged


@dg.asset(metadata=Table(key="id"))
def copied(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="city"))
def totals(src: Changes) -> View:
    return View("SELECT city, sum(v) AS v FROM src GROUP BY city")


@dg.asset(name="totals", metadata=Table(key=("city", "shop")))
def finer_totals(src: Changes) -> View:
    return View("SELECT city, shop, sum(v) AS v FROM src GROUP BY city, shop")


def branched(lake: Lake, instance: dg.DagsterInstance, key: str, limit: timedelta = timedelta(days=7)) -> Lake:
    """The branch of a source, and of what its assets made of it."""
    house = House(lake, [dg.AssetSpec("src", metadata=Table(key=key)), copied], instance)
    if key == "id":
        house.run("copied")
    make_branch(dg.Definitions(house.assets, resources={"io_manager": house.io_manager}), "fix", (), limit)
    return Lake(lake.spark, Path(f"{lake.root}_branches/fix"))


def compared(own: Lake, name: str, key: str) -> TableComparison:
    table = NamedTable.of_ref(own.ref(name), lambda: own.spark, (key,))
    assert table is not None
    return _compare(table, 20)


def test_a_row_whose_key_the_feed_tells_otherwise_differs(lake: Lake, instance: dg.DagsterInstance) -> None:
    of_feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    lake.sql(f"CREATE TABLE {lake.ref('src').identifier} (k STRING, v INT) USING delta {of_feed}")
    lake.sql("INSERT INTO {src} SELECT CAST(X'C3' AS STRING), 1 UNION ALL SELECT 'x', 2")
    own = branched(lake, instance, "k")
    own.sql("UPDATE {src} SET v = 99 WHERE v = 1")
    comparison = compared(own, "src", "k")
    assert comparison.diff is not None and comparison.diff.counts.updated == 1
    assert "may tell other keys" in comparison.by


def test_a_branch_can_be_compared_as_long_as_its_limit_says(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.create("src", [(1, 10)], "id INT, v INT")
    own = branched(lake, instance, "id", timedelta(days=40))
    for name in ("src", "copied"):
        aged(own, name, 10)
    own.sql("UPDATE {src} SET v = 3")
    with on_branch("fix"):
        House(lake, [dg.AssetSpec("src", metadata=Table(key="id")), copied], instance).run("copied")
    comparison = compared(own, "copied", "id")
    assert comparison.problem is None and comparison.diff is not None
    assert comparison.diff.counts.updated == 1


def test_a_table_that_was_made_anew_since_is_named_and_not_left_out(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.create("src", [(1, 10)], "id INT, v INT")
    branched(lake, instance, "id")
    rmtree(lake.root / "src")
    lake.create("src", [(1, 10)], "id INT, v INT")
    house = House(lake, [dg.AssetSpec("src", metadata=Table(key="id")), copied], instance)
    tables = dg.Definitions(house.assets, resources={"io_manager": house.io_manager})
    branch = make_branch(tables, "fix", (), timedelta(days=7))
    assert branch.others == ("src",) and [clone.name for clone in branch.clones] == ["copied"]


def test_a_wider_type_is_no_other_value(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.create("src", [(1, 0.5)], "id INT, v FLOAT", delta__enableTypeWidening="true")
    own = branched(lake, instance, "id")
    own.sql("ALTER TABLE {src} ALTER COLUMN v TYPE DOUBLE")
    comparison = compared(own, "src", "id")
    assert comparison.diff is not None and comparison.diff.counts == NO_ROWS
    assert comparison.schema == ("~ column v float → double",)


def test_a_column_of_the_key_that_the_table_lacks_is_refused_with_the_statement_that_adds_it(
    lake: Lake, instance: dg.DagsterInstance
) -> None:
    lake.create("src", [(1, "ulm", "x", 1), (2, "ulm", "y", 2)], "id INT, city STRING, shop STRING, v INT")
    source = dg.AssetSpec("src", metadata=Table(key="id"))
    House(lake, [source, totals], instance).run("totals")
    why = failure(House(lake, [source, finer_totals], instance).run("totals", raise_on_error=False))
    assert "shop: is of the key, and the table lacks it" in why
    assert "ADD COLUMNS (`shop`" in why

"""A view in a run of Dagster: what its page shows, what a run of a partition writes; and warnings about a Merge."""

from pathlib import Path

import dagster as dg
import pytest
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Table, View, explain, incremental
from lakehouse.spark.session import is_connect
from tests.support.dagster_house import House, failure, metadata
from tests.support.tables import DAYS, orders

pytestmark = [pytest.mark.core, pytest.mark.served]
ALL_DAYS = {"orders": dg.AssetIn(partition_mapping=dg.AllPartitionMapping())}


@dg.asset(key_prefix="gold", metadata=Table(key="day"))
def sold(orders: Changes) -> View:
    """What was sold on each day."""
    return View("SELECT day, count(*) AS orders, sum(v) AS total FROM orders GROUP BY day")


@dg.asset(partitions_def=DAYS, ins=ALL_DAYS, metadata=Table(key="id", partition_by="day"))
def large(orders: Changes) -> View:
    return View("SELECT id, day, v * 2 AS twice FROM orders WHERE v > 10")


@dg.asset(partitions_def=DAYS, ins=ALL_DAYS, metadata=Table(key="id", partition_by="day"))
def shifted(orders: Changes) -> View:
    return View("SELECT id, day FROM (SELECT id, date_add(day, 1) AS day FROM orders) t")


def with_assets(house: House, *assets: dg.AssetsDefinition) -> House:
    """The house with other assets, complete as in a code location."""
    complete = incremental(dg.Definitions(assets=[orders, *assets], resources={"io_manager": house.io_manager}))
    return House(house.lake, list(complete.assets or []), house.instance)


@pytest.mark.slow
def test_a_materialization_shows_the_lineage_of_columns_and_how_changes_are_followed(house: House) -> None:
    house = with_assets(house, sold)
    house.run("gold/sold")
    house.lake.sql("UPDATE {orders} SET v = 31 WHERE id = 3")
    defs = dg.Definitions(assets=house.assets, resources={"io_manager": house.io_manager})
    by_text, by_call = (explain(defs, "gold/sold", call=call).write for call in (False, True))
    assert by_text is not None and by_call is not None and by_call.planned is not None
    assert by_call.planned.endswith("it computes the rows of touched keys (day)")
    assert by_text.followed[0] == by_call.followed[0] and by_text.followed[-1] == by_call.followed[-1]
    with_changes, without = (metadata(house.run("gold/sold"), "gold/sold") for _ in range(2))
    assert with_changes["computed"] == "the rows of touched keys (day)"
    assert tuple(line.removeprefix("- ") for line in with_changes["followed"].splitlines()) == by_call.followed
    assert with_changes["followed"].splitlines()[:2] == [
        "- Changes are followed by the keys (day).",
        "- Changes of orders have the keys.",
    ]
    assert without["write"] == "nothing: no source has changes"
    source = dg.AssetKey("orders")
    for shown in (with_changes, without):
        lineage = shown["dagster/column_lineage"]
        assert isinstance(lineage, dg.TableColumnLineage)
        assert lineage.deps_by_column == {
            "day": [dg.TableColumnDep(source, "day")],
            "orders": [],
            "total": [dg.TableColumnDep(source, "v")],
        }


def test_another_text_is_noticed_although_no_source_changed(house: House, tmp_path: Path) -> None:
    """The text is in a file whose path the function computes, so that no digest of the code includes the text."""
    files = {"large": tmp_path / "large.sql"}

    @dg.asset(metadata=Table(key="id"))
    def of_a_file(orders: Changes) -> View:
        return View(files["large"].read_text())

    house = with_assets(house, of_a_file)
    for least, rows in ((10, [(2, 20), (3, 30)]), (20, [(3, 30)])):
        files["large"].write_text(f"SELECT id, v FROM orders WHERE v > {least}")
        house.run("of_a_file")
        assert house.lake.rows("of_a_file") == rows
    assert metadata(house.run("of_a_file"), "of_a_file")["write"] == "nothing: no source has changes"


def test_a_run_of_a_partition_writes_the_rows_of_the_partition_alone(house: House) -> None:
    house = with_assets(house, large)
    first, second = "2013-01-01", "2013-01-02"
    house.run("large", partition_key=second)
    assert {row[0]: row[2] for row in house.lake.rows("large")} == {2: 40, 3: 60}
    house.lake.sql("UPDATE {orders} SET v = v + 1")
    house.run("large", partition_key=first)
    assert {row[0]: row[2] for row in house.lake.rows("large")} == {1: 22, 2: 40, 3: 60}
    house.lake.sql("DELETE FROM {orders} WHERE id = 3")
    house.run("large", partition_key=second)
    assert {row[0]: row[2] for row in house.lake.rows("large")} == {1: 22, 2: 42}


def test_a_partition_column_that_a_subquery_computes_is_refused_in_the_run(house: House) -> None:
    house = with_assets(house, shifted)
    result = house.run("shifted", partition_key="2013-01-02", raise_on_error=False)
    assert not result.success
    assert "The partition column day is computed" in failure(result)
    assert not house.lake.exists("shifted")


@dg.asset(metadata=Table(key="id"))
def stamped(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.of(orders.source.withColumn("at", F.current_timestamp())), touched)


@dg.asset(metadata=Table(key="id"))
def plain(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.of(orders.source), touched)


@pytest.mark.slow
def test_a_merge_of_doubtful_rows_is_warned_of_where_its_plan_can_be_seen(house: House) -> None:
    """That is through Spark Connect. The plan is executed all the same: only its author knows what it should give."""
    house = with_assets(house, stamped, plain)
    result = house.run("stamped", "plain")
    assert result.success
    records = house.instance.all_logs(result.run_id)
    warnings = [record.user_message for record in records if "differ from a recompute" in record.user_message]
    sentence = "current_timestamp() has another value in each run."
    seen = is_connect(house.lake.spark)
    assert warnings == ([f"The table of stamped may come to differ from a recompute: {sentence}"] if seen else [])
    house.lake.sql("UPDATE {orders} SET v = 31 WHERE id = 3")
    defs = dg.Definitions(assets=house.assets, resources={"io_manager": house.io_manager})
    assert (sentence in str(explain(defs, "stamped", call=True))) is seen
    assert "differ from a recompute" not in str(explain(defs, "plain", call=True))

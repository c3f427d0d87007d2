"""Dagster's own path: what happens when a user's definitions are materialized."""

import re
import time

import dagster as dg
import pytest
from pyspark.sql import DataFrame

from lakehouse import Changes, Merge, Overwrite, Policy, Read, Table
from lakehouse.commit.rivals import ConflictKind
from lakehouse.spark.progress import listening
from lakehouse.spark.session import is_connect
from tests.commit.test_conflict import APPEND as DELTA_SAYS
from tests.support.dagster_house import House, failure, metadata
from tests.support.interleave import before
from tests.support.lake import Lake
from tests.support.spark_errors import DELTA, raised
from tests.support.tables import ASSETS, DAY_1, DAY_2, EVENTS, by_day, carried, copies, orders, slow

pytestmark = [pytest.mark.core, pytest.mark.served]


def test_a_table_that_no_asset_makes_is_read_through_its_spec(house: House) -> None:
    first = metadata(house.run("copies", "gold/totals"), "copies")
    assert first["read"] == [{"table": "orders", "after": -1, "upto": 0, "changed": "all rows", "how": "first read"}]
    house.lake.sql("UPDATE {orders} SET v = 11 WHERE id = 1")
    result = house.run("copies", "gold/totals")
    second = metadata(result, "gold/totals")
    assert (second["version"], second["inserted"], second["updated"], second["deleted"]) == (1, 0, 1, 0)
    assert second["read"] == [{"table": "copies", "after": 0, "upto": 1, "changed": "1 updated", "how": "change feed"}]
    assert metadata(result, "copies")["write"] == "replace of the 1 row that differs"
    assert house.lake.rows("gold/totals") == [(DAY_1, 11), (DAY_2, 50)]
    assert metadata(result, "copies")["dagster/row_count"] == 3, "a row that was deleted from its file does not count"
    told = metadata(result, "copies")
    phases, rest = {timing["phase"] for timing in told["timings"][:-1]}, told["timings"][-1]["seconds"]
    assert phases == {"read", "plan", "execute", "look at the cursor", "find in the log"}
    assert told["seconds"] >= rest >= 0 and not {name for name in told if "attempt" in name or "seconds_" in name} - {
        "lag_seconds"
    }
    assert list(told)[:5] == ["inserted", "updated", "deleted", "version", "read"], "what matters first"
    assert (told["dagster/table_name"], told["dagster/storage_kind"]) == ("copies", "deltalake")
    assert told["dagster/size_bytes"] > 0
    assert 0 <= told["lag_seconds"] < 600 and abs(told["oldest_change"] - time.time()) < 600
    said = [entry.user_message for entry in house.instance.all_logs(result.run_id)]
    assert "copies is at version 1. 1 row updated." in said
    schema = metadata(result, "copies")["dagster/column_schema"]
    assert [(c.name, c.type, c.description) for c in schema.columns][-1] == ("v", "int", "the value")


@dg.asset(metadata=Table(key="id"))
def misspelt(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows.select("id", "valeu"), touched)


@dg.asset(metadata=Table(key="id"))
def misspelt_overwrite(orders: Changes) -> Overwrite:
    return Overwrite(orders.source.select("id", "valeu"))


def test_a_column_that_is_not_there_is_an_error_about_the_plan_where_spark_finds_out_late(house: House) -> None:
    if not is_connect(house.lake.spark):
        pytest.skip("classic Spark analyzes a plan within the asset's function")
    house.assets = [orders, misspelt, misspelt_overwrite]
    for name in ("misspelt", "misspelt_overwrite"):
        problem = failure(house.run(name, raise_on_error=False))
        assert "valeu" in problem and "Nothing was written" in problem
        assert "\n\tat " not in problem and not house.lake.exists(name)


def test_a_run_reads_on_from_the_tables_and_a_full_refresh_writes_only_what_differs(house: House) -> None:
    house.run("copies")
    house.lake.sql("OPTIMIZE {copies}")
    house.lake.sql("UPDATE {orders} SET v = v")
    with dg.DagsterInstance.ephemeral() as new:  # it has no record of earlier runs
        (read,) = metadata(House(house.lake, ASSETS, new).run("copies"), "copies")["read"]
        assert data_version(new) == "0", "the last version that changed a row"
    assert (read["after"], read["upto"]) == (0, 1)
    assert house.lake.version("copies") > 0
    house.lake.sql("DELETE FROM {copies} WHERE id = 2")
    told = metadata(house.run("copies", tags={"lakehouse/full_refresh": "true"}), "copies")
    assert told["read"][0]["how"] == "everything: a full refresh was asked for"
    assert (told["inserted"], told["updated"], told["deleted"]) == (1, 0, 0)


@pytest.mark.slow
def test_a_materialization_tells_of_the_rivals_that_it_lost_to(house: House) -> None:
    undisturbed = metadata(house.run("copies"), "copies")
    assert not undisturbed.keys() & {"rivals", "attempts_lost"}
    house.lake.insert("orders", [(4, DAY_2, 40)])

    def win() -> None:
        house.lake.sql("INSERT INTO {copies} VALUES (9, DATE'2013-01-02', 90)")
        raise raised("ConcurrentAppendException", DELTA_SAYS, module=DELTA)

    with before("execute", win):
        found = metadata(house.run("copies"), "copies")
    assert (found["version"], found["attempts_lost"]) == (2, 1)
    (rival,) = found["rivals_by_attempt"]
    assert found["rivals"].startswith("1 attempt lost in ") and found["rivals"].endswith(
        f"the last to {rival['lost to']}"
    )
    assert rival["lost to"] == "WRITE (version 1) in [day=2013-01-01], which changed other rows"
    assert (rival["attempt"], rival["kind"], rival["changed"]) == (1, ConflictKind.FILES.value, "other rows")
    assert rival["seconds"] > 0


@pytest.mark.slow
def test_changed_rows_are_shown_only_where_the_table_asks_for_them(house: House) -> None:
    @dg.asset(metadata=Table(key="id", policy=Policy(show_rows=1)))
    def shown(orders: Changes) -> Merge:
        return carried(orders)

    house.assets = [orders, copies, shown]
    result = house.run("copies", "shown")
    assert "changed_rows" not in metadata(result, "copies")
    (row,) = metadata(result, "shown")["changed_rows"]
    assert row.keys() == {"id", "day", "v", "_change_type"} and row["_change_type"] == "insert"


@pytest.mark.slow
def test_a_materialization_tells_how_many_versions_a_limit_left_to_the_next(house: House) -> None:
    one = {"orders": dg.AssetIn(metadata=Read(max_versions=1))}
    house.assets = [orders, dg.asset(name="slowly", ins=one, metadata=Table(key="id"))(carried)]
    assert "behind" not in metadata(house.run("slowly"), "slowly")
    for row in range(4, 7):
        house.lake.insert("orders", [(row, DAY_2, row)])
    told = metadata(house.run("slowly"), "slowly")
    assert (told["read"][0]["upto"], told["behind"]) == (1, 2)


def test_a_partition_run_writes_its_partition_and_nothing_else(house: House) -> None:
    house.run("by_day", partition_key="2013-01-02")
    assert [row[0] for row in house.lake.rows("by_day")] == [2, 3]
    house.lake.sql("UPDATE {orders} SET v = 0")
    house.run("by_day", partition_key="2013-01-01")
    assert house.lake.rows("by_day") == [(1, DAY_1, 0), (2, DAY_2, 20), (3, DAY_2, 30)]


def test_a_range_of_partitions_is_one_commit(house: House) -> None:
    tags = {"dagster/asset_partition_range_start": "2013-01-01", "dagster/asset_partition_range_end": "2013-01-02"}
    result = house.run("by_day", "landed", tags=tags)
    for name in ("by_day", "landed"):
        events = [e for e in result.get_asset_materialization_events() if e.asset_key == dg.AssetKey(name)]
        assert {event.partition for event in events} == {"2013-01-01", "2013-01-02"}
        assert house.lake.version(name) == 0
        assert [row[0] for row in house.lake.rows(name)] == [1, 2, 3]


@pytest.mark.slow
def test_appending_a_partition_again_adds_only_what_it_lacks(house: House) -> None:
    house.run("landed", partition_key="2013-01-02")
    house.run("landed", partition_key="2013-01-02")
    assert [row[0] for row in house.lake.rows("landed")] == [2, 3]
    house.lake.insert("orders", [(4, DAY_2, 40), (5, DAY_1, 50)])
    result = house.run("landed", partition_key="2013-01-02")
    assert metadata(result, "landed")["inserted"] == 1
    assert [row[0] for row in house.lake.rows("landed")] == [2, 3, 4]
    house.lake.sql("DELETE FROM {orders} WHERE id = 2")
    lost = house.run("landed", partition_key="2013-01-02", raise_on_error=False)
    assert "lacks rows that an earlier materialization appended" in failure(lost)


@pytest.mark.slow
def test_a_long_step_says_in_the_log_of_its_run_how_far_it_is(lake: Lake, instance: dg.DagsterInstance) -> None:
    lake.create("orders", [(1, DAY_1, 10), (2, DAY_2, 20), (3, DAY_2, 30)], EVENTS)
    house = House(lake, [orders, slow], instance)
    with listening(pause=1.5, interval=0.2):
        run = house.run("slow").run_id
    told = [entry.user_message for entry in house.instance.all_logs(run) if "Spark has been" in entry.user_message]
    sentence = (
        r"(comparing its result with|writing) slow for \d+ s: \d+ of \d+ stages, \d+ of \d+ tasks done, \d+ running"
    )
    assert told
    assert all(re.search(sentence, said) for said in told)


@pytest.mark.slow
def test_a_plain_dataframe_is_an_overwrite(house: House) -> None:
    house.run("everything")
    house.lake.sql("DELETE FROM {orders} WHERE id = 1")
    house.run("everything")
    assert [row[0] for row in house.lake.rows("everything")] == [2, 3]


def test_a_missing_source_says_which_and_where(lake: Lake, instance: dg.DagsterInstance) -> None:
    result = House(lake, ASSETS, instance).run("copies", raise_on_error=False)
    assert "'copies' reads 'orders', but there is no Delta table at" in failure(result)


@pytest.mark.slow
def test_a_partition_is_loaded_alone_outside_a_run_too(house: House) -> None:
    house.run("by_day", partition_key="2013-01-01")
    house.run("by_day", partition_key="2013-01-02")
    defined = dg.Definitions(assets=[orders, by_day], resources={"io_manager": house.io_manager})
    frame = defined.get_asset_value_loader(house.instance).load_asset_value(
        "by_day", python_type=DataFrame, partition_key="2013-01-02"
    )
    assert sorted(row.id for row in frame.collect()) == [2, 3]


@pytest.mark.slow
def test_the_data_version_stays_where_the_log_was_cleaned(house: House) -> None:
    house.run("copies")
    house.lake.sql("UPDATE {orders} SET v = v + 1 WHERE id = 1")
    house.run("copies")
    said = data_version(house.instance)
    for value in range(12):
        house.lake.sql(f"ALTER TABLE {{copies}} SET TBLPROPERTIES ('a' = '{value}')")
    log = house.root / "copies" / "_delta_log"
    for version in range(10):
        for file in log.glob(f"*{version:020}.json"):
            file.unlink()
    house.lake.sql("OPTIMIZE {orders}")
    house.run("copies")
    assert data_version(house.instance) == said


def data_version(instance: dg.DagsterInstance) -> str:
    record = instance.get_latest_materialization_event(dg.AssetKey("copies"))
    assert record is not None and record.asset_materialization is not None
    return record.asset_materialization.tags["dagster/data_version"]

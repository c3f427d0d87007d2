"""The findings of nights: executed nights over real tables."""

from datetime import timedelta
from typing import Any

import dagster as dg
import pytest
from deltalake import DeltaTable
from pyspark.sql import Window
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Nightly, Table, checks
from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.definitions.checks import checkable_tables
from lakehouse.dagster.definitions.night_schedule import NIGHTLY
from lakehouse.dagster.definitions.nightly import nightly
from lakehouse.dagster.definitions.past_checks import last_compared
from lakehouse.errors import FULL_REFRESH
from tests.support.dagster_house import House
from tests.support.tables import DAY_1, DAY_2, DAYS, EVENTS, carried, orders, slow

pytestmark = pytest.mark.served


@dg.asset(metadata=Table(key="id"))
def ranked(orders: Changes) -> Merge:
    """Wrong: `most` depends on the rows of other keys, which are not touched when a larger row arrives."""
    touched = orders.touched("id")
    return Merge(touched.rows.withColumn("most", F.max("v").over(Window.partitionBy(F.lit(0)))), touched)


daily = dg.asset(name="daily", partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))(carried)


def night(
    house: House, *assets: Any, sample: int | None = None, limit: timedelta = timedelta(hours=2)
) -> dict[str, dg.AssetCheckEvaluation]:
    """The comparisons of one night, by the names of their tables."""
    compared, listed = checks(assets, "recompute", sample=sample), list(assets)
    location = dg.Definitions(assets=listed, asset_checks=compared, resources={"io_manager": house.io_manager})
    nights = nightly(compared, checkable_tables(CodeLocation.of(listed, lambda _: None)), Nightly("0 3 * * *", limit))
    job = dg.Definitions.merge(location, nights).resolve_job_def(NIGHTLY)
    result = job.execute_in_process(instance=house.instance)
    return {e.asset_key.to_user_string(): e for e in result.get_asset_check_evaluations()}


def keys(evaluation: dg.AssetCheckEvaluation) -> set[str]:
    details = evaluation.metadata["details"]
    assert isinstance(details, dg.TableMetadataValue)
    return {str(record.data["id"]) for record in details.records}


@pytest.mark.slow
def test_a_merge_whose_rows_depend_on_other_keys_is_found_when_a_key_s_turn_comes(house: House) -> None:
    """Each part of the sample is compared with rows that were computed from everything."""
    house.assets = [orders, ranked]
    house.run("ranked")
    house.lake.insert("orders", [(4, DAY_1, 100)])
    house.run("ranked")
    told = [night(house, orders, ranked, sample=2)["ranked"]]
    while told[-1].passed:
        told.append(night(house, orders, ranked, sample=2)["ranked"])
    assert len(told) <= 2 and keys(told[-1]) <= {"1", "2", "3"}, "the rows that were there before row 4, and not row 4"
    house.lake.sql("UPDATE {ranked} SET most = 100")
    again = night(house, orders, ranked, sample=2)["ranked"]
    assert again.passed and again.metadata["part of the keys"] == told[-1].metadata["part of the keys"]


@pytest.mark.slow
def test_a_night_compares_the_partition_whose_check_is_oldest_or_that_differed(house: House) -> None:
    house.assets = [orders, daily]
    for day in ("2013-01-01", "2013-01-02"):
        house.run("daily", partition_key=day)
    house.lake.sql("UPDATE {daily} SET v = 7 WHERE id = 1")
    house.lake.sql("UPDATE {orders} SET v = 6 WHERE id = 2")  # the run of its partition has not read it
    first = night(house, orders, daily)["daily"]
    assert (first.metadata["partition"].value, keys(first)) == ("2013-01-01", {"1"})
    assert str(first.description).startswith(
        "1 row of partition 2013-01-01 against a full recompute of orders at 0: 1 key differs."
    )
    house.run("daily", partition_key="2013-01-01", tags={FULL_REFRESH: "true"})
    second, third = (night(house, orders, daily)["daily"] for _ in range(2))
    assert second.passed and second.metadata["partition"].value == "2013-01-01", "what differed, until it is right"
    assert third.passed and third.metadata["partition"].value == "2013-01-02"


@pytest.mark.slow
def test_a_night_compares_a_partition_whose_key_only_dagster_s_storage_has(house: House) -> None:
    by_day = dg.asset(
        name="by_day",
        partitions_def=dg.DynamicPartitionsDefinition(name="days"),
        metadata=Table(partition_by="day", key="id"),
    )(carried)

    house.instance.add_dynamic_partitions("days", ["2013-01-02", "2013-01-03"])
    house.assets = [orders, by_day]
    house.run("by_day", partition_key="2013-01-02")
    told = night(house, orders, by_day)["by_day"]
    assert told.passed and told.metadata["partition"].value == "2013-01-02"
    house.lake.sql("UPDATE {by_day} SET v = 7")
    assert not night(house, orders, by_day)["by_day"].passed


@pytest.mark.slow
def test_a_night_ends_with_the_check_in_which_its_limit_is_reached(house: House) -> None:
    house.assets = [orders, slow, ranked]
    house.run("slow", "ranked")
    (told,) = night(house, orders, slow, ranked, limit=timedelta(seconds=2)).items()
    assert told[0] == "slow" and told[1].passed
    assert last_compared(house.instance, slow.key) is not None and last_compared(house.instance, ranked.key) is None
    assert list(night(house, orders, slow, ranked)) == ["ranked", "slow"], "it comes first the next time"


@pytest.mark.slow
def test_a_partition_is_compared_though_the_files_that_it_read_are_gone_if_only_others_changed(house: House) -> None:
    """The rows that are mapped to the partition are those of a newer version, which Delta can still read."""
    source = dg.AssetSpec("sliced", partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))

    @dg.asset(partitions_def=DAYS, metadata=Table(partition_by="day", key="id"))
    def follows(sliced: Changes) -> Merge:
        touched = sliced.touched("id")
        return Merge(touched.rows, touched)

    frame = house.lake.values([(1, DAY_1, 10), (2, DAY_2, 20)], EVENTS).write.format("delta").partitionBy("day")
    frame.option("delta.enableChangeDataFeed", "true").save(str(house.root / "sliced"))
    house.lake.insert("sliced", [(3, DAY_1, 30)])
    house.assets = [source, follows]
    house.run("follows", partition_key="2013-01-01")
    house.lake.sql("UPDATE {sliced} SET v = 21 WHERE id = 2")
    house.lake.sql("OPTIMIZE {sliced}")
    DeltaTable(str(house.root / "sliced")).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)
    told = night(house, source, follows)["follows"]
    assert told.passed, told.description
    assert (told.metadata["partition"].value, told.metadata["rows"].value) == ("2013-01-01", 2)
    house.lake.sql("UPDATE {sliced} SET v = 11 WHERE id = 1")  # not read yet, so the version before is compared
    assert night(house, source, follows)["follows"].passed

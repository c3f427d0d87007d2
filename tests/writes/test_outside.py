"""Rows of a result that belong to no partition of the run are left out, and never silently."""

import dagster as dg
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Overwrite, Policy, Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.delta.policy import Outside
from tests.support.dagster_house import House, failure, metadata
from tests.support.slow import slow
from tests.support.tables import DAYS, carried, orders

by_day = dg.asset(name="by_day", partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))(carried)


def in_another_format(outside: Outside | None) -> dg.AssetsDefinition:
    """A table of days as texts, in a format that no partition key has."""

    @dg.asset(name="texts", partitions_def=DAYS, metadata=Table(partition_by="day", policy=Policy(outside=outside)))
    def asset(orders: DataFrame) -> Overwrite:
        return Overwrite(orders.select("id", F.date_format("day", "dd.MM.yyyy").alias("day")))

    return asset


@pytest.mark.parametrize("outside", [None, slow("ignore")])
def test_a_run_that_leaves_out_all_of_its_rows_says_so_unless_its_policy_ignores_that(
    house: House, outside: Outside | None, capfd: pytest.CaptureFixture[str]
) -> None:
    house.assets = [orders, in_another_format(outside)]
    for _ in range(2):  # first without a table, then with one
        result = house.run("texts", partition_key="2013-01-01")
        said = metadata(result, "texts").get("outside")
        log = capfd.readouterr().err
        assert (said == "each row of the result") == (outside is None)
        assert ("lies outside the run's partitions (2013-01-01) and was left out" in log) == (outside is None)


def test_a_run_that_would_leave_out_all_of_its_rows_fails_if_its_policy_says_so(house: House) -> None:
    house.assets = [orders, in_another_format("fail")]
    result = house.run("texts", partition_key="2013-01-01", raise_on_error=False)
    assert failure(result).startswith("The result of 'texts' has no row in the partitions of the run (2013-01-01)")
    assert failure(result).endswith("[lakehouse.BROKEN_PROMISE]")
    assert not house.lake.exists("texts")


@pytest.mark.slow
def test_changes_of_another_partition_alone_are_nothing_unusual(house: House) -> None:
    """The keys that they touch belong to other days, and the day of the run has rows."""
    house.assets = [orders, by_day]
    house.run("by_day", partition_key="2013-01-01")
    house.lake.sql("UPDATE {orders} SET v = v + 1 WHERE id = 3")
    said = metadata(house.run("by_day", partition_key="2013-01-01"), "by_day")
    assert said["left_out"] == 1 and "outside" not in said


@pytest.mark.slow
def test_rows_of_no_partition_of_the_run_are_counted_and_shown(house: House) -> None:
    house.assets = [orders, by_day]

    def left_out(day: str) -> object:
        (event,) = house.run("by_day", partition_key=day).get_asset_materialization_events()
        shown = event.materialization.metadata.get("left_out")
        return None if shown is None else shown.value

    assert left_out("2013-01-01") == 2
    with in_force(Limits(outside_rows=2)):
        assert left_out("2013-01-02") is None
    assert [row[0] for row in house.lake.rows("by_day")] == [1, 2, 3]

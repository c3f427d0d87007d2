"""Rows of a result that belong to no partition of the run are left out, and never in silence."""

import dagster as dg

from lakehouse import Changes, Merge, Table
from lakehouse.delta.limits import Limits, in_force
from tests.support.dagster_house import House
from tests.support.tables import DAYS, orders


@dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
def by_day(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


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

"""Rows of a result that belong to no partition of the run are left out, and never in silence."""

import dagster as dg
import pytest

from lakehouse import Changes, Merge, Table
from lakehouse.write import outside
from tests.support.house import House
from tests.support.tables import DAYS, orders


@dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
def by_day(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


def test_rows_of_no_partition_of_the_run_are_counted_and_shown(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    house.assets = [orders, by_day]

    def left_out(day: str) -> object:
        (event,) = house.run("by_day", partition_key=day).get_asset_materialization_events()
        shown = event.materialization.metadata.get("left_out")
        return None if shown is None else shown.value

    assert left_out("2013-01-01") == 2
    monkeypatch.setattr(outside, "COUNTED", 2)
    assert left_out("2013-01-02") is None
    assert [row[0] for row in house.lake.rows("by_day")] == [1, 2, 3]

"""A table against a full recompute of what it has read."""

import dagster as dg
import pytest

from lakehouse import Changes, Merge, Table, checks
from tests.dagster.lakehouse import House
from tests.dagster.tables import ASSETS


def test_a_check_reads_through_the_io_manager_of_its_asset(house: House) -> None:
    @dg.asset(metadata=Table(key="id"), io_manager_key="delta")
    def elsewhere(orders: Changes) -> Merge:
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    source = dg.AssetSpec("orders", metadata={**Table(key="id"), "dagster/io_manager_key": "delta"})
    found = checks([source, elsewhere])
    result = dg.materialize([source, elsewhere, *found], resources={"delta": house.io_manager}, instance=house.instance)
    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.passed


@pytest.mark.slow
def test_the_check_holds_a_table_against_a_full_recompute(house: House) -> None:
    found = list(checks(ASSETS))
    assert {key.asset_key.to_user_string() for check in found for key in check.check_keys} == {"copies", "gold/totals"}
    house.assets = [*ASSETS, *found]
    house.run("copies", "gold/totals")
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")  # not read yet: the check is about what has been read

    def evaluate() -> dict[str, bool]:
        result = dg.materialize(
            house.assets,
            selection=dg.AssetSelection.checks(*found),
            resources={"io_manager": house.io_manager},
            instance=house.instance,
        )
        return {e.asset_key.to_user_string(): e.passed for e in result.get_asset_check_evaluations()}

    assert evaluate() == {"copies": True, "gold/totals": True}
    house.lake.sql("UPDATE {copies} SET v = 1000 WHERE id = 2")
    assert evaluate()["copies"] is False

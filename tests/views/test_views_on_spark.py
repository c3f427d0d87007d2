"""After any edits of all its sources a view is the table that its query gives, however keys and rows are found."""

from random import Random

import pytest

from lakehouse.delta.limits import Limits, in_force
from tests.support.lake import Lake
from tests.support.slow import slow
from tests.support.views import VIEWS, Shop

pytestmark = [pytest.mark.core, pytest.mark.anywhere]

WAYS = {
    "by keys": Limits(whole_rows=0),
    "small tables whole": Limits(),
    "by ranges": Limits(whole_rows=0, key_ranges=1, listed_keys=0, listed_keys_together=0),
    "by joins": Limits(whole_rows=0, driver_rows=0),
}


@pytest.mark.timeout(1200)  # each step refreshes up to ten views, and Spark computes each view once more
@pytest.mark.parametrize("way", ["by keys", slow("small tables whole"), slow("by ranges"), slow("by joins")])
@pytest.mark.parametrize(
    "views", [VIEWS[1:6:2], slow(VIEWS[:5:2]), slow(VIEWS[6:])], ids=["three", "other three", "the others"]
)
def test_a_view_is_its_query_after_every_step(lake: Lake, views: list, way: str) -> None:
    shop = Shop(lake, Random(f"shop {way}"))
    shop.open()
    for view in views:
        lake.materialize(view.asset, view.table)
    lake.said.clear()
    for step in range(3):
        shop.edit()
        for view in views:
            with in_force(WAYS[way]):
                lake.materialize(view.asset, view.table)
            assert lake.rows(view.name) == shop.expected(view.sql), (step, view.name)
    assert any("the rows of touched keys" in said for said in lake.said), lake.said

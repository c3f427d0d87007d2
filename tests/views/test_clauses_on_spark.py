"""A view of sessions or of LATERAL subqueries is the table that its query gives, after any edits of all its sources."""

from random import Random

import pytest

from lakehouse.delta.limits import Limits, in_force
from tests.support.lake import Lake
from tests.support.slow import slow
from tests.support.views import VIEWS, Shop

CLAUSES = ("session_window", slow("LATERAL (SELECT"))
WAYS = {"by keys": Limits(whole_rows=0), "small tables whole": Limits()}


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("way", ["by keys", slow("small tables whole")])
@pytest.mark.parametrize("clause", CLAUSES)
def test_a_view_is_its_query_after_every_edit(lake: Lake, clause: str, way: str) -> None:
    views = [view for view in VIEWS if clause in " ".join(view.sql.split())]
    shop = Shop(lake, Random(f"{clause} {way}"))
    shop.open(orders=150)
    for step in range(4):
        for view in views:
            with in_force(WAYS[way]):
                lake.materialize(view.asset, view.table)
            assert lake.rows(view.name) == shop.expected(view.sql), (step, view.name)
        shop.edit()
    assert any("the rows of touched keys" in said for said in lake.said), lake.said

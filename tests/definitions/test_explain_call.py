"""What `explain` says, beside what the run then does: through Spark."""

import dagster as dg
import pytest

from lakehouse import explain
from tests.support.house import House, metadata
from tests.support.tables import copies, orders, totals

pytestmark = pytest.mark.served


def test_the_plan_that_is_named_is_the_statement_that_the_run_commits(house: House) -> None:
    assets = [orders, copies, totals]
    house = House(house.lake, assets, house.instance)
    defs = dg.Definitions(assets=assets, resources={"io_manager": house.io_manager})

    def planned() -> str:
        before = house.lake.version("orders"), house.lake.exists("copies") and house.lake.version("copies")
        write = explain(defs, "copies", call=True).write
        assert before == (house.lake.version("orders"), house.lake.exists("copies") and house.lake.version("copies"))
        assert write is not None and write.planned is not None
        return write.planned

    assert planned() == "create"
    house.run("copies")
    assert planned() == "nothing: no row differs"
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")
    of = explain(defs, "copies")
    assert of.inputs[0].rows is not None and of.inputs[0].rows.updated == 1
    statement = planned()
    assert "the 1 row that differs" in statement
    assert metadata(house.run("copies"), "copies")["write"].startswith(statement)
    assert "has nothing to do" in str(explain(defs, "copies"))

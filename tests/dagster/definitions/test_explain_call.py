"""What `explain` shows with `call=True`, compared with what the run then does: through Spark."""

from typing import Any

import dagster as dg
import pytest
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Table, explain
from tests.support.dagster_house import House, metadata
from tests.support.slow import slow
from tests.support.tables import copies, orders, totals

pytestmark = pytest.mark.served


@pytest.mark.slow
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


class Least(dg.Config):
    least: int = 20


@dg.asset(metadata=Table(key="id"))
def large(config: Least, orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows.where(F.col("v") >= config.least), touched)


@dg.asset(metadata=Table(key="id"), config_schema={"least": dg.Field(int, default_value=20)})
def large_too(context: dg.AssetExecutionContext, orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows.where(F.col("v") >= context.op_execution_context.op_config["least"]), touched)


@pytest.mark.parametrize("asset", [large, slow(large_too)])
def test_the_function_is_called_with_the_config_of_the_run(house: House, asset: dg.AssetsDefinition) -> None:
    name = asset.key.to_user_string()
    house.assets = [orders, asset]
    defs = dg.Definitions(assets=house.assets, resources={"io_manager": house.io_manager})
    house.run(name)  # with the config of its definition: least = 20
    as_it_is, with_all = (explain(defs, name, run_config=config, call=True).write for config in (None, _least(name, 0)))
    assert as_it_is is not None and with_all is not None
    assert as_it_is.planned == "nothing: no row differs"
    assert with_all.planned is not None and "append" in with_all.planned


def _least(name: str, value: int) -> dict[str, Any]:
    return {"ops": {name: {"config": {"least": value}}}}

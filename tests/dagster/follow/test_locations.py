"""Where an asset's table is: below its manager's root, or at an address of its own."""

import dagster as dg
import pytest

from lakehouse import DeltaIOManager, Table, validate
from lakehouse.dagster.code_location import table_ref
from lakehouse.delta.location import Location
from lakehouse.errors import DefinitionError
from tests.support.dagster_house import House
from tests.support.for_each import for_each
from tests.support.tables import copies, orders

KEYS = {"AWS_ACCESS_KEY_ID": "a"}


def test_a_table_is_below_the_root_or_at_its_own_address_with_the_options_of_its_manager():
    key, root = dg.AssetKey(["silver", "orders"]), Location("s3a://lake/tables/", KEYS)
    for table, address in [
        (Table(), "s3a://lake/tables/silver/orders"),
        (Table(path="s3a://raw/orders/"), "s3a://raw/orders"),
        (Table(path="/mnt/orders"), "/mnt/orders"),
    ]:
        ref = table_ref(root, key, table)
        assert (ref.name, ref.path, ref.files and ref.files.options) == ("silver/orders", address, KEYS)
    assert table_ref(root, key, Table(name="shop.orders")).files is None


@for_each(
    "root, options, problem",
    [
        ("s3a://lake", {"AZURE_CLIENT_ID": "a"}, "AZURE_CLIENT_ID is not"),
        ("abfss://c@a/lake", KEYS, "AWS_ACCESS_KEY_ID is not"),
    ],
)
def test_options_that_cannot_be_meant_for_the_root_are_refused_when_the_location_loads(
    root: str, options: dict[str, str], problem: str
):
    manager = DeltaIOManager(spark=None, root=root, storage_options=options)
    with pytest.raises(DefinitionError, match=problem):
        validate(dg.Definitions(assets=[copies, orders], resources={"io_manager": manager}))


@pytest.mark.slow
def test_a_table_at_an_address_of_its_own_is_read_and_written_there(house: House):
    elsewhere = house.root.parent / "elsewhere"
    table = Table(key="id", path=str(elsewhere / "orders"))
    house.lake.sql(f"CREATE TABLE delta.`{elsewhere}/orders` SHALLOW CLONE {{orders}}")
    moved = dg.AssetSpec("orders", metadata=table)
    away = copies.map_asset_specs(
        lambda spec: spec.merge_attributes(metadata=Table(key="id", path=str(elsewhere / "copies")))
    )
    House(house.lake, [moved, away], house.instance).run("copies")
    assert not (house.root / "copies").exists()
    rows = house.lake.spark.read.format("delta").load(str(elsewhere / "copies")).count()
    assert rows == 3

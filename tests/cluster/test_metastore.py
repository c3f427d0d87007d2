"""Tables with a name in a Hive metastore: created by one process, continued by another, followed by the sensor."""

from pathlib import Path

import dagster as dg
import pytest

from lakehouse import change_sensor
from tests.cluster.driver import Place, driver
from tests.support.orders_graph import EDITS, FIRST, NAMES, in_schema
from tests.support.ticks import tick

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]
SCHEMA = "shop"


def test_tables_of_a_metastore_outlive_the_process_that_made_them(tmp_path: Path) -> None:
    database = tmp_path / "metastore"
    settings = {
        "spark.master": "local[1]",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": f"file:{tmp_path}/warehouse",
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={database};create=true",
    }
    place = Place(str(tmp_path), str(tmp_path / "lake"), SCHEMA)
    instance = dg.DagsterInstance.local_temp(place.directory)
    sensor = change_sensor("carry_on", in_schema(SCHEMA), root=place.root)
    unresolved = tick(sensor, instance)
    assert isinstance(unresolved, dg.SkipReason)
    with driver(place, "maker", settings) as shop:
        shop.ask("sql", f"CREATE SCHEMA {SCHEMA}")
        shop.ask("sql", FIRST)
        assert shop.ask("run", *NAMES) == ""
        assert shop.ask("wrong") == []
    assert isinstance(tick(sensor, instance), dg.SkipReason)
    with driver(place, "successor", settings) as shop:
        for statement in EDITS:
            shop.ask("sql", statement)
        request = tick(sensor, instance)
        assert isinstance(request, dg.RunRequest)
        assert request.asset_selection == [dg.AssetKey(name) for name in sorted(NAMES)]
        before = shop.ask("versions", *NAMES)
        assert shop.ask("run", *NAMES) == ""
        assert shop.ask("wrong") == []
        assert shop.ask("versions", *NAMES) == [version + 1 for version in before]
    assert isinstance(tick(sensor, instance), dg.SkipReason)

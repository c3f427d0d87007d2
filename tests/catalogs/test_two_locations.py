"""Two code locations on one catalog: each follows by name what the other writes, and the commands find these tables."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse import DeltaIOManager, change_sensor
from lakehouse.cli.main import main
from tests.support.catalog_lake import Named, named
from tests.support.orders_graph import EDITS, FIRST, NAMES, in_schema, wrong
from tests.support.ticks import tick

pytestmark = pytest.mark.catalogs


class Location(NamedTuple):
    """A code location.

    Args:
        module: The module that holds its definitions.
        assets: Its assets, and the specs of the tables that the other location writes.
        own: The names of its assets.
    """

    module: str
    assets: list[dg.AssetsDefinition | dg.AssetSpec]
    own: tuple[str, ...]


class Shop(NamedTuple):
    lake: Named
    raw: Location
    marts: Location
    manager: DeltaIOManager

    def run(self, location: Location) -> None:
        with dg.DagsterInstance.get() as instance:
            selection = [dg.AssetKey(name) for name in location.own]
            resources = {"io_manager": self.manager}
            assert dg.materialize(location.assets, selection=selection, resources=resources, instance=instance).success

    def requested(self, location: Location) -> list[str]:
        """The assets for which a tick of the location's sensor requests a run."""
        sensor = change_sensor(f"{location.module}_sensor", location.assets, root=self.manager.root)
        with dg.DagsterInstance.get() as instance:
            request = tick(sensor, instance)
        if isinstance(request, dg.SkipReason):
            return []
        return [key.to_user_string() for key in request.asset_selection or ()]

    def wrong(self) -> list[str]:
        return wrong(self.lake.rows)


@pytest.fixture
def shop(spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Orders that another program writes, a location that keeps them, and a location that sums up the kept orders."""
    (home := tmp_path / "home").mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(home))
    manager = DeltaIOManager(spark=SimpleNamespace(spark_session=spark), root=str(tmp_path / "lake"))
    with named(spark, tmp_path) as lake:
        lake.sql(FIRST.format(orders=lake.ref("orders").identifier))
        assets = {asset.key.to_user_string(): asset for asset in in_schema(lake.schema)}
        spec = assets["kept"].get_asset_spec() if isinstance(assets["kept"], dg.AssetsDefinition) else assets["kept"]
        raw = Location("raw_of_this_test", [assets[name] for name in ("orders", "kept", "log")], ("kept", "log"))
        marts = Location(
            "marts_of_this_test", [dg.AssetSpec(spec.key, metadata=spec.metadata), assets["sums"]], ("sums",)
        )
        for location in (raw, marts):
            module: Any = ModuleType(location.module)
            module.defs = dg.Definitions(location.assets, resources={"io_manager": manager})
            monkeypatch.setitem(sys.modules, location.module, module)
        yield Shop(lake, raw, marts, manager)


@pytest.fixture
def answer(capsys: pytest.CaptureFixture[str]) -> Callable[..., Any]:
    def ask(location: Location, *words: str) -> Any:
        capsys.readouterr()
        assert main([*words, "--json", "-m", location.module]) == 0
        return json.loads(capsys.readouterr().out)

    return ask


def test_each_location_follows_what_the_other_writes_by_name(shop: Shop) -> None:
    raw, marts = shop.raw, shop.marts
    assert shop.requested(raw) == shop.requested(marts) == [], "nobody knows yet where the names lead"
    shop.run(raw)
    shop.run(marts)
    assert shop.wrong() == []
    for edit in EDITS:
        shop.lake.sql(edit.format(orders=shop.lake.ref("orders").identifier))
    assert (shop.requested(raw), shop.requested(marts)) == (["kept", "log"], [])
    shop.run(raw)
    assert (shop.requested(raw), shop.requested(marts)) == ([], ["sums"])
    shop.run(marts)
    assert (shop.requested(raw), shop.requested(marts)) == ([], [])
    assert shop.wrong() == []
    assert [shop.lake.version(name) for name in NAMES] == [1, 1, 1]


def test_the_commands_say_where_named_tables_stand(shop: Shop, answer: Callable[..., Any]) -> None:
    raw, marts = shop.raw, shop.marts
    assert set(answer(raw, "status")["left_out"]) == {"orders", "kept", "log"}
    shop.run(raw)
    shop.run(marts)
    shop.lake.sql(EDITS[0].format(orders=shop.lake.ref("orders").identifier))
    status = answer(raw, "status")
    states = {table["name"]: table["state"] for table in status["tables"]}
    assert states == {"orders": "source", "kept": "behind", "log": "behind"} and status["left_out"] == {}
    assert {r["reader"]: r["unread"] for r in answer(raw, "readers", "orders")["readers"]} == {"kept": 1, "log": 1}
    (reader,) = answer(marts, "readers", "kept")["readers"]
    assert (reader["reader"], reader["read"], reader["unread"]) == ("sums", 0, 0)
    forecast = answer(raw, "explain", "kept")
    (read,) = forecast["inputs"]
    assert (forecast["verdict"], read["source"], read["after"], read["upto"]) == ("writes", "orders", 0, 1)
    assert answer(marts, "explain", "sums")["verdict"] == "nothing"

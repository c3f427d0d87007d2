"""The code in the documentation runs, its files and make targets exist."""

import re
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession

from lakehouse import DeltaIOManager, Read, Table, checks, validate
from tests.lake import Lake

PROJECT = Path(__file__).parents[2]
PAGES = sorted([*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md")])
FLIGHTS = [("a", "N1", 5), ("b", "N1", 90), ("c", "N2", None), ("d", None, None)]


def code(page: str) -> dict[str, Any]:
    """What a page's Python code, all blocks of it in order, defines."""
    blocks = re.findall(r"```python\n(.*?)```", (PROJECT / page).read_text(), re.DOTALL)
    found: dict[str, Any] = {}
    exec("\n".join(blocks), found)
    return found


def plane_use(flights: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The README's asset in plain Python."""
    delays: dict[Any, list[Any]] = defaultdict(list)
    for _, tailnum, dep_delay in flights:
        delays[tailnum].append(dep_delay)
    worst = {tailnum: max((d for d in all_ if d is not None), default=None) for tailnum, all_ in delays.items()}
    return sorted(((tailnum, len(all_), worst[tailnum]) for tailnum, all_ in delays.items()), key=repr)


def materialization(assets: list[Any], lake: Lake) -> dict[str, Any]:
    manager = DeltaIOManager(spark=SimpleNamespace(spark_session=lake.spark), root=str(lake.root))
    result = dg.materialize(assets, resources={"io_manager": manager})
    assert all(check.passed for check in result.get_asset_check_evaluations())
    (event,) = result.get_asset_materialization_events()
    return {name: value.value for name, value in event.materialization.metadata.items()}


def test_the_readmes_asset_follows_the_changes_of_its_source(lake: Lake):
    asset = code("README.md")["plane_use"]
    source = dg.AssetSpec(["silver", "flights"])
    lake.create("silver/flights", FLIGHTS, "flight_id string, tailnum string, dep_delay int")
    first = materialization([asset, source], lake)
    assert lake.rows("gold/plane_use") == plane_use(FLIGHTS)
    assert first["write"] == "create"

    table = lake.ref("silver/flights").identifier
    lake.sql(f"UPDATE {table} SET tailnum = 'N2', dep_delay = 7 WHERE flight_id = 'b'")
    lake.sql(f"DELETE FROM {table} WHERE flight_id = 'd'")
    second = materialization([asset, source, *checks([asset])], lake)
    assert lake.rows("gold/plane_use") == plane_use([("a", "N1", 5), ("b", "N2", 7), ("c", "N2", None)])
    assert (second["inserted"], second["updated"], second["deleted"]) == (0, 2, 1)
    (read,) = (record.data for record in second["read"].records)
    assert (read["table"], read["after"], read["upto"]) == ("silver/flights", 0, 2)

    third = materialization([asset, source], lake)
    assert third["version"] == second["version"] == lake.version("gold/plane_use")


def test_the_guides_test_passes(spark: SparkSession, tmp_path: Path):
    code("docs/guide.md")["test_a_delivered_order_leaves_the_table"](tmp_path)


def test_the_upkeep_of_the_conflicts_page_changes_no_row(lake: Lake):
    lake.create("silver/flights", FLIGHTS, "flight_id string, tailnum string, dep_delay int")
    lake.sql(f"DELETE FROM {lake.ref('silver/flights').identifier} WHERE flight_id = 'd'")
    upkeep = code("docs/conflicts.md")["upkeep"]
    beside = SimpleNamespace(spark_session=lake.spark, root=str(lake.root))
    before = lake.rows("silver/flights")
    assert upkeep.execute_in_process(resources={"spark": beside}).success
    assert lake.rows("silver/flights") == before
    done = [commit.operation for commit in lake.commits("silver/flights")]
    assert {"REORG", "VACUUM END"} <= set(done)


def test_the_guides_definitions_load():
    found = code("docs/guide.md")
    defs = found["defs"]
    assert isinstance(defs, dg.Definitions)
    validate(defs).get_repository_def()
    assert all(name in found for name in ("Changes", "open_orders", "large_orders"))


@pytest.mark.parametrize("described", [Table, Read])
def test_the_guide_has_a_row_for_every_option(described: type[Table | Read]):
    guide = (PROJECT / "docs/guide.md").read_text()
    (table,) = re.findall(rf"^\| `{described.__name__}` \|.*\n((?:\|.*\n)+)", guide, re.MULTILINE)
    rows = {
        name for cell in re.findall(r"^\| ([^|]+) \|", table, re.MULTILINE) for name in re.findall(r"`(\w+)`", cell)
    }
    assert rows == {name for name in described.__dataclass_fields__ if not name.startswith("_")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(PROJECT).as_posix())
def test_what_a_page_points_at_is_there(page: Path):
    text = page.read_text()
    for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
        assert (page.parent / target).exists(), target
    targets = set(re.findall(r"^([a-z-]+):", (PROJECT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"`(?:[A-Z_]+=\S+ )?make\s+([a-z-]+)", text)) <= targets
    for file in re.findall(r"`((?:lakehouse|assets|resources|tests)/[a-z_/]+\.py)`", text):
        assert file == "assets/plane_use.py" or (PROJECT / file).exists(), file

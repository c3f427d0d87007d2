"""`dagster dev` runs, an outside Spark writes to a source, and gold follows without a click."""

import time
from pathlib import Path

import pytest
from deltalake import DeltaTable

from resources.environments import PROJECT
from tests.support.dev_server import Server, dagster_dev
from tests.support.lake import Lake
from tests.support.plain_tables import rows
from tests.support.tables import DAY_1, DAY_2, EVENTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
QUIET = 20  # seconds: several ticks


def runs_until(server: Server, total: int) -> int:
    """How many runs there were when gold reached a total and no run was under way."""
    gold = server.root / "gold" / "totals"

    def is_reached() -> bool:
        held = rows(gold) if gold.exists() else None
        return held is not None and sum(row[1] for row in held) == total

    return server.settled(f"total of {total}", is_reached)


@pytest.mark.parametrize("followed", ["condition", "sensor"])
def test_gold_follows_a_source_and_what_changes_nothing_starts_no_run(
    followed: str, lake: Lake, tmp_path: Path
) -> None:
    lake.create("orders", [(1, DAY_1, 10), (2, DAY_2, 20)], EVENTS)
    variables = {"FOLLOWED": followed, "SOURCE": str(lake.root / "orders")}
    target = ["-f", str(PROJECT / "tests" / "support" / "pipeline.py")]
    with dagster_dev(tmp_path, tmp_path / "own", target, variables) as server:
        server.location()
        if followed == "sensor":
            server.started("carry_on")
        first = runs_until(server, 30)
        lake.sql("UPDATE {orders} SET v = 15 WHERE id = 1")
        second = runs_until(server, 35)
        assert second == first + 1, "one run for one change"
        gold = DeltaTable(str(server.root / "gold" / "totals")).version()
        lake.sql("OPTIMIZE {orders}")
        lake.sql("ALTER TABLE {orders} SET TBLPROPERTIES ('a.b' = 'c')")
        time.sleep(QUIET)
        assert runs_until(server, 35) == second
        assert DeltaTable(str(server.root / "gold" / "totals")).version() == gold

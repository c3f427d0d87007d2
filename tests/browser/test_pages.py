"""What a person does in Dagster's pages: materialize from the graph; read a run, its metadata, its checks, a tick.

LAKEHOUSE_BROWSER is the path of a Chromium; playwright drives it. A picture of each page that was seen is kept.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from resources.environments import PROJECT
from tests.support.dev_server import RUNS, Server, dagster_dev
from tests.support.tables import DAY_1, DAY_2

pytestmark = [pytest.mark.browser, pytest.mark.timeout(2400)]
PATIENCE = 120_000.0  # milliseconds, for a busy machine


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    rows = pa.table({"id": pa.array([1, 2], pa.int32()), "day": [DAY_1, DAY_2], "v": pa.array([10, 20], pa.int32())})
    feed = {"delta.enableChangeDataFeed": "true"}
    write_deltalake(str(tmp_path / "source" / "orders"), rows, configuration=feed)
    variables = {
        "FOLLOWED": "sensor",
        "PARTITIONED": "1",
        "EXPECTED": "1",
        "SOURCE": str(tmp_path / "source" / "orders"),
    }
    target = ["-f", str(PROJECT / "tests" / "support" / "pipeline.py")]
    with dagster_dev(tmp_path, tmp_path / "own", target, variables) as server:
        server.location()
        yield server


@pytest.fixture
def page(tmp_path: Path) -> Iterator[Any]:
    from playwright.sync_api import sync_playwright  # installed by that make target only

    with sync_playwright() as started:
        chromium = started.chromium.launch(executable_path=os.environ["LAKEHOUSE_BROWSER"], args=["--no-sandbox"])
        page = chromium.new_page(viewport={"width": 1500, "height": 1000})
        page.set_default_timeout(PATIENCE)
        yield page
        chromium.close()


def ended(server: Server, count: int) -> str:
    """The newest run, as soon as `count` runs have ended successfully."""

    def done() -> str | None:
        runs = server.runs()
        assert "FAILURE" not in runs.values(), server.output()
        return next(iter(runs)) if list(runs.values()) == ["SUCCESS"] * count else None

    return server.wait(f"end of run {count}", RUNS, done)


def test_a_person_materializes_and_reads_what_came_of_it(server: Server, page: Any, tmp_path: Path) -> None:
    def seen(name: str, *texts: str) -> None:
        for text in texts:
            page.get_by_text(text).first.wait_for()
        page.screenshot(path=tmp_path / f"{name}.png")

    def materialize() -> None:
        page.locator("button", has_text="Materialize").first.click()

    page.goto(f"{server.url}/assets/copies")
    materialize()
    run = ended(server, 1)

    page.goto(f"{server.url}/runs/{run}")
    seen("run", "Success", "copies is at version 0. 2 rows inserted.")
    page.goto(f"{server.url}/assets/copies?view=events")
    seen("events", "inserted", "timings", "first read")
    page.goto(f"{server.url}/assets/copies?view=checks")
    seen("checks", "up_to_date", "equals_full_recompute", "was never compared with a recompute")
    page.goto(f"{server.url}/assets/copies")
    seen("metadata", "Delta Lake")

    page.goto(f"{server.url}/assets/daily")
    materialize()
    page.get_by_role("button", name="All", exact=True).click()
    page.get_by_role("button", name="Launch backfill").click()
    ended(server, 3)
    page.goto(f"{server.url}/assets/daily?view=partitions")
    seen("partitions", "Materialized (2)", "Missing (0)")

    page.goto(f"{server.url}/assets/judged?view=checks")
    seen("expectations before a run", "v_lt_20", "v_lt_1000")
    page.goto(f"{server.url}/assets/judged")
    materialize()
    ended(server, 4)
    page.goto(f"{server.url}/assets/judged?view=checks&checkDetail=v_lt_20")
    seen("expectation that leaves a row out", "1 of 2 rows breaks the expectation v_lt_20 (v < 20) [id=2]")

    page.goto(f"{server.url}/locations/{server.location()}/sensors/carry_on")
    page.locator("label:has(input[type=checkbox])").first.click()
    ended(server, 5)
    seen("sensor", "1 run requested")

    row = pa.table({"id": pa.array([3], pa.int32()), "day": [DAY_1], "v": pa.array([5000], pa.int32())})
    write_deltalake(str(tmp_path / "source" / "orders"), row, mode="append")
    server.wait("the run that an expectation fails", RUNS, lambda: "FAILURE" in server.runs().values() or None)
    page.goto(f"{server.url}/assets/judged?view=checks&checkDetail=v_lt_1000")
    seen("expectation that fails a run", "1 of 1 row breaks the expectation v_lt_1000 (v < 1000) [id=3]")

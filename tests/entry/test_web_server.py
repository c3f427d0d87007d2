"""A user's way: `dagster dev`, one asset launched over HTTP, a run in a process of its own, a table."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from lakehouse.cursor.mark import Mark
from lakehouse.server.rendezvous import Rendezvous
from resources.environments import PROJECT
from tests.reliability.delta_files import History
from tests.support.dev_server import dagster_dev

pytestmark = pytest.mark.timeout(900)  # more than all deadlines, so that a failure quotes the server's output


@pytest.mark.slow
def test_an_asset_launched_over_http_is_a_table_with_its_mark(tmp_path: Path):
    with dagster_dev(tmp_path, tmp_path / "lake", ["-w", str(PROJECT / "workspace.yaml")]) as server:
        name = server.location()
        run = server.launched(name, "reference", "airlines")

        table = DeltaTable(str(server.root / "reference" / "airlines"))
        (commit,) = table.history()
        mark = Mark.from_json(commit["userMetadata"])
        assert mark is not None
        assert (mark.asset, mark.run, mark.epoch, mark.base) == ("reference/airlines", run, 1, -1)
        assert len(History(server.root / "reference" / "airlines").rows(0)) == 16

        first = Rendezvous(server.root).state()
        server.launched(name, "reference", "airports")
        assert first is not None
        assert Rendezvous(server.root).state() == first, "the second run found the server of the first"

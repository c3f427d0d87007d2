"""What the soak relies on: its sources, its oracle, which must be able to fail, and its pictures; without Spark."""

import random
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from tests.endurance.disk import Disk
from tests.endurance.disturbances import Disturbances
from tests.endurance.oracle import QUERIES, assets, computed, recomputed, sources_of
from tests.endurance.pictures import draw
from tests.endurance.processes import Processes
from tests.endurance.sources import BASE, FIRST, DeltaRsSource, Source
from tests.reliability.delta_files import History, Row
from tests.reliability.laws import Span


def source(root: Path, name: str) -> DeltaRsSource:
    """Any of the four sources, written by delta-rs."""
    made = DeltaRsSource(name, root / name, random.Random(0))
    made.create()
    return made


def test_every_table_of_the_location_has_an_oracle(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_ROOT", str(tmp_path))
    from tests.endurance.location import defs

    made = {key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()}
    assert made - BASE.keys() - {"judged_quarantine"} == {asset.name for asset in assets(tmp_path)}


def test_a_source_keeps_its_size_whatever_is_edited_restored_or_added(tmp_path: Path) -> None:
    events = source(tmp_path, "events")
    for number in range(60):
        (events.restore if number % 20 == 19 else events.add_column if number % 20 == 9 else events.edit)()
    assert FIRST / 2 < events.ids()[2] < 2 * FIRST
    assert len(events.extras()) == 3


def test_a_commit_by_a_clock_that_is_back_has_an_earlier_time_than_the_one_before(tmp_path: Path) -> None:
    customers = source(tmp_path, "customers")
    for _ in range(2):
        customers.step_clock()
    assert sorted(customers.ids()) == [0, 59, 60]
    times = [file.stat().st_mtime for file in sorted((tmp_path / "customers" / "_delta_log").glob("*.json"))]
    assert [3500 < before - after < 3700 for before, after in pairwise(times)] == [False, True, False, True]


def test_the_comparison_names_each_table_that_is_not_its_recompute(tmp_path: Path) -> None:
    tables: dict[str, list[Row]] = {name: _rows(source(tmp_path, name)) for name in BASE}
    while missing := [name for name in QUERIES if name not in tables and set(sources_of(name)) <= tables.keys()]:
        tables |= {name: computed(name, tables) for name in missing}
    for name in QUERIES:
        write_deltalake(str(tmp_path / name), pa.Table.from_pylist(tables[name]))
    rejected = [{**row, "__n": 1} for row in tables["orders"] if row["amount"] >= 450]
    write_deltalake(str(tmp_path / "judged_quarantine"), pa.Table.from_pylist(rejected))
    assert recomputed(tmp_path) == {}
    for name in ("cities", "judged_quarantine", "top_orders"):
        DeltaTable(str(tmp_path / name)).delete(f"{_first(tables, name)} IS NOT NULL")
    assert recomputed(tmp_path).keys() == {"cities", "judged_quarantine", "top_orders"}


def test_the_oracle_of_the_archive_tells_what_the_feed_tells_also_of_a_restore_across_a_compaction(
    tmp_path: Path,
) -> None:
    events = source(tmp_path, "events")
    for _ in range(8):
        events.edit()
    events.compact()
    events.restore()
    events.edit()
    history = History(tmp_path / "events")
    (restored,) = [version for version, entry in history.entries.items() if entry.restored is not None]
    assert len(history.brought(restored)) == len(history.rows(restored)), "it went back across the compaction"
    told = [_kept(row) for row in _feed(events) if row["_change_type"] in ("insert", "update_postimage")]
    before, span = [row for row in told if row["commit_version"] == 0], Span(history, 0, history.newest)
    (law,) = [asset.law for asset in assets(tmp_path) if asset.name == "archive"]
    assert law(before, {"events": span}, told) is None
    assert law(before, {"events": span}, told[:-1]) is not None


def test_each_kind_of_disturbance_comes_once_before_one_comes_again(tmp_path: Path) -> None:
    drawn = Disturbances(random.Random(3), Processes(tmp_path, tmp_path), Disk(tmp_path, False), ["cities"])
    assert "the disk is full" not in drawn.kinds
    first, second = ([drawn.draw() for _ in drawn.kinds] for _ in range(2))
    assert sorted(first) == sorted(second) == sorted(drawn.kinds)


def test_a_picture_has_a_line_for_each_kind_of_process(tmp_path: Path) -> None:
    samples = [{"at": 60.0 * n, "memory": {"Spark server": 1e9 + n, "run": 1e8}} for n in range(3)]
    sizes = [{"at": 60.0 * n, "tables": n, "logs": n, "Spark's own files": n, "Dagster's history": n} for n in range(3)]
    late = [{"at": 1060.0, "seconds": 30.0}, {"at": 1130.0, "seconds": 40.0}]
    hits = [{"at": 1090.0, "kind": "a run is killed"}]
    draw({"samples": samples, "sizes": sizes, "late": late, "began": 1000.0, "disturbances": hits}, tmp_path)
    memory = (tmp_path / "soak_memory.svg").read_text()
    assert [name in memory for name in ("Spark server", "run", "daemon")] == [True, True, False]
    assert sorted(file.name for file in tmp_path.glob("*.svg")) == [
        "soak_disk.svg",
        "soak_lateness.svg",
        "soak_memory.svg",
    ]


def _rows(made: Source) -> list[Row]:
    history = History(made.path)
    return history.rows(history.newest)


def _feed(made: Source) -> list[Row]:
    """The feed of a source, read by delta-rs."""
    return pa.table(DeltaTable(str(made.path)).load_cdf(starting_version=0).read_all()).to_pylist()


def _kept(row: Row) -> Row:
    return {"id": row["id"], "token": row["token"], "commit_version": row["_commit_version"]}


def _first(tables: dict[str, list[Row]], name: str) -> str:
    return "id" if name == "judged_quarantine" else next(iter(tables[name][0]))


def test_each_query_is_computed_where_its_tables_are_empty() -> None:
    for name in QUERIES:
        assert len(computed(name, {table: [] for table in sources_of(name)})) <= 1, name

"""The cost of finding the cursor does not depend on how long the history is."""

import json
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.find import cursor_of_each, find_cursor
from lakehouse.cursor.mark import Mark, Position
from lakehouse.cursor.unread import cap, pending
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.limits import MEASURED
from lakehouse.delta.location import Location
from lakehouse.delta.table import Read
from tests.support.slow import slow

SCHEMA = json.dumps({"type": "struct", "fields": [{"name": "id", "type": "integer", "nullable": True, "metadata": {}}]})
METADATA = {
    "metaData": {
        "id": "an-id",
        "format": {"provider": "parquet", "options": {}},
        "schemaString": SCHEMA,
        "partitionColumns": [],
        "configuration": {},
    }
}
_watched: list[list[str]] = []


@pytest.fixture(scope="module", autouse=True)
def _audit() -> None:
    """Installs an audit hook, which stays for the life of the process; outside of `touched` it does nothing."""

    def hook(event: str, args: tuple[object, ...]) -> None:
        if _watched and event in ("open", "os.listdir", "os.scandir"):
            _watched[-1].append(f"{event} {args[0]}")

    sys.addaudithook(hook)


@contextmanager
def touched() -> Generator[list[str]]:
    """The files that are opened and the directories that are listed within the block."""
    _watched.append([])
    try:
        yield _watched[-1]
    finally:
        _watched.pop()


def history(path: Path, commits: int, foreign: int, *, partitioned: bool = False) -> Path:
    """Writes a log of own commits, each of a partition of its own if `partitioned`, followed by foreign commits."""
    log = path / "_delta_log"
    log.mkdir(parents=True)
    for version in range(commits + foreign):
        info: dict[str, object] = {"timestamp": version, "operation": "MERGE", "operationParameters": {}}
        if version < commits:
            mark = Mark(
                "t",
                (f"p{version}",) if partitioned else (),
                "0",
                1 if partitioned else version + 1,
                "run",
                f"attempt-{version}",
                version - 1,
                None,
                {"src": Position("s", version)},
            )
            info["userMetadata"] = mark.to_json()
        else:
            info["operation"] = "OPTIMIZE"
        first = [{"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}, METADATA] if version == 0 else []
        lines = [{"commitInfo": info}, *first]
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, lines)))
    return path


@pytest.mark.parametrize("foreign", [slow(0), 5])
def test_ten_thousand_versions_cost_what_ten_do(tmp_path: Path, foreign: int) -> None:
    counted: dict[int, int] = {}
    for commits in (10, 10_000):
        log = FileLog(Location(str(history(tmp_path / str(commits), commits, foreign))), "t")
        head = log.head()
        with touched() as found:
            cursor = find_cursor(log, head, "t")
        assert isinstance(cursor, Known) and cursor.epoch == commits
        assert all(event.startswith("open") for event in found), "no directory is listed"
        counted[commits] = len(found)
    assert counted == dict.fromkeys((10, 10_000), foreign + 1), "the newest own commit, and those after it"


def test_the_reads_are_seen_where_the_cursor_is_far(tmp_path: Path) -> None:
    """The control: the same counter grows where many foreign commits follow the last own one."""
    log = FileLog(Location(str(history(tmp_path / "far", 1, 300))), "t")
    head = log.head()
    with touched() as found:
        find_cursor(log, head, "t")
    assert len(found) > 300


def test_a_year_of_hours_costs_one_walk_over_the_log(tmp_path: Path) -> None:
    """8,760 partitions and 2,000 commits; a walk for each partition took 47 seconds."""
    log = FileLog(Location(str(history(tmp_path / "hours", 2_000, 0, partitioned=True))), "t")
    head, partitions = log.head(), [f"p{hour}" for hour in range(8_760)]
    before = time.process_time()
    with touched() as found:
        each = cursor_of_each(log, head, "t", partitions)
    assert sum(isinstance(cursor, Known) for cursor in each.values()) == 2_000
    assert len(found) <= 2_001
    assert time.process_time() - before < 3


def test_a_portion_of_a_long_backlog_reads_what_it_takes_and_not_the_backlog(tmp_path: Path) -> None:
    """If each portion read the whole backlog, ten thousand commits would be read fifty million times in all."""
    path = str(history(tmp_path / "t", 3_000, 0))
    log = FileLog(Location(path), "t")
    head = log.head()
    assert head is not None
    one = Read(max_versions=1)
    with touched() as found:
        commits = pending(log, "t", 5, head.version, one, 0)
    assert commits is not None and [commit.version for commit in cap(commits, one, 0)] == [6]
    assert len(found) <= 2 * MEASURED.commits_ahead

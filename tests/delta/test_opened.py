"""A table is opened once as long as its log stays the same, and again after whatever happens to that log."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError

from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.delta.log_files import KEPT, newest


def _write(path: Path, *numbers: int, mode: str = "append") -> None:
    write_deltalake(str(path), pa.table({"id": list(numbers)}), mode=mode)  # pyright: ignore[reportArgumentType]


def _anew(path: Path) -> None:
    shutil.rmtree(path)
    _write(path, 7)
    _write(path, 8)


def _last_commit_again(path: Path) -> None:
    """Replaces the newest commit by another one, as a writer without conflict detection does."""
    commit = path / "_delta_log" / f"{1:020}.json"
    text = commit.read_text()
    commit.unlink()
    commit.write_text(text.replace('"numRecords\\":1', '"numRecords\\":5'))


HAPPENS: dict[str, Callable[[Path], object]] = {
    "a commit": lambda path: _write(path, 3),
    "two commits": lambda path: [_write(path, 3), _write(path, 4)],
    "another table in its place": _anew,
    "another commit in the place of the newest": _last_commit_again,
    "a checkpoint": lambda path: DeltaTable(str(path)).create_checkpoint(),
}


@pytest.fixture
def table(tmp_path: Path) -> Path:
    _write(tmp_path / "t", 1)
    _write(tmp_path / "t", 2)
    return tmp_path / "t"


def test_a_table_whose_log_stays_is_opened_once(table: Path):
    assert newest(str(table)) is newest(str(table))


@pytest.mark.parametrize("happens", HAPPENS.values(), ids=HAPPENS)
def test_whatever_happens_to_the_log_is_seen(table: Path, happens: Callable[[Path], object]):
    newest(str(table))
    happens(table)
    seen, expected = newest(str(table)), DeltaTable(str(table))
    assert (seen.delta.version(), seen.delta.metadata().id) == (expected.version(), expected.metadata().id)
    counts = pa.table(expected.get_add_actions()).column("num_records").to_pylist()
    assert seen.size is not None and seen.size.rows == sum(counts)


def test_a_table_whose_middle_is_lost_is_not_taken_for_what_it_was(table: Path):
    _write(table, 3)
    newest(str(table))
    (table / "_delta_log" / f"{1:020}.json").unlink()
    with pytest.raises(DeltaError):
        newest(str(table))


def test_no_more_tables_stay_open_than_a_run_needs(tmp_path: Path):
    paths = [str(tmp_path / str(n)) for n in range(KEPT + 1)]
    for path in paths:
        _write(Path(path), 1)
    first = newest(paths[0])
    assert [newest(path).delta.version() for path in paths] == [0] * len(paths)
    assert newest(paths[0]) is not first


def test_the_rows_of_a_version_are_counted_whoever_has_asked_for_the_head(table: Path):
    assert [FileLog(Location(str(table)), "t").live_rows(version) for version in (0, 1)] == [1, 2]
    log = FileLog(Location(str(table)), "t")
    head = log.head()
    _write(table, 3)
    assert head is not None and log.live_rows(head.version) == 2


def test_commits_of_another_writer_are_told_apart_by_their_files(tmp_path: Path) -> None:
    """Deltalake records no transaction id, and two appends may have the same numbers of rows and bytes."""
    log = FileLog(Location(str(tmp_path / "t")), "t")
    for number in (1, 2):
        _write(tmp_path / "t", number)
    second, first = log.commits(1)
    alike = replace(first, metrics=second.metrics)
    assert second.identity is not None and second.identity.endswith(".parquet")
    assert second.has_digest(second.digest)
    assert not second.has_digest(alike.digest)
    assert second.has_digest(replace(alike, identity=None).digest), "through Spark no identity is known"

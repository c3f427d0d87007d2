"""What upkeep relies on: `VACUUM ... USING INVENTORY ... RETAIN 0 HOURS`, and what ends a reader's history."""

import json
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import unquote

import pytest

from lakehouse.delta.text import literal
from lakehouse.spark.session import session_of_its_own
from tests.support.lake import Lake, aged

RETENTION = "delta.deletedFileRetentionDuration"
CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
BEYOND = "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"
COLUMNS = "nullif(path, '') AS path, nullif(1L, 0L) AS length, nullif(false, true) AS isDir, nullif(1L, 0L) AS modificationTime"
"""Nullable columns: Delta compares the schema with its own, whose columns may be NULL."""


def _actions(lake: Lake, table: str, version: int) -> Iterator[tuple[str, dict[str, Any]]]:
    for line in (lake.root / table / "_delta_log" / f"{version:020}.json").read_text("utf-8").splitlines():
        yield from json.loads(line).items()


def _paths(lake: Lake, table: str, version: int, kind: str) -> list[str]:
    """Paths in the actions of a commit, as the log writes them: encoded as in a URL."""
    return [action["path"] for name, action in _actions(lake, table, version) if name == kind]


def _files(lake: Lake, table: str) -> set[str]:
    root = lake.root / table
    files = (file.relative_to(root) for file in root.rglob("*") if file.is_file() and file.name[0] != ".")
    return {str(file) for file in files if file.parts[0] != "_delta_log"}


def _vacuum(lake: Lake, table: str, paths: list[str]) -> None:
    """Deletes files by inventory, in a session of its own; only there is the retention check off."""
    rows = ", ".join(f"({literal(f'file:{lake.root}/{table}/{path}')})" for path in paths)
    listed = f"SELECT {COLUMNS} FROM VALUES {rows} AS listed(path)"
    with session_of_its_own(lake.spark) as own:
        own.conf.set(CHECK, "false")
        own.sql(f"VACUUM {lake.ref(table).identifier} USING INVENTORY ({listed}) RETAIN 0 HOURS").collect()
    assert lake.spark.conf.get(CHECK) == "true"


def _feed(lake: Lake, table: str, first: int, last: int) -> list[tuple[Any, ...]]:
    options = {"readChangeFeed": "true", "startingVersion": str(first), "endingVersion": str(last)}
    rows = lake.spark.read.format("delta").options(**options).load(str(lake.root / table)).collect()
    return sorted((tuple(row[:-1]) for row in rows), key=repr)


def _moving(lake: Lake, days: int) -> None:
    """Creates a table with an update (version 1), deletions of whole files (2 and 4) and appends (3 and 5)."""
    lake.create("t", [(1, 10), (2, 20)], "id int, v int", **{RETENTION: f"interval {days} days"})
    lake.sql("UPDATE {t} SET v = 11 WHERE id = 1")
    lake.sql("DELETE FROM {t} WHERE id > 0")
    lake.insert("t", [(3, 30)])
    lake.sql("DELETE FROM {t} WHERE id = 3")
    lake.insert("t", [(4, 40)])


@pytest.mark.slow
def test_beyond_the_retention_of_files_delta_refuses_a_reader_although_they_are_there(lake: Lake) -> None:
    _moving(lake, days=1)
    aged(lake, "t", 10)
    reads: list[Callable[[], object]] = [
        lambda: _feed(lake, "t", 1, 5),
        lambda: lake.sql("SELECT * FROM {t} VERSION AS OF 1"),
    ]
    for read in reads:
        with pytest.raises(Exception, match=BEYOND):
            read()


@pytest.mark.slow
def test_a_reader_ten_days_behind_reads_its_range_after_the_files_before_it_were_deleted(lake: Lake) -> None:
    _moving(lake, days=30)
    aged(lake, "t", 10)
    before, range_ = _files(lake, "t"), _feed(lake, "t", 3, 5)
    passed = [*_paths(lake, "t", 1, "remove"), *_paths(lake, "t", 1, "cdc"), *_paths(lake, "t", 2, "remove")]
    live = _paths(lake, "t", 5, "add")
    _vacuum(lake, "t", [*passed, *live])
    assert before - _files(lake, "t") == set(passed), "what is live stays, although it is listed"
    assert _feed(lake, "t", 3, 5) == range_
    assert lake.rows("t") == [(4, 40)]
    assert [(commit.operation, commit.is_quiet) for commit in lake.commits("t")][-2:] == [
        ("VACUUM START", True),
        ("VACUUM END", True),
    ]


@pytest.mark.slow
def test_the_inventory_takes_paths_decoded_and_leaves_what_else_is_in_their_directories(lake: Lake) -> None:
    lake.sql("CREATE TABLE {p} (id int, d string) USING delta PARTITIONED BY (d)", p=lake.ref("p").identifier)
    for rows in ("(1, 'a b'), (1, '100%'), (1, 'ü=x/y')", "(2, 'a b'), (2, '100%'), (2, 'ü=x/y')"):
        lake.sql(f"INSERT INTO {{p}} VALUES {rows}")
    lake.sql("DELETE FROM {p} WHERE id = 1")
    removed, before = _paths(lake, "p", 3, "remove"), _files(lake, "p")
    live = _paths(lake, "p", 2, "add")
    assert len(removed) == 3 and all("%" in path for path in removed)
    _vacuum(lake, "p", removed)
    assert _files(lake, "p") == before, "as the log writes them they name nothing"
    _vacuum(lake, "p", [unquote(path) for path in (*removed, *live)])
    assert before - _files(lake, "p") == {unquote(path) for path in removed}
    assert lake.rows("p") == [(2, "100%"), (2, "a b"), (2, "ü=x/y")]


@pytest.mark.slow
def test_vectors_that_were_replaced_are_deleted_and_the_live_vector_stays(lake: Lake) -> None:
    lake.create("v", [(i, i) for i in range(4)], "id int, v int", **{"delta.enableDeletionVectors": "true"})
    for i in range(3):
        lake.sql(f"DELETE FROM {{v}} WHERE id = {i}")
    vectors = sorted(path for path in _files(lake, "v") if path.endswith(".bin"))
    assert len(vectors) == 3
    _vacuum(lake, "v", vectors)
    assert len([path for path in _files(lake, "v") if path.endswith(".bin")]) == 1
    assert lake.rows("v") == [(3, 3)]

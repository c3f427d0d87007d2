"""What a table's commits record: which of them changed rows, which removed all rows, and which are missing."""

import json
from collections.abc import Collection, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, Schema, write_deltalake
from deltalake.schema import PrimitiveType, StructType
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.commit_info import NO_ROWS, REPLACING, WITHOUT_ROWS, Commit, Rows
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.delta.log import FileSchema, Head, Size, commits_between, newest_first
from lakehouse.delta.log_files import LocalFiles, StoredFiles
from lakehouse.errors import UnreadableLogError
from tests.support.commits import History
from tests.support.first_commit import CATALOG_COMMITS, Declared, declare
from tests.support.for_each import for_each
from tests.support.raises import raises_code

APPEND, OVERWRITE = {"mode": "Append"}, {"mode": "Overwrite"}
MERGED = ("numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")


def commit(
    operation: str, parameters: Mapping[str, str | None] | None = None, /, version: int = 3, **metrics: int
) -> Commit:
    return Commit(version, 0, operation, parameters or {}, metrics)


QUIET = [
    *(commit(operation) for operation in sorted(WITHOUT_ROWS)),
    commit("WRITE", APPEND, numOutputRows=0),
    commit("WRITE", {"mode": "ErrorIfExists"}, numOutputRows=0),
    commit("WRITE", OVERWRITE, numOutputRows=0, numDeletedRows=0),
    commit("WRITE", OVERWRITE, numOutputRows=7, numCopiedRows=7, numDeletedRows=0),
    commit("WRITE", OVERWRITE, numOutputRows=0, version=0),
    commit("CREATE TABLE AS SELECT", numOutputRows=0),
    commit("STREAMING UPDATE", {"outputMode": "Append"}, numOutputRows=0),
    commit("MERGE", **dict.fromkeys(MERGED, 0)),
    commit("UPDATE", numUpdatedRows=0),
    commit("DELETE", numDeletedRows=0),
]
LOUD = [
    commit("WRITE", APPEND, numOutputRows=1),
    commit("WRITE", APPEND),
    commit("WRITE", numOutputRows=0),  # without a mode it may have replaced everything
    commit("WRITE", OVERWRITE, numOutputRows=0),
    commit("WRITE", OVERWRITE, numOutputRows=0, numDeletedRows=1),
    commit("WRITE", OVERWRITE, numDeletedRows=0),
    commit("CREATE TABLE AS SELECT", numOutputRows=1),
    commit("CREATE TABLE AS SELECT"),
    commit("STREAMING UPDATE", {"outputMode": "Append"}, numOutputRows=1),
    commit("STREAMING UPDATE", {"outputMode": "Complete"}, numOutputRows=0, numRemovedFiles=1),
    commit("STREAMING UPDATE", numOutputRows=0),
    commit("MERGE", **dict.fromkeys(MERGED[:2], 0)),
    *(commit("MERGE", **(dict.fromkeys(MERGED, 0) | {name: 1})) for name in MERGED),
    commit("UPDATE", numUpdatedRows=1),
    commit("UPDATE"),
    commit("DELETE", numDeletedRows=1),
    commit("DELETE", numRemovedFiles=4),  # a whole partition: Delta leaves the count out
    *(commit(operation) for operation in sorted(REPLACING)),
    *(
        commit(operation, numOutputRows=0)
        for operation in ("RESTORE", "CONVERT", "Manual Update", "SOMETHING NEW", "UNKNOWN")
    ),
]


def described(found: Commit) -> str:
    return f"{found.operation} {dict(found.parameters)} {dict(found.metrics)}"


@for_each("quiet", QUIET)
def test_a_commit_that_changed_no_row_is_quiet(quiet: Commit):
    assert quiet.is_quiet
    assert quiet.bytes_written == 0


@for_each("commit", LOUD)
def test_a_commit_that_may_have_changed_a_row_is_not_quiet(commit: Commit):
    assert not commit.is_quiet


@for_each(
    "found, rows, said",
    [
        (commit("WRITE", APPEND, numOutputRows=5), Rows(5, 0, 0), "5 inserted"),
        (
            commit("WRITE", OVERWRITE, numOutputRows=5, numCopiedRows=2, numDeletedRows=4),
            Rows(3, 0, 4),
            "3 inserted, 4 deleted",
        ),
        (commit("WRITE", OVERWRITE, numOutputRows=5), Rows(5, 0, None), "5 inserted, deleted not counted"),
        (
            commit("MERGE", **dict(zip(MERGED, (1, 2, 3), strict=True))),
            Rows(1, 2, 3),
            "1 inserted, 2 updated, 3 deleted",
        ),
        (commit("UPDATE", numUpdatedRows=4), Rows(0, 4, 0), "4 updated"),
        (commit("DELETE"), Rows(0, 0, None), "deleted not counted"),
        (commit("OPTIMIZE", numAddedFiles=1), NO_ROWS, "none"),
        (commit("SOMETHING NEW"), Rows(None, None, None), "inserted or updated or deleted not counted"),
    ],
)
def test_rows_are_counted_by_the_commits_own_metrics(found: Commit, rows: Rows, said: str):
    assert found.rows == rows
    assert str(found.rows) == said


def test_a_sum_with_an_unknown_is_unknown():
    assert Rows(1, None, 2) + Rows(3, 4, 0) == Rows(4, None, 2)
    assert sum([Rows(1, 0, 0), Rows(0, 2, 0)], NO_ROWS) == Rows(1, 2, 0)


@for_each(
    "found, written",
    [
        (commit("WRITE", APPEND, numOutputRows=1, numOutputBytes=10), 10),
        (commit("MERGE", **dict.fromkeys(MERGED, 1), numTargetBytesAdded=11), 11),
        (commit("UPDATE", numUpdatedRows=1, numAddedBytes=12), 12),
        (commit("OPTIMIZE", numAddedBytes=13), 0),
        (commit("SOMETHING NEW"), 0),
    ],
)
def test_a_limit_in_bytes_counts_what_the_commit_added_for_changed_rows(found: Commit, written: int):
    assert found.bytes_written == written


EMPTIES = [
    *(commit(operation) for operation in sorted(REPLACING)),
    commit("WRITE", OVERWRITE),
    commit("WRITE", OVERWRITE | {"predicate": "[]"}),
    commit("WRITE", OVERWRITE | {"predicate": "true"}),
    commit("STREAMING UPDATE", {"outputMode": "Complete"}),
    commit("DELETE"),
    commit("DELETE", {"predicate": "[]"}),
    commit("DELETE", {"predicate": '["true"]'}),
]
KEEPS = [
    commit("WRITE", APPEND),
    commit("WRITE", OVERWRITE, version=0),
    commit("WRITE", OVERWRITE | {"predicate": "day = '2013-01-01'"}),
    commit("WRITE", OVERWRITE | {"isDynamicPartitionOverwrite": "true", "partitionBy": '["g"]'}),
    commit("WRITE", OVERWRITE | {"replaceOnCond": "t.id <=> s.id"}),
    commit("WRITE", OVERWRITE | {"replaceUsingCols": "(id)"}),
    commit("STREAMING UPDATE", {"outputMode": "Append"}),
    commit("DELETE", {"predicate": '["(id = 1)"]'}),
    commit("MERGE"),
    commit("UPDATE"),
    commit("RESTORE", {"version": "0"}),
    *(commit(operation) for operation in sorted(WITHOUT_ROWS)),
]


@for_each("found", EMPTIES)
def test_a_commit_that_removed_every_earlier_row_says_so(found: Commit):
    assert found.empties


@for_each("found", KEEPS)
def test_a_commit_that_kept_some_earlier_row_does_not_end_the_line(found: Commit):
    assert not found.empties
    assert not found.leaves_nothing


def test_a_table_is_known_to_be_empty_only_after_a_commit_that_put_nothing_in():
    assert all(commit(operation).leaves_nothing for operation in ("TRUNCATE", "REPLACE TABLE"))
    assert commit("DELETE", {"predicate": '["true"]'}).leaves_nothing
    assert not commit("DELETE", {"queryId": "a writer that leaves the predicate out"}).leaves_nothing
    assert commit("WRITE", OVERWRITE, numOutputRows=0).leaves_nothing
    assert not commit("WRITE", OVERWRITE, numOutputRows=1).leaves_nothing
    dynamic = commit("WRITE", OVERWRITE | {"isDynamicPartitionOverwrite": "true"}, numOutputRows=0)
    assert dynamic.empties, "Delta says so of tables without partitions, too, and of others it does not say which"
    assert not dynamic.leaves_nothing
    assert not commit("WRITE", OVERWRITE).leaves_nothing
    assert not commit("CREATE OR REPLACE TABLE AS SELECT").leaves_nothing
    assert not commit("CLONE").leaves_nothing


def test_a_restore_names_its_version_unless_it_gave_a_time():
    assert commit("RESTORE", {"version": "12"}).restored_version == 12
    assert commit("RESTORE", {"version": "0"}).restored_version == 0
    for version in (None, "", "null", "None", "12.5"):
        assert commit("RESTORE", {"version": version}).restored_version is None
    assert commit("RESTORE").restored_version is None


def test_a_table_keeps_a_feed_only_if_its_property_says_so():
    assert Head(0, "t", {"delta.enableChangeDataFeed": "TRUE"}, ()).keeps_feed
    assert not Head(0, "t", {"delta.enableChangeDataFeed": "false"}, ()).keeps_feed
    assert not Head(0, "t", {}, ()).keeps_feed


class Listed:
    """A log that holds exactly the given versions."""

    def __init__(self, versions: Sequence[int]) -> None:
        self.versions = versions

    def commits(self, newest: int, oldest: int = 0):
        return iter([commit("MERGE", version=v) for v in sorted(self.versions, reverse=True) if oldest <= v <= newest])

    def live_rows(self, version: int) -> int | None:
        return None

    def size(self) -> Size | None:
        return None

    def head(self) -> Head | None:
        return Head(max(self.versions), "t", {}, ())

    def file_schema(self, version: int) -> FileSchema | None:
        return None

    def growths(self, versions: Collection[int]) -> Mapping[int, int | None]:
        return {}

    def epoch(self, application_id: str, version: int) -> int | None:
        return None


@given(st.sets(st.integers(0, 12)), st.integers(-1, 12), st.integers(-1, 12))
def test_a_range_of_commits_is_whole_or_known_to_be_cleaned_up_or_refused(versions: set[int], after: int, upto: int):
    wanted = set(range(after + 1, upto + 1))
    there = wanted & versions
    log = Listed(sorted(versions))
    if wanted == there:
        assert [c.version for c in commits_between(log, "src", after, upto) or ()] == sorted(wanted)
    elif there and there == set(range(min(there), upto + 1)):
        assert commits_between(log, "src", after, upto) is None
    else:
        missing = set(range(min(there, default=after + 1), upto + 1)) - there
        with pytest.raises(UnreadableLogError, match=rf"missing: {min(missing)}\b"):
            commits_between(log, "src", after, upto)


def test_a_hole_is_named_and_a_long_one_does_not_fill_the_message():
    with pytest.raises(UnreadableLogError, match=r"versions \(0, 5\] these are missing: 3, 4\."):
        commits_between(Listed([1, 2, 5]), "src", 0, 5)
    with pytest.raises(UnreadableLogError, match=r"and 999988 more\.") as raised:
        commits_between(Listed([1, 1_000_000]), "src", 0, 1_000_000)
    assert len(str(raised.value)) < 400


@given(
    length=st.integers(0, 700),
    cleaned=st.integers(0, 700),
    newest=st.integers(-1, 700),
    oldest=st.integers(0, 700),
    arriving=st.integers(0, 3),
)
def test_paging_from_the_newest_equals_the_plain_list(
    length: int, cleaned: int, newest: int, oldest: int, arriving: int
):
    """Even while others commit between two pages, and where old commits were cleaned up."""
    log = [commit("MERGE", version=v) for v in range(length)]
    pages: list[int] = []

    def read(count: int) -> list[Commit]:
        pages.append(count)
        page = [c for c in log[-count:] if c.version >= cleaned]
        log.extend(commit("MERGE", version=len(log) + i) for i in range(arriving))
        return page

    plain = [v for v in range(length - 1, -1, -1) if max(oldest, cleaned) <= v <= newest]
    found = [c.version for c in newest_first(read, newest, oldest)]
    assert [v for v in found if v < length] == plain
    assert all(above > below for above, below in pairwise(found))
    assert all(later > earlier for earlier, later in pairwise(pages))


def test_a_page_is_read_only_when_it_is_needed():
    history = History()
    for _ in range(10_000):
        history.append()
    assert next(history.commits(9_999)).version == 9_999
    assert history.pages == [32]
    assert [c.version for c in history.commits(9_999, 9_990)] == list(range(9_999, 9_989, -1))
    assert history.pages == [32, 32]


def test_a_walk_to_the_start_reads_a_number_of_commits_linear_in_the_history():
    history = History()
    for _ in range(10_000):
        history.append()
    assert len(list(history.commits(9_999))) == 10_000
    assert sum(min(count, 10_000) for count in history.pages) < 2 * 10_000


@for_each(
    "path, name",
    [("`a.b`", "a.b"), ("a", "a"), ("s.a", "s.a"), ("`s.t`.a", "`s.t`.a"), ("s.`a.b`", "s.`a.b`"), ("`a`b`", "`a`b`")],
)
def test_a_renamed_column_is_told_by_its_name(path: str, name: str):
    """In the form in which Delta writes it: with quotes where it has a dot, without quotes where it has none."""
    parameters = {"oldColumnPath": path, "newColumnPath": "new"}
    assert commit("RENAME COLUMN", parameters).renaming == (name, "new")
    assert commit("DROP COLUMNS", parameters).renaming is None


@for_each("operation", ["RENAME COLUMN", "DROP COLUMNS"])
def test_a_commit_that_does_not_say_which_column_it_freed_may_have_freed_any(operation: str):
    for parameters in ({}, {"oldColumnPath": "a", "columns": "['a']"}):
        unknown = commit(operation, parameters)
        assert (unknown.freed_columns, unknown.renaming) == (None, None)


def test_a_line_of_a_stored_log_ends_where_json_ends(tmp_path: Path) -> None:
    """Statistics and predicates may have characters that end a line in Python, as keys in a wrong encoding do."""
    entries = [{"add": {"path": "a \u0085 b \u2028 c \u2029 d \x0b e"}}, {"commitInfo": {}}]
    (tmp_path / "_delta_log").mkdir()
    text = "".join(f"{json.dumps(entry, ensure_ascii=False)}\n" for entry in entries)
    (tmp_path / "_delta_log" / "0.json").write_text(text, encoding="utf-8")
    for files in (LocalFiles(str(tmp_path)), StoredFiles(Location(str(tmp_path)))):
        assert [json.loads(line) for line in files.lines("0.json")] == entries


def test_a_version_has_the_same_types_whenever_it_is_read(tmp_path: Path) -> None:
    """`deltalake` orders the metadata of a field differently each time; a commit would seem to change the layout."""
    inner = Field("a", PrimitiveType("integer"), metadata={f"word.{n}": n for n in range(8)})
    DeltaTable.create(str(tmp_path / "t"), schema=Schema([Field("s", StructType([inner]))]))
    log = FileLog(Location(str(tmp_path / "t")), "events")
    found = [log.file_schema(0) for _ in range(9)]
    assert all(schema is not None and schema.types == found[0].types for schema in found)


def test_a_version_whose_checkpoint_was_cleaned_up_is_gone_and_the_log_is_not_damaged(tmp_path: Path) -> None:
    for value in range(4):
        write_deltalake(tmp_path, pa.table({"id": [value]}), mode="append")
    DeltaTable(tmp_path).create_checkpoint()
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    log = FileLog(Location(str(tmp_path)), "events")
    assert (log.live_rows(2), log.first_rows(2, 9)) == (None, None)
    assert log.live_rows(3) == 4


@pytest.mark.parametrize("feature", ["geospatial", "of-tomorrow"])
def test_a_feature_that_deltalake_does_not_know_is_named(tmp_path: Path, feature: str) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))
    declare(tmp_path / "t", Declared((feature,)))
    with raises_code("UNKNOWN_FEATURE") as told:
        FileLog(Location(str(tmp_path / "t")), "events").head()
    assert told.value.feature == feature
    assert "again" not in str(told.value) and "trusted" not in str(told.value)


@pytest.mark.parametrize("declared", CATALOG_COMMITS.values(), ids=CATALOG_COMMITS)
def test_a_log_whose_commits_are_the_catalogs_is_refused(tmp_path: Path, declared: Declared) -> None:
    """deltalake itself reads a log with a commit coordinator, up to the commits that are files."""
    write_deltalake(str(tmp_path / "t"), pa.table({"id": [1]}))
    declare(tmp_path / "t", declared)
    with raises_code("UNKNOWN_FEATURE", match="'events' cannot be read: .* catalogManaged.*Nothing was written"):
        FileLog(Location(str(tmp_path / "t")), "events").head()


def test_a_commit_names_the_partitions_whose_files_it_touched_or_says_that_it_does_not(tmp_path: Path) -> None:
    """The protocol allows a writer to remove a file without giving its partition values."""
    path = tmp_path / "orders"
    for day, mode in (("mon", "error"), ("tue", "append")):
        write_deltalake(path, pa.table({"id": [1], "day": [day]}), mode=mode, partition_by=["day"])
    DeltaTable(path).delete("day = 'mon'")
    log = FileLog(Location(str(path)), "orders")
    assert [log.partition_values_in(version) for version in range(3)] == [
        [{"day": "mon"}],
        [{"day": "tue"}],
        [{"day": "mon"}],
    ]
    entry = path / "_delta_log" / f"{2:020}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        action.get("remove", {}).pop("partitionValues", None)
    entry.write_text("".join(f"{json.dumps(action)}\n" for action in actions))
    assert FileLog(Location(str(path)), "orders").partition_values_in(2) is None

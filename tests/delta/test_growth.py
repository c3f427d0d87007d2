"""By how many rows a commit made a table grow, from its files alone: compared with a table whose every row is known."""

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.file_log import FileLog
from lakehouse.delta.growth import FileChanges, growths, tells_changes
from lakehouse.delta.location import Location
from tests.support.by_hand import rewritten

Vector = dict[str, int] | None


@dataclass
class Files:
    """A table as its files: the rows of each, the rows that a vector deletes, and the rows that snapshots record."""

    live: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    snapshots: list[dict[str, int]] = field(default_factory=list[dict[str, int]])
    entries: list[list[str]] = field(default_factory=list[list[str]])
    grown: list[int] = field(default_factory=list[int])

    @property
    def rows(self) -> int:
        return sum(written - deleted for written, deleted in self.live.values())

    def commit(self, chance: Callable[[int], int], *, tells: bool, says: bool) -> None:
        """Removes some files, deletes rows of others by a vector, and adds some."""
        before, actions = self.rows, [json.dumps({"commitInfo": {"operation": "MERGE", "cdc": "no action"}})]
        for path, (written, deleted) in list(self.live.items()):
            match chance(3):
                case 0:
                    del self.live[path]
                    actions.append(_action("remove", path, written if chance(2) else None, deleted))
                case 1 if written > deleted:
                    self.live[path] = (written, deleted + 1)
                    actions.append(_action("add", path, written if says else None, deleted + 1))
                    actions.append(_action("remove", path, None, deleted))
                case _:
                    pass
        for number in range(chance(3)):
            path, written = f"{len(self.entries)}-{number}.parquet", chance(5)
            self.live[path] = (written, 0)
            actions.append(_action("add", path, written if says else None, 0))
        if tells:
            actions.append(json.dumps({"cdc": {"path": "_change_data/x.parquet"}}))
        self.entries.append(actions)
        self.grown.append(self.rows - before)
        self.snapshots.append({path: written for path, (written, _) in self.live.items()})

    def read(self, versions: Collection[int]) -> Iterator[tuple[int, list[str]]]:
        return ((version, self.entries[version]) for version in versions)

    def at(self, version: int) -> Mapping[str, int]:
        return self.snapshots[version] if version >= 0 else {}


def _action(kind: str, path: str, written: int | None, deleted: int) -> str:
    action: dict[str, Any] = {"path": path, "dataChange": True}
    if written is not None:
        action["stats"] = json.dumps({"numRecords": written, "maxValues": {"numRecords": 7}})
    if deleted:
        action["deletionVector"] = {"cardinality": deleted}
    return json.dumps({kind: action})


@given(data=st.data(), length=st.integers(1, 8), first=st.integers(0, 3), cleaned=st.booleans(), says=st.booleans())
def test_a_growth_is_that_of_the_rows_or_unknown(
    data: st.DataObject, *, length: int, first: int, cleaned: bool, says: bool
) -> None:
    files = Files()
    telling = [data.draw(st.booleans()) for _ in range(length)]
    for tells in telling:
        files.commit(
            lambda below: data.draw(st.integers(0, below - 1)), tells=tells, says=says or data.draw(st.booleans())
        )
    asked = [version for version in range(min(first, length - 1), length) if data.draw(st.booleans())]
    found = growths(asked, files.read, lambda version: {} if cleaned else files.at(version))
    assert list(found) == [version for version in asked if telling[version]]
    assert all(growth in (None, files.grown[version]) for version, growth in found.items())
    if says and not cleaned:
        assert None not in found.values()


def test_a_commit_without_changes_of_its_own_costs_no_look_at_its_files() -> None:
    looks: list[int] = []
    files = Files()
    files.commit(lambda below: below - 1, tells=False, says=True)
    assert growths([0], files.read, lambda version: looks.append(version) or {}) == {}
    assert not tells_changes(files.entries[0])
    assert looks == []


def test_statistics_and_vectors_that_are_null_are_none() -> None:
    action = {"path": "a", "stats": None, "deletionVector": None}
    changes = FileChanges.of(
        [json.dumps({"remove": action}), json.dumps({"add": action | {"stats": '{"numRecords":2}'}})]
    )
    assert (changes.written, changes.growth({})) == ({"a": 2}, None)
    assert changes.growth({"a": 2}) == 0


def _moved(table: DeltaTable, path: str) -> None:
    """Writes by delta-rs to a table of four rows."""
    more = pa.table({"id": [3, 9], "g": ["c", "e"]})
    table.update(predicate="id = 1", updates={"id": "10"})
    table.delete("id = 2")
    merge = table.merge(more, "t.id = s.id", source_alias="s", target_alias="t")
    merge.when_matched_update_all().when_not_matched_insert_all().execute()
    write_deltalake(path, more, mode="append")
    write_deltalake(path, more.slice(1), mode="overwrite", predicate="id = 9")
    table.update_incremental()
    table.optimize.compact()
    table.delete("id = 3")
    table.restore(2)


@pytest.mark.parametrize("partitions", [[], ["g"]], ids=["whole", "partitioned"])
def test_what_delta_rs_tells_is_never_contradicted(tmp_path: Path, partitions: list[str]) -> None:
    path = str(tmp_path)
    rows = pa.table({"id": [1, 2, 3, 4], "g": ["a b%/\u00fc", "a b%/\u00fc", "c", "c"]})
    write_deltalake(path, rows, partition_by=partitions, configuration={"delta.enableChangeDataFeed": "true"})
    _moved(DeltaTable(path), path)
    newest = DeltaTable(path).version()
    found = FileLog(Location(path), "t").growths(range(newest + 1))
    held = [pa.table(DeltaTable(path, version=version).to_pyarrow_table()).num_rows for version in range(newest + 1)]
    assert len(found) > 3
    assert found == {version: held[version] - held[version - 1] for version in found}


def test_a_growth_is_unknown_where_no_statistics_say_it_and_where_the_version_before_is_gone(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path), pa.table({"id": [1, 2]}), configuration={"delta.enableChangeDataFeed": "true"})
    log = FileLog(Location(str(tmp_path)), "t")
    known = rewritten(tmp_path, [(1,)], [("delete", (2,))])
    unknown = rewritten(tmp_path, [], [("delete", (1,))], counted=False)
    assert log.growths([known, unknown]) == {known: -1, unknown: None}
    (tmp_path / "_delta_log" / f"{0:020}.json").unlink()
    assert log.growths([known]) == {known: None}
    assert log.growths([0]) == {}

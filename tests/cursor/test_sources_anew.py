"""What a table stands for is not known once its source is another table, or was restored from a backup."""

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake

from lakehouse.cursor.cuts import agreement
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position
from lakehouse.cursor.standings import Standings, Ways
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.delta.log import commit_at

WAYS = Ways({"debits": ("ledger",), "credits": ("ledger",), "m": ("debits", "credits")}, frozenset({"m"}))


class Lakehouse:
    """Tables with marks, written without Spark."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def log(self, name: str) -> FileLog:
        return FileLog(Location(str(self.root / name)), name)

    def commit(self, name: str, mark: Mark | None = None) -> None:
        metadata = {} if mark is None else {"userMetadata": mark.to_json()}
        rows, properties = pa.table({"id": [1]}), CommitProperties(custom_metadata=metadata)
        write_deltalake(str(self.root / name), rows, mode="append", commit_properties=properties)

    def read(self, name: str, **versions: int) -> None:
        """A run of a table that has read its inputs up to these versions."""
        reads, head = dict[str, Position](), self.log(name).head()
        for source, version in versions.items():
            at, commit = self.log(source).head(), commit_at(self.log(source), version)
            assert at is not None and commit is not None
            reads[source] = Position(at.table_id, version, commit=commit.digest)
        base = -1 if head is None else head.version
        self.commit(name, Mark(name, (), FIRST_GENERATION, base + 2, "run", f"{name}{base}", base, reads=reads))

    @property
    def standings(self) -> Standings:
        return Standings(WAYS, self.log)


@pytest.fixture
def torn(tmp_path: Path) -> Lakehouse:
    """Two tables that have read one source up to different versions."""
    lakehouse = Lakehouse(tmp_path)
    for _ in range(9):
        lakehouse.commit("ledger")
    lakehouse.read("debits", ledger=5)
    lakehouse.read("credits", ledger=8)
    return lakehouse


def recreated(lakehouse: Lakehouse) -> None:
    shutil.rmtree(lakehouse.root / "ledger")
    for _ in range(3):
        lakehouse.commit("ledger")


def from_a_backup(lakehouse: Lakehouse) -> None:
    for version in range(4, 9):
        (lakehouse.root / f"ledger/_delta_log/{version:020}.json").unlink()


@pytest.mark.parametrize("act", [recreated, from_a_backup])
def test_inputs_do_not_agree_because_their_source_has_gone_back(torn: Lakehouse, act: object) -> None:
    cursor = find_cursor(torn.log("m"), None, "m")
    before = agreement(torn.standings, "m", cursor, {})
    assert before.has_no_cut and before.newest is None
    assert callable(act)
    act(torn)
    after = agreement(torn.standings, "m", cursor, {})
    assert after.newest is not None and "ledger is not what was read" in after.newest
    assert after.stands_for is None and torn.standings.newest("debits").exact is None


def test_an_input_that_was_restored_from_a_backup_is_read_at_a_cut_that_is_there(tmp_path: Path) -> None:
    lakehouse = Lakehouse(tmp_path)
    for version in range(4):
        lakehouse.commit("ledger")
        lakehouse.read("debits", ledger=version)
        lakehouse.read("credits", ledger=version)
    lakehouse.read("m", debits=3, credits=3)
    for version in (2, 3):
        (tmp_path / f"debits/_delta_log/{version:020}.json").unlink()
    log = lakehouse.log("m")
    settled = agreement(lakehouse.standings, "m", find_cursor(log, log.head(), "m"), {})
    assert settled.upto.get("debits", 0) <= 1, "it has no later version"

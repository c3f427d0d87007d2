"""After a legal event an `Append` goes on from where a user decides, on real tables: nothing twice or silently."""

import shutil
from collections.abc import Callable

import pytest
from deltalake import DeltaTable

from lakehouse import Append, Changes
from lakehouse.commit.commit import Committed
from lakehouse.cursor.mark import Mark
from tests.support.lake import Lake
from tests.support.raises import raises_code

SRC = "id int, v int"


def kept(src: Changes) -> Append:
    return Append(src.appended().select("id", "v"))


def renamed(lake: Lake) -> str:
    (lake.root / "kept").rename(lake.root / "renamed")
    return "renamed"


def cloned(lake: Lake) -> str:
    lake.sql(f"CREATE TABLE {lake.ref('cloned').identifier} SHALLOW CLONE {{kept}}")
    return "cloned"


def replaced_source(lake: Lake) -> str:
    shutil.rmtree(lake.root / "src")
    lake.create("src", [(9, 90)], SRC)
    return "kept"


def aged_source(lake: Lake) -> str:
    """Its log is cleaned up beyond the position, although no row has changed."""
    table = DeltaTable(str(lake.root / "src"))
    for days in range(40, 43):
        table.alter.set_table_properties({"delta.logRetentionDuration": f"interval {days} days"})
    table.create_checkpoint()
    for version in range(table.version()):
        (lake.root / "src" / "_delta_log" / f"{version:020}.json").unlink()
    return "kept"


def other_column(lake: Lake) -> str:
    """A new column has the name of a column that was dropped."""
    lake.sql("ALTER TABLE {src} DROP COLUMN v")
    lake.sql("ALTER TABLE {src} ADD COLUMN v INT")
    return "kept"


@pytest.mark.slow
@pytest.mark.parametrize("event", [renamed, cloned, replaced_source, aged_source, other_column])
def test_an_append_goes_on_from_now_once_somebody_says_so_and_its_mark_keeps_that(
    lake: Lake, event: Callable[[Lake], str]
) -> None:
    """A run that is repeated with the tag neither skips a row nor adds one twice."""
    mapped = {"delta__columnMapping__mode": "name"} if event is other_column else {}
    lake.create("src", [(1, 10)], SRC, **mapped)
    lake.materialize(kept)
    name = event(lake)
    if event is not aged_source:
        lake.insert("src", [(3, 30)])
    with raises_code("FOREIGN_TABLE", "GAP", match=rf"Nothing was written.*lakehouse/go_on_from/{name}="):
        lake.materialize(kept, name=name)
    outcome = lake.materialize(kept, name=name, run="decided", go_on_from="now")
    assert isinstance(outcome, Committed)
    mark = Mark.from_json(outcome.commit.user_metadata)
    assert mark is not None and str(mark.decided).startswith("went on from now: ")
    lake.insert("src", [(4, 40)])
    lake.materialize(kept, name=name, run="again", go_on_from="now", aliases=frozenset({"decided"}))
    lake.materialize(kept, name=name)
    assert lake.rows(name) == [(1, 10), (4, 40)]


@pytest.mark.slow
def test_an_append_that_was_emptied_is_read_from_the_start_unasked(lake: Lake) -> None:
    """Nothing can be added twice to a table without a row."""
    lake.create("src", [(1, 10)], SRC)
    lake.materialize(kept)
    lake.sql("DELETE FROM {kept}")
    lake.insert("src", [(3, 30)])
    lake.materialize(kept)
    assert lake.rows("kept") == [(1, 10), (3, 30)]

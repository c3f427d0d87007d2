"""Inputs that leave changes out, or take them in portions: what was left out comes in only if a user asks for it."""

import pytest

from lakehouse import Append, Changes, Read, Table
from tests.support.assets import copy, log
from tests.support.lake import Lake, aged, cleaned
from tests.support.model import SRC
from tests.support.raises import raises_code

ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]
KEYED = Table(key="id")
KEEPS = {"src": Read(exclude_operations="DELETE")}


def added(src: Changes) -> Append:
    return Append(src.appended())


def test_rows_are_appended_although_others_were_deleted_that_are_left_out(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(added, reads=KEEPS)
    lake.sql("DELETE FROM {src} WHERE id = 1")
    lake.insert("src", [(4, "c", 40)])
    lake.materialize(added, reads=KEEPS)
    assert lake.rows("added") == [*ROWS, (4, "c", 40)]


@pytest.fixture
def kept(lake: Lake) -> Lake:
    """A table that has kept a row which its source has deleted."""
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, KEYED, reads=KEEPS, code_version="1")
    lake.sql("DELETE FROM {src} WHERE id = 1")
    lake.materialize(copy, KEYED, reads=KEEPS, code_version="1")
    assert lake.rows("copy") == ROWS
    return lake


@pytest.mark.slow
def test_changed_code_takes_back_nothing_that_was_kept_unless_it_is_asked_for(kept: Lake) -> None:
    with raises_code("GAP", match=r"is now 2 and was 1.* leaves changes out .*full_refresh"):
        kept.materialize(copy, KEYED, reads=KEEPS, code_version="2")
    assert kept.rows("copy") == ROWS
    kept.insert("src", [(4, "c", 40)])
    kept.materialize(copy, KEYED, reads=KEEPS, code_version="1")
    assert kept.rows("copy") == [*ROWS, (4, "c", 40)]
    kept.materialize(copy, KEYED, reads=KEEPS, code_version="2", compare="a full refresh was asked for")
    assert kept.rows("copy") == kept.rows("src")


@pytest.mark.slow
def test_a_start_in_front_of_the_history_is_an_error_or_its_beginning(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    oldest = cleaned(lake, "src")
    with raises_code("START", match=f"begins later, at version {oldest}"):
        lake.materialize(log, reads={"src": Read(start=1)})
    lake.materialize(log, reads={"src": Read(start=1, clamp=True)})
    assert {row[-2] for row in lake.rows("log")} == {oldest}


def test_a_limit_counts_no_commit_without_rows(lake: Lake) -> None:
    """As a portion of its own it would be read at its own version, which Delta can read for a week only."""
    lake.create("src", ROWS, SRC)
    lake.insert("src", [(4, "c", 40)])
    lake.materialize(copy, KEYED)
    lake.sql("OPTIMIZE {src}")
    aged(lake, "src")
    lake.insert("src", [(5, "d", 50)])
    lake.insert("src", [(6, "d", 60)])
    lake.materialize(copy, KEYED, reads={"src": Read(max_versions=1)})
    assert [row[0] for row in lake.rows("copy")] == [1, 2, 3, 4, 5]

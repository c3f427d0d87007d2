"""The position found is what the table really holds, whatever happened to it."""

from dataclasses import replace

import pytest

from lakehouse.cursor.cursor import Fresh, Lost
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.generation import Generation
from lakehouse.errors import UnreadableLogError
from tests.support.commits import WHOLE, History, cursor, known, read_to
from tests.support.raises import raises_code

# One table, one position


def test_a_compaction_that_delta_adds_behind_our_commit_is_not_ours(history: History):
    """The session gives the compaction the same `userMetadata` as our commit."""
    history.own(4)
    history.entries.append(replace(history.entries[-1], version=1, operation="OPTIMIZE"))
    assert (read_to(history), known(history).version) == (4, 0)


def test_the_position_of_another_asset_is_not_ours(history: History):
    history.own(4)
    history.own(9, asset="silver/others")
    assert read_to(history) == 4


def test_the_position_in_a_log_of_ten_thousand_versions_is_read_from_its_newest_page():
    history = History()
    for _ in range(10_000):
        history.append()
    history.own(4)
    history.add("OPTIMIZE")
    assert read_to(history) == 4
    assert history.pages == [32]


def test_a_damaged_mark_is_refused_by_name(history: History):
    history.own(4)
    history.say('{"lakehouse":{"asset":"silver/fl')
    with pytest.raises(UnreadableLogError, match=r"silver/flights.*version 1 carries a damaged mark"):
        cursor(history)


@pytest.mark.parametrize("partitions", [WHOLE, ("a",)], ids=str)
def test_a_damaged_mark_is_only_a_lost_one_where_everything_is_compared_anyway(
    history: History, partitions: tuple[str, ...]
):
    history.own(4, partitions)
    history.say('{"lakehouse":{"asset":"silver/fl')
    found = find_cursor(history, history.head(), history.asset, partitions, overrides_mark=True)
    assert isinstance(found, Lost)
    assert found.reason == "version 1 carries a damaged mark"
    history.own(9, partitions, found.generation, found.epoch + 1)
    assert read_to(history, *partitions) == 9


@pytest.mark.parametrize("asked", [True, False])
@pytest.mark.parametrize("partitions", [WHOLE, ("a",), ("a", "b")], ids=str)
def test_a_mark_of_a_newer_format_is_refused_and_never_read_as_none(
    history: History, partitions: tuple[str, ...], *, asked: bool
):
    """Even behind commits of others, and even for a run that was asked to compare everything."""
    history.say('{"lakehouse":{"format":99,"asset":"silver/flights"}}')
    history.append()
    with raises_code("NEWER_MARK", match="format 99"):
        find_cursor(history, history.head(), history.asset, partitions, overrides_mark=asked)
    assert isinstance(find_cursor(history, history.head(), "gold/other", partitions), Fresh)


def test_damage_behind_the_position_does_not_matter(history: History):
    history.say('{"lakehouse":{"asset":"silver/fl')
    history.own(4, ("a",))
    history.own(5, ("b",))
    assert (read_to(history, "a"), read_to(history, "b")) == (4, 5)


# RESTORE


def test_a_restore_to_a_point_in_time_is_not_guessed(history: History):
    history.own(4)
    history.restore(None)
    found = cursor(history)
    assert isinstance(found, Lost)
    assert found.reason == "version 1 restored the table by a timestamp, so its log does not say to which version"
    assert (found.generation, found.epoch) == (Generation.after(1), 0)


@pytest.mark.parametrize("said", ["a mark", "half a mark"])
def test_what_a_session_says_of_its_restore_is_not_what_it_restored(history: History, said: str):
    at = history.own(4)
    mark = history.entries[at].user_metadata or ""
    history.restore(None)
    history.entries[-1] = replace(history.entries[-1], user_metadata=mark if said == "a mark" else mark[:30])
    found = cursor(history)
    assert isinstance(found, Lost)
    assert found.reason == "version 1 restored the table by a timestamp, so its log does not say to which version"


def test_the_position_of_one_partition_is_not_that_of_a_table_that_has_none_any_more(history: History):
    history.own(3, epoch=1)
    history.own(8, ("p",), epoch=1)
    history.append()
    history.own(9, epoch=2, base=1, compared=True)
    assert known(history).reads == {}


# What ends the line


def test_a_clone_does_not_carry_the_position(history: History):
    history.add("CLONE", {"source": "x", "sourceVersion": "3"})
    assert isinstance(cursor(history), Lost)
    history.own(4)
    assert read_to(history) == 4


@pytest.mark.parametrize("knows_epochs", [True, False])
def test_a_cleaned_log_loses_the_position_and_twins_still_meet(history: History, *, knows_epochs: bool):
    """Two runs meet by their generation: a rival's OPTIMIZE between them must not change it.

    Nor must another cleanup, where the log still has the newest epoch.
    """
    history.knows_epochs = knows_epochs
    history.own(4)
    for _ in range(5):
        history.add("OPTIMIZE")
    history.clean(3)
    before = cursor(history)
    history.add("OPTIMIZE")
    assert cursor(history) == before
    assert isinstance(before, Lost)
    assert "cleaned up to version 3" in before.reason
    history.clean(5)
    again = cursor(history)
    assert (str(again.generation), again.epoch) == (("0", 1) if knows_epochs else ("cleaned-5", 0))


def test_what_lies_behind_a_hole_in_the_log_is_not_believed(history: History):
    history.own(4)
    history.restore(0)
    history.add("OPTIMIZE")
    del history.entries[1]
    assert isinstance(cursor(history), Lost)

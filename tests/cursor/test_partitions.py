"""Each partition has a position of its own; a range of partitions has an epoch, but no position."""

from dataclasses import replace

from lakehouse.cursor.cursor import Fresh, Known, Lost
from lakehouse.cursor.find import cursor_of_each
from lakehouse.cursor.generation import Generation
from lakehouse.cursor.since_base import may_concern
from tests.support.commits import History, cursor, known, read_to
from tests.support.for_each import for_each


@for_each("knows_epochs", [True, False])
def test_a_range_of_partitions_continues_its_own_epochs_and_has_no_position(*, knows_epochs: bool):
    """Whatever sets its members were written in since: Delta silently skips a commit whose epoch it has seen."""
    history = History(knows_epochs=knows_epochs)
    history.own(partitions=("a", "b"), epoch=1)
    history.own(partitions=("a",), epoch=1)
    history.own(partitions=("a",), epoch=2)
    assert cursor(history, "a", "b", positions=False) == Fresh(epoch=1)
    assert cursor(history, "b", "c", positions=False) == Fresh(epoch=0)


def test_a_range_whose_epochs_were_forgotten_begins_another_sequence():
    history = History(knows_epochs=False)
    history.own(partitions=("a", "b"), epoch=1)
    history.own(partitions=("a", "c"), epoch=1)
    history.clean(1)
    assert cursor(history, "a", "b", positions=False) == Fresh(Generation.parse("0~1"))


@for_each("positions", [True, False])
def test_the_log_of_a_range_is_asked_for_its_epoch_and_nothing_else(*, positions: bool):
    history = History()
    for epoch in (1, 2, 3):
        history.own(partitions=("a", "b"), epoch=epoch)
    assert cursor(history, "a", "b", positions=positions) == Fresh(epoch=3)
    assert history.pages == []


def test_an_asset_that_reads_no_changes_asks_the_log_for_its_epoch_and_nothing_else():
    history = History()
    for epoch in (1, 2, 3):
        history.own(partitions=("a",), epoch=epoch)
    assert cursor(history, "a", positions=False) == Fresh(epoch=3)
    assert history.pages == []


def test_a_commit_of_the_whole_table_holds_for_each_partition(history: History):
    """The asset was given partitions; the table already contains their rows."""
    history.own(4)
    assert read_to(history, "a") == 4


def test_a_commit_of_one_partition_does_not_hold_for_the_whole_table(history: History):
    """The asset's partitions were removed; the other partitions may have read less."""
    history.own(4, ("b",))
    history.own(9, ("a",))
    found = cursor(history)
    assert isinstance(found, Lost)
    assert "wrote only a" in found.reason


def test_a_table_whose_partitions_were_taken_away_again_begins_another_generation(history: History):
    """Delta has seen the epochs with which the whole table was written before it had partitions."""
    history.own(4)
    history.own(9, ("a",))
    found = cursor(history)
    assert isinstance(found, Lost)
    history.own(9, generation=found.generation, epoch=found.epoch + 1)
    assert read_to(history) == 9


def test_a_set_of_partitions_whose_epochs_were_forgotten_begins_another_sequence():
    history = History(knows_epochs=False)
    history.own(4, ("a",), epoch=1)
    history.own(6, ("a", "b"), epoch=1)
    history.clean(1)
    found = known(history, "a")
    landed = history.land(
        replace(found.mark, partitions=("a",), generation=found.generation, epoch=found.epoch + 1, base=1)
    )
    assert landed == 2
    again = known(history, "a")
    assert (again.generation, again.epoch) == (found.generation, 1)


def test_a_rival_that_slips_in_every_time_makes_no_position_unreadable(history: History):
    history.own(1)
    for turn in range(2, 2000):
        base = len(history.entries) - 1
        history.append()
        history.own(turn, epoch=turn, base=base, compared=True)
    assert read_to(history) == 1


def test_the_data_version_of_a_partition_is_that_of_the_last_commit_which_may_concern_it(history: History):
    history.own(1, ("a",))
    of_a = history.own(2, ("a", "b"), epoch=1)
    history.own(3, ("b",))
    history.own(4, ("c",))
    log = history.commits(history.head().version)
    concerned = [commit.version for commit in log if may_concern(commit, history.asset, ("a",))]
    assert concerned[0] == of_a
    foreign = history.append()
    assert may_concern(history.entries[foreign], history.asset, ("a",))
    assert may_concern(history.entries[0], history.asset, ())


def test_the_cursors_of_many_partitions_take_one_walk(history: History):
    history.own(1)
    for number in range(30):
        history.own(number + 2, (f"p{number}",))
    each = cursor_of_each(history, history.head(), history.asset, [f"p{number}" for number in range(40)])
    read = [cursor.reads["src"].version for cursor in each.values()]
    assert sorted(read) == [1] * 10 + list(range(2, 32))
    assert len(history.pages) <= 2


def test_a_clone_and_a_damaged_mark_are_to_each_of_many_partitions_what_they_are_to_one():
    clone = History()
    clone.add("CLONE")
    damaged = History()
    damaged.say('{"lakehouse": {"asset": 7}}')
    damaged.add("TRUNCATE")
    damaged.own(5, ("a",), generation="1")
    for history in (clone, damaged):
        each = cursor_of_each(history, history.head(), history.asset, ("a", "b"))
        assert [type(each[part]) for part in "ab"] == [type(cursor(history, part)) for part in "ab"]
    assert isinstance(each["a"], Known) and isinstance(each["b"], Lost)

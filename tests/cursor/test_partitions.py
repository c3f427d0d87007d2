"""Each partition has a position of its own; a run of several starts where none of them misses a change."""

from dataclasses import replace

from lakehouse.cursor.find import Fresh, Lost
from lakehouse.cursor.mark import Position
from lakehouse.cursor.walk import may_concern
from tests.support.commits import History, cursor, known, read_to


def test_each_partition_has_a_position_of_its_own(history: History):
    history.own(4, ("a",))
    history.own(9, ("b",))
    assert (read_to(history, "a"), read_to(history, "b")) == (4, 9)


def test_of_several_partitions_the_one_that_has_read_least_decides(history: History):
    history.own(4, ("a",))
    history.own(9, ("b",))
    assert read_to(history, "a", "b") == 4
    history.own(12, ("a", "b"))
    history.own(15, ("b",), epoch=2)
    assert read_to(history, "b", "a") == 12


def test_the_log_is_read_once_for_all_of_them():
    history = History(knows_epochs=False)
    for epoch, partition in enumerate("abcdefgh", start=1):
        history.own(epoch, (partition,))
        for _ in range(10):
            history.append()
    assert read_to(history, *"hgfedcba") == 1
    assert history.pages == [32, 256]


def test_a_partition_never_written_makes_the_whole_range_fresh(history: History):
    history.own(4, ("a",))
    assert isinstance(cursor(history, "a", "b"), Fresh)


def test_a_lost_partition_makes_the_whole_range_lost(history: History):
    history.own(4, ("a",))
    history.add("TRUNCATE")
    history.own(9, ("b",))
    assert isinstance(cursor(history, "c"), Fresh)
    assert isinstance(cursor(history, "c", "b", "a"), Lost)


def test_a_source_that_one_of_them_has_not_read_or_knows_as_another_table_is_unread(history: History):
    history.own(partitions=("a",), reads={"x": Position("s", 1), "y": Position("s", 2), "z": Position("s", 3)})
    history.own(partitions=("b",), reads={"x": Position("t", 1), "z": Position("s", 2)})
    assert known(history, "a", "b").reads == {"z": Position("s", 2)}


def test_a_source_that_one_of_them_only_looked_up_is_not_followed_from_anothers_position(history: History):
    history.own(partitions=("a",), reads={"src": Position("s", 10, lookup=True)})
    history.own(partitions=("b",), reads={"src": Position("s", 8)})
    assert known(history, "a", "b").reads["src"].lookup


def test_a_commit_of_the_whole_table_holds_for_each_partition(history: History):
    """The asset was given partitions; its rows are there already."""
    history.own(4)
    assert read_to(history, "a") == 4


def test_a_commit_of_one_partition_does_not_hold_for_the_whole_table(history: History):
    """The asset's partitions were taken away; the other partitions may have read less."""
    history.own(4, ("b",))
    history.own(9, ("a",))
    found = cursor(history)
    assert isinstance(found, Lost)
    assert "wrote only a" in found.reason


def test_a_table_whose_partitions_were_taken_away_again_begins_another_generation(history: History):
    """Delta has seen the epochs that the whole table was written in before it had partitions."""
    history.own(4)
    history.own(9, ("a",))
    found = cursor(history)
    assert isinstance(found, Lost)
    history.own(9, generation=found.generation, epoch=found.epoch + 1)
    assert read_to(history) == 9


def test_a_set_of_partitions_continues_its_own_epochs(history: History):
    """Whichever sets its members were written in since: Delta skips an epoch that it has seen, without a word."""
    history.own(4, ("a",), epoch=1)
    history.own(5, ("a",), epoch=2)
    history.own(6, ("a", "b"), epoch=1)
    assert known(history, "a").epoch == 2
    assert known(history, "a", "b").epoch == 1
    assert known(history, "a").reads["src"].version == 6


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


def test_an_asset_that_reads_no_changes_asks_the_log_for_its_epoch_and_nothing_else():
    history = History()
    for epoch in (1, 2, 3):
        history.own(partitions=("a",), epoch=epoch)
    assert cursor(history, "a", positions=False) == Fresh(epoch=3)
    assert history.pages == []


def test_partitions_that_are_written_side_by_side_keep_their_positions(history: History):
    """Each pair was compared with the same version, and one committed behind the other."""
    for turn in range(1, 4):
        base = len(history.entries) - 1
        history.own(10 * turn, ("a",), epoch=turn, base=base, compared=True)
        history.own(10 * turn + 1, ("b",), epoch=turn, base=base, compared=True)
        assert (read_to(history, "a"), read_to(history, "b")) == (10 * turn, 10 * turn + 1)
        assert not known(history, "b").stale_base


def test_a_run_of_the_same_partition_or_of_all_is_a_rival(history: History):
    history.own(1, ("a", "b"))
    for rival in (("b", "c"), ()):
        base = len(history.entries) - 1
        history.own(5, rival, epoch=7, compared=True)
        history.own(6, ("a", "b"), epoch=len(history.entries), base=base, compared=True)
        found = cursor(history, "a", "b")
        assert isinstance(found, Lost) and "another run of the asset came in between" in found.reason


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

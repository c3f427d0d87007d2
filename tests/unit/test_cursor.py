"""The position is what the table really holds, whatever happened to it."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.cursor import Fresh, Known, Lost, find_cursor
from lakehouse.errors import UnreadableLogError
from lakehouse.log import NO_ROWS
from lakehouse.mark import Mark, Position, application_id
from tests.unit.history import WHOLE, History

OVERWRITE = {"mode": "Overwrite"}


def cursor(history: History, *partitions: str, reads: bool = True):
    return find_cursor(history, history.head(), history.asset, partitions, reads=reads)


def known(history: History, *partitions: str) -> Known:
    found = cursor(history, *partitions)
    assert isinstance(found, Known), found
    return found


def read_to(history: History, *partitions: str) -> int:
    return known(history, *partitions).reads["src"].version


@pytest.fixture(params=[True, False], ids=["epochs known", "epochs unknown"])
def history(request: pytest.FixtureRequest) -> History:
    return History(knows_epochs=request.param)


# One table, one position


def test_a_table_that_does_not_exist_has_read_nothing(history: History):
    assert cursor(history) == cursor(history, "a") == Fresh()


def test_the_newest_own_commit_holds_the_position(history: History):
    history.own(4, epoch=1)
    history.own(9, epoch=2)
    found = known(history)
    assert (found.version, found.epoch, found.generation, found.reads) == (1, 2, "0", {"src": Position("s", 9)})


def test_upkeep_and_foreign_commits_do_not_hide_the_position(history: History):
    history.own(4)
    for _ in range(100):
        history.append()
        history.add("OPTIMIZE")
        history.say("somebody's note")
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


@pytest.mark.parametrize("partitions", [WHOLE, ("a",), ("a", "b")], ids=str)
def test_a_damaged_mark_is_only_a_lost_one_where_everything_is_compared_anyway(
    history: History, partitions: tuple[str, ...]
):
    history.own(4, partitions)
    history.say('{"lakehouse":{"asset":"silver/fl')
    found = find_cursor(history, history.head(), history.asset, partitions, full=True)
    assert isinstance(found, Lost)
    assert found.reason == "version 1 carries a damaged mark"
    history.own(9, partitions, found.generation, found.epoch + 1)
    assert read_to(history, *partitions) == 9


def test_damage_behind_the_position_does_not_matter(history: History):
    history.say('{"lakehouse":{"asset":"silver/fl')
    history.own(4, ("a",))
    history.own(5, ("b",))
    assert read_to(history, "a") == read_to(history, "a", "b") == 4


# RESTORE


def test_a_restore_takes_the_position_back_and_begins_a_generation(history: History):
    history.own(4, epoch=1)
    history.own(9, epoch=2)
    history.restore(0)
    found = known(history)
    assert (found.reads["src"].version, found.generation, found.epoch) == (4, "2", 0)


def test_a_restore_of_a_restore_is_followed(history: History):
    for version in range(4):
        history.own(version, epoch=version + 1)
    history.restore(0)
    history.own(10, generation="4")
    history.restore(2)
    assert read_to(history) == 2
    history.restore(5)
    assert read_to(history) == 10
    history.restore(4)
    assert read_to(history) == 0


def test_a_restore_to_before_the_first_own_commit_leaves_nothing_read(history: History):
    history.add("CREATE TABLE")
    history.own(4)
    history.restore(0)
    assert cursor(history) == Fresh(generation="2")


def test_a_restore_to_a_point_in_time_is_not_guessed(history: History):
    history.own(4)
    history.restore(None)
    found = cursor(history)
    assert isinstance(found, Lost)
    assert found.reason == "version 1 restored the table to a point in time"
    assert (found.generation, found.epoch) == ("1", 0)


def test_a_commit_planned_before_a_restore_and_landed_after_it_is_not_believed(history: History):
    history.own(4, epoch=1)
    history.own(9, epoch=2)
    history.restore(0)
    history.own(12, epoch=3, base=1)
    found = cursor(history)
    assert isinstance(found, Lost)
    assert found.reason == "version 3 was planned on version 1, and version 2 (RESTORE) changed the table in between"


def test_a_range_compared_before_a_rivals_rows_and_committed_after_them_is_read_again(history: History):
    history.own(4, epoch=1)
    history.append()
    history.own(9, epoch=2, base=0, compared=True)
    assert read_to(history) == 4
    assert known(history).epoch == 2
    history.own(9, epoch=3, compared=True)
    assert read_to(history) == 9


def test_the_very_first_range_is_read_again_too(history: History):
    history.add("CREATE TABLE")
    history.append()
    history.own(9, base=0, compared=True)
    assert known(history).reads == {}


def test_rivals_that_changed_no_row_leave_a_comparison_as_it_was(history: History):
    history.own(4, epoch=1)
    history.add("OPTIMIZE")
    history.own(9, epoch=2, base=0, compared=True)
    assert read_to(history) == 9


def test_a_blind_append_is_never_read_again(history: History):
    history.own(4, epoch=1)
    history.append()
    history.own(9, epoch=2, base=0)
    assert read_to(history) == 9


def test_the_generation_after_an_unbelieved_commit_was_never_used(history: History):
    """A run after the RESTORE has used the generation that the RESTORE names; Delta would skip its epochs silently."""
    history.own(4, epoch=1)
    history.restore(0)
    history.own(5, generation="1", epoch=1)
    history.own(9, epoch=2, base=0)
    found = cursor(history)
    assert isinstance(found, Lost)
    assert history.transactions.get(application_id(history.asset, WHOLE, found.generation), 0) == found.epoch


def test_a_commit_whose_plan_was_cleaned_up_is_not_believed(history: History):
    """What lies between the plan and the commit may have been a RESTORE."""
    history.own(4, epoch=1)
    history.restore(0)
    history.own(9, epoch=2, base=0)
    history.clean(2)
    found = cursor(history)
    assert isinstance(found, Lost)
    assert "what happened in between was cleaned up" in found.reason


def test_a_late_commit_is_believed_where_nothing_was_taken_back(history: History):
    history.own(4, epoch=1)
    history.append()
    history.add("OPTIMIZE")
    history.own(9, epoch=2, base=0)
    history.clean(1)
    assert read_to(history) == 9


# What ends the line


@pytest.mark.parametrize(
    "replace_",
    [
        lambda h: h.add("TRUNCATE"),
        lambda h: h.add("DELETE", {"predicate": "[]"}),
        lambda h: h.add("WRITE", OVERWRITE),
        lambda h: h.add("CREATE OR REPLACE TABLE AS SELECT"),
        lambda h: h.add("STREAMING UPDATE", {"outputMode": "Complete"}),
        lambda h: h.own(9, asset="silver/others") and h.add("TRUNCATE"),
    ],
)
def test_a_position_does_not_outlive_the_rows_it_is_about(history: History, replace_: Callable[[History], int]):
    history.own(4)
    at = replace_(history)
    history.append()
    found = cursor(history)
    assert isinstance(found, Lost)
    assert found.reason.startswith(f"version {at} (")
    assert found.generation == str(at)


def test_a_clone_does_not_carry_the_position(history: History):
    history.add("CLONE", {"source": "x", "sourceVersion": "3"})
    assert isinstance(cursor(history), Lost)
    history.own(4)
    assert read_to(history) == 4


def test_a_cleaned_log_loses_the_position_and_says_the_same_until_it_is_cleaned_again(history: History):
    """The generation is the compare-and-swap of two runs; a rival's OPTIMIZE between them must not change it."""
    history.own(4)
    for _ in range(5):
        history.add("OPTIMIZE")
    history.clean(3)
    before = cursor(history)
    history.add("OPTIMIZE")
    assert cursor(history) == before
    assert isinstance(before, Lost)
    assert "cleaned up to version 3" in before.reason


def test_what_lies_behind_a_hole_in_the_log_is_not_believed(history: History):
    history.own(4)
    history.restore(0)
    history.add("OPTIMIZE")
    del history.entries[1]
    assert isinstance(cursor(history), Lost)


# Somebody else's table


def foreign(history: History, *partitions: str, reads: bool = True) -> int | None:
    found = cursor(history, *partitions, reads=reads)
    assert isinstance(found, Fresh), found
    return found.foreign


THEIRS: list[tuple[str, Callable[[History], object]]] = [
    ("appended", lambda h: h.append()),
    ("overwritten every night", lambda h: (h.append(), h.add("WRITE", OVERWRITE, numOutputRows=9))),
    ("made by select", lambda h: h.add("CREATE TABLE AS SELECT", numOutputRows=9)),
    ("replaced", lambda h: (h.append(), h.add("CREATE OR REPLACE TABLE AS SELECT"))),
    ("restored to a version", lambda h: (h.append(), h.append(), h.restore(0))),
    ("restored to a time", lambda h: (h.append(), h.append(), h.restore(None))),
    ("converted", lambda h: h.add("CONVERT")),
    ("another asset's", lambda h: h.own(4, asset="silver/others")),
    ("emptied and filled", lambda h: (h.append(), h.add("TRUNCATE"), h.append())),
    ("kept up", lambda h: (h.append(), h.add("OPTIMIZE"), h.add("VACUUM END"))),
    ("long cleaned up", lambda h: (h.append(), h.append(), h.append(), h.clean(2))),
]


@pytest.mark.parametrize("make", [make for _, make in THEIRS], ids=[name for name, _ in THEIRS])
@pytest.mark.parametrize("partitions", [(), ("a",), ("a", "b")], ids=str)
@pytest.mark.parametrize("reads", [True, False], ids=["incremental", "not incremental"])
def test_rows_that_the_asset_never_wrote_are_somebody_elses(
    history: History, make: Callable[[History], object], partitions: tuple[str, ...], *, reads: bool
):
    make(history)
    assert foreign(history, *partitions, reads=reads) is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda h: h.add("CREATE TABLE"),
        lambda h: (h.add("CREATE TABLE"), h.add("SET TBLPROPERTIES"), h.append(0)),
        lambda h: (h.append(), h.add("TRUNCATE"), h.add("OPTIMIZE")),
        lambda h: (h.append(), h.add("DELETE", {"predicate": '["true"]'})),
        lambda h: (h.append(), h.add("WRITE", OVERWRITE, numOutputRows=0)),
    ],
)
def test_an_empty_table_is_nobodys(history: History, make: Callable[[History], object]):
    make(history)
    assert foreign(history) is foreign(history, "a") is foreign(history, "a", reads=False) is None


def test_a_partition_not_written_yet_is_not_somebody_elses(history: History):
    """Another program's commit in a table of ours does not keep the asset from its next partition."""
    history.own(4, ("a",))
    history.add("UPDATE", numUpdatedRows=3)
    assert foreign(history, "b") is None
    assert foreign(history, "b", reads=False) is None


def test_an_old_table_of_somebody_else_that_only_upkeep_has_touched_since_is_not_taken_over():
    history = History()
    history.append()
    history.add("OPTIMIZE")
    history.add("OPTIMIZE")
    history.clean(1)
    assert foreign(history) is not None


def test_our_own_table_whose_commits_were_cleaned_up_stays_ours():
    """Its application id is still in the log."""
    history = History()
    history.own(4)
    history.append()
    history.append()
    history.clean(2)
    assert isinstance(cursor(history), Lost)


# Partitions


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
    assert cursor(history, "a", reads=False) == Fresh(epoch=3)
    assert history.pages == []


# Any history at all

PARTS = ("a", "b", "c")
Truth: TypeAlias = "int | Literal['never', 'unknown']"
sets = st.sampled_from([("a",), ("b",), ("a", "b"), ("a", "b", "c"), ("c",)])
places = st.integers(0, 30)


class World:
    """A table, and what it truly has read at each version; runs plan by the cursor, perhaps to land much later."""

    def __init__(self, parts: tuple[str, ...], *, knows_epochs: bool) -> None:
        self.history = History(knows_epochs=knows_epochs)
        self.parts = parts
        self.truth: list[dict[str, Truth]] = []
        self.ever: list[set[str]] = []
        self.source = 0
        self.plans: list[Mark] = []

    def keys(self, partitions: tuple[str, ...]) -> tuple[str, ...]:
        return partitions if self.parts else WHOLE

    def names(self, partitions: tuple[str, ...]) -> tuple[str, ...]:
        return self.keys(partitions) or ("whole",)

    @property
    def all(self) -> tuple[str, ...]:
        return self.parts or ("whole",)

    @property
    def now(self) -> dict[str, Truth]:
        return self.truth[-1] if self.truth else dict.fromkeys(self.all, "never")

    @property
    def written(self) -> set[str]:
        return self.ever[-1] if self.ever else set()

    def settle(self, version: int | None, truth: dict[str, Truth], written: Sequence[str] = ()) -> None:
        if version is not None:
            assert version == len(self.truth)
            self.truth.append(truth)
            self.ever.append(self.written | set(written))

    def foreign(self, operation: tuple[str, dict[str, str | None], dict[str, int]]) -> None:
        name, parameters, metrics = operation
        version = self.history.add(name, parameters, **metrics)
        truth = self.now
        if self.history.entries[-1].empties and version > 0:
            truth = {name: "unknown" if name in self.written else "never" for name in self.all}
        self.settle(version, truth)

    def restore(self, back: int) -> None:
        if self.truth:
            target = max(self.history.oldest, len(self.truth) - 1 - back)
            self.settle(self.history.restore(target), self.truth[target])

    def restore_to_a_time(self) -> None:
        if self.truth:
            truth = {name: "unknown" if name in self.written else "never" for name in self.all}
            self.settle(self.history.restore(None), truth)

    def plan(self, partitions: tuple[str, ...]) -> None:
        at = find_cursor(self.history, self.history.head(), self.history.asset, self.keys(partitions))
        self.source += 1
        reads = {"src": Position("s", self.source)}
        mark = Mark(
            self.history.asset,
            self.keys(partitions),
            at.generation,
            at.epoch + 1,
            "r",
            "a",
            len(self.truth) - 1,
            reads=reads,
        )
        self.plans.append(mark)

    def land(self, which: int) -> int | None:
        if not self.plans:
            return None
        mark = self.plans.pop(which % len(self.plans))
        since = self.history.entries[mark.base + 1 :]
        version = self.history.land(mark)
        names = self.names(mark.partitions)
        taken_back = any(commit.operation == "RESTORE" or commit.empties for commit in since)
        read: Truth = "unknown" if taken_back else mark.reads["src"].version
        self.settle(version, self.now | dict.fromkeys(names, read), names)
        return version

    def run(self, partitions: tuple[str, ...]) -> None:
        """A run that nothing comes between: Delta must let it in."""
        self.plan(partitions)
        assert self.land(-1) is not None, "Delta skipped a commit that nobody contended for"

    def clean(self, keep: int) -> None:
        if self.truth:
            self.history.clean(len(self.truth) - 1 - keep)

    def check(self) -> None:
        for partitions in [*((part,) for part in self.parts), self.parts[:2], self.parts] if self.parts else [WHOLE]:
            self.check_one(partitions)

    def check_one(self, partitions: tuple[str, ...]) -> None:
        found = find_cursor(self.history, self.history.head(), self.history.asset, partitions)
        truths = [self.now[name] for name in self.names(partitions)]
        read = [truth for truth in truths if isinstance(truth, int)]
        used = self.history.transactions.get(application_id(self.history.asset, partitions, found.generation), 0)
        assert used == found.epoch, "the next epoch is the one after the last"
        match found:
            case Known():
                assert len(read) == len(truths), (truths, found)
                assert found.reads == {"src": Position("s", min(read))}
            case Fresh(foreign=None):
                assert ("never" in truths and "unknown" not in truths) or not self.truth, (truths, found)
            case Fresh():
                assert not self.written or self.history.oldest > 0, (truths, found)
            case Lost():
                assert "unknown" in truths or self.history.oldest > 0, (truths, found)
        if self.history.oldest == 0 and not self.written:
            theirs = [c for c in self.history.entries if c.rows != NO_ROWS]
            empty = not theirs or theirs[-1].leaves_nothing
            assert isinstance(found, Fresh) and (found.foreign is None) == empty


FOREIGN: list[tuple[str, dict[str, str | None], dict[str, int]]] = [
    ("WRITE", {"mode": "Append"}, {"numOutputRows": 1}),
    ("OPTIMIZE", {}, {}),
    ("UPDATE", {}, {"numUpdatedRows": 1}),
    ("SET TBLPROPERTIES", {}, {}),
    ("WRITE", {"mode": "Overwrite"}, {"numOutputRows": 1}),
    ("TRUNCATE", {}, {}),
]


def step(name: str, *values: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[str, list[object]]]:
    return st.tuples(st.just(name), st.tuples(*values).map(list))


steps = st.lists(
    st.one_of(
        step("run", sets),
        step("run", sets),
        step("plan", sets),
        step("land", places),
        step("foreign", st.sampled_from(FOREIGN)),
        step("restore", places),
        step("restore_to_a_time"),
        step("clean", places),
    ),
    max_size=12,
)
RESTORED_TWICE = [("run", [("a",)]), ("run", [("a",)]), ("restore", [1]), ("run", [("a",)]), ("restore", [2])]
ZOMBIE = [("run", [("a",)]), ("plan", [("a",)]), ("restore", [0]), ("run", [("a",)]), ("land", [0]), ("run", [("a",)])]
RANGES = [("run", [("a",)]), ("run", [("a", "b")]), ("clean", [0]), ("run", [("a",)]), ("run", [("b",)])]


@pytest.mark.parametrize("knows_epochs", [True, False], ids=["epochs known", "epochs unknown"])
@pytest.mark.parametrize("parts", [(), PARTS], ids=["whole table", "partitions"])
@example(happened=RESTORED_TWICE)
@example(happened=ZOMBIE)
@example(happened=RANGES)
@given(happened=steps)
def test_whatever_happened_a_known_position_is_the_true_one(
    parts: tuple[str, ...], *, knows_epochs: bool, happened: list[tuple[str, list[object]]]
):
    """Known only where the rows are there, Fresh only where none ever were, and no epoch twice."""
    world = World(parts, knows_epochs=knows_epochs)
    for name, values in happened:
        getattr(world, name)(*values)
        world.check()

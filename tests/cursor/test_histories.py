"""Whatever happened to a table, a position that is Known is the true one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, TypeAlias

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakehouse.cursor.cursor import Fresh, Known, Lost
from lakehouse.cursor.find import cursor_of_each, find_cursor
from lakehouse.cursor.generation import application_id
from lakehouse.cursor.mark import Mark, Position
from lakehouse.delta.commit_info import NO_ROWS
from lakehouse.delta.log import NOTHING_READ
from tests.support.commits import WHOLE, History

OVERWRITE = {"mode": "Overwrite"}


PARTS = ("a", "b", "c")
Truth: TypeAlias = "int | Literal['never', 'unknown']"
sets = st.sampled_from([("a",), ("b",), ("a", "b"), ("a", "b", "c"), ("c",)])
places = st.integers(0, 30)


class World:
    """A table, and what it has truly read at each version; runs plan by the cursor, and may land much later."""

    def __init__(self, parts: tuple[str, ...], *, knows_epochs: bool) -> None:
        self.history = History(knows_epochs=knows_epochs)
        self.parts = parts
        self.truth: list[dict[str, Truth]] = []
        self.ever: list[set[str]] = []
        self.source = 0
        self.plans: list[tuple[Mark, int]] = []

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

    def plan(self, partitions: tuple[str, ...], compared: bool) -> None:  # noqa: FBT001
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
            compared=compared,
        )
        self.plans.append((mark, min(self.read_to(name) for name in self.names(partitions))))

    def read_to(self, name: str) -> int:
        """How far a partition, or the whole table, has read according to its cursor."""
        partitions = (name,) if self.parts else WHOLE
        reads = find_cursor(self.history, self.history.head(), self.history.asset, partitions).reads
        return reads["src"].version if "src" in reads else NOTHING_READ

    def land(self, which: int) -> int | None:
        if not self.plans:
            return None
        mark, start = self.plans.pop(which % len(self.plans))
        since = self.history.entries[mark.base + 1 :]
        version = self.history.land(mark)
        names = self.names(mark.partitions)
        rivals = [commit for commit in since if not commit.is_quiet]
        marks = [Mark.from_json(commit.user_metadata) for commit in rivals]
        others = None in marks
        own = any(not set(self.names(theirs.partitions)).isdisjoint(names) for theirs in marks if theirs)
        read: Truth = mark.reads["src"].version
        if any(commit.operation == "RESTORE" or commit.empties for commit in since) or own:
            read = "unknown"
        elif mark.compared and others:
            read = start  # the changes after it are read again
        self.settle(version, self.now | dict.fromkeys(names, read), names)
        return version

    def run(self, partitions: tuple[str, ...]) -> None:
        """A run without rivals: Delta must accept its commit."""
        self.plan(partitions, True)
        assert self.land(-1) is not None, "Delta skipped a commit that nobody contended for"

    def clean(self, keep: int) -> None:
        if self.truth:
            self.history.clean(len(self.truth) - 1 - keep)

    def check(self) -> None:
        self.check_each()
        for partitions in [*((part,) for part in self.parts), self.parts[:2], self.parts] if self.parts else [WHOLE]:
            self.check_one(partitions)

    def check_each(self) -> None:
        """The cursors of all partitions from one walk equal the cursors that are found for each partition alone."""
        each = cursor_of_each(self.history, self.history.head(), self.history.asset, self.parts)
        assert each.keys() == set(self.parts)
        for part, cursor in each.items():
            one = find_cursor(self.history, self.history.head(), self.history.asset, (part,))
            same = replace(one, generation=cursor.generation, epoch=cursor.epoch)
            assert (type(cursor), cursor) == (type(one), same), part

    def check_one(self, partitions: tuple[str, ...]) -> None:
        found = find_cursor(self.history, self.history.head(), self.history.asset, partitions)
        truths = [self.now[name] for name in self.names(partitions)]
        read = [truth for truth in truths if isinstance(truth, int)]
        used = self.history.transactions.get(application_id(self.history.asset, partitions, found.generation), 0)
        assert used == found.epoch, "the next epoch is the one after the last"
        assert len(partitions) <= 1 or isinstance(found, Fresh), "a range of partitions has no position"
        match found:
            case _ if len(partitions) > 1:
                assert found.foreign is None or not self.written or self.history.oldest > 0
            case Known():
                assert len(read) == len(truths), (truths, found)
                reached = found.reads["src"].version if "src" in found.reads else NOTHING_READ
                assert reached <= min(read) if found.stale_base else reached == min(read), (truths, found)
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
        step("plan", sets, st.booleans()),
        step("land", places),
        step("foreign", st.sampled_from(FOREIGN)),
        step("restore", places),
        step("restore_to_a_time"),
        step("clean", places),
    ),
    max_size=12,
)
RESTORED_TWICE = [("run", [("a",)]), ("run", [("a",)]), ("restore", [1]), ("run", [("a",)]), ("restore", [2])]
ZOMBIE = [
    ("run", [("a",)]),
    ("plan", [("a",), False]),
    ("restore", [0]),
    ("run", [("a",)]),
    ("land", [0]),
    ("run", [("a",)]),
]
UNSEEN = [("run", [("a", "b")]), ("plan", [("a", "b"), True]), ("run", [("a",)]), ("land", [0])]
RANGES = [("run", [("a",)]), ("run", [("a", "b")]), ("clean", [0]), ("run", [("a",)]), ("run", [("b",)])]


@pytest.mark.parametrize("knows_epochs", [True, False], ids=["epochs known", "epochs unknown"])
@pytest.mark.parametrize("parts", [(), PARTS], ids=["whole table", "partitions"])
@example(happened=RESTORED_TWICE)
@example(happened=ZOMBIE)
@example(happened=RANGES)
@example(happened=UNSEEN)
@given(happened=steps)
def test_whatever_happened_a_known_position_is_the_true_one(
    parts: tuple[str, ...], *, knows_epochs: bool, happened: list[tuple[str, list[object]]]
):
    """Known only where the rows are in the table, Fresh only where there never were any, and no epoch is used twice."""
    world = World(parts, knows_epochs=knows_epochs)
    for name, values in happened:
        getattr(world, name)(*values)
        world.check()

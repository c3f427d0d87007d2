"""Runs of partitions at random moments, on a toy table: its rows are always those of its positions.

Each run is like a `Merge`: it reads a range of a source, compares at a base, lands later, looks at what came in
between, and may be killed at any point. The project's own code decides what a run may do.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from random import Random

from lakehouse.commit.rivals import rivals_before
from lakehouse.commit.superseded import superseded_by
from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.find import find_cursor
from lakehouse.delta.log import NOTHING_READ, VersionRange
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.delta.table import Read, Table
from lakehouse.errors import StaleInputsError
from lakehouse.read.asset import Asset, PastRows
from lakehouse.read.content import Everything, Feed, Nothing, SourceRead
from lakehouse.read.decide import Reconcile
from lakehouse.read.run import Run
from lakehouse.spark.driver_rows import Local
from lakehouse.spark.table_version import TableRef, TableVersion
from tests.conftest import EXAMPLES
from tests.support.commits import History
from tests.support.for_each import for_each

KEYS = ("p1", "p2", "q1", "q2")
SETS = (("p",), ("q",))
FEED = Feed(Local(None, None, None))  # type: ignore[arg-type]
ASSET = Asset(
    History().asset,
    Table(key="id", partition_by="g"),
    TableRef.at_path(History().asset, "/table"),
    past=PastRows.COMPUTED,
    read_options={"src": Read()},
)
Rows = Counter[tuple[str, int]]


@dataclass
class Step:
    """One run under way.

    Args:
        run: The inputs that it has pinned.
        keys: The keys that it writes.
        base: The version at which it compared; None if it has yet to look at the log.
        change: The rows that differed: the value that each key is to have, or None for a key that is to be deleted.
        blind: Whether all of these keys are new to the table, so that they are appended.
        done: Its own commit, if it has one and has to mend it.
    """

    run: Run
    keys: tuple[str, ...]
    base: int | None = None
    change: dict[str, int | None] = field(default_factory=dict[str, "int | None"])
    blind: bool = False
    done: int | None = None


class World:
    """A source of four keys, a table, and the runs that carry changes from the source into the table."""

    def __init__(self, random: Random) -> None:
        self.random, self.history = random, History()
        self.source: list[dict[str, int | None]] = [dict.fromkeys(KEYS, 0)]
        self.changed: list[str] = [""]
        self.table: list[Rows] = []
        self.steps: list[Step] = []
        self.begun, self.restored = 0, False

    def edit(self) -> None:
        key = self.random.choice(KEYS)
        self.source.append(self.source[-1] | {key: None if self.random.random() < 0.3 else len(self.source)})
        self.changed.append(key)

    def restore(self) -> None:
        if self.table:
            back = self.random.randrange(max(0, len(self.table) - 4), len(self.table))
            self.history.restore(back)
            self.restored = True
            self.table.append(self.table[back])

    def cursor(self, *partitions: str) -> Cursor:
        return find_cursor(self.history, self.history.head(), self.history.asset, partitions)

    def begin(self) -> None:
        partitions, head = self.random.choice(SETS), self.history.head()
        cursor, upto = self.cursor(*partitions), len(self.source) - 1
        after, compare = NOTHING_READ, "its position is lost"
        if "src" in cursor.reads:
            after, compare = cursor.reads["src"].version, None
            if isinstance(cursor, Known) and self.random.random() < 0.4:  # a part of the backlog
                upto = max(min(after + 1, upto), min(max(after, cursor.furthest("src")), upto))
        content = Everything(compare) if compare else FEED if upto > after else Nothing()
        changed = set(KEYS) if compare else set(self.changed[after + 1 : upto + 1])
        self.begun += 1
        run = Run(
            asset=ASSET,
            run_id=f"run {self.begun}",
            cursor=cursor,
            changes=(
                SourceRead(
                    TableVersion(None, TableRef.at_path("src", "/src"), "s", upto),  # type: ignore[arg-type]
                    VersionRange(after, upto),
                    content,
                ),
            ),
            slice=Slice(tuple(PartitionKey(name, {"g": name}, {}) for name in partitions)),
            together=None if compare is None else Reconcile(compare),
            head=head,
        )
        self.steps.append(Step(run, tuple(key for key in sorted(changed) if key[0] in partitions)))

    def go_on(self) -> None:
        """One of the runs takes its next step, dies, or ends."""
        if not self.steps:
            return
        step = self.random.choice(self.steps)
        try:
            over = self.random.random() < 0.08 or (self.plan(step) if step.base is None else self.land(step))
        except StaleInputsError:
            over = True
        if over:
            self.steps.remove(step)

    def plan(self, step: Step) -> bool:
        if superseded_by(self.history, self.history.head(), step.run, step.done) is not None:
            return self.says_done(step)
        if step.done is None and not step.run.is_due():
            return True
        upto, there = step.run.changes[0].range.upto, self.table[-1] if self.table else Rows()
        step.change = {
            key: self.source[upto][key]
            for key in step.keys
            if Rows({at: n for at, n in there.items() if at[0] == key}) != row(key, self.source[upto][key])
        }
        known = {key for key, _ in there}
        step.blind = all(key not in known and value is not None for key, value in step.change.items())
        step.base = len(self.table) - 1
        return False

    def land(self, step: Step) -> bool:
        assert step.base is not None
        run, base, step.base = step.run, step.base, None
        if base == NOTHING_READ and self.table:
            return False  # another run has created the table that this run planned to create
        mark = run.mark(f"attempt at {len(self.table)}", base, compared=True)
        version = self.history.land(mark)
        if version is None:
            return False
        rows = self.table[-1].copy() if self.table else Rows()
        for key, value in step.change.items():
            for at in [at for at in rows if at[0] == key and not step.blind]:
                del rows[at]
            rows += row(key, value)
        self.table.append(rows)
        if not step.change:
            quiet = replace(self.history.entries[version], operation="WRITE", metrics={"numOutputRows": 0})
            self.history.entries[version] = replace(quiet, parameters={"mode": "Append"})
        if version == base + 1:
            return self.says_done(step)
        if self.random.random() < 0.2:  # it is killed before it can look back
            return True
        if not rivals_before(self.history, run, mark, self.history.entries[version]):
            return self.says_done(step)
        step.done = version
        step.run = replace(run, cursor=replace(Known.of(mark, version), reads=run.cursor.reads))
        return False

    def says_done(self, step: Step) -> bool:
        """Nothing but a RESTORE takes away again what a run has done."""
        for partition in () if self.restored else step.run.partitions:
            found = self.cursor(partition)
            assert isinstance(found, Known) and not found.stale_base, found
            assert found.reads["src"].version >= step.run.changes[0].range.upto
        return True

    def check(self) -> None:
        for partition in "pq":
            found = self.cursor(partition)
            if not isinstance(found, Known) or found.stale_base:
                continue
            then = self.source[found.reads["src"].version]
            wanted = sum((row(key, value) for key, value in then.items() if key[0] == partition), Rows())
            assert Rows({at: n for at, n in self.table[-1].items() if at[0][0] == partition}) == wanted


def row(key: str, value: int | None) -> Rows:
    return Rows() if value is None else Rows({(key, value): 1})


@for_each("restores", [False, True])
def test_rows_are_those_of_their_position_whichever_runs_overlap(*, restores: bool):
    for seed in range(5 * EXAMPLES):
        world = World(Random(seed))
        for _ in range(60):
            match world.random.random():
                case chance if chance < 0.15:
                    world.edit()
                case chance if chance < 0.35 and len(world.steps) < 3:
                    world.begin()
                case chance if restores and chance < 0.38:
                    world.restore()
                case _:
                    world.go_on()
            world.check()

"""Random histories: whatever happens to a source and whichever runs there are, each table holds what its position says.

`make crash-jvm` tries few histories; with LAKEHOUSE_EXAMPLES=200 there are 200, other ones each time. With
LAKEHOUSE_WRITER=delta-rs another program edits the rows of the source, in a tenth of the time.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from pyspark.sql import SparkSession

from lakehouse import Read
from lakehouse.errors import LakehouseError, ReadError, StaleInputsError
from tests.reliability import quick
from tests.reliability.checker import Asset, check
from tests.reliability.delta_files import History
from tests.reliability.laws import Law, Span
from tests.reliability.targets import TARGETS, Rows
from tests.support import interleave
from tests.support.lake import Lake
from tests.support.model import (
    Delete,
    Insert,
    MergeRows,
    Model,
    Move,
    Overwrite,
    Rekey,
    Row,
    Update,
    after,
    groups,
    ids,
    values,
)
from tests.support.model import rows as some_rows

pytestmark = pytest.mark.fault

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "2"))
QUICK = os.environ.get("LAKEHOUSE_WRITER") == "delta-rs"
STEPS = int(os.environ.get("LAKEHOUSE_STEPS", "10"))
SRC = "id int, k string, v int"
FEED = "delta.enableChangeDataFeed"

edits = st.one_of(
    st.builds(Insert, st.tuples(ids, groups, values)),
    st.builds(Update, ids, values),
    st.builds(Move, ids, groups),
    st.builds(Rekey, ids, ids),
    st.builds(Delete, ids),
    st.builds(MergeRows, some_rows(3)),
    st.builds(Overwrite, some_rows()),
)


targets = st.sampled_from(sorted(TARGETS))
rewritten = st.sampled_from(sorted(name for name, target in TARGETS.items() if not target.appends))
faults = st.sampled_from(["before the commit", "answer lost", "dies behind the commit"])


class FaultError(Exception):
    """What the machine raises at a named point."""


class Histories(RuleBasedStateMachine):
    """A source, its plain-Python twin at every version, and three tables that follow it."""

    spark: SparkSession
    scratch: Path
    counted: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.counted["histories"] += 1
        root = self.scratch / uuid4().hex
        shutil.copytree(self.scratch / "template", root)
        self.lake = Lake(self.spark, root, keys={"src": ("id",)}, trust_key=True)
        self.model = Model(self.lake, {1: (1, "a", 10), 2: (2, "b", 60), None: (None, None, 3)})
        self.at: dict[int, list[Row]] = {}
        self.floor, self.feed_on, self.wide = 0, True, False
        self.changed: set[str] = set()
        self.remember()

    def teardown(self) -> None:
        shutil.rmtree(self.lake.root)

    # What happens to the source.

    def remember(self) -> None:
        for version in range(max(self.at, default=-1) + 1, self.lake.version("src") + 1):
            self.at[version] = list(self.model.src.values())
            self.counted["versions of the source"] += 1

    @rule(edit=edits)
    def edit(self, edit: Any) -> None:
        if QUICK:
            self._edit_quickly(edit)
        else:
            self.model.apply(edit)
        self.remember()

    def _edit_quickly(self, edit: Any) -> None:
        before = dict(self.model.src)
        self.model.src = after(edit, before)
        if isinstance(edit, Overwrite):
            quick.overwritten(self.lake.root / "src", self.model.src)
        else:
            quick.become(self.lake.root / "src", before, self.model.src)

    @rule(rows=some_rows())
    def replace(self, rows: tuple[Row, ...]) -> None:
        self.model.src = {row[0]: row for row in rows}
        self.lake.values(rows, SRC).createOrReplaceTempView("replacement")
        self.lake.sql(
            f"CREATE OR REPLACE TABLE {{src}} USING delta TBLPROPERTIES ('{FEED}' = 'true') AS SELECT * FROM replacement"
        )
        self.feed_on, self.wide = True, False
        self.remember()
        self.floor = max(self.at)

    @precondition(lambda self: not self.wide)
    @rule()
    def add_column(self) -> None:
        self.lake.sql("ALTER TABLE {src} ADD COLUMNS (extra int)")
        self.wide = True
        self.remember()
        self.floor = max(self.at)  # a RESTORE to an earlier version would remove the column again

    @rule(back=st.integers(1, 4))
    def restore(self, back: int) -> None:
        version = max(self.floor, max(self.at) - back)
        self.lake.sql(f"RESTORE TABLE {{src}} TO VERSION AS OF {version}")
        self.model.src = {row[0]: row for row in self.at[version]}
        self.remember()
        feed = self.lake.source("src").head.properties.get(FEED)
        self.feed_on = feed == "true"

    @rule()
    def optimize(self) -> None:
        if QUICK:
            quick.compacted(self.lake.root / "src")
        else:
            self.lake.sql("OPTIMIZE {src}")
        self.remember()

    @rule()
    def vacuum(self) -> None:
        if QUICK:
            quick.vacuumed(self.lake.root / "src")
        else:
            self.lake.sql("VACUUM {src} RETAIN 0 HOURS")
        self.remember()
        self.floor = max(self.at)

    @rule(on=st.booleans())
    def feed(self, *, on: bool) -> None:
        if on != self.feed_on:
            self.lake.sql(f"ALTER TABLE {{src}} SET TBLPROPERTIES ('{FEED}' = '{str(on).lower()}')")
            self.feed_on = on
            self.remember()

    # What happens to a table.

    @rule(name=targets, back=st.integers(1, 3))
    def restore_target(self, name: str, back: int) -> None:
        if (self.lake.root / name).is_dir() and (version := self.lake.version(name) - back) >= 0:
            self.lake.sql(f"RESTORE TABLE {{{name}}} TO VERSION AS OF {version}")
            self.changed.add(name)

    @rule(name=targets)
    def run(self, name: str) -> None:
        if self._tried(name, lambda: self._materialize(name)):
            self._is_current(name)

    @rule(name=targets, versions=st.integers(1, 2))
    def run_capped(self, name: str, versions: int) -> None:
        self._tried(name, lambda: self._materialize(name, reads={"src": Read(max_versions=versions)}))

    @rule(name=rewritten)
    def full_refresh(self, name: str) -> None:
        if self._tried(name, lambda: self._materialize(name, compare="a full refresh was asked for")):
            self._is_current(name)

    @rule(name=targets, at_once=st.booleans())
    def twins(self, name: str, *, at_once: bool) -> None:
        def both() -> None:
            target = TARGETS[name]
            steps = [self.lake.begin(target.asset, target.table) for _ in range(2)]
            writes = [target.asset(**self.lake.read(step, target.asset)) for step in steps]
            tasks = [
                lambda s=s, w=w: _unless_stale(lambda: s.commit(w, self.lake.retry))
                for s, w in zip(steps, writes, strict=True)
            ]
            if not at_once:
                for task in tasks:
                    task()
                return
            with ThreadPoolExecutor(2) as pool:
                for done in [pool.submit(task) for task in tasks]:
                    done.result()

        self._tried(name, both)

    @rule(name=targets, point=faults)
    def run_with_a_fault(self, name: str, point: str) -> None:
        fault = [interleave.raises(FaultError())] * 9
        at = {
            "before the commit": interleave.before("execute", *fault),
            "dies behind the commit": interleave.before("find in the log", *fault),
        }.get(point, interleave.after("execute", *fault))
        try:
            with at:
                self._tried(name, lambda: self._materialize(name))
        except (FaultError, LakehouseError):
            self.changed.add(name)

    def _materialize(self, name: str, **options: Any) -> None:
        self.lake.materialize(TARGETS[name].asset, TARGETS[name].table, **options)

    def _tried(self, name: str, run: Callable[[], None]) -> bool:
        """Whether the run succeeded; an append that refuses because the feed lacks changes is created anew."""
        self.changed.add(name)
        self.counted["runs"] += 1
        fresh = not (self.lake.root / name).is_dir()
        try:
            run()
        except ReadError as error:
            if error.code == "CHANGE_FEED_DISABLED":
                assert not self.feed_on and fresh, "the source keeps a feed, or the position is known"
                return False
            if error.code != "GAP":
                raise
            assert TARGETS[name].appends, "a table that can be compared has no gap"
            self._holds(name)  # the refused run has changed no row
            shutil.rmtree(self.lake.root / name)
            return False
        return True

    def _is_current(self, name: str) -> None:
        history = History(self.lake.root / name)
        problem = TARGETS[name].problem(self.at[max(self.at)], history.rows(history.newest))
        assert problem is None, f"{name} after a run: {problem}"

    @invariant()
    def every_table_is_what_its_position_says(self) -> None:
        for name in sorted(self.changed):
            if (self.lake.root / name / "_delta_log").is_dir():
                self._holds(name)
        self.changed.clear()

    def _holds(self, name: str) -> None:
        found = check([Asset(name, self.lake.root / name, {"src": self.lake.root / "src"}, self._law(name))])
        assert not found, "\n".join(map(str, found))

    def _law(self, name: str) -> Law:
        def law(_: Rows | None, spans: Mapping[str, Span], rows: Rows) -> str | None:
            return TARGETS[name].problem(self.at[spans["src"].upto], rows)

        return law


def _unless_stale(run: Callable[[], object]) -> None:
    with suppress(StaleInputsError):  # Dagster would run the step again
        run()


def test_random_histories(spark: SparkSession, tmp_path: Path) -> None:
    template = Lake(spark, tmp_path / "template")
    template.root.mkdir()
    template.create("src", [(1, "a", 10), (2, "b", 60), (None, None, 3)], SRC)
    check_off = "spark.databricks.delta.retentionDurationCheck.enabled"
    spark.conf.set(check_off, "false")
    counted: Counter[str] = Counter()
    machine = type("Machine", (Histories,), {"spark": spark, "scratch": tmp_path, "counted": counted})
    try:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=EXAMPLES,
                stateful_step_count=STEPS,
                deadline=None,
                derandomize="LAKEHOUSE_EXAMPLES" not in os.environ,
                suppress_health_check=list(HealthCheck),
                print_blob=True,
            ),
        )
    finally:
        spark.conf.unset(check_off)
        print(dict(counted))  # noqa: T201  what a long run has tried, for docs/reliability.md (-s shows it)

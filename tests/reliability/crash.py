"""One crash case under way: the tables, the victim, the rival, and the run that is repeated."""

import json
import shutil
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehouse.commit.outcome import AlreadyApplied, Committed
from lakehouse.errors import StaleInputsError
from tests.reliability.cases import Case
from tests.reliability.checker import Ack, behind, check, check_ledger
from tests.reliability.delta_files import History, Ledger, log_files
from tests.reliability.park import park, parked
from tests.reliability.pipeline import STEPS, assets, edit, wrong_quarantine
from tests.reliability.victim import GATE, PHASES, Order, Victim, in_our_jvm, in_own_jvm, started
from tests.support.lake import Lake


@dataclass
class Spares:
    """Victims that take long to start, started while the case before is still running.

    Args:
        spark: The session whose JVM the victims without a JVM of their own share.
        scratch: The directory for the files of victims' own JVMs.
    """

    spark: SparkSession
    scratch: Callable[[], Path]
    own: list[Victim] = field(default_factory=list[Victim])
    ours: list[Victim] = field(default_factory=list[Victim])
    wanted: int = 0

    def take(self, case: Case) -> Victim:
        if case.kill == "Python":
            victim = self.ours.pop() if self.ours else in_our_jvm(self.spark)
            self.ours.append(in_our_jvm(self.spark))
            return victim
        victim = started(self.own.pop() if self.own else in_own_jvm(self.scratch()))
        self.wanted -= 1
        self.prepare()
        return victim

    def prepare(self) -> None:
        if self.wanted > 0 and not self.own:
            self.own.append(in_own_jvm(self.scratch()))

    def end(self) -> None:
        for victim in self.own + self.ours:
            victim.kill_python()


@dataclass(frozen=True)
class Start:
    """The tables that the cases start from; each case gets a copy.

    Args:
        behind: The lake with every table behind the source.
        current_ahead: The same, with changes in `current` that `totals` has not read.
        acks: What the runs in `behind` were told.
        acks_ahead: What the runs in `current_ahead` were told.
    """

    behind: Path
    current_ahead: Path
    acks: list[Ack]
    acks_ahead: list[Ack]


@dataclass
class Crash:
    """One case under way.

    Args:
        lake: The tables.
        case: What happens to them.
        victim: The process that is killed.
    """

    lake: Lake
    case: Case
    victim: Victim | None
    acks: list[Ack] = field(default_factory=list[Ack])
    died: list[str] = field(default_factory=list[str])
    ledger: Ledger = field(default_factory=Ledger)

    @property
    def _victim(self) -> Victim:
        assert self.victim is not None
        return self.victim

    def materialize(self, name: str) -> Any:
        """Runs an asset in this process, and records what the run was told."""
        step, run = STEPS[name], uuid4().hex
        try:
            outcome = self.lake.materialize(step.asset, step.table, run=run)
        except StaleInputsError:
            self.died.append(run)
            return self.materialize(name)
        self.acknowledge(name, run, outcome)
        self.ledger.observe(*self.tables)
        return outcome

    def acknowledge(self, name: str, run: str, outcome: Any) -> None:
        match outcome:
            case Committed(commit=commit):
                self.acks.append(Ack(name, run, commit.version))
            case AlreadyApplied(commit=commit):
                self.acks.append(Ack(name, run, commit.version, own=False))
            case _:
                pass

    @property
    def tables(self) -> list[Path]:
        return [path for path in self.lake.root.iterdir() if (path / "_delta_log").is_dir()]

    def prepare(self, start: "Start") -> None:
        """Copies the tables: each has several files, and the table to be written is behind its source."""
        ahead = self.case.step == "totals"
        shutil.copytree(start.current_ahead if ahead else start.behind, self.lake.root, dirs_exist_ok=True)
        self.acks += start.acks_ahead if ahead else start.acks
        self.ledger.observe(*self.tables)

    def crash(self) -> None:
        """Kills the victim once it has come to its point; then repeats the run as the case says."""
        case, run = self.case, f"victim-{uuid4().hex}"
        data = set((self.lake.root / case.step).glob("*.parquet"))
        self._victim.begin(Order(self.lake.root, case.step, case.point, run, case.of_quarantine, case.only_writes))
        if case.point == "data partly written":
            _until_there_is(lambda: set((self.lake.root / case.step).glob("*.parquet")) - data)
        elif case.point == "back-off":
            self._lose_an_attempt()
        else:
            self._victim.reached()
        self.died.append(run)
        with self._rival() as rival:
            self._kill()
            self._repeat(rival)

    def _lose_an_attempt(self) -> None:
        """A rival's OPTIMIZE defeats the victim's MERGE; after that the victim is about to commit its next attempt."""
        self._victim.reached()
        waiting = parked(self.lake.spark, "commit")
        self.lake.sql(f"OPTIMIZE {{{self.case.step}}}")
        waiting.release()
        self._victim.reached()

    def _kill(self) -> None:
        match self.case.kill:
            case "Python":
                self._victim.kill_python()
            case "Python, then its JVM":
                self._victim.kill_python()
                self._victim.jvm_gone()
            case "JVM":
                self._victim.kill_jvm()
                self._victim.kill_python()
            case "both":
                self._victim.kill_python()
                self._victim.kill_jvm()

    def _repeat(self, rival: "Rival | None") -> None:
        """Runs the same asset once more, in the order of the case."""
        name, again = self.case.step, self.case.again
        match again:
            case "at once":
                self.materialize(name)
            case "after the zombie":
                if rival is not None and self.case.rival == "OPTIMIZE first":
                    rival.end()
                self._let_the_zombie_go()
                if rival is not None:
                    rival.end()
                self.materialize(name)
            case "before the zombie":
                self.materialize(name)
                if rival is not None:
                    rival.end()
                self._let_the_zombie_go()
            case "beside the zombie":
                self._beside(name)

    def _beside(self, name: str) -> None:
        """The rerun has planned from the same position, and has only to commit when the zombie commits."""
        step, run = STEPS[name], uuid4().hex
        materialization = self.lake.begin(step.asset, step.table, run=run)
        write = step.asset(**self.lake.read(materialization, step.asset))
        self._let_the_zombie_go()
        try:
            outcome = materialization.commit(write, self.lake.retry)
        except (
            StaleInputsError
        ):  # no commit covers an extract, so the run starts anew and compares it with the zombie's
            assert step.extract is not None
            self.died.append(run)
            self.materialize(name)
            return
        assert isinstance(outcome, AlreadyApplied) != self.case.of_quarantine, outcome
        self.acknowledge(name, run, outcome)

    def _let_the_zombie_go(self) -> None:
        if self.case.point == "data partly written":
            before = self.lake.version(self.case.step)
            (self.lake.root.parent / GATE).touch()
            log = self.lake.root / self.case.step
            if self.case.again == "after the zombie":
                _until_there_is(lambda: len(log_files(log)) > before + 1)
            else:
                _until_there_is(lambda: not _running_jobs(self.lake.spark))
            return
        waiting = parked(self.lake.spark, PHASES[self.case.point])
        waiting.release()
        waiting.ended()

    def _rival(self) -> "Rival":
        return Rival(self.lake, self.case.step if self.case.rival else None)

    def settle(self) -> None:
        """Brings the asset up to date."""
        (self.lake.root.parent / GATE).touch()
        self.materialize(self.case.step)
        if self.case.step == "judged":  # rows in its quarantine are corrected, and new ones join them
            for number in range(3, 6):
                edit(self.lake, number)
            self.materialize(self.case.step)

    def landed(self) -> bool:
        """Whether the run that was killed has a commit in the log."""
        (run,) = [run for run in self.died if run.startswith("victim")]
        found = (entry.info.get("userMetadata") for entry in History(self.lake.root / self.case.step).entries.values())
        return any(json.loads(text)["lakehouse"]["run"] == run for text in found if text)

    def violations(self) -> list[str]:
        found = check(assets(self.lake.root), self.acks, self.died) + check_ledger(self.ledger, *self.tables)
        found += behind([STEPS[self.case.step].at(self.lake.root)])
        other = wrong_quarantine(self.lake.root) if self.case.step == "judged" else None
        return [*map(str, found), *([] if other is None else [other])]


@dataclass
class Rival:
    """Another program's OPTIMIZE, which waits before its log entry until `end`.

    Args:
        lake: The tables.
        name: The table; None if there is no rival.
    """

    lake: Lake
    name: str | None
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(1))
    done: Future[None] | None = None

    def __enter__(self) -> "Rival | None":
        if self.name is None:
            return None
        self.done = self.pool.submit(self._optimize)
        waiting: Any = None
        while waiting is None or waiting.observer is None:
            waiting = parked(self.lake.spark, "commit", "rival")
        waiting.reached()
        return self

    def _optimize(self) -> None:
        with park(self.lake.spark, "commit", "rival"):
            try:
                self.lake.sql(f"OPTIMIZE {{{self.name}}}")
            except Exception as error:
                # An OPTIMIZE that lost begins another transaction, which the observer of the first one refuses.
                if not any(sign in str(error) for sign in ("DELTA_CONCURRENT", "IllegalStateTransition")):
                    raise

    def end(self) -> None:
        if self.done is not None and not self.done.done():
            parked(self.lake.spark, "commit", "rival").release()
            self.done.result(240)

    def __exit__(self, *_: object) -> None:
        self.end()
        self.pool.shutdown()
        if self.name is not None:
            jvm: Any = self.lake.spark.sparkContext._jvm
            jvm.java.lang.System.getProperties().remove("rival")


def _running_jobs(spark: SparkSession) -> list[int]:
    return list(spark.sparkContext.statusTracker().getActiveJobsIds())


def _until_there_is(something: Callable[[], Any], seconds: float = 240) -> None:
    until = time.monotonic() + seconds
    while not something():
        assert time.monotonic() < until
        time.sleep(0.02)

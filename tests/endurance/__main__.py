"""`make soak`: a lakehouse in Dagster runs for minutes or hours, is broken every minute, and is compared at the end.

It exits with 1 if a table does not hold what its sources give, if the checker finds a broken rule, or if a table does
not catch up.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tests.endurance import ending
from tests.endurance.disk import Disk
from tests.endurance.disturbances import Disturbances
from tests.endurance.measures import Measures, lateness, summary
from tests.endurance.oracle import assets
from tests.endurance.pictures import RESULT, draw
from tests.endurance.processes import Processes
from tests.endurance.sources import BASE, REST
from tests.reliability.checker import check_ledger
from tests.reliability.delta_files import Ledger

EVERY, RIVAL, SAMPLE, SIZE, LOOK = 60.0, 20.0, 5.0, 30.0, 300.0
"""Seconds between two disturbances, commits of a rival, samples of memory, samples of sizes, looks at log entries."""
FIRST, CATCH_UP = 900.0, 1200.0
"""Seconds allowed for the first run of all tables, and for the last runs to catch up."""


@dataclass
class Soak:
    """One soak.

    Args:
        minutes: For how long the sources commit, counted from the first state of all tables.
        seed: The seed of edits and disturbances.
        directory: The directory of everything that it writes.
    """

    minutes: float
    seed: str
    directory: Path
    changed: list[str] = field(init=False, default_factory=list[str])

    def __post_init__(self) -> None:
        self.disk = Disk.at(self.directory / "disk")
        self.root = self.disk.path / "lake"
        self.root.mkdir()
        self.processes = Processes(self.directory, self.root)
        self.ledger = Ledger()

    def run(self) -> list[str]:
        """Runs the soak and writes `RESULT`; everything that is wrong at the end."""
        for name in BASE:
            self.processes.start_source(name, self.seed)
        self.processes.start_dagster()
        tables = [asset.name for asset in assets(self.root)]
        say(f"{len(tables)} tables below {len(BASE)} sources; waiting for their first rows")
        if not until(FIRST, lambda: all((self.root / table / "_delta_log").is_dir() for table in tables)):
            return [f"tables have no rows after {FIRST:g} seconds; see {self.directory}/daemon.log"]
        chance = random.Random(self.seed)
        measures = Measures(self.processes, time.time())
        disturbances = Disturbances(chance, self.processes, self.disk, tables)
        self._endure(measures, disturbances)
        say("the sources rest; waiting until every table has caught up")
        for name in BASE:
            self.processes.ask(name, REST)
        for name in BASE:
            self.processes.sources[name].wait(600)
        began = time.time()
        until(CATCH_UP, lambda: not ending.unread(self.root), measures.sample)
        caught_up = time.time() - began
        self.processes.kill_daemon()  # it then starts none of the queued runs
        until(CATCH_UP, lambda: not self.processes.of("run"))
        late = ending.unread(self.root)
        say("checking all files" if not late else f"{len(late)} tables did not catch up")
        self._look()
        wrong = late or self.changed + ending.problems(self.root, self.processes.home)
        self._write(measures, disturbances, wrong, caught_up)
        return wrong

    def _endure(self, measures: Measures, disturbances: Disturbances) -> None:
        last, minute = {"sample": 0.0, "size": 0.0, "rival": 0.0, "look": 0.0, "disturb": 30.0}, 60 * self.minutes
        acts: dict[str, tuple[float, Callable[[], Any]]] = {
            "sample": (SAMPLE, measures.sample),
            "size": (SIZE, measures.size),
            "rival": (RIVAL, disturbances.rival),
            "disturb": (EVERY, disturbances.disturb),
            "look": (LOOK, self._look),
        }
        while (now := time.time() - measures.began) < minute:
            for name, (period, act) in acts.items():
                if now - last[name] >= period:
                    last[name] = now
                    act()
                    if name == "disturb":
                        done = disturbances.done[-1]
                        say(f"{now / 60:5.1f} min: {done['kind']} ({done['hit']})")
            time.sleep(0.5)
        measures.size()
        self.disk.free()

    def _look(self) -> None:
        """Notes log entries of the tables that have changed or are gone."""
        tables = [asset.path for asset in assets(self.root)]
        self.changed += map(str, check_ledger(self.ledger, *tables))

    def _write(self, measures: Measures, disturbances: Disturbances, wrong: list[str], caught_up: float) -> None:
        late, (runs, failed) = lateness(self.root), ending.runs(self.processes.home)
        edits = [json.loads(line) for name in BASE for line in (self.directory / f"{name}.jsonl").open()]
        result = {
            "minutes": self.minutes,
            "seed": self.seed,
            "wrong": wrong,
            "seconds to catch up": round(caught_up),
            "commits of sources": sum(edit["problem"] is None for edit in edits),
            "edits that failed": [edit for edit in edits if edit["problem"] is not None],
            "runs": runs,
            "failed runs": failed,
            "disturbances": disturbances.done,
            "lateness": summary(late),
            "growth": measures.growth(),
            "began": measures.began,
            "samples": measures.samples,
            "sizes": measures.sizes,
            "late": [asdict(each) for each in late],
        }
        RESULT.parent.mkdir(parents=True, exist_ok=True)
        RESULT.write_text(json.dumps(result, indent=1))
        draw(result, RESULT.parent)
        say(f"{result['commits of sources']} commits of sources; runs: {runs}")
        say(f"from a source's commit to the last table, in seconds: {result['lateness']}")
        for what, amounts in result["growth"].items():
            say(f"{what}: {amounts}")
        for failure in failed:
            say(f"run {failure['run'][:8]} failed {(failure['at'] - measures.began) / 60:.1f} min: {failure['errors']}")

    def end(self) -> None:
        self.processes.end()
        self.disk.leave()


def until(seconds: float, is_reached: Callable[[], bool], meanwhile: Callable[[], None] = lambda: None) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if is_reached():
            return True
        meanwhile()
        time.sleep(3)
    return False


def say(sentence: str) -> None:
    sys.stdout.write(f"{time.strftime('%H:%M:%S')} {sentence}\n")
    sys.stdout.flush()


def main() -> None:
    for number in (
        signal.SIGTERM,
        signal.SIGINT,
    ):  # a shell that starts it in the background ignores the second one
        signal.signal(number, lambda *_: sys.exit("it was told to end"))
    hours, minutes = os.environ.get("HOURS"), os.environ.get("MINUTES")
    seed = os.environ.get("SEED") or str(random.SystemRandom().randrange(10**6))
    directory = Path(tempfile.mkdtemp(prefix="soak-"))
    soak = Soak(60 * float(hours) if hours else float(minutes or 30), seed, directory)
    say(f"seed {seed}, {soak.minutes:g} minutes, in {directory}, disk of its own: {soak.disk.is_own}")
    wrong = ["it did not end"]
    try:
        wrong = soak.run()
    finally:
        soak.end()
    for sentence in wrong:
        say(f"WRONG: {sentence}")
    say(
        f"{'FAILED' if wrong else 'nothing is lost, doubled or different'}; seed {seed}; {RESULT} and pictures beside it"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()

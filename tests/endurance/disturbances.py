"""What is broken: one disturbance each minute, drawn by the seed."""

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from deltalake import DeltaTable

from tests.endurance.disk import Disk
from tests.endurance.processes import Processes
from tests.reliability.delta_files import log_files

FULL = 10
"""Seconds for which the disk is full."""
TURNED_BACK = 4
"""By how many versions at most a table is restored."""


@dataclass
class Disturbances:
    """The disturbances of one soak.

    Args:
        chance: Draws them.
        processes: The processes that they hit.
        disk: The disk that is filled at times.
        tables: The tables of the lakehouse.
    """

    chance: random.Random
    processes: Processes
    disk: Disk
    tables: list[str]
    done: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    _drawn: list[str] = field(default_factory=list[str])

    @property
    def kinds(self) -> dict[str, Callable[[], str]]:
        kinds = {
            "a run is killed": self.kill_run,
            "Spark's server is killed": self.kill_server,
            "the daemon is killed": self.kill_daemon,
            "the code server is killed": self.kill_code_server,
            "a table is restored": self.restore_table,
            "a source is restored": self.restore_source,
            "a source gets a column": self.add_column,
            "a clock is an hour back": self.step_clock,
        }
        return kinds | ({"the disk is full": self.fill_disk} if self.disk.is_own else {})

    def draw(self) -> str:
        """The next kind: all kinds once in random order, and then all of them again."""
        if not self._drawn:
            self._drawn = sorted(self.kinds)
            self.chance.shuffle(self._drawn)
        return self._drawn.pop()

    def disturb(self) -> None:
        kind = self.draw()
        self.done.append({"at": time.time(), "kind": kind, "hit": self.kinds[kind]()})

    def kill_run(self) -> str:
        deadline = time.monotonic() + 15
        while not (runs := self.processes.of("run")):
            if time.monotonic() > deadline:
                return "nothing: no run was under way"
            time.sleep(0.2)
        time.sleep(8 * self.chance.random())  # at a random moment of this run, or of the next one
        runs = self.processes.of("run") or runs
        runs[0].kill()
        return f"process {runs[0].pid}"

    def kill_server(self) -> str:
        for process in (servers := self.processes.of("Spark server")):
            process.kill()
        return f"{len(servers)} process"

    def kill_daemon(self) -> str:
        self.processes.kill_daemon()
        time.sleep(5)
        self.processes.start_daemon()
        return "it came back after 5 seconds"

    def kill_code_server(self) -> str:
        for process in self.processes.of("code server"):
            process.kill()
        time.sleep(5)
        self.processes.start_code_server()
        return "it came back after 5 seconds"

    def fill_disk(self) -> str:
        self.disk.fill()
        threading.Timer(FULL, self.disk.free).start()
        return f"for {FULL} seconds"

    def restore_table(self) -> str:
        newest = {table: int(log_files(self.processes.root / table)[-1].stem) for table in self.tables}
        table = self.chance.choice([table for table in self.tables if newest[table] > 0] or self.tables)
        version = max(newest[table] - self.chance.randint(1, TURNED_BACK), 0)
        self._sql(f"RESTORE TABLE delta.`{self.processes.root / table}` TO VERSION AS OF {version}")
        return f"{table}, from version {newest[table]} to {version}"

    def restore_source(self) -> str:
        return self._ask("restore", "orders", "customers", "events")

    def add_column(self) -> str:
        return self._ask("column", "orders", "customers", "events")

    def step_clock(self) -> str:
        return self._ask("clock", "customers")

    def rival(self) -> None:
        """Another program compacts a table, or rewrites some rows unchanged; either defeats a write under way."""
        table = self.chance.choice(self.tables)
        path = self.processes.root / table
        if self.chance.random() < 0.5:
            self._sql(f"OPTIMIZE delta.`{path}`")
        else:
            column = DeltaTable(str(path)).schema().fields[0].name
            self._sql(f"UPDATE delta.`{path}` SET `{column}` = `{column}` WHERE pmod(xxhash64(`{column}`), 3) = 0")

    def _ask(self, act: str, *sources: str) -> str:
        source = self.chance.choice(sources)
        self.processes.ask(source, act)
        return source

    def _sql(self, statement: str) -> None:
        """Runs a statement in the session of a source, on the one server that may write to the root."""
        self.processes.ask("extracts", f"sql {statement}")

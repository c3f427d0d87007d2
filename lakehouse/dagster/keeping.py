"""The upkeep of one table of a code location: what is due by its log, and doing it; for the command and for the job."""

import time
from collections.abc import Callable
from dataclasses import dataclass

from lakehouse.dagster.code_location import AssetTable, CodeLocation
from lakehouse.dagster.io_manager import DeltaIOManager
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.file_log import FileLog
from lakehouse.upkeep.carry_out import Worker
from lakehouse.upkeep.due import Rules, TableUpkeep, UpkeepWork, upkeep_of
from lakehouse.upkeep.readers import readers_of
from lakehouse.upkeep.steps import Steps, UpkeepStep, steps_of, what_is_left


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """What became of the upkeep of a table.

    Args:
        upkeep: What it needed.
        rest: The steps that are due in the next run.
        files_after: How many files it has afterwards; None if nothing was done.
    """

    upkeep: TableUpkeep
    rest: tuple[UpkeepStep, ...] = ()
    files_after: int | None = None

    @property
    def freed_bytes(self) -> int:
        """How many bytes of past files were removed."""
        works = {task.work for task in self.upkeep.tasks} - {step.work for step in self.rest}
        is_freed = self.files_after is not None and UpkeepWork.FREE in works
        return sum(file.bytes for file in self.upkeep.unneeded) if is_freed else 0

    @property
    def sentence(self) -> str:
        """What was due and why, and what was gained."""
        table, had = self.upkeep.table, len(self.upkeep.live)
        if not self.upkeep.tasks:
            return f"{table}: nothing is due."
        works = "; ".join(f"{task.work.value}: {task.why}" for task in self.upkeep.tasks)
        if self.files_after is None:
            return f"{table}: due: {works}."
        gain = f" {self.freed_bytes / 1e6:,.1f} MB were freed." if self.freed_bytes else ""
        rest = f" Left for the next run: {what_is_left(self.rest)}." if self.rest else ""
        return f"{table}: {works}. It has {count_of(self.files_after, 'file')} now, and had {had:,}.{gain}{rest}"


def look(table: AssetTable, code_location: CodeLocation) -> TableUpkeep | None:
    """What a table needs, by logs alone; None if there is no table yet, or if only Spark can list its files.

    Raises:
        UnreadableLogError: Its log cannot be read.
    """
    logs = code_location.logs
    log = logs.get(table.name)
    if log is None:
        return None
    readers = readers_of(table.name, logs, int(time.time() * 1000), {}, code_location.only_spark_knows(table.name))
    return None if readers is None else upkeep_of(log, readers, Rules())


def keep(
    manager: DeltaIOManager,
    table: AssetTable,
    upkeep: TableUpkeep,
    run: str,
    *,
    max_bytes: int | None = None,
    is_late: Callable[[], bool] = lambda: False,
) -> UpkeepResult:
    """Does what is due of a table, within limits. Spark starts only if something is.

    Args:
        manager: The manager of the table.
        table: The table.
        upkeep: What it needs.
        run: The id of the run.
        max_bytes: How much is rewritten; None for everything.
        is_late: Whether no further statement is to be started.
    """
    steps = Steps(()) if is_late() else steps_of(upkeep.tasks, max_bytes)
    if not upkeep.tasks or not steps.now:
        return UpkeepResult(upkeep, steps_of(upkeep.tasks).now)
    ref = table.ref
    assert ref is not None, f"{table.name} has a manager"
    assert ref.files is not None, f"the log of {table.name} was read from its files"
    late = Worker(manager.writing_session(), ref, run, is_late).carry_out(upkeep, steps.now)
    log = FileLog(ref.files, ref.name)
    head = log.head()
    files = None if head is None else log.live_files(head.version)
    return UpkeepResult(upkeep, (*late, *steps.rest), None if files is None else len(files))

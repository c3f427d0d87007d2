"""The upkeep of a code location's tables: what is due by their logs, and doing it; for the command and for the nights.

A night is one op that has no pool. A run waits in the queue for all pools of its ops, if the pools' granularity is
`run`, and then holds all of them: upkeep would wait until no run writes, and then every run would wait for upkeep.
Instead upkeep gives way to a run that writes a table; a run that begins later, and loses its commit to an OPTIMIZE,
tries again (docs/conflicts.md).
"""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakehouse.commit.rivals import classify
from lakehouse.cursor.definition import digest
from lakehouse.dagster.code_location import AssetTable, CodeLocation
from lakehouse.dagster.contexts import to_log
from lakehouse.dagster.definitions.night_schedule import Nightly, end_of_night, night_schedule
from lakehouse.dagster.expectation_checks import writer_of_table
from lakehouse.dagster.io_manager import DeltaIOManager
from lakehouse.dagster.one_driver import driver_tag, runs_writing
from lakehouse.dagster.run_tags import KEEPING, UPKEEP_OF
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.file_log import FileLog
from lakehouse.spark.diagnosis import first_line
from lakehouse.spark.progress import listening
from lakehouse.spark.table_version import ReadableLogs
from lakehouse.upkeep.carry_out import Worker
from lakehouse.upkeep.due import Rules, Steps, TableUpkeep, UpkeepStep, UpkeepWork, steps_of, upkeep_of, what_is_left
from lakehouse.upkeep.readers import readers_of

UPKEEP_JOB = "upkeep"
"""The name of the job and of the schedule."""
_TRIES = 3
"""How often a night tries a table whose commits lose to other writers. What is left is due in the next night."""
_LOOK_AGAIN = 30.0
"""How many seconds a night waits before it looks again at tables that runs were writing."""


@dataclass(frozen=True, slots=True)
class UpkeepResult:
    """What became of the upkeep of a table."""

    upkeep: TableUpkeep
    steps: tuple[UpkeepStep, ...] = ()
    rest: tuple[UpkeepStep, ...] = ()
    files_after: int | None = None

    @property
    def freed_bytes(self) -> int:
        """How many bytes of past files were removed."""
        works = {step.work for step in self.steps}
        return sum(file.bytes for file in self.upkeep.unneeded) if UpkeepWork.FREE in works else 0

    @property
    def rewritten_bytes(self) -> int:
        """How many bytes of files were rewritten."""
        return sum(step.bytes for step in self.steps)

    @property
    def sentence(self) -> str:
        """What was due and why, and what was gained."""
        table = self.upkeep.table
        if not self.upkeep.tasks:
            return f"{table}: nothing is due."
        works = "; ".join(f"{task.work.value}: {task.why}" for task in self.upkeep.tasks)
        rest = f" Left for the next run: {what_is_left(self.rest)}." if self.rest else ""
        if self.files_after is None:
            return f"{table}: due: {works}.{rest}"
        gain = f" {self.freed_bytes / 1e6:,.1f} MB were freed." if self.freed_bytes else ""
        count = f"It has {count_of(self.files_after, 'file')} now, and had {len(self.upkeep.live):,}."
        return f"{table}: {works}. {count}{gain}{rest}"


def look(table: AssetTable, code_location: CodeLocation, readable: ReadableLogs) -> TableUpkeep | None:
    """What a table needs, by logs alone; None if there is no table yet, or if only Spark can list its files."""
    log, ref = readable.logs.get(table.name), table.ref
    if log is None or ref is None or ref.why_only_spark() is not None:  # a catalog name may mean another place now
        return None
    followers = sorted(code_location.followers_of(table.name))
    logs = {name: each for name in (table.name, *followers) if (each := readable.logs.get(name)) is not None}
    unreadable = {name: why for name in followers if (why := readable.out_of_reach.get(name)) is not None}
    readers = readers_of(table.name, logs, int(time.time() * 1000), {}, unreadable)
    return None if readers is None else upkeep_of(log, readers, Rules())


def keep(
    manager: DeltaIOManager,
    table: AssetTable,
    upkeep: TableUpkeep,
    run: str,
    steps: Steps | None = None,
    is_over: Callable[[], bool] = lambda: False,
) -> UpkeepResult:
    """Does the upkeep that is due on a table. Spark starts only if something is due."""
    steps = steps_of(upkeep.tasks) if steps is None else steps
    if not steps.now or is_over():
        return UpkeepResult(upkeep, rest=(*steps.now, *steps.rest))
    ref = table.ref
    assert ref is not None, f"{table.name} has a manager"
    assert ref.files is not None, f"the log of {table.name} was read from its files"
    late = Worker(manager.writing_session(), ref, run, is_over).carry_out(upkeep, steps.now)
    log = FileLog(ref.files, ref.name)
    head = log.head()
    files = None if head is None else log.live_files(head.version)
    done = steps.now[: len(steps.now) - len(late)]
    return UpkeepResult(upkeep, done, (*late, *steps.rest), None if files is None else len(files))


def tables_to_keep(code_location: CodeLocation) -> list[AssetTable]:
    """The tables that assets of a code location write, and their quarantines."""
    return [table for table in code_location.tables.values() if writer_of_table(table, code_location) is not None]


def upkeep_job(code_location: CodeLocation, upkeep: Nightly) -> dg.Definitions:
    """The job that does the upkeep due on the tables of a code location, and the schedule that starts the job."""
    tables = tables_to_keep(code_location)
    of = {UPKEEP_OF: digest(sorted(table.name for table in tables))}

    @dg.op(
        out=dg.Out(dg.Nothing),
        required_resource_keys={table.manager for table in tables},
        description="Compacts tables and removes files that no reader needs, where that is due; until the limit.",
    )
    def keep_tables(context: dg.OpExecutionContext) -> None:
        readable = ReadableLogs.of(code_location.refs)
        with listening(to_log(context.log)):  # a run that logs nothing counts as dead
            _Night(context, code_location, readable, upkeep, end_of_night(context, upkeep.limit)).keep(tables)

    text = "Compacts tables and removes files that no reader needs, where that is due."

    @dg.job(name=UPKEEP_JOB, tags=of, description=text)
    def job() -> None:
        keep_tables()

    return dg.Definitions(jobs=[job], schedules=[night_schedule(job, upkeep.cron_schedule, upkeep.timezone, text)])


@dataclass(frozen=True, slots=True)
class _Night:
    """One run of the upkeep of a code location."""

    context: dg.OpExecutionContext
    code_location: CodeLocation
    readable: ReadableLogs
    upkeep: Nightly
    end: float

    def keep(self, tables: Sequence[AssetTable]) -> None:
        """Does the upkeep that is due on some tables.

        Raises:
            Failure: The upkeep of tables ended with an error. The others were looked after all the same.
        """
        results, errors, log = list[UpkeepResult](), list[str](), self.context.log
        lost = Counter[str]()
        due = waiting = self._due(tables, errors)
        while waiting:
            busy = list[AssetTable]()
            for table in waiting:
                try:
                    result, writer = self._keep(table, sum(each.rewritten_bytes for each in results))
                except Exception as error:  # other tables are looked after all the same
                    if classify(error).is_of_a_rival:
                        lost[table.name] += 1
                        log.info(f"The upkeep of {table.name} lost its commit to another writer.")
                        if lost[table.name] < _TRIES and not self._is_late:
                            busy.append(table)
                        continue
                    log.exception(f"The upkeep of {table.name} ended with an error.")
                    errors.append(f"{table.name} ({first_line(error)})")
                    continue
                if result.steps or waiting is due:  # not for each look at a table that is still being written
                    results.append(result)
                    log.info(f"{result.sentence} {self._why_not_all(result, writer)}".rstrip())
                if writer is not None and not self._is_late:
                    busy.append(table)
            waiting = busy
            if waiting:
                self.context.instance.add_run_tags(self.context.run_id, {KEEPING: ""})  # it works on none now
                time.sleep(max(0.0, min(_LOOK_AGAIN, self.end - time.time())))
        log.info(f"{count_of(len(tables), 'table')}, of which {len(due)} needed upkeep.")
        self.context.add_output_metadata(_metadata(len(tables), results))
        if errors:
            raise dg.Failure(f"The upkeep of these tables ended with an error: {'; '.join(errors)}.")

    def _due(self, tables: Sequence[AssetTable], errors: list[str]) -> list[AssetTable]:
        """The tables that need upkeep, the longest waiting first, so that a limit leaves out no table for ever."""
        due = list[tuple[int, AssetTable]]()
        for table in tables:
            try:
                needed = self._look(table)
            except Exception as error:  # one log may be odd
                errors.append(f"{table.name} ({first_line(error)})")
                continue
            if needed is None:
                self.context.log.info(f"{table.name}: there is no table yet, or only Spark can list its files.")
            elif needed.tasks:
                due.append((needed.last, table))
        return [table for _, table in sorted(due, key=lambda each: each[0])]

    def _why_not_all(self, result: UpkeepResult, writer: dg.DagsterRun | None) -> str:
        """Why something is left, as a sentence; empty if nothing is."""
        if not result.rest:
            return ""
        if self._is_late:
            return "The limit of the night is reached."
        return "max_bytes is reached." if writer is None else f"Run {writer.run_id[:8]} is writing it."

    def _keep(self, table: AssetTable, rewritten: int) -> tuple[UpkeepResult, dg.DagsterRun | None]:
        """Does the work that is due on a table, until a limit is reached or a run writes it, which is given too."""
        instance, run = self.context.instance, self.context.run_id
        manager: DeltaIOManager = getattr(self.context.resources, table.manager)
        needed = self._look(table)
        assert needed is not None, f"{table.name} was there"
        # Like a run that writes the table, this run first records what it does, and then looks at the other runs.
        written = {KEEPING: self._written_with(table).name}
        instance.add_run_tags(run, written | driver_tag(table.ref, manager.driver))
        steps = steps_of(needed.tasks, self.upkeep.max_bytes, rewritten)
        stopped_by: dg.DagsterRun | None = None

        def is_over() -> bool:
            nonlocal stopped_by
            stopped_by = self._writer(table)
            return self._is_late or stopped_by is not None

        return keep(manager, table, needed, run, steps, is_over), stopped_by

    def _look(self, table: AssetTable) -> TableUpkeep | None:
        return look(table, self.code_location, self.readable)

    @property
    def _is_late(self) -> bool:
        return time.time() >= self.end

    def _writer(self, table: AssetTable) -> dg.DagsterRun | None:
        """A run that is writing a table now; None if no run is."""
        writer = self._written_with(table)
        assert writer.asset is not None, f"an asset writes {table.name}"
        return next(runs_writing(self.context.instance, self.context.run_id, writer.name, writer.asset.op.name), None)

    def _written_with(self, table: AssetTable) -> AssetTable:
        """The table of the asset whose runs write a table; for a quarantine, the table that it belongs to."""
        writer = writer_of_table(table, self.code_location)
        assert writer is not None, f"an asset writes {table.name}"
        return writer


def _metadata(count: int, results: Sequence[UpkeepResult]) -> dict[str, Any]:
    """What a night did, for Dagster's page of the run."""
    records = [
        dg.TableRecord(
            {
                "table": each.upkeep.table,
                "done": ", ".join(dict.fromkeys(step.work.value for step in each.steps)) or "-",
                "files_before": len(each.upkeep.live),
                "files_after": len(each.upkeep.live) if each.files_after is None else each.files_after,
                "rewritten_mb": round(each.rewritten_bytes / 1e6, 1),
                "freed_mb": round(each.freed_bytes / 1e6, 1),
                "left": what_is_left(each.rest) or "-",
            }
        )
        for each in results
    ]
    table = {"upkeep": dg.MetadataValue.table(records)} if records else {}
    return {"tables": count, "tables_with_upkeep": len({each.upkeep.table for each in results}), **table}

"""One table as its checks see it: its log, its sources' logs, and its rows where a check needs them."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame, SparkSession

from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.find import find_cursor, newest_own
from lakehouse.cursor.standings import Standings
from lakehouse.cursor.unread import Unread, unread_after
from lakehouse.dagster.code_location import AssetTable, CodeLocation
from lakehouse.dagster.definitions import findings, lateness
from lakehouse.dagster.definitions.findings import Drift, Finding, Grade
from lakehouse.dagster.definitions.lateness import without_position, worst_off
from lakehouse.dagster.definitions.past_checks import CHECK, MadeCheck, made
from lakehouse.dagster.follow.followed import Backlogs, Followed, FollowedSource
from lakehouse.dagster.io_manager import DeltaIOManager
from lakehouse.delta.expect import OWN_COLUMNS, SUFFIX, Evaluation, Expect
from lakehouse.delta.log import Head, Log
from lakehouse.difference.expectations import evaluate
from lakehouse.read.asset import PastRows
from lakehouse.spark.progress import watching
from lakehouse.spark.table_version import TableRef, TableVersion


@dataclass(frozen=True)
class Checked:
    """A table, and what its asset reads.

    Args:
        table: The table.
        ref: Where it is.
        sources: Where the table behind each input is.
        followed: The table with the sources whose changes it follows; None if it follows none.
        standings: What tables stand for.
        io_manager: The manager that writes the table, or would.
        instance: The instance that knows when checks were made before.
        now: Milliseconds since the epoch.
    """

    table: AssetTable
    ref: TableRef
    sources: Mapping[str, TableRef]
    followed: Followed | None
    standings: Standings
    io_manager: DeltaIOManager
    instance: dg.DagsterInstance
    now: int = field(default_factory=lambda: int(time.time() * 1000))

    @classmethod
    def of(
        cls,
        table: AssetTable,
        code_location: CodeLocation,
        managers: Mapping[dg.AssetKey, Any],
        instance: dg.DagsterInstance,
    ) -> "Checked":
        """A table at the place that the managers of a run give it.

        Args:
            table: The table.
            code_location: The code location with the tables that it reads.
            managers: The IO manager of the table and of each table that it reads; a source whose manager is of another
                kind counts as below the root of the table's own manager.
            instance: The instance that knows when checks were made before.
        """
        own = managers[table.key]
        assert isinstance(own, DeltaIOManager), f"{table.name} is written by no DeltaIOManager"

        def ref_of(each: AssetTable) -> TableRef:
            manager = managers.get(each.key)
            return each.ref_below(manager.location if isinstance(manager, DeltaIOManager) else own.location)

        ref, refs = ref_of(table), {name: ref_of(code_location[source]) for name, source in table.inputs.items()}
        sources = tuple(FollowedSource(source, ref_of(source)) for source in code_location.followed_by(table))
        standings = Standings(code_location.ways, code_location.logs(own.session))
        return cls(table, ref, refs, Followed(table, ref, sources) if sources else None, standings, own, instance)

    def up_to_date(self, most: timedelta, margin: timedelta) -> Finding:
        """Whether no change has waited for too long, each will be there for the next run, and the feed is whole."""
        backlogs, worst = self._backlogs, self._worst_off
        if isinstance(backlogs, Finding):
            return backlogs
        if isinstance(worst, Finding):
            return worst
        unbegun = without_position(self._follows, backlogs, self._log_and_head)
        return lateness.up_to_date(self.name, worst, [*self._snapshot_inputs()], most, margin, self.now, unbegun)

    def schema(self) -> Finding:
        head = self.head
        if head is None:
            return self._no_table
        columns = self.log.file_schema(head.version)
        if columns is None:
            return Finding.unavailable(f"The columns of '{self.name}' are unknown: only Spark can read its log.")
        declared = [column for column in self.table.declared.descriptions if column.lower() not in columns.types]
        newest = newest_own(self.log, head, self.name)
        if newest is None:
            return findings.schema(self.name, declared, None, (), len(columns.types))
        own = _drift(self.ref, self.log, newest.version, head)
        drifts = [
            drift
            for ref in self.sources.values()
            if (position := newest.reads.get(ref.name)) is not None
            and (source := (log := ref.log(self.session)).head()) is not None
            and source.table_id == position.table
            and (drift := _drift(ref, log, position.version, source)) is not None
        ]
        return findings.schema(self.name, declared, own, drifts, len(columns.types))

    def keys(self) -> Finding:
        if self.head is None:
            return self._no_table
        with watching(self.session(), f"checking the key of {self.name}"):
            return findings.keys(self.name, TableVersion.of(self.session(), self.ref, self.head).rows(), self._row_key)

    def inputs_agree(self) -> Finding:
        standing = self.standings.newest(self.name)
        return self._no_table if standing is None else findings.inputs_agree(self.name, standing)

    def evaluations(self, expectations: Sequence[Expect]) -> Iterator[tuple[Evaluation, str]]:
        """The evaluations of expectations over all rows of the table, and of which rows they are.

        A row that is in the quarantine breaks what put it there. Nothing is yielded if there is no table yet.
        """
        if self.head is None or not expectations:
            return
        rows = TableVersion.of(self.session(), self.ref, self.head).rows()
        of_table = [each for each in expectations if not each.quarantines]
        of_both = [each for each in expectations if each.quarantines]
        with watching(self.session(), f"evaluating what is expected of {self.name}"):
            for each in evaluate(self.name, rows, self._row_key, of_table) if of_table else ():
                yield each, "the table"
            for each in evaluate(self.name, self._with_quarantine(rows), self._row_key, of_both) if of_both else ():
                yield each, "the table and its quarantine"

    def _with_quarantine(self, rows: DataFrame) -> DataFrame:
        """Rows of the table, and those that its quarantine holds."""
        ref = self.ref.beside(SUFFIX)
        head = ref.log(self.session).head()
        if head is None:
            return rows
        quarantined = TableVersion.of(self.session(), ref, head).rows().drop(*OWN_COLUMNS)
        return rows.unionByName(quarantined, allowMissingColumns=True)

    @property
    def name(self) -> str:
        return self.ref.name

    def session(self) -> SparkSession:
        return self.io_manager.session()

    @cached_property
    def log(self) -> Log:
        return self.ref.log(self.session)

    @cached_property
    def head(self) -> Head | None:
        return self.log.head()

    @cached_property
    def cursor(self) -> Cursor:
        return find_cursor(self.log, self.head, self.name)

    @property
    def _row_key(self) -> tuple[str, ...]:
        """The columns that identify a row: the declared key, and for a history also the start, as its mark records."""
        declared = self.table.declared.key_columns
        if self.table.past is PastRows.KEPT and isinstance(self.cursor, Known):
            return self.cursor.mark.key or declared
        return declared

    @property
    def past(self) -> Iterator[MadeCheck]:
        """The comparisons with a recompute that were made before, the newest first."""
        return made(self.instance, dg.AssetCheckKey(self.table.key, CHECK))

    @property
    def _no_table(self) -> Finding:
        return Finding.unavailable(f"'{self.name}' has no table yet at {self.ref.location}.")

    @property
    def _follows(self) -> Followed:
        assert self.followed is not None, "a table that no asset makes follows nothing"
        return self.followed

    @cached_property
    def _backlogs(self) -> Backlogs | Finding:
        """What the table has not read of each source that it follows; a finding if the logs do not show that."""
        backlogs = self._follows.backlogs(self._log_and_head)
        if isinstance(backlogs, Backlogs):
            return backlogs
        grade = Grade.FAILED if backlogs.missing else Grade.WARNS
        return Finding(grade, f"What '{self.name}' has not read is not known: {backlogs.reason}.")

    @property
    def _worst_off(self) -> tuple[Unread, ...] | Finding:
        """What the partition that is worst off has not read of each source; a finding if that is not known.

        A table without partitions is one partition.
        """
        backlogs, of_sources = self._backlogs, list[Unread]()
        if isinstance(backlogs, Finding):
            return backlogs
        for place, source in enumerate(self._follows.sources):
            worst = worst_off(backlogs, place)
            if worst is None:
                return Finding.unavailable(f"'{self.name}' has not read '{source.ref.name}' yet.")
            of_sources.append(worst)
        return tuple(of_sources)

    def _snapshot_inputs(self) -> Iterator[Unread]:
        """What has changed since the last run in each input that is read whole; empty if the table is partitioned."""
        followed = set[str]() if self.followed is None else {source.ref.name for source in self.followed.sources}
        if not isinstance(self.cursor, Known):
            return
        for ref in self.sources.values():
            position = self.cursor.reads.get(ref.name)
            if position is not None and ref.name not in followed:
                log, head = self._log_and_head(ref)
                if head is not None:
                    yield unread_after(position, log, ref.name, head)

    def _log_and_head(self, ref: TableRef) -> tuple[Log, Head | None]:
        log = ref.log(self.session)
        return log, log.head()


def _drift(ref: TableRef, log: Log, since: int, head: Head) -> Drift | None:
    """What became of a table's columns since a version; None if the log does not show it."""
    before, after = log.file_schema(since), log.file_schema(head.version)
    return None if before is None or after is None else Drift.between(ref.name, since, before, after)

"""One materialization of one asset, from its first input to its commit; knows nothing of Dagster."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.commit.commit import commit
from lakehouse.commit.failed_plan import as_explained
from lakehouse.commit.outcome import Committed, NothingToDo, Outcome
from lakehouse.commit.superseded import refuse_foreign, refuse_unsafe
from lakehouse.cursor.beside import why_quarantine_differs
from lakehouse.cursor.cursor import Cursor, Fresh, Known, Lost
from lakehouse.cursor.cuts import Agreement, agreement
from lakehouse.cursor.definition import definition, in_session, partial_sources, session_of, why_other_session
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.mark import Position
from lakehouse.cursor.standings import Standings, Ways
from lakehouse.cursor.unread import own_mark_is_old
from lakehouse.delta.expect import SUFFIX, Evaluation
from lakehouse.delta.log import Head, Log
from lakehouse.delta.owned import moment_of
from lakehouse.delta.partition_keys import Slice
from lakehouse.delta.policy import REAL_CLOCK, Clock, Retry
from lakehouse.delta.table import Read
from lakehouse.difference.statements import Planned
from lakehouse.errors import LakehouseError, ReadError, UncomparedError
from lakehouse.read.archive import ask_archive, restate
from lakehouse.read.asset import Asset, OtherTable, PastRows, UserRequest
from lakehouse.read.changes import Changes
from lakehouse.read.decide import Reconcile, comparison_by, decision_by_policy, decision_for_all, refuse_request
from lakehouse.read.feed_reader import Feeds
from lakehouse.read.feed_trust import Source
from lakehouse.read.read_plan import Archive, InputFacts, read_plan
from lakehouse.read.resolve import read_changes
from lakehouse.read.run import Run
from lakehouse.spark.driver_rows import is_empty
from lakehouse.spark.progress import (
    AllOutside,
    Evaluated,
    FrozenUnread,
    KeysLeftAlone,
    Message,
    Notice,
    PhaseEnded,
    QuarantineWritten,
    tell,
)
from lakehouse.spark.session import settings_of_rows
from lakehouse.spark.table_version import TableRef, TableVersion, prefetch
from lakehouse.spark.types import partition_types
from lakehouse.writes.merge import doubts_of
from lakehouse.writes.write import Write, complete, plan


def begin(
    spark: Callable[[], SparkSession],
    asset: Asset,
    run_id: str,
    *,
    slice: Slice | None = None,  # noqa: A002  (the word of the field)
    config: Mapping[str, Any] | None = None,
    resources: Mapping[str, Any] | None = None,
    request: UserRequest = UserRequest(),
    gap: str | None = None,
    compare_because: str | None = None,
    aliases: frozenset[str] = frozenset(),
    feeds: Feeds | None = None,
    now: int | None = None,
    moment: datetime | None = None,
) -> "Materialization":
    """Reads where the table stands, before any input is read.

    Args:
        spark: Returns the session; called only if rows are read or written.
        asset: The asset.
        run_id: Dagster's id of the run.
        slice: The partitions that the run writes; None for the whole table.
        config: The resolved config of the step.
        resources: The values of the resources that the function takes, each as `resource.field`.
        request: What a user asks of the run by its tags.
        gap: Why the feeds cannot be read, if an earlier try of the run found that out.
        compare_because: Why everything has to be compared, if an earlier try of the run found that out.
        aliases: Ids of runs whose commits count as this run's own.
        feeds: The feeds that this run has read so far, for its other assets.
        now: When the run began, in milliseconds since the epoch; the clock's time if None.
        moment: When its Dagster run began, for the condition of owned rows; `now` if None.

    Raises:
        WriteError (REFRESH_REFUSED): A full refresh of a history, or of a table that is kept from extracts.
        ReadError: Several partitions of an asset that reads changes.
        TableError (UNSAFE_TABLE, FOREIGN_TABLE): The table cannot be written.
        UnreadableLogError, ReadError (NEWER_MARK): Its log or its marks cannot be understood.
    """
    log = asset.ref.log(spark)
    head = log.head()
    refuse_request(asset, request, () if slice is None else slice.keys)
    cursor = _cursor(spark, asset, log, head, slice, request)
    ignored, read = asset.policy.ignored_config, asset.read_options
    parts = definition(asset.table, slice, read, config or {}, ignored, inputs=asset.inputs, resources=resources)
    if isinstance(cursor, Known):  # until Spark is asked, which a run with nothing to do does not start
        parts |= session_of(cursor.mark.definition or {})
    together = decision_for_all(asset, cursor, parts, comparison_by(asset, request))
    if together is None and compare_because is None:
        compare_because = _why_other_quarantine(spark, asset, cursor, () if slice is None else slice.keys)
    if together is None and compare_because is not None:
        together = decision_by_policy(asset, Reconcile(compare_because))
    mark = cursor.mark if isinstance(cursor, Known) and asset.table.quarantines else None
    began = int(time.time() * 1000) if now is None else now
    owned = None
    if asset.table.owns is not None:
        from lakehouse.views.on_spark.owned_rows import owned_rows  # it imports sqlglot

        is_empty = not isinstance(cursor, Known) and _holds_nothing(spark, asset, head, slice)
        owned = owned_rows(asset, cursor, log, moment or moment_of(began / 1000), request.thaw, is_empty=is_empty)
    run = Run(
        asset=asset,
        run_id=run_id,
        cursor=cursor,
        head=head,
        aliases=aliases,
        slice=slice,
        owned=owned,
        definition=parts,
        together=together,
        request=request,
        other_table=OtherTable() if mark is None else OtherTable(mark.beside, mark.quarantine),
    )
    refuse_unsafe(run, head)
    if request.go_on_from is None or asset.past is PastRows.KEPT:
        refuse_foreign(run, cursor)
    depends = asset.incremental or (mark is not None and mark.extract is not None)
    run = replace(run, must_record=depends and own_mark_is_old(cursor, head, log, began))
    return Materialization(spark, run, gap, Feeds() if feeds is None else feeds, began)


def _cursor(
    spark: Callable[[], SparkSession],
    asset: Asset,
    log: Log,
    head: Head | None,
    slice_: Slice | None,
    request: UserRequest,
) -> Cursor:
    """How far the run's part of the table has read. A lost position of a part without rows counts as no position."""
    partitions = () if slice_ is None else slice_.keys
    cursor = find_cursor(
        log, head, asset.name, partitions, positions=asset.incremental, overrides_mark=request.overrides_mark
    )
    if (
        isinstance(cursor, Lost)
        and (slice_ is not None or asset.past is PastRows.APPENDED)
        and _holds_nothing(spark, asset, head, slice_)
    ):
        return Fresh(cursor.generation, cursor.epoch)
    # The partition was emptied by another program, so the rows that its position is about are gone.
    if isinstance(cursor, Known) and cursor.may_be_empty and _holds_nothing(spark, asset, head, slice_):
        return Fresh(cursor.generation, cursor.epoch)
    return cursor


def _why_other_quarantine(
    spark: Callable[[], SparkSession], asset: Asset, cursor: Cursor, partitions: tuple[str, ...]
) -> str | None:
    """Why the table's quarantine does not match its position; None if it does, or if the table has no quarantine."""
    if not asset.table.quarantines or not asset.incremental or not isinstance(cursor, Known):
        return None
    quarantine = asset.ref.beside(SUFFIX)
    log = quarantine.log(spark)
    return why_quarantine_differs(log, log.head(), quarantine.name, cursor, partitions)


def _holds_nothing(spark: Callable[[], SparkSession], asset: Asset, head: Head | None, slice_: Slice | None) -> bool:
    """Whether the part of the table that the run writes has no row, so that nothing can be added twice."""
    if head is None:
        return True
    rows = TableVersion.of(spark(), asset.ref, head).rows()
    return is_empty(rows if slice_ is None else rows.where(slice_.predicate(partition_types(rows.schema))))


@dataclass
class Materialization:
    """Pins what one run reads, input by input, and writes its result in one commit. `begin` creates it.

    Args:
        spark: Returns the session; called only if rows are read or written.
        run: What has been pinned so far.
        gap: Why the feeds cannot be read, if an earlier try of the run found that out.
        feeds: The feeds that this run has read so far, for its other assets.
        now: When the run began, in milliseconds since the epoch.
        phases: How many seconds each phase has taken, by its name, as far as `hear` was called.
        evaluations: The expectations of the table, evaluated on the rows of the newest plan.
        all_outside: Whether no row of the result lies in a partition of the run.
        left_alone: How many touched keys of a `Merge` have frozen rows; None if they were not counted.
        frozen_unread: How many keys froze since the last commit with changes that no run has read.
        quarantine: Each write of the run to its table's quarantine; empty if the quarantine was right already.
        standings: What versions of the tables on the ways to this table stand for.
    """

    spark: Callable[[], SparkSession]
    run: Run
    gap: str | None
    feeds: Feeds
    now: int
    began: float = field(init=False, default_factory=time.monotonic)
    phases: dict[str, float] = field(init=False, default_factory=dict[str, float])
    evaluations: tuple[Evaluation, ...] = field(init=False, default=())
    all_outside: bool = field(init=False, default=False)
    left_alone: int | None = field(init=False, default=None)
    frozen_unread: int = field(init=False, default=0)
    quarantine: tuple[QuarantineWritten, ...] = field(init=False, default=())
    standings: Standings = field(init=False, default_factory=lambda: Standings(Ways({}), lambda _: None))
    _prefetched: bool = field(init=False, default=False)

    def hear(self, notice: Notice) -> None:
        """Listens to the run: keeps how long its phases take, what the newest plan evaluated, and what was counted."""
        match notice:
            case PhaseEnded(phase=phase, seconds=seconds):
                self.phases[phase] = self.phases.get(phase, 0.0) + seconds
            case Evaluated(evaluations=evaluations):
                self.evaluations = evaluations
            case KeysLeftAlone(keys=keys):
                self.left_alone = keys
            case FrozenUnread(keys=keys):
                self.frozen_unread = keys
            case AllOutside():
                self.all_outside = True
            case QuarantineWritten():
                self.quarantine = (*self.quarantine, notice)
            case _:
                pass

    @property
    def asset(self) -> Asset:
        return self.run.asset

    def agree(self) -> None:
        """Settles how far each input is read so that all inputs agree, before any of them is read.

        Raises:
            ReadError (NO_CUT): The table has no position yet, and there is no cut at which it could begin.
        """
        run, asks = self.run, self.run.request
        if not self.standings.ways.concerns(run.name):
            return
        if asks.go_on_from is not None or asks.restate_from is not None:
            settled = Agreement(newest="a run tag says from where it reads")
        else:
            settled = agreement(self.standings, run.name, run.cursor, self.asset.read_options)
        if settled.has_no_cut:
            raise ReadError.no_cut(run.name, settled.waits_for)
        self.run = replace(run, agreement=settled)

    def at_cut(self, source: Source) -> Source:
        """The source at the version at which the inputs of the run agree, or at its newest version if they need not."""
        name, settled = source.at.ref.name, self.run.agreement
        if name not in settled.upto:
            return source
        return replace(source, at=replace(source.at, version=settled.upto[name]), is_exact=name in settled.exact)

    def snapshot_input(self, source: Source) -> DataFrame:
        """The source at its pinned version. Rows that were already written are not updated when the source changes."""
        self.pin(source)
        return source.at.rows()

    def pin(self, source: Source) -> None:
        """Records the version of a snapshot input, without reading a row of it."""
        self.run = self.run.with_snapshot(source)

    def facts(self, source: Source, read: Read, archive: Archive | None) -> InputFacts:
        """What is known of an input before a row of it is read."""
        position = self.asset.position_in(self.run.cursor.reads, source.at.ref.name, source.head.table_id)
        holds_rows = self.asset.past is PastRows.APPENDED and self._holds_rows(position)
        return InputFacts(self.run, read, source, position, holds_rows, archive, gap=self.gap)

    def changes(self, source: Source, read: Read, archive: Callable[[str], TableRef]) -> Changes:
        """The changes of the source since the table's own position.

        Raises:
            ReadError (GAP): The changes can no longer be read, and the table may not be compared instead.
            HistoryError (RESTATE_REFUSED): The history cannot be restated from the moment that a run tag names.
        """
        archive_ref = None if read.archive is None else archive(read.archive)
        if self.run.request.restate_from is not None:
            position = self.asset.position_in(self.run.cursor.reads, source.at.ref.name, source.head.table_id)
            changes = restate(self.asset.name, source, position, archive_ref, self.run.request.restate_from)
        else:
            facts = self.facts(source, read, None if archive_ref is None else partial(ask_archive, archive_ref, source))
            changes = read_changes(read_plan(facts), facts, self.feeds, self._prefetch)
        self.run = self.run.with_read(changes, source, self.now)
        return Changes(changes)

    def _holds_rows(self, position: Position | None) -> bool:
        """Whether the table may hold rows of a source that its position does not cover."""
        run = self.run
        match run.cursor:
            case Fresh(foreign=None):  # the table may have had other partitions, which held these rows
                return run.slice is not None and not _holds_nothing(self.spark, run.asset, run.head, run.slice)
            case Known():
                return position is not None
            case Fresh() | Lost():
                return True

    def nothing_to_do(self) -> NothingToDo | None:
        """The outcome of a step whose table already holds the result; None if its function has to be called.

        The logs show it, before any row is computed. With a run tag of the user, the function is always called.
        """
        return self._unless_due(self.run)

    def nothing_to_write(self, write: Write) -> NothingToDo | None:
        """The outcome of a `History` that already holds the changes of the run; None if rows have to be read.

        Only the result shows what a history tracks, so the asset's function is called, but no session is started.
        """
        run = write.complete_without_rows(self.run)
        return None if run is None else self._unless_due(run)

    def _unless_due(self, run: Run) -> NothingToDo | None:
        if run.head is None or run.request.overrides_mark or self.gap is not None:
            return None
        return NothingToDo(run.head.version) if run.has_nothing_to_do() else None

    def commit(self, write: Write, retry: Retry, clock: Clock = REAL_CLOCK) -> Outcome:
        """Makes the write true of the table in one commit; see `lakehouse.commit.commit.commit`."""
        run, write = self._complete(write)
        try:
            outcome = commit(self.spark(), run, write, retry, clock)
        except LakehouseError as error:
            if self.quarantine:
                error.add(
                    f"Before that, version {self.quarantine[-1].version} of '{run.name + SUFFIX}' was written: the "
                    f"quarantine is ahead of the table until the next run, which sets both right."
                )
            raise
        return replace(outcome, left_out=write.count_outside(run)) if isinstance(outcome, Committed) else outcome

    def plan(self, write: Write) -> Planned:
        """What would make the write true of the table and its quarantine, as the run found them; nothing is written.

        Raises:
            LakehouseError: The result cannot become the table.
        """
        run, write = self._complete(write)
        with as_explained(run):
            return plan(self.spark(), run, write, run.head)

    def _complete(self, write: Write) -> tuple[Run, Write]:
        for sentence in doubts_of(self.run.name, write):
            tell(Message(sentence))
        with as_explained(self.run):
            run, write = complete(self.spark, self._in_session(), write)
        if run.facts.extract is not None or run.facts.view is not None:  # the asset's page shows these facts
            self.run = run
        return run, write

    def _in_session(self) -> Run:
        """The run with the session settings that decide rows; if earlier rows had other settings, they are compared.

        Raises:
            UncomparedError: Rows that no change touched may have been made under other settings. The step runs again.
        """
        before = self.run.definition
        run = replace(self.run, definition=in_session(before, settings_of_rows(self.spark())))
        reason = why_other_session(before, run.definition) if run.together is None and run.asset.incremental else None
        if reason is None:
            return run
        if run.asset.past.is_final or partial_sources(before):
            tell(Message(f"{run.name} goes on although {reason}. Its rows stay as they were made before."))
            return run
        raise UncomparedError(run.name, f"{reason}, and rows that no change touched may differ")

    def _prefetch(self) -> None:
        """Makes Delta replay the table's log once, ahead of the comparison and the commit."""
        if self.run.head is not None and not self._prefetched:
            self._prefetched = True
            prefetch(self.spark(), self.asset.ref)

"""What a run reads of one input, and why it does not read the feed: one value, computed from the logs.

A run carries the plan out, and `explain` prints it. If a read shows that the feed or the archive cannot answer,
`without_feed` or `without_archive` gives the plan of the next method that is exact:

1. The feed of the range, in pieces around schema changes, without commits that changed no row.
2. An archive of the feed, if the input names one.
3. Everything: the whole source, which the write compares with the table, if the table allows it.
4. A refusal, which says what to do.

If a feed is vacuumed while the result is computed, the commit notices it (lakehouse/commit/failed_plan.py). The step
sets a run tag and runs again (lakehouse/dagster/failures.py), the tag comes back as `InputFacts.gap`
(`DeltaIOManager.step_of`), and the plan is made without the feed.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.definition import read_in
from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import OTHER_PARTITIONS, cap, start_version, unread_after, why_compared_again
from lakehouse.delta.commit_info import SCHEMA_CHANGES, Commit
from lakehouse.delta.limits import limits
from lakehouse.delta.log import NOTHING_READ, VersionRange, images_of_many_rows
from lakehouse.delta.table import Read
from lakehouse.errors import GO_ON_FROM, ReadError
from lakehouse.read.archive import Archived, Unanswered
from lakehouse.read.asset import Asset, PastRows
from lakehouse.read.decide import (
    PARTIAL_REMEDY,
    Reconcile,
    Refuse,
    append_remedy,
    decision_by_policy,
    may_compare,
    may_replace,
    recomputes,
    remedy,
)
from lakehouse.read.feed_trust import Source, why_disbelieved, why_off
from lakehouse.read.run import Run
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.table_version import TableVersion

Archive: TypeAlias = Callable[[VersionRange], Archived | Unanswered]
"""What an archive answers for a range of its source."""


@dataclass(frozen=True, slots=True)
class InputFacts:
    """What is known of one input before a row of it is read.

    Args:
        run: The run that reads.
        read: The options of the input.
        source: The source, pinned.
        position: How far its table has read this source; None if it has not.
        holds_rows: Whether the table of an `Append` may hold rows of the source that its position does not cover.
        archive: Asks the archive that the input names for a range; None if the input names none.
        refusal: Why the table's own position was refused; None unless the version of a run tag was taken instead.
        gap: Why its feed cannot be read, if an earlier try of the run found that out.
    """

    run: Run
    read: Read
    source: Source
    position: Position | None
    holds_rows: bool = False
    archive: Archive | None = None
    refusal: str | None = None
    gap: str | None = None

    @property
    def asset(self) -> Asset:
        return self.run.asset

    @property
    def cursor(self) -> Cursor:
        return self.run.cursor

    @property
    def name(self) -> str:
        """The name of the source."""
        return self.source.at.ref.name

    @property
    def furthest(self) -> int:
        """How far the batch has to reach: as far as the table's rows may reflect the source, or as the inputs agree."""
        furthest = self.cursor.furthest(self.name)
        return max(furthest, self.source.at.version) if self.source.is_exact else furthest


@dataclass(frozen=True, slots=True)
class Batch:
    """The commits of a source that one run reads.

    Args:
        at: The source at the end of the batch.
        position: The position after which the batch begins.
        commits: Its commits, oldest first.
        included: The commits of the batch that the input does not leave out.
        later: The commits after the batch, as far as they have been read.
        behind: How many versions are left to later runs.
    """

    at: TableVersion
    position: Position
    commits: tuple[Commit, ...]
    included: tuple[Commit, ...]
    later: tuple[Commit, ...]
    behind: int

    @classmethod
    def of(cls, facts: InputFacts, position: Position, commits: tuple[Commit, ...]) -> "Batch":
        """The batch that a run reads of the commits after a position."""
        source, read = facts.source, facts.read
        batch = cap(tuple(each for each in commits if each.version <= source.at.version), read, facts.furthest)
        at = replace(source.at, version=batch[-1].version) if batch else source.at
        included = tuple(commit for commit in batch if not read.leaves_out(commit.operation, commit.user_metadata))
        return cls(at, position, batch, included, commits[len(batch) :], source.head.version - at.version)

    @property
    def range(self) -> VersionRange:
        return VersionRange(self.position.version, self.at.version)

    @property
    def changing(self) -> tuple[Commit, ...]:
        """The commits that are read and may have changed a row."""
        return tuple(commit for commit in self.included if not commit.is_quiet)

    @property
    def has_one_schema(self) -> bool:
        """Whether the schema is the same in the whole batch and up to the head of the source."""
        newest = (self.commits + self.later)[-1].version
        reaches_head = newest == self.at.version + self.behind
        return reaches_head and not any(commit.operation in SCHEMA_CHANGES for commit in self.commits + self.later)


@dataclass(frozen=True, slots=True)
class ReadNothing:
    """None of the commits that are read changed a row."""

    facts: InputFacts = field(repr=False)
    batch: Batch


@dataclass(frozen=True, slots=True)
class ReadFeed:
    """The feed of a batch is read."""

    facts: InputFacts = field(repr=False)
    batch: Batch

    def without_feed(self, reason: str, *, is_believed: bool = True) -> "ReadPlan":
        """What is read instead, because the feed turned out to be unreadable or wrong.

        If the feed `is_believed`, an archive can hold the right rows of it.
        """
        return _without_feed(self.facts, self.batch.position, reason, None if is_believed else UNRELIABLE)


@dataclass(frozen=True, slots=True)
class ReadArchive:
    """An archive is read, because the feed cannot answer."""

    facts: InputFacts = field(repr=False)
    archived: Archived
    gap: str

    def without_archive(self) -> "ReadPlan":
        """What is read instead, because the rows of the archive, or the source's columns, turned out to be gone."""
        return _without_changes(self.facts, f"{self.gap}, and the archive '{self.archived.name}' cannot be read either")


@dataclass(frozen=True, slots=True)
class FirstRead:
    """The whole source is read, because the table has no position of it."""


@dataclass(frozen=True, slots=True)
class LacksFeed:
    """Nothing is read: the source keeps no feed from which later runs could continue."""


ReadPlan: TypeAlias = ReadNothing | ReadFeed | ReadArchive | FirstRead | Reconcile | Refuse | LacksFeed

UNRELIABLE = "it has kept what the feed said"
OTHER_PAST = "it has kept what was there before"
OTHER_TYPES = "columns of the source may have changed their types"
OTHER_NAMES = "columns of the source may have changed their names"


def read_plan(facts: InputFacts) -> ReadPlan:
    """What a run reads of an input, and why.

    Raises:
        ReadError (START): The read should start outside the source's history.
        UnreadableLogError: A commit in the middle of the range is missing, or a log cannot be read.
    """
    asset, read, position = facts.asset, facts.read, facts.position
    match facts.run.together:
        case Refuse(reason=reason, remedy=cure):
            return _refuse(facts, reason, cure)
        case Reconcile(reason=reason, on_request=on_request) as everything:
            return _whole(facts, everything) if on_request or read.is_whole else _refuse(facts, reason, PARTIAL_REMEDY)
        case None:
            pass
    again = why_compared_again(facts.cursor)
    if again is not None and recomputes(asset, read):
        return decision_by_policy(asset, Reconcile(again))
    if position is None or position.is_snapshot:
        return _first_read(facts)
    mark = facts.cursor.mark if isinstance(facts.cursor, Known) else None
    if mark is not None and mark.definition is not None:
        more = read_in(mark.definition, facts.name, read)
        if more is not None:
            reason = f"earlier runs left out what {more} excludes, and the input no longer excludes it"
            if recomputes(asset, read):
                return decision_by_policy(asset, Reconcile(reason))
            return _refuse(facts, reason, remedy(asset, read))
    elif position.mapped is None:  # an earlier version did not record which, and is believed once
        position = replace(position, mapped=facts.source.at.mapped)
    if position.table == facts.source.head.table_id and position.mapped != facts.source.at.mapped:
        return _without_changes(facts, OTHER_PARTITIONS)
    return _read_after(facts, position)


def _first_read(facts: InputFacts) -> ReadPlan:
    source, read = facts.source, facts.read
    if read.start == "snapshot":
        return _whole(facts, FirstRead() if source.head.keeps_feed else LacksFeed())
    if not source.head.keeps_feed:
        return LacksFeed()
    start = start_version(facts.asset.name, facts.name, source.log, source.head, read)
    position = Position(source.head.table_id, start)
    return _read_after(replace(facts, position=position), position)


def _whole(facts: InputFacts, plan: Reconcile | FirstRead | LacksFeed) -> ReadPlan:
    """The plan to read the whole source; a refusal if an `Append` would add it to a table that may hold rows of it."""
    if facts.asset.past.is_comparable or not facts.holds_rows:
        return plan
    reason = plan.reason if isinstance(plan, Reconcile) else "the table holds rows of another origin"
    return _refuse(facts, reason, append_remedy(facts.asset.name))


def _read_after(facts: InputFacts, position: Position) -> ReadPlan:
    """The plan to read the commits after a position, or what is read instead."""
    source = facts.source
    furthest = facts.furthest if facts.refusal is None else NOTHING_READ  # a user has decided where to go on
    # A log that only Spark can read is read from its end, whatever the limits.
    limited = facts.read if source.at.ref.why_only_spark() is None else None
    backlog = unread_after(position, source.log, facts.name, source.head, furthest, limited)
    if backlog.commits is None:
        # There, a column may have taken the name of another one, or another type, which no row of an archive shows.
        not_asked = OTHER_TYPES if source.head.widens_types and recomputes(facts.asset, facts.read) else None
        return _without_feed(facts, position, str(backlog.gap), OTHER_NAMES if source.head.maps_columns else not_asked)
    if backlog.gap is not None:
        return _without_feed(facts, position, backlog.gap, OTHER_PAST)
    batch = Batch.of(facts, position, backlog.commits)
    recomputed = recomputes(facts.asset, facts.read)
    try:  # if only Spark can read the log, Spark is asked for columns
        wrong = why_disbelieved(source, batch.at, batch.commits, batch.later, is_recomputed=recomputed)
    except Exception as error:
        reason = why_unreadable(error)
        if reason is None:
            raise
        return _without_feed(facts, position, reason)
    if wrong is not None:
        return _without_feed(facts, position, wrong, UNRELIABLE)
    off = why_off(source.log, source.head, batch.included, backlog.commits)
    if off is not None:
        return _without_feed(facts, position, off)
    if not batch.changing:
        return ReadNothing(facts, batch)
    dear = _why_dear(facts, batch)
    if dear is not None:
        return Reconcile(dear, for_cost=True)
    if facts.gap is not None:  # after the version from which a user goes on, the feed may be there
        return _without_feed(replace(facts, gap=None), position, facts.gap)
    return ReadFeed(facts, batch)


def _why_dear(facts: InputFacts, batch: Batch) -> str | None:
    """Why reading everything is less work than reading the changes; None if it is not, or if this is not chosen here.

    A query shows what it does with the changes of each input. For any other function with several inputs, it is not
    known before the call whether the changes of one input concern many rows; a write that counts its touched keys
    chooses by their number.
    """
    asset, at, head = facts.asset, batch.at, facts.run.head
    may_choose = asset.policy.chosen_refresh == "auto" and (asset.has_query or len(asset.inputs) == 1)
    is_whole = facts.read.is_whole and at.where is None and at.version == facts.source.at.version
    if not may_choose or not is_whole or asset.past is not PastRows.COMPUTED:
        return None
    tables, share = [(facts.source.log, at.version)], limits().changes_of_row
    if asset.has_query:
        share = limits().changes_of_view if may_replace(asset, head) else limits().changes_of_compared_view
        tables += [] if head is None else [(facts.run.ref.log(at.session), head.version)]
    many = images_of_many_rows(batch.changing, tables, share)
    if many is None:
        return None
    images, rows = many
    return f"the log of '{facts.name}' tells {images:,} images of changed rows, and all {rows:,} rows take less work"


def _without_feed(facts: InputFacts, position: Position, reason: str, not_asked: str | None = None) -> ReadPlan:
    """The plan to read the archive that the input names, or what is read without one.

    `not_asked` is why the archive cannot hold the changes; None if it can.
    """
    if facts.archive is None:
        return _without_changes(facts, reason)
    named = f"the archive '{facts.read.archive}'"
    if facts.read.excludes:
        not_asked = "the input leaves commits out"  # the archive holds them, too
    if not_asked is not None:
        return _without_changes(facts, f"{reason}, and {named} is not read because {not_asked}")
    match facts.archive(VersionRange(position.version, facts.source.at.version)):
        case Archived() as archived if archived.upto >= facts.furthest:
            return ReadArchive(facts, archived, reason)
        case Archived() | Unanswered.LACKS:
            return _without_changes(facts, f"{reason}, and {named} does not hold the changes either")
        case Unanswered.ONLY_SPARK:
            return _without_changes(facts, f"{reason}; unless {named} holds the changes, which only Spark can tell")


def _without_changes(facts: InputFacts, reason: str) -> ReadPlan:
    """The plan to compare everything; a refusal if the table does not allow it."""
    if may_compare(facts.asset.past, facts.asset.table, facts.read, facts.asset.policy):
        return Reconcile(reason)
    return _refuse(facts, reason, remedy(facts.asset, facts.read))


def _refuse(facts: InputFacts, reason: str, cure: str) -> ReadPlan:
    """A refusal, unless a run tag names a version: the changes are then read from that version on.

    Raises:
        ReadError (START): The source ends before that version.
    """
    position, head = facts.position, facts.source.head
    after = NOTHING_READ if position is None or position.table != head.table_id else position.version
    wish = facts.run.request.go_on_from
    if wish is None or facts.refusal is not None:
        return Refuse(reason, cure, after)
    start = facts.source.at.version if wish == "now" else wish
    if start < after:
        twice = f"{reason}; and to go on from version {start} would add the rows up to version {after} a second time"
        return Refuse(twice, cure, after)
    if start > head.version:
        tag = f"{GO_ON_FROM}{facts.asset.name}"
        raise ReadError.start(
            facts.asset.name, facts.name, f"version {start}", f"ends at version {head.version}", tag=tag
        )
    position = Position(head.table_id, start, mapped=facts.source.at.mapped)
    return _read_after(replace(facts, position=position, refusal=reason), position)

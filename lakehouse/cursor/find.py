"""The cursor: how far an asset has read, found in its own table's commits (ADR 1), for one partition or for many."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Self

from lakehouse.cursor.cursor import Cursor, Fresh, Known, Lost
from lakehouse.cursor.generation import FIRST_GENERATION, Beginning, Generation, application_id
from lakehouse.cursor.mark import Mark, mark_in
from lakehouse.cursor.since_base import BaseHolds, BaseReverted, StaleBase, judge_base, reads_before
from lakehouse.cursor.walk import Past, hides, mark_of, readable_mark, standing, standing_by_generation
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.log import Head, Log
from lakehouse.errors import UnreadableLogError

OWNER = "lakehouse.asset"
"""The property of a table that was created for an asset; its value is the asset's name."""
LOOKED_BACK = 200
"""How many of the newest commits are searched for the marks of partitions, or for any mark if no property names
the asset of the table."""


def find_cursor(
    log: Log,
    head: Head | None,
    asset: str,
    partitions: tuple[str, ...] = (),
    *,
    positions: bool = True,
    overrides_mark: bool = False,
) -> Cursor:
    """The cursor of an asset, or of a partition of it. A range of partitions has no position, only an epoch.

    Args:
        log: The log of the asset's own table.
        head: Where that table stands; None if there is no table.
        asset: The asset key, its parts joined by "/".
        partitions: The partition keys of this run. Each partition has a position of its own, so a run that reads
            changes has only one of them.
        positions: Whether the position of the partition matters. An asset that reads no changes needs only its epoch,
            and if the log has the epoch, no history is read.
        overrides_mark: Whether a run tag of the user says what to do, so that a damaged mark counts as a lost position,
            and epochs that Delta has seen are passed over.

    Raises:
        UnreadableLogError: One of the asset's own marks is damaged.
    """
    if head is None:
        return Fresh()
    past = Past.of(log, head)
    try:
        cursor = _find(past, asset, partitions, positions=positions)
    except UnreadableLogError as error:
        if not overrides_mark or error.damaged is None:
            raise
        cursor = Lost(
            f"version {error.damaged} carries a damaged mark", Generation(Beginning.DAMAGED, str(error.damaged))
        )
    if not overrides_mark:
        return cursor
    # Somebody else may have used the application id, and Delta would skip an epoch that it has seen.
    epoch = past.epoch(application_id(asset, partitions, cursor.generation))
    return replace(cursor, epoch=max(cursor.epoch, epoch or 0))


def newest_of_runs(log: Log, head: Head, asset: str, runs: Collection[str]) -> Known | None:
    """The newest commit by one of the given runs, unless the table was emptied or rolled back since."""
    for commit in standing(Past.of(log, head).back()):
        mark = readable_mark(commit, asset)
        if mark is not None and mark.run in runs:
            return Known.of(mark, commit.version)
    return None


def newest_own(log: Log, head: Head, asset: str) -> Known | None:
    """The newest own commit that stands, whichever partitions it wrote; None if there is none."""
    for commit in standing(Past.of(log, head).back()):
        mark = mark_of(commit, asset)
        if mark is not None:
            return Known.of(mark, commit.version)
    return None


def newest_mark(log: Log, head: Head, asset: str) -> Mark | None:
    """The newest mark of an asset: what was read last, even if a RESTORE took it back; None if no commit has one."""
    commits = log.commits(head.version)
    marks = map(mark_in, commits if head.properties.get(OWNER) == asset else islice(commits, LOOKED_BACK))
    return next((mark for mark in marks if mark is not None and mark.asset == asset), None)


def newest_covering(log: Log, head: Head, asset: str, partitions: tuple[str, ...]) -> Known | None:
    """The newest own commit that wrote all of the given partitions, perhaps with others; None if there is none."""
    cursor = _newest(Past.of(log, head), asset, partitions)
    return cursor if isinstance(cursor, Known) else None


def _find(past: Past, asset: str, partitions: tuple[str, ...], *, positions: bool) -> Cursor:
    if not partitions:
        return _newest(past, asset, ())
    if len(partitions) == 1 and (positions or past.epoch(application_id(asset, partitions, FIRST_GENERATION)) is None):
        cursor = _newest(past, asset, partitions)
        generation, epoch = _generation_and_epoch(past, asset, partitions, cursor.generation)
        if isinstance(cursor, Known):
            since = past.back(after=cursor.version)
            has_foreign_delete = any(commit.operation == "DELETE" and mark_in(commit) is None for commit in since)
            cursor = replace(cursor, may_be_empty=has_foreign_delete)
        return replace(cursor, generation=generation, epoch=epoch)
    generation, epoch = _generation_and_epoch(past, asset, partitions, FIRST_GENERATION)
    return Fresh(generation, epoch, _foreign(past, asset) if epoch == 0 else None)


def _generation_and_epoch(
    past: Past, asset: str, partitions: tuple[str, ...], generation: Generation
) -> tuple[Generation, int]:
    """The generation and last epoch in which these partitions are written together.

    Each set of partitions has an application id of its own, and the newest mark of one partition may have another one.
    If the log has no epochs and the marks are gone, another generation begins, because Delta would silently skip a
    repeated epoch.
    """
    epoch = past.epoch(application_id(asset, partitions, generation))
    if epoch is not None:
        return generation, epoch
    line, oldest = generation.root, past.head.version + 1
    for commit in past.back():
        oldest = commit.version
        mark = readable_mark(commit, asset)
        if mark is not None and mark.partitions == partitions and mark.generation.root == line:
            return mark.generation, mark.epoch
    return (line, 0) if oldest == 0 else (replace(line, renewed_at=oldest), 0)


def _foreign(past: Past, asset: str) -> int | None:
    """The newest commit by another program whose rows the table has; None once the table proves to be the asset's."""
    foreign: int | None = None
    has_newest, oldest = False, past.head.version + 1
    for commit in past.back():
        oldest = commit.version
        if _claims(commit, asset):
            return None
        if not has_newest and not commit.is_quiet:
            has_newest, foreign = True, None if commit.leaves_nothing else commit.version
    # Own commits may have been cleaned up; if they wrote other partitions, their epochs are under other ids.
    return None if oldest > 0 and past.head.properties.get(OWNER) == asset else foreign


def _newest(past: Past, asset: str, partitions: tuple[str, ...]) -> Cursor:
    """The cursor of the whole table or of partitions, from the newest commit that wrote all of them.

    Past a commit that hides the position, the walk back continues only to find out whether the asset has ever written
    the table, because a table of another program must not be replaced.
    """
    for commit, generation in standing_by_generation(past):
        mark = mark_of(commit, asset)
        if mark is not None and mark.covers(partitions):
            return cursor_in(past, commit, mark, generation)
        if mark is not None and not partitions:
            reason = f"version {commit.version} wrote only {', '.join(mark.partitions)}: the asset had partitions then"
            return Lost(reason, generation or Generation.after(commit.version))
        lost = lost_at(commit, generation)
        if lost is not None and (
            commit.is_first or any(_claims(c, asset, partitions) for c in past.back(commit.version))
        ):
            return lost
    return Unmarked.of(past, asset).cursor(partitions)


def lost_at(commit: Commit, generation: Generation | None) -> Lost | None:
    """The cursor of a table, or of a partition, whose position this commit hides; None if the commit hides none."""
    if commit.is_first:
        clone = "the table is a clone, and a clone does not carry the position"
        return Lost(clone, generation or FIRST_GENERATION) if commit.operation == "CLONE" else None
    if commit.operation == "RESTORE":
        reason = f"version {commit.version} restored the table by a timestamp, so its log does not say to which version"
    elif commit.empties:
        reason = f"version {commit.version} ({commit.operation}) replaced all its rows"
    else:
        return None
    return Lost(reason, generation or Generation.after(commit.version))


@dataclass(frozen=True, slots=True)
class Unmarked:
    """A table without a position in any commit: who wrote its rows, by the commits that its log still has.

    Args:
        past: Its commits.
        asset: The asset.
        oldest: The oldest commit that the log has.
        generation: The generation that the newest RESTORE, or emptying, began; None if there was none.
        has_own: Whether a commit claims that the asset made it.
        foreign: The newest commit by another program whose rows the table has; None if there is none.
    """

    past: Past
    asset: str
    oldest: int
    generation: Generation | None
    has_own: bool
    foreign: int | None

    @classmethod
    def of(cls, past: Past, asset: str) -> Self:
        commits = list(past.back())
        has_own = any(_claims(commit, asset) for commit in commits)
        return cls(
            past,
            asset,
            oldest=commits[-1].version if commits else past.head.version + 1,
            generation=next((Generation.after(commit.version) for commit in commits if hides(commit)), None),
            has_own=has_own,
            foreign=None if has_own else _foreign(past, asset),
        )

    @property
    def reason(self) -> str:
        return f"the log was cleaned up to version {self.oldest}, and with it the last own commit"

    def cursor(self, partitions: tuple[str, ...]) -> Cursor:
        """The cursor of the whole table, or of partitions: it depends on who wrote the rows.

        If the older commits of a table are gone, its epochs show whose it is, because epochs outlive marks. If the log
        has no epochs, rows that another program is known to have added decide: they must not be replaced.
        """
        generation, foreign = self.generation, self.foreign
        if self.oldest == 0:
            return Fresh(generation or FIRST_GENERATION) if self.has_own else Fresh(foreign=foreign)
        epoch = self.past.epoch(application_id(self.asset, partitions, FIRST_GENERATION))
        if not self.has_own and epoch == 0 and not partitions:
            return Fresh(foreign=self.oldest if foreign is None else foreign)
        if generation is None:
            # The oldest version names a generation only if no epoch is known: the next cleanup changes that version,
            # and two concurrent runs would then no longer share an application id.
            generation = Generation(Beginning.CLEANED, str(self.oldest)) if epoch is None else FIRST_GENERATION
        if not self.has_own and not epoch and foreign is not None:
            return Fresh(generation, foreign=foreign)
        reached = epoch if epoch is not None and generation == FIRST_GENERATION else 0
        return Lost(self.reason, generation, reached)


def _claims(commit: Commit, asset: str, partitions: tuple[str, ...] = ()) -> bool:
    """Whether a commit claims that the asset made it and wrote the partitions. A damaged mark counts as a claim."""
    try:
        mark = mark_of(commit, asset)
    except UnreadableLogError:
        return True
    return mark is not None and (not partitions or mark.covers(partitions))


def cursor_in(past: Past, commit: Commit, mark: Mark, generation: Generation | None) -> Cursor:
    """The cursor in `mark`, unless the table was rolled back between the plan of that commit and the commit.

    A writer that planned before a RESTORE and committed after it claims positions that the restored rows do
    not have. Delta does not stop it, because the RESTORE is older than its transaction. Its mark is therefore not
    believed. The version of that commit names the next generation, because a commit in between may use the RESTORE's.
    """
    cursor = Known.of(mark, commit.version)
    match judge_base(past.back(commit.version, mark.base), commit, mark):
        case BaseHolds():
            pass
        case StaleBase():
            cursor = replace(cursor, reads=reads_before(past, mark), stale_base=True)
        case BaseReverted(reason=reason):
            # The first commit of a table cannot lend its version: the first generation has that name.
            first = commit.is_first
            begun = Generation(Beginning.REPLANNED, mark.attempt) if first else Generation.after(commit.version)
            return Lost(reason, generation or begun)
    return cursor if generation is None else replace(cursor, generation=generation, epoch=0)


def cursor_of_each(log: Log, head: Head | None, asset: str, partitions: Collection[str]) -> Mapping[str, Cursor]:
    """The cursor of each partition by itself: how far it has read, as `find_cursor` finds it.

    The generation and the epoch are those of the position. The next commit of a partition needs those of `find_cursor`.
    """
    if head is None:
        return dict.fromkeys(partitions, Fresh())
    past = Past.of(log, head)
    cursors, missing = dict[str, Cursor](), set(partitions)
    for commit, generation in standing_by_generation(past):
        mark = mark_of(commit, asset)
        if mark is not None:
            written = missing.intersection(mark.partitions) if mark.partitions else set(missing)
            if written:
                cursors |= dict.fromkeys(written, cursor_in(past, commit, mark, generation))
                missing -= written
        if not missing:
            return cursors
        lost = lost_at(commit, generation)
        if lost is not None:
            hidden = set(missing) if commit.is_first else _claimed_before(past, commit, asset, missing)
            cursors |= dict.fromkeys(hidden, lost)
            missing -= hidden
    return cursors | _of_unmarked(Unmarked.of(past, asset), missing)


def _claimed_before(past: Past, commit: Commit, asset: str, partitions: Collection[str]) -> set[str]:
    """The partitions that the asset wrote before a commit, by the marks there; a damaged mark may name any."""
    claimed = set[str]()
    for older in past.back(commit.version):
        try:
            mark = mark_of(older, asset)
        except UnreadableLogError:
            return set(partitions)
        if mark is not None and not mark.partitions:
            return set(partitions)
        claimed.update(() if mark is None else mark.partitions)
    return claimed.intersection(partitions)


def _of_unmarked(unmarked: Unmarked, partitions: Collection[str]) -> dict[str, Cursor]:
    """The cursors of partitions without a position in any commit. An epoch is looked up only if it decides."""
    if unmarked.oldest > 0 and (unmarked.has_own or unmarked.foreign is None):
        return dict.fromkeys(partitions, Lost(unmarked.reason, FIRST_GENERATION))
    return {partition: unmarked.cursor((partition,)) for partition in partitions}

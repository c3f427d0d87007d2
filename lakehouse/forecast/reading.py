"""How one input would be read, by the decision that the run would take and the log of the source."""

from dataclasses import dataclass
from typing import assert_never

from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import Unread, unread_after
from lakehouse.declare.read import Read
from lakehouse.feed.feed_weight import telling
from lakehouse.forecast.archive import Answer, Holds, Lacks, Unknown, answer
from lakehouse.forecast.forecast import InputForecast, Reading
from lakehouse.log.log import Head, Log
from lakehouse.log.rows import NO_ROWS
from lakehouse.read.asset import Asset
from lakehouse.read.batch import capped
from lakehouse.read.decide import Continue, Decision, FirstRead, Reconcile, Refuse, may_compare, remedy
from lakehouse.read.start import start_version
from lakehouse.spark.snapshot import TableRef

SWITCH_ON = "Switch it on once: ALTER TABLE ... SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')."


@dataclass(frozen=True, slots=True)
class SourceAt:
    """A source, and where it stands.

    Args:
        name: Its name.
        log: Its log, which has been asked for the head.
        head: Where it stands.
        mapped: Which of its partitions the run reads, as a digest; None if it reads all.
        archive: The table of the archive that the input names; None if it names none.
    """

    name: str
    log: Log
    head: Head
    mapped: str | None = None
    archive: TableRef | None = None

    def whole(self, reading: Reading, why: str | None) -> InputForecast:
        """All rows are read."""
        version = self.head.version
        return InputForecast(self.name, reading, version, table_rows=self.log.live_rows(version), why=why)

    def refused(self, why: str) -> InputForecast:
        """Nothing is read."""
        return InputForecast(self.name, Reading.REFUSED, self.head.version, why=why)


def reading(asset: Asset, source: SourceAt, read: Read, decision: Decision, furthest: int, now: int) -> InputForecast:
    """How an input would be read.

    Args:
        asset: The asset that reads.
        source: The source.
        read: The options of the input.
        decision: What the run would do with the input.
        furthest: How far rows of the table may reflect the source.
        now: Milliseconds since the epoch.

    Raises:
        StartError: The read should start outside the source's history.
        UnreadableLogError: A log cannot be read.
    """
    match decision:
        case Refuse(reason=reason, remedy=cure):
            return source.refused(f"{reason}. {cure}")
        case Reconcile(reason=reason):
            return source.whole(Reading.EVERYTHING, reason)
        case FirstRead() if not source.head.keeps_feed:
            return source.refused(f"it keeps no change data feed. {SWITCH_ON}")
        case FirstRead() if read.start == "snapshot":
            return source.whole(Reading.FIRST, "the table has no position of it")
        case FirstRead():
            start = start_version(asset.name, source.name, source.log, source.head, read)
            return _on(asset, source, read, Position(source.head.table_id, start), furthest, now)
        case Continue(position=position):
            return _on(asset, source, read, position, furthest, now)
        case _:
            assert_never(decision)


def looked_up(source: SourceAt, position: Position | None) -> InputForecast:
    """How an input is read that is no `Changes`: whole, at its newest version."""
    moved = position is not None and (position.table, position.version) != (source.head.table_id, source.head.version)
    return source.whole(Reading.SNAPSHOT_INPUT, "it has moved since the last run" if moved else None)


def _on(asset: Asset, source: SourceAt, read: Read, position: Position, furthest: int, now: int) -> InputForecast:
    """The commits after a position, or what is read instead where they cannot be read."""
    backlog = unread_after(position, source.log, source.name, source.head)
    gap = backlog.gap
    if gap is None and backlog.versions and not source.head.keeps_feed:
        gap = "its change data feed was switched off"
    if gap is not None:
        return _instead(asset, source, read, backlog, gap, furthest)
    batch = capped(backlog.commits or (), read, furthest)
    upto = batch[-1].version if batch else source.head.version
    changing = [commit for commit in batch if not commit.is_quiet]
    included = [commit for commit in changing if not read.leaves_out(commit.operation, commit.user_metadata)]
    rows = sum((commit.rows for commit in included), start=NO_ROWS)
    why = None
    if not included and changing:
        why = "the commits that it leaves out are passed"
    elif not included and backlog.passed_commits_are_old(now):
        why = "log cleanup could reach the commits behind the position"
    return InputForecast(
        source.name,
        Reading.CHANGES if included else Reading.NOTHING,
        upto,
        position.version,
        len(included),
        rows,
        behind=source.head.version - upto,
        half_weighed=tuple(each.commit.version for each in telling(source.log, included) if each.growth is None),
        why=why,
    )


def _instead(asset: Asset, source: SourceAt, read: Read, backlog: Unread, gap: str, furthest: int) -> InputForecast:
    """What is read if the feed has a gap: the archive that the input names, or everything."""
    reason = gap
    if source.archive is not None:
        name = source.archive.name
        match _archived(source, source.archive, read, backlog, furthest):
            case Holds(upto=upto):
                why = f"{gap}, and the archive '{name}' holds the changes"
                begin, behind = backlog.position.version, source.head.version - upto
                return InputForecast(source.name, Reading.ARCHIVE, upto, begin, behind=behind, why=why)
            case Lacks():
                reason = f"{gap}, and the archive '{name}' does not hold the changes either"
            case Unknown():
                reason = f"{gap}; unless the archive '{name}' holds the changes, which only Spark can tell"
            case str(why):
                reason = f"{gap}, and the archive '{name}' is not read because {why}"
    if may_compare(asset, read):
        return source.whole(Reading.EVERYTHING, reason)
    return source.refused(f"{reason}. {remedy(asset, read)}")


def _archived(source: SourceAt, archive: TableRef, read: Read, backlog: Unread, furthest: int) -> Answer | str:
    """What the archive answers; why the run does not ask it, as half a sentence, if it does not."""
    if read.excludes:
        return "the input leaves commits out"
    if backlog.commits is None and source.head.maps_columns:
        return "columns of the source may have changed their names"
    archived = answer(archive, source.name, source.log, source.head, backlog.position, source.mapped)
    return Lacks() if isinstance(archived, Holds) and archived.upto < furthest else archived

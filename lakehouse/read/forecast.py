"""What the next run would read, and why, by the logs alone."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, TypeAlias, assert_never

from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import Unread, unread_after
from lakehouse.delta.commit_info import NO_ROWS, Rows, count_of
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.log import Head, Log, VersionRange
from lakehouse.delta.read_options import Read
from lakehouse.read.archive import held_upto
from lakehouse.read.asset import Asset
from lakehouse.read.changes import LOG_NAMES
from lakehouse.read.decide import Continue, Decision, FirstRead, Reconcile, Refuse, may_compare, remedy
from lakehouse.read.feed_trust import SourceState, telling
from lakehouse.read.ranges import cap, start_version
from lakehouse.spark.table_version import TableRef


class Reading(Enum):
    """How an input would be read."""

    NOTHING = "nothing, because no row changed"
    CHANGES = "the changes"
    ARCHIVE = "the archived changes"
    FIRST = "all rows, as a first read"
    EVERYTHING = "all rows, compared with the table"
    SNAPSHOT_INPUT = "all rows, as a snapshot"
    REFUSED = "refused"


class RunEffect(Enum):
    """What would become of the run."""

    WRITES = "writes"
    RECORDS = "records its position"
    NOTHING = "has nothing to do"
    REFUSED = "is refused"


@dataclass(frozen=True, slots=True)
class InputForecast:
    """How one input would be read.

    Args:
        source: The source's name.
        reading: How.
        upto: The version that the run would read up to, inclusive.
        after: The version after which it would begin; None if it would read all rows.
        commits: How many commits that changed rows it would read of the feed.
        rows: What those commits did to rows, by the log; None if it would not read the feed.
        table_rows: How many rows the source has, if all of them would be read and its log says so; else None.
        behind: How many versions a limit of the input leaves to later runs.
        half_weighed: The versions whose changes can be weighed by their updates alone, because the log does not say how
            many rows their files hold.
        why: Why it would not just read the changes, as the second half of a sentence; what to do, if it is refused.
    """

    source: str
    reading: Reading
    upto: int
    after: int | None = None
    commits: int = 0
    rows: Rows | None = None
    table_rows: int | None = None
    behind: int = 0
    half_weighed: tuple[int, ...] = ()
    why: str | None = None

    def __str__(self) -> str:
        parts = [f"{self.source}: {self.reading.value}"]
        if self.reading is Reading.NOTHING and self.after is not None:
            parts.append(f" after version {self.after}, up to {self.upto}" if self.after < self.upto else "")
        elif self.after is not None:
            parts.append(f" of versions ({self.after}, {self.upto}]")
        elif self.reading is not Reading.REFUSED:
            parts.append(f" at version {self.upto}")
        if self.rows is not None and self.reading is Reading.CHANGES:
            changed = "" if self.rows.images is None else f", {self.rows} by the log"
            parts.append(f" ({count_of(self.commits, 'commit')}{changed})")
        if self.table_rows is not None:
            parts.append(f" ({count_of(self.table_rows, 'row')})")
        if self.behind:
            parts.append(f"; {count_of(self.behind, 'version')} left to later runs")
        if self.half_weighed:
            which, more = ", ".join(map(str, self.half_weighed[:3])), ", ..." if len(self.half_weighed) > 3 else ""
            parts.append(f"; of versions {which}{more} the log does not say how many rows their files hold, ")
            parts.append("so only the images of updates are counted")
        if self.why is not None:
            parts.append(f". Because {self.why}" if self.reading is not Reading.REFUSED else f": {self.why}")
        return "".join(parts).rstrip(".") + "."


@dataclass(frozen=True, slots=True)
class WriteForecast:
    """How the result would be written.

    Args:
        kind: The write that the asset returns.
        strategy: What would be done to the table.
        key: The key columns of the table; empty if it has none.
        planned: The statement that a plan against the table has chosen; None if nothing was planned.
    """

    kind: str
    strategy: str
    key: tuple[str, ...] = ()
    planned: str | None = None

    def __str__(self) -> str:
        by = f" by key ({', '.join(self.key)})" if self.key else ""
        planned = f" Planned against the table: {self.planned}." if self.planned is not None else ""
        return f"{self.kind}{by}: {self.strategy}.{planned}"


@dataclass(frozen=True, slots=True)
class Forecast:
    """What the next run of an asset would do, and why; nothing is written.

    Args:
        asset: The asset's name.
        partition: The partition; None if the asset has none.
        version: The version of its table; None if there is no table.
        verdict: What would become of the run.
        why: Why, as a sentence.
        inputs: How each input would be read.
        write: How the result would be written; None if the run is refused before that.
    """

    asset: str
    partition: str | None
    version: int | None
    verdict: RunEffect
    why: str
    inputs: tuple[InputForecast, ...] = ()
    write: WriteForecast | None = None

    def __str__(self) -> str:
        of = self.asset if self.partition is None else f"{self.asset}, partition {self.partition},"
        at = "there is no table yet" if self.version is None else f"its table is at version {self.version}"
        lines = [f"The next run of {of} {self.verdict.value} ({at}). {self.why}"]
        lines += [f"  reads  {each}" for each in self.inputs]
        if self.write is not None:
            lines.append(f"  writes {self.write}")
        return "\n".join(lines)

    def as_document(self) -> dict[str, Any]:
        """The forecast as dictionaries, lists, texts and numbers."""
        inputs = [{**asdict(each), "reading": each.reading.name.lower()} for each in self.inputs]
        return {**asdict(self), "verdict": self.verdict.name.lower(), "inputs": inputs}


@dataclass(frozen=True, slots=True)
class Holds:
    """The archive holds every change after the position, up to a version of the source."""

    upto: int


@dataclass(frozen=True, slots=True)
class Lacks:
    """The archive cannot answer for the changes after the position."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """Only Spark can tell."""


Answer: TypeAlias = Holds | Lacks | Unknown


def answer(archive: TableRef, source: str, log: Log, head: Head, position: Position, mapped: str | None) -> Answer:
    """What an archive answers for the changes of a source after a position.

    Args:
        archive: The table of the archive.
        source: The source's name.
        log: Its log.
        head: Where it stands.
        position: How far the table has read it.
        mapped: Which of its partitions a run reads, as a digest; None if it reads all.

    Raises:
        UnreadableLogError: The log of the archive cannot be read.
    """
    if archive.files is None or archive.why_only_spark() is not None:
        return Unknown()
    own = FileLog(archive.files, archive.name)
    own_head = own.head()
    range_ = VersionRange(position.version, head.version)
    upto = held_upto(archive.name, own, own_head, SourceState(source, head.table_id, head.version, mapped), range_)
    if own_head is None or upto is None:
        return Lacks()
    columns, source_columns = own.file_schema(own_head.version), log.file_schema(upto)
    if columns is None or source_columns is None:
        return Unknown()
    return Holds(upto) if columns.types.keys() == source_columns.types.keys() | set(LOG_NAMES.values()) else Lacks()


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

    def refuse(self, why: str) -> InputForecast:
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
            return source.refuse(f"{reason}. {cure}")
        case Reconcile(reason=reason):
            return source.whole(Reading.EVERYTHING, reason)
        case FirstRead() if not source.head.keeps_feed:
            return source.refuse(f"it keeps no change data feed. {SWITCH_ON}")
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
    batch = cap(backlog.commits or (), read, furthest)
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
        match _answer_of_archive(source, source.archive, read, backlog, furthest):
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
    return source.refuse(f"{reason}. {remedy(asset, read)}")


def _answer_of_archive(source: SourceAt, archive: TableRef, read: Read, backlog: Unread, furthest: int) -> Answer | str:
    """What the archive answers; why the run does not ask it, as half a sentence, if it does not."""
    if read.excludes:
        return "the input leaves commits out"
    if backlog.commits is None and source.head.maps_columns:
        return "columns of the source may have changed their names"
    archived = answer(archive, source.name, source.log, source.head, backlog.position, source.mapped)
    return Lacks() if isinstance(archived, Holds) and archived.upto < furthest else archived

"""What the next run would read, and why, by the logs alone."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any

from lakehouse.cursor.mark import Position, rows_of
from lakehouse.cursor.unread import why_passed
from lakehouse.delta.commit_info import NO_ROWS, Rows, count_of
from lakehouse.read.decide import Reconcile, Refuse
from lakehouse.read.feed_trust import Source, telling
from lakehouse.read.read_plan import Batch, FirstRead, LacksFeed, ReadArchive, ReadFeed, ReadNothing, ReadPlan


class Reading(Enum):
    """How an input would be read."""

    NOTHING = "nothing, because no row changed"
    CHANGES = "the changes"
    ARCHIVE = "the archived changes"
    FIRST = "all rows, as a first read"
    EVERYTHING = "all rows"
    SNAPSHOT_INPUT = "all rows, as a snapshot"
    REFUSED = "refused"


WHOLE = (Reading.FIRST, Reading.EVERYTHING)
"""The ways to read all rows of an input that is followed."""


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
        reading: How it would be read.
        upto: The version that the run would read up to, inclusive.
        after: The version after which it would begin; None if it would read all rows.
        commits: How many commits that changed rows the run would read from the feed.
        rows: What those commits did to rows, by the log; None if it would not read the feed.
        table_rows: How many rows the source has, if all of them would be read and its log shows it; else None.
        bytes: About how many bytes the run would read, by the average size of a row; None if the log does not show it.
        behind: How many versions a limit of the input leaves to later runs.
        half_weighed: The versions whose changes can be weighed only by their updates, because the log does not show how
            many rows their files hold.
        why: Why the changes alone would not be read, as the second half of a sentence; for a refusal also what to do.
    """

    source: str
    reading: Reading
    upto: int
    after: int | None = None
    commits: int = 0
    rows: Rows | None = None
    table_rows: int | None = None
    bytes: int | None = None
    behind: int = 0
    half_weighed: tuple[int, ...] = ()
    why: str | None = None

    @property
    def rows_read(self) -> int | None:
        """How many rows would be read, by the log; None if the log does not show it."""
        match self.reading:
            case Reading.NOTHING | Reading.REFUSED:
                return 0
            case Reading.CHANGES:
                return None if self.rows is None else self.rows.images
            case Reading.ARCHIVE | Reading.FIRST | Reading.EVERYTHING | Reading.SNAPSHOT_INPUT:
                return self.table_rows

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
        broken: Which expectations the planned rows break, as sentences.
        followed: How a view follows its sources, and why not by sums, as sentences.
        doubts: Why the rows may differ from those of a recompute, as sentences.
    """

    kind: str
    strategy: str
    key: tuple[str, ...] = ()
    planned: str | None = None
    broken: tuple[str, ...] = ()
    followed: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f" by key ({', '.join(self.key)})" if self.key else ""
        planned = f" Planned against the table: {self.planned}." if self.planned is not None else ""
        first = f"{self.kind}{by}: {self.strategy}.{planned}"
        return "\n    ".join((first, *self.broken, *self.followed, *self.doubts))


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


SWITCH_ON = "Switch it on once: ALTER TABLE ... SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')."


def forecast_input(plan: ReadPlan, source: Source, now: int) -> InputForecast:
    """How an input would be read.

    Raises:
        UnreadableLogError: A log cannot be read.
    """
    match plan:
        case LacksFeed():
            return refusal_of(source, f"it keeps no change data feed. {SWITCH_ON}")
        case Refuse(reason=reason, remedy=cure):
            return refusal_of(source, f"{reason}. {cure}")
        case Reconcile(reason=reason):
            return read_whole(source, Reading.EVERYTHING, reason)
        case FirstRead():
            return read_whole(source, Reading.FIRST, "the table has no position of it")
        case ReadArchive(archived=archived, gap=gap):
            why = f"{gap}, and the archive '{archived.name}' holds the changes"
            upto, behind = archived.upto, source.head.version - archived.upto
            return InputForecast(_name(source), Reading.ARCHIVE, upto, archived.range.after, behind=behind, why=why)
        case ReadNothing(batch=batch):
            return _of_batch(source, Reading.NOTHING, batch, _why_recorded(batch, now))
        case ReadFeed(batch=batch):
            return _of_batch(source, Reading.CHANGES, batch, None)


def looked_up(source: Source, position: Position | None) -> InputForecast:
    """How a snapshot input would be read: whole, at one version."""
    moved = position is not None and (position.table, position.version) != (source.at.table_id, source.at.version)
    return read_whole(source, Reading.SNAPSHOT_INPUT, "it has moved since the last run" if moved else None)


def read_whole(source: Source, reading: Reading, why: str | None) -> InputForecast:
    """An input whose rows are all read."""
    version = source.at.version
    rows = source.log.live_rows(version)
    return InputForecast(_name(source), reading, version, table_rows=rows, bytes=_bytes(source, rows), why=why)


def refusal_of(source: Source, why: str) -> InputForecast:
    """An input because of which the run is refused."""
    return InputForecast(_name(source), Reading.REFUSED, source.head.version, why=why)


def _bytes(source: Source, rows: int | None) -> int | None:
    """About how many bytes this many rows of a source have."""
    size = None if rows is None else source.log.size()
    return None if rows is None or size is None else round(rows * size.bytes / max(size.rows, 1))


def _name(source: Source) -> str:
    return source.at.ref.name


def _of_batch(source: Source, reading: Reading, batch: Batch, why: str | None) -> InputForecast:
    weighed = telling(source.log, batch.changing)
    rows = sum((rows_of(commit) for commit in batch.changing), start=NO_ROWS)
    return InputForecast(
        _name(source),
        reading,
        batch.range.upto,
        batch.range.after,
        len(batch.changing),
        rows,
        bytes=_bytes(source, rows.images),
        behind=batch.behind,
        half_weighed=tuple(each.commit.version for each in weighed if each.growth is None),
        why=why,
    )


def _why_recorded(batch: Batch, now: int) -> str | None:
    """Why the position is recorded although no row is read; None if it need not be."""
    if any(not commit.is_quiet for commit in batch.commits):
        return "the commits that it leaves out are passed"
    return why_passed(batch.commits + batch.later, now)

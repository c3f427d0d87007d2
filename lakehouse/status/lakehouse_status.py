"""Where a whole lakehouse stands: the one answer for `lakehouse status`, in a terminal, as JSON and as a page."""

from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TYPE_CHECKING

from lakehouse.cursor.digests import Code
from lakehouse.cursor.mark import Mark, mark_in
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.log import Size
from lakehouse.errors import in_short
from lakehouse.status.table_status import TableStatus, disagreements, table_statuses
from lakehouse.upkeep.due import Rules, Task, past_upkeep, upkeep_of
from lakehouse.upkeep.readers import HeldBack, Reader, Readers, TablePast, past_of, readers_of

if TYPE_CHECKING:
    from lakehouse.delta.file_log import FileLog


@dataclass(frozen=True, slots=True)
class LostAttempts:
    """Attempts to commit that a writer of a table lost to another writer, and repeated.

    Args:
        writer: The asset whose runs lost them.
        rival: Who had committed first: an asset, an operation of upkeep, or another program's operation.
        attempts: How many attempts.
        last: When the writer committed after the last of them, in milliseconds since the epoch.
    """

    writer: str
    rival: str
    attempts: int
    last: int


def lost_attempts(newest: Sequence[Commit], since: int) -> tuple[LostAttempts, ...]:
    """The attempts that the writers of the newest commits lost since a time, by writer and rival."""
    lost = dict[tuple[str, int], tuple[Mark, int]]()  # a run's commit, by the run and the version of the rival's commit
    commits = {commit.version: commit for commit in newest}
    for commit in newest:
        mark = mark_in(commit)
        if mark is not None and commit.timestamp >= since:  # a second commit of a run repeats what the run had lost
            lost |= {(mark.run, rival): (mark, commit.timestamp) for rival in mark.lost_to}
    pairs = dict[tuple[str, str], list[int]]()
    for (_, version), (mark, at) in lost.items():
        pairs.setdefault((mark.asset, _writer(commits.get(version), mark)), []).append(at)
    return tuple(LostAttempts(*pair, len(times), max(times)) for pair, times in sorted(pairs.items()))


def _writer(commit: Commit | None, loser: Mark) -> str:
    """Who made a commit, from the view of the writer that lost to it."""
    if commit is None:
        return "a commit that is no longer looked at"
    mark = mark_in(commit)
    if mark is None:
        return commit.operation if commit.is_quiet else f"another program's {commit.operation}"
    return "another run of it" if mark.asset == loser.asset else mark.asset


@dataclass(frozen=True, slots=True)
class ReaderLook:
    """A reader, and what it holds back."""

    reader: Reader
    back: HeldBack


def reader_looks(readers: Readers, log: "FileLog") -> tuple[ReaderLook, ...]:
    """What each reader holds back; the files in the log are looked at only if a reader may hold some back.

    A file that upkeep has removed is not held back, so commits that upkeep has passed are not read again.
    """
    head, past = readers.head, TablePast((), {})
    if readers.may_hold_back:
        past = past_of(log.entries_after(past_upkeep(log, head).freed_upto, head.version))
    return tuple(ReaderLook(reader, readers.held_by(reader, past)) for reader in readers.readers)


@dataclass(frozen=True, slots=True)
class Holder:
    """A reader that holds files back.

    Args:
        table: The table whose files it holds back.
        reader: The reader's name.
        files: How many files it holds back.
        bytes: How large they are.
        until: When its limit ends, in milliseconds since the epoch; None if it holds by time alone.
    """

    table: str
    reader: str
    files: int
    bytes: int
    until: int | None


COMMITS_TOLD = 200
"""How many of the newest commits of a table are read to find lost attempts and its past files."""
RECENT = timedelta(days=7)
"""For how long a lost attempt is shown."""
_THREADS = 16
"""How many logs are read at the same time, at most."""


@dataclass(frozen=True, slots=True)
class Declarations:
    """What definitions declare and no log records; empty where no definitions are loaded.

    Args:
        codes: The code of each table that is compared if its code changed, by the table's name.
        readers: The readers of each table that a spec names, with the limit of each.
        unreadable: For each table, the tables that follow it and whose logs only Spark can read, each with the reason.
        written: The tables that assets write, the only ones with upkeep; None if these are the tables that have a mark.
        agreeing: The tables whose inputs are to agree.
    """

    codes: Mapping[str, Code] = field(default_factory=dict[str, Code])
    readers: Mapping[str, Mapping[str, timedelta]] = field(default_factory=dict[str, Mapping[str, timedelta]])
    unreadable: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    written: Collection[str] | None = None
    agreeing: Collection[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TableReport:
    """What is known of one table.

    Args:
        status: Where it stands.
        size: What its files hold; None if its log does not record it.
        readers: Its readers, and what each holds back.
        due: The upkeep that is due, by its newest commits.
        lost: The attempts that its writers have lost lately.
        problem: Why its readers or its upkeep are not known; None if they are.
    """

    status: TableStatus
    size: Size | None = None
    readers: tuple[ReaderLook, ...] = ()
    due: tuple[Task, ...] = ()
    lost: tuple[LostAttempts, ...] = ()
    problem: str | None = None


@dataclass(frozen=True, slots=True)
class LakehouseStatus:
    """Where the tables of a lakehouse stand."""

    now: int
    tables: tuple[TableReport, ...]

    @property
    def statuses(self) -> tuple[TableStatus, ...]:
        return tuple(table.status for table in self.tables)

    @property
    def holders(self) -> tuple[Holder, ...]:
        """The readers that hold something back, table by table."""
        return tuple(
            Holder(table.status.name, look.reader.name, look.back.files, look.back.bytes, look.reader.until)
            for table in self.tables
            for look in table.readers
            if look.back.files
        )


def lakehouse_status(
    logs: Mapping[str, "FileLog"], now: int, declarations: Declarations | None = None
) -> LakehouseStatus:
    """Where each existing table stands, what its readers need, which upkeep is due, what its writers lost.

    A log that cannot be read has no effect on the reports of other tables.
    """
    defined = declarations or Declarations()
    statuses = table_statuses(logs, defined.codes)
    disagreeing = dict(disagreements(statuses, logs, defined.agreeing))
    statuses = [replace(each, disagreement=disagreeing.get(each.name)) for each in statuses]
    odd = {status.name for status in statuses if status.problem is not None}
    following = dict[str, set[str]]()
    for status in statuses:
        for reading in status.reads:
            following.setdefault(reading.source, set()).add(status.name)

    def look(status: TableStatus) -> TableReport:
        log = logs[status.name]
        if status.version is None:
            return TableReport(status)
        names = {name: logs[name] for name in sorted({status.name} | odd | following.get(status.name, set()))}
        try:
            readers = readers_of(
                status.name, names, now, defined.readers.get(status.name), defined.unreadable.get(status.name)
            )
            return TableReport(status) if readers is None else _report(status, log, readers, defined.written)
        except Exception as error:  # one log may be damaged, and where its table stands is still known
            return TableReport(status, problem=in_short(error))

    with ThreadPoolExecutor(_THREADS) as threads:
        return LakehouseStatus(now, tuple(threads.map(look, statuses)))


def _report(status: TableStatus, log: "FileLog", readers: Readers, written: Collection[str] | None) -> TableReport:
    version, recent = readers.head.version, readers.now - int(RECENT.total_seconds() * 1000)
    commits = [*log.commits(version, max(0, version + 1 - COMMITS_TOLD))]
    is_kept = status.run is not None if written is None else status.name in written
    # No past file is removed while it is younger than the time travel that the table promises.
    is_young = not commits or commits[-1].timestamp >= readers.promised_since
    oldest = version + 1 if is_young else commits[-1].version
    upkeep = upkeep_of(log, readers, Rules(), oldest) if is_kept else None
    due = () if upkeep is None else upkeep.tasks
    return TableReport(status, log.size(), reader_looks(readers, log), due, lost_attempts(commits, recent))

"""Which version of each table a branch clones, and the marks with which the clones go on: from logs alone (ADR 52).

A clone is another table, and its versions begin at 0, so a position in the cloned table means nothing in the clone. A
position is carried over only if the clone of the source holds the rows that were read, under the same columns. Every
other position stays unchanged: the next run finds another table in the place of the source, and acts accordingly.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, takewhile

from lakehouse.cursor.beside import why_quarantine_differs
from lakehouse.cursor.cursor import Known
from lakehouse.cursor.cuts import greatest_cut
from lakehouse.cursor.find import cursor_of_each, find_cursor
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position, mark_in
from lakehouse.cursor.since_base import why_other_rows
from lakehouse.cursor.standings import Standings
from lakehouse.cursor.unread import why_another_past
from lakehouse.delta.log import Head, Log, commits_between, feed_retention

MOST_PARTITIONS = 30
"""At most this many partitions of a table go on, those written last. Each takes a commit; the others are compared."""


@dataclass(frozen=True, slots=True)
class CloneAt:
    """The clone of a table.

    Args:
        source: The version that was cloned.
        table_id: The id of the clone.
        version: The last version of the clone that holds the cloned rows.
        of: The id of the table that was cloned.
    """

    source: int
    table_id: str
    version: int
    of: str


def oldest_clonable(log: Log, head: Head, now: int) -> int:
    """The oldest version that Delta still reads: except for the newest, the version itself must be young enough.

    Delta: `SnapshotManagement`, time travel beyond `delta.deletedFileRetentionDuration`.
    """
    since = now - int(feed_retention(head).total_seconds() * 1000)
    young = takewhile(lambda commit: commit.timestamp >= since, log.commits(head.version))
    return min((commit.version for commit in young), default=head.version)


def versions_to_clone(
    standings: Standings, names: Collection[str], now: int, cloned: Mapping[str, int]
) -> Mapping[str, int]:
    """The version of each table that a branch clones: the one that its readers have read, else that of the newest cut.

    So a reader and its source go together wherever versions that go together can still be cloned.

    Args:
        standings: What tables stand for.
        names: The tables.
        now: The present, in milliseconds since the epoch.
        cloned: The versions that the branch has cloned already.
    """
    opened = {
        name: (log, head)
        for name in names
        if (head := standings.head(name)) is not None and (log := standings.log(name)) is not None
    }
    oldest = {name: oldest_clonable(log, head, now) for name, (log, head) in opened.items()}
    versions = {name: head.version for name, (_, head) in opened.items()}
    for group in _groups(standings, versions):
        versions |= greatest_cut(standings.exact, {name: versions[name] for name in group}, oldest, {}) or {}
    versions |= {name: version for name, version in cloned.items() if name in versions}
    read = dict[str, list[int]]()
    for name in chain.from_iterable(reversed(levels(standings, versions))):
        log, head = opened[name]
        if name in read and name not in cloned:
            versions[name] = max(read[name])
        for cursor in cursors_at(log, head, name, versions[name], by_partition=name in standings.ways.partitioned):
            for source, at in cursor.reads.items():
                _, newest = opened.get(source, (None, None))
                if newest is None or at.table != newest.table_id:
                    continue
                if oldest[source] <= at.version <= newest.version:
                    read.setdefault(source, []).append(at.version)
    return versions


def _groups(standings: Standings, names: Collection[str]) -> Iterator[set[str]]:
    """The tables that share sources, in groups; without tables for which it is not known what they stand for."""
    groups = list[tuple[set[str], set[str]]]()
    for name in names:
        newest = standings.newest(name)
        if newest is None or newest.unknown is not None:
            continue
        group = {name}, set(standings.ways.sources(name))
        for other in [other for other in groups if other[1] & group[1]]:
            groups.remove(other)
            group = group[0] | other[0], group[1] | other[1]
        groups.append(group)
    return (tables for tables, _ in groups)


def levels(standings: Standings, names: Collection[str]) -> list[list[str]]:
    """Tables in groups: each table comes after the tables that it reads, or with them if they read in a circle."""
    before = standings.ways.before
    counts = {name: len(before(name) & set(names)) for name in names}
    return [sorted(name for name in names if counts[name] == count) for count in sorted({*counts.values()})]


def cursors_at(log: Log, head: Head, asset: str, version: int, *, by_partition: bool) -> tuple[Known, ...]:
    """How far a version of a table has read, for each partition that has a position of its own; empty if unknown."""
    at = replace(head, version=version)
    if not by_partition:
        cursor = find_cursor(log, at, asset)
        return (cursor,) if isinstance(cursor, Known) else ()
    partitions = dict[str, None]()
    for commit in log.commits(version):
        mark = mark_in(commit)
        partitions |= dict.fromkeys(mark.partitions if mark is not None and mark.asset == asset else ())
        if len(partitions) >= MOST_PARTITIONS:
            break
    cursors = cursor_of_each(log, at, asset, [*partitions][:MOST_PARTITIONS])
    each = ((key, cursor) for key, cursor in cursors.items() if isinstance(cursor, Known))
    return tuple(replace(cursor, mark=replace(cursor.mark, partitions=(key,))) for key, cursor in each)


def why_none_carried(log: Log, head: Head, cursor: Known, version: int) -> str | None:
    """Why no position of a version of a table may go on, as a clause; None if its rows are as its runs left them.

    The clone would not show the commits of another program, after which changes must not be added to sums.
    """
    if cursor.stale_base:
        return "another writer committed just before its last run"
    return why_other_rows(log, replace(head, version=version), cursor, cursor.mark.partitions)


def why_not_carried(log: Log, head: Head, table: str, position: Position, clone: CloneAt) -> str | None:
    """Why the clone of a source is not what was read at a position, as a clause; None if the rows are the same."""
    version = clone.source
    if not position.table == clone.of == head.table_id:
        return f"another table has taken the place of {table}"
    if max(position.version, version) > head.version or why_another_past(position, log) is not None:
        return f"{table} was restored from a backup"
    if position.version == version:
        return None
    first, last = sorted((position.version, version))
    commits = commits_between(log, table, first, last)
    if commits is None or not all(commit.is_quiet for commit in commits):
        return f"it has read version {position.version} of {table}, and version {version} is cloned"
    then, now = log.file_schema(position.version), log.file_schema(version)
    if then is None or now is None or (then.fields, then.partition_columns) != (now.fields, now.partition_columns):
        return f"the columns of {table} have changed since"
    return None


def goes_with(log: Log, head: Head, quarantine: str, cursor: Known, clone: CloneAt) -> bool:
    """Whether the clone of a quarantine is the one that goes with a position of its table."""
    at = replace(head, version=clone.source)
    why = why_quarantine_differs(log, at, quarantine, cursor, cursor.mark.partitions)
    return clone.of == head.table_id and why is None


def mark_of_clone(
    cursor: Known, carried: Mapping[str, CloneAt], quarantine: CloneAt | None, run: str, base: int
) -> Mark:
    """The mark with which a clone goes on from where the cloned version stood.

    The clone of an archive holds rows under versions of the source that the archive followed, and from now on under
    versions of the source's clone. The two are distinct only above the former versions, so it answers only there.

    Args:
        cursor: How far the cloned version has read.
        carried: The clones of the sources whose rows are those that were read.
        quarantine: The clone of the quarantine that goes with it; None if there is none.
        run: What the mark names as its run.
        base: The version of the clone before the mark.
    """
    reads = {
        source: replace(at, table=carried[source].table_id, version=carried[source].version, commit=None)
        if source in carried
        else at
        for source, at in cursor.reads.items()
    }
    mark = cursor.again(run, f"{run}/{base}", base)
    if quarantine is not None:
        mark = replace(mark, beside=quarantine.version, quarantine=quarantine.table_id)
    begins = None if mark.log_after is None else max(at.version for at in cursor.reads.values())
    return replace(mark, generation=FIRST_GENERATION, epoch=1, reads=reads, log_after=begins)

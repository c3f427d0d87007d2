"""How far a table is behind its sources, in versions and time, and until when it must have read them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from math import inf

from lakehouse.cursor.unread import OTHER_PARTITIONS, Unbegun, Unread
from lakehouse.dagster.definitions.findings import SHOWN, Figure, Finding, Grade, lasting
from lakehouse.dagster.follow.followed import Backlogs, Followed, FollowedSource, Logs
from lakehouse.dagster.follow.partitions import SourcePartitions
from lakehouse.delta.commit_info import count_of
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.log import FILE_RETENTION, LOG_RETENTION, feed_retention
from lakehouse.upkeep.registration import limit_of


@dataclass(frozen=True, slots=True)
class WithoutPosition:
    """A partition that has no position of a source, so that its next run reads all of its rows there.

    Args:
        partition: The partition key.
        backlog: The source, and why there is no position of it.
        since: When the oldest change of its rows was committed, in milliseconds since the epoch; None if the log of the
            source does not show it.
    """

    partition: str
    backlog: Unbegun
    since: int | None


_REMEDY = (
    f"Materialize it before that, or let the source keep more (`lakehouse readers --register`, or {LOG_RETENTION} and "
    f"{FILE_RETENTION}); afterwards a run compares everything, or fails if it may not."
)


def up_to_date(
    asset: str,
    followed: Sequence[Unread],
    snapshots: Sequence[Unread],
    most: timedelta,
    margin: timedelta,
    now: int,
    unbegun: Sequence[WithoutPosition] = (),
) -> Finding:
    """A table is up to date if no change has waited for too long, and the next run can read on, commit by commit.

    Args:
        asset: The asset's name.
        followed: What it has not read of each source; of a partitioned table, the partition that is worst off.
        snapshots: What has changed since its last run in each input that is read whole.
        most: How old a change may be before it is read.
        margin: How long before a source may remove a change the check warns.
        now: Milliseconds since the epoch.
        unbegun: The partitions that have no position of a source, the worst first.
    """
    sources = (*followed, *snapshots)
    gaps = {source.source: why for source in followed if (why := _broken(source)) is not None}
    ages = {source.source: _age(source, now) for source in sources}
    deadlines = {source.source: at for source in followed if (at := _deadline(asset, source)) is not None}
    longest = max([*ages.values(), *(_seconds_waited(partition, now) for partition in unbegun)], default=0.0)
    waiting = [source for source in sources if source.source not in gaps and (source.versions or source.gap)]
    first = min(deadlines, key=deadlines.__getitem__, default=None)
    remaining = None if first is None else (deadlines[first] - now) / 1000
    is_late, is_near = longest > most.total_seconds(), remaining is not None and remaining <= margin.total_seconds()
    clauses = [*_not_read(waiting, ages), *_gaps(gaps), *_no_position(unbegun, now)]
    sentence = f"'{asset}' {'. It '.join(clauses or ['has read every change of its sources'])}."
    if is_late:
        sentence += f" The limit is {lasting(most.total_seconds())}: materialize it, or see why its runs fail."
    if is_near and remaining is not None:
        time = f"in {lasting(remaining)}" if remaining > 0 else "with its next cleanup"
        sentence += f" '{first}' may remove what is unread {time}. {_REMEDY}"
    is_wrong = is_late or bool(gaps) or (remaining is not None and remaining <= 0)
    warns = is_near or bool(unbegun) or any(source.gap for source in waiting)
    figures: dict[str, Figure] = {
        "versions behind": sum(source.versions for source in sources),
        "seconds behind": round(longest),
        "sources with a gap": len(gaps),
    }
    figures |= {} if remaining is None else {"hours left": round(remaining / 3600, 1)}
    return Finding(
        Grade.FAILED if is_wrong else Grade.WARNS if warns else Grade.PASSED,
        sentence,
        figures | ({"partitions without a position": len(unbegun)} if unbegun else {}),
        (
            *(_record(source, ages[source.source], deadlines, gaps) for source in sources),
            *(_record_without(partition, now) for partition in unbegun[:SHOWN]),
        ),
    )


def _not_read(waiting: Sequence[Unread], ages: Mapping[str, float]) -> Iterator[str]:
    if waiting:
        yield f"has not read {', '.join(_unread(source, ages[source.source]) for source in waiting)}"


def _gaps(gaps: Mapping[str, str]) -> Iterator[str]:
    if gaps:
        listed = "; ".join(f"'{name}': {why}" for name, why in gaps.items())
        yield f"cannot read on by the feed ({listed}): its next run compares everything, or fails if it may not"


def _no_position(unbegun: Sequence[WithoutPosition], now: int) -> Iterator[str]:
    """For each source, the partitions without a position of it, as a clause that names the worst."""
    for source in dict.fromkeys(partition.backlog.source for partition in unbegun):
        partitions = [partition for partition in unbegun if partition.backlog.source == source]
        worst, others = partitions[0], len(partitions) - 1
        more = f" and {others:,} more" if others else ""
        why = (
            f"{worst.backlog.reason}, and the log no longer shows when its rows were written"
            if worst.since is None
            else f"oldest change {lasting(_seconds_waited(worst, now))} ago: {worst.backlog.reason}"
        )
        yield f"has no position of '{source}' for partition {worst.partition}{more} ({why})"


def _broken(source: Unread) -> str | None:
    if source.gap is None and not source.head.keeps_feed:
        return "its change data feed was switched off"
    return None if source.gap == OTHER_PARTITIONS else source.gap  # then the next run reads these, and nothing is lost


def _record(source: Unread, age: float, deadlines: Mapping[str, int], gaps: Mapping[str, str]) -> dict[str, Figure]:
    at = deadlines.get(source.source)
    return {
        "source": source.source,
        "read": source.position.version,
        "newest": source.head.version,
        "unread versions": source.versions,
        "seconds behind": round(age),
        "read it before": "" if at is None else datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="minutes"),
        "feed": gaps.get(source.source, "contiguous"),
    }


def _record_without(partition: WithoutPosition, now: int) -> dict[str, Figure]:
    return {
        "source": f"{partition.backlog.source}, partition {partition.partition}",
        "read": "no position",
        "newest": partition.backlog.head.version,
        "unread versions": "all",
        "seconds behind": "unknown" if partition.since is None else round(_seconds_waited(partition, now)),
        "read it before": "",
        "feed": "",
    }


def _seconds_waited(partition: WithoutPosition, now: int) -> float:
    """Seconds since the oldest change of the partition's rows was committed; 0 if no log shows when."""
    return 0.0 if partition.since is None else max(0.0, (now - partition.since) / 1000)


def _unread(source: Unread, age: float) -> str:
    if source.gap is not None and source.commits is not None:
        return f"'{source.source}' since {source.gap}"
    return f"{count_of(source.versions, 'version')} of '{source.source}' (oldest {lasting(age)} ago)"


def _age(source: Unread, now: int) -> float:
    """Seconds since the oldest unread change was committed; if the log has lost it, how long the feed is kept."""
    if source.commits is None:
        return feed_retention(source.head).total_seconds()
    return 0.0 if source.since is None else max(0.0, (now - source.since) / 1000)


def _deadline(asset: str, source: Unread) -> int | None:
    """When the oldest unread change may be removed, in milliseconds since the epoch; None if all changes are read."""
    return None if source.since is None else source.since + int(limit_of(source.head, asset).total_seconds() * 1000)


def worst_off(backlogs: Backlogs, place: int) -> Unread | None:
    """What the partition that is worst off has not read of one source, among those with a position of the source.

    Args:
        backlogs: What each partition has not read.
        place: Which of the sources, in their order.

    Returns:
        What is unread, with the partition in the name of the source; None if no partition has a position.
    """
    begun = [
        (partition, backlog)
        for partition, of_sources in backlogs.by_partition.items()
        if isinstance(backlog := of_sources[place], Unread)
    ]
    if not begun:
        return None
    partition, worst = min(begun, key=lambda pair: _urgency(pair[1]))
    return worst if partition is None else replace(worst, source=f"{worst.source}, partition {partition}")


def without_position(table: Followed, backlogs: Backlogs, logs: Logs) -> tuple[WithoutPosition, ...]:
    """The partitions that have no position of a source, those whose rows have waited longest first."""
    partitions = list[WithoutPosition]()
    for place, source in enumerate(table.sources):
        unbegun = {
            partition: backlog
            for partition, of_sources in backlogs.by_partition.items()
            if partition is not None and isinstance(backlog := of_sources[place], Unbegun)
        }
        since = _oldest_changes(table, frozenset(map(str, backlogs.by_partition)), source, logs) if unbegun else {}
        partitions += [
            WithoutPosition(partition, backlog, since.get(partition)) for partition, backlog in unbegun.items()
        ]
    return tuple(sorted(partitions, key=lambda each: (inf if each.since is None else each.since, each.partition)))


def _oldest_changes(table: Followed, own: frozenset[str], source: FollowedSource, logs: Logs) -> dict[str, int]:
    """When the oldest change of each partition's rows was committed, as far as the source's log goes back.

    Empty if the log does not show to which partitions the rows belong.
    """
    log, head = logs(source.ref)
    if not isinstance(log, FileLog) or head is None:
        return {}
    partitions = SourcePartitions.of(table.asset, own, source.table, log, head)
    commits = list(log.commits(head.version))[::-1]
    changed = partitions.changed_by(commit for commit in commits if commit.concerns_readers)
    if changed is None or not commits:
        return {}
    present = dict.fromkeys(partitions.present(), commits[0].timestamp)  # the commits that wrote them may be cleaned up
    return present | {partition: of_rows[0].timestamp for partition, of_rows in changed.items()}


def _urgency(backlog: Unread) -> tuple[bool, float]:
    """A sort key that puts the worst first: a gap, then the oldest unread change."""
    return backlog.gap is None, inf if backlog.since is None else backlog.since

"""The partition that is worst off: what the checks of a partitioned table's backlog are about."""

from dataclasses import replace

from lakehouse.checking.lag import WithoutPosition
from lakehouse.cursor.unread import Unbegun, Unread
from lakehouse.follow.followed import Backlogs, Followed, FollowedSource, Logs
from lakehouse.follow.partitions import SourcePartitions
from lakehouse.log.file_log import FileLog


def worst_off(backlogs: Backlogs, place: int) -> Unread | None:
    """What the partition that is worst off has not read of one source, of those that have a position of the source.

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
    """The partitions that have no position of a source, those whose rows have waited longest first.

    Args:
        table: The table and its sources.
        backlogs: What each of its partitions has not read.
        logs: The logs of the tables.
    """
    partitions = list[WithoutPosition]()
    for place, source in enumerate(table.sources):
        unbegun = {
            partition: backlog
            for partition, of_sources in backlogs.by_partition.items()
            if partition is not None and isinstance(backlog := of_sources[place], Unbegun)
        }
        since = _oldest_changes(table, frozenset(map(str, backlogs.by_partition)), source, logs) if unbegun else {}
        partitions += [
            WithoutPosition(backlog.source, partition, backlog.head, backlog.reason, since.get(partition))
            for partition, backlog in unbegun.items()
        ]
    return tuple(sorted(partitions, key=_since))


def _oldest_changes(table: Followed, own: frozenset[str], source: FollowedSource, logs: Logs) -> dict[str, int]:
    """When the oldest change of each partition's rows was committed, as far as the source's log goes back.

    Empty if the log does not say to which partitions the rows belong.
    """
    log, head = logs(source.ref)
    if not isinstance(log, FileLog) or head is None:
        return {}
    partitions = SourcePartitions.of(table.asset, own, source.key, source.partitions_def, source.declared, log, head)
    commits = list(log.commits(head.version))[::-1]
    changed = partitions.changed_by(commit for commit in commits if not commit.is_quiet)
    if changed is None or not commits:
        return {}
    present = dict.fromkeys(partitions.present(), commits[0].timestamp)  # the commits that wrote them may be cleaned up
    return present | {partition: of_rows[0].timestamp for partition, of_rows in changed.items()}


def _urgency(backlog: Unread) -> tuple[bool, float]:
    """What sorts the worst first: a gap, then the oldest unread change."""
    return backlog.gap is None, float("inf") if backlog.since is None else backlog.since


def _since(partition: WithoutPosition) -> tuple[float, str]:
    return float("inf") if partition.since is None else partition.since, partition.partition

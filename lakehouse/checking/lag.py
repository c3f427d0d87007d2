"""How far a table is behind its sources: versions, and time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from lakehouse.checking.finding import SHOWN, Figure, Finding, Grade, lasting
from lakehouse.cursor.unread import Unread
from lakehouse.log.log import Head
from lakehouse.log.retention import feed_retention
from lakehouse.log.rows import counted


@dataclass(frozen=True, slots=True)
class WithoutPosition:
    """A partition that has no position of a source, so that its next run reads all of its rows there.

    Args:
        source: The source's name.
        partition: The partition key.
        head: Where the source stands.
        reason: Why it has no position, as the second half of a sentence.
        since: When the oldest change of its rows was committed, in milliseconds since the epoch; None if the log of the
            source does not say.
    """

    source: str
    partition: str
    head: Head
    reason: str
    since: int | None = None


def lag(
    asset: str, sources: Sequence[Unread], most: timedelta, now: int, unbegun: Sequence[WithoutPosition] = ()
) -> Finding:
    """A table is behind if the oldest change that it has not read is older than a limit.

    Args:
        asset: The asset's name.
        sources: What it has not read of each source; of a partitioned table, the partition that is worst off.
        most: How old a change may be before it is read.
        now: Milliseconds since the epoch.
        unbegun: The partitions that have no position of a source, the worst first.
    """
    ages = {source.source: _age(source, now) for source in sources}
    waiting = [source for source in sources if source.versions or source.gap is not None]
    longest = max([*ages.values(), *(_waited(partition, now) for partition in unbegun)], default=0.0)
    late = longest > most.total_seconds()
    clauses = list[str]()
    if waiting:
        clauses.append(f"has not read {', '.join(_unread(source, ages[source.source]) for source in waiting)}")
    names = dict.fromkeys(partition.source for partition in unbegun)
    clauses += [_clause([partition for partition in unbegun if partition.source == name], now) for name in names]
    sentence = f"'{asset}' {'. It '.join(clauses or ['has read every change of its sources'])}."
    if late:
        sentence += f" The limit is {lasting(most.total_seconds())}: materialize it, or see why its runs fail."
    warns = bool(unbegun) or any(source.gap for source in waiting)
    figures = {"versions behind": sum(source.versions for source in sources), "seconds behind": round(longest)}
    return Finding(
        Grade.FAILED if late else Grade.WARNS if warns else Grade.PASSED,
        sentence,
        figures | ({"partitions without a position": len(unbegun)} if unbegun else {}),
        (
            *(_record(source, ages[source.source]) for source in sources),
            *(_record_without(partition, now) for partition in unbegun[:SHOWN]),
        ),
    )


def _record(source: Unread, age: float) -> dict[str, Figure]:
    return {
        "source": source.source,
        "read": source.position.version,
        "newest": source.head.version,
        "unread versions": source.versions,
        "seconds behind": round(age),
    }


def _record_without(partition: WithoutPosition, now: int) -> dict[str, Figure]:
    return {
        "source": f"{partition.source}, partition {partition.partition}",
        "read": "no position",
        "newest": partition.head.version,
        "unread versions": "all",
        "seconds behind": "unknown" if partition.since is None else round(_waited(partition, now)),
    }


def _clause(partitions: Sequence[WithoutPosition], now: int) -> str:
    """The partitions that have no position of one source, as a clause that names the worst."""
    worst, others = partitions[0], len(partitions) - 1
    more = f" and {others:,} more" if others else ""
    why = (
        f"{worst.reason}, and no log says since when it has rows"
        if worst.since is None
        else f"oldest change {lasting(_waited(worst, now))} ago: {worst.reason}"
    )
    return f"has no position of '{worst.source}' for partition {worst.partition}{more} ({why})"


def _waited(partition: WithoutPosition, now: int) -> float:
    """Seconds since the oldest change of the partition's rows was committed; 0 if no log says when."""
    return 0.0 if partition.since is None else max(0.0, (now - partition.since) / 1000)


def _unread(source: Unread, age: float) -> str:
    if source.gap is not None and source.commits is not None:
        return f"'{source.source}' since {source.gap}"
    return f"{counted(source.versions, 'version')} of '{source.source}' (oldest {lasting(age)} ago)"


def _age(source: Unread, now: int) -> float:
    """Seconds since the oldest unread change was committed; where the log has lost it, what it was kept for."""
    if source.commits is None:
        return feed_retention(source.head).total_seconds()
    return 0.0 if source.since is None else max(0.0, (now - source.since) / 1000)

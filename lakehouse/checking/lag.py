"""How far a table is behind its sources: versions, and time."""

from collections.abc import Sequence
from datetime import timedelta

from lakehouse.checking.finding import Finding, Grade, lasting
from lakehouse.cursor.unread import Unread
from lakehouse.log.retention import feed_retention
from lakehouse.log.rows import counted


def lag(asset: str, sources: Sequence[Unread], most: timedelta, now: int) -> Finding:
    """A table is behind when the oldest change that it has not read is older than a limit.

    Args:
        asset: The asset's name.
        sources: What it has not read of each source.
        most: How old a change may be before it is read.
        now: Milliseconds since the epoch.
    """
    ages = {source.source: _age(source, now) for source in sources}
    waiting = [source for source in sources if source.versions or source.gap is not None]
    late = [source for source in waiting if ages[source.source] > most.total_seconds()]
    versions, seconds = sum(source.versions for source in sources), max(ages.values(), default=0.0)
    if not waiting:
        sentence = f"'{asset}' has read every change of its sources."
    else:
        sentence = f"'{asset}' has not read {', '.join(_unread(source, ages[source.source]) for source in waiting)}."
    if late:
        sentence += f" The limit is {lasting(most.total_seconds())}: materialize it, or see why its runs fail."
    return Finding(
        Grade.FAILED if late else Grade.WARNS if any(source.gap for source in waiting) else Grade.PASSED,
        sentence,
        {"versions behind": versions, "seconds behind": round(seconds)},
        tuple(
            {
                "source": source.source,
                "read": source.position.version,
                "newest": source.head.version,
                "unread versions": source.versions,
                "seconds behind": round(ages[source.source]),
            }
            for source in sources
        ),
    )


def _unread(source: Unread, age: float) -> str:
    if source.gap is not None and source.commits is not None:
        return f"'{source.source}' since {source.gap}"
    return f"{counted(source.versions, 'version')} of '{source.source}' (oldest {lasting(age)} ago)"


def _age(source: Unread, now: int) -> float:
    """Seconds since the oldest unread change was committed; where the log has lost it, what it was kept for."""
    if source.commits is None:
        return feed_retention(source.head).total_seconds()
    return 0.0 if source.since is None else max(0.0, (now - source.since) / 1000)

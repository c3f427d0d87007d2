"""Until when a table must have read what it has not read: then the source may no longer have it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from lakehouse.checking.finding import Finding, Grade, lasting
from lakehouse.cursor.unread import Unread
from lakehouse.log.retention import FILE_RETENTION, LOG_RETENTION, feed_retention

REMEDY = (
    f"Materialize it before that, or let the source keep more ({LOG_RETENTION}, {FILE_RETENTION}); afterwards a run "
    "compares everything, or fails if it may not."
)


def staleness(asset: str, sources: Sequence[Unread], margin: timedelta, now: int) -> Finding:
    """A table is stale when a source's retention has passed a change that it has not read.

    Args:
        asset: The asset's name.
        sources: What it has not read of each source that it reads as changes.
        margin: How long before the deadline to warn.
        now: Milliseconds since the epoch.
    """
    deadlines = {source.source: _deadline(source) for source in sources}
    removed = [source.source for source in sources if source.commits is None]
    remaining = {name: (at - now) / 1000 for name, at in deadlines.items() if at is not None}
    passed = [name for name, seconds in remaining.items() if seconds <= 0]
    near = [name for name, seconds in remaining.items() if 0 < seconds <= margin.total_seconds()]
    grade = Grade.FAILED if removed or passed else Grade.WARNS if near else Grade.PASSED
    if removed:
        sentence = f"'{asset}' has not read changes of '{removed[0]}' that its log no longer has. {REMEDY}"
    elif passed:
        sentence = f"'{asset}' has not read changes of '{passed[0]}' that its next cleanup may remove. {REMEDY}"
    elif near:
        time = lasting(remaining[near[0]])
        sentence = f"'{asset}' has {time} left to read '{near[0]}' before its retention ends. {REMEDY}"
    else:
        sentence = f"Nothing that '{asset}' has not read is about to be removed from its sources."
    figures = {"hours left": round(min(remaining.values()) / 3600, 1)} if remaining else {}
    records = tuple(
        {
            "source": source.source,
            "kept for": lasting(feed_retention(source.head).total_seconds()),
            "unread versions": source.versions,
            "read it before": "" if (at := deadlines[source.source]) is None else _shown(at),
        }
        for source in sources
    )
    return Finding(grade, sentence, figures, records)


def _deadline(source: Unread) -> int | None:
    """When the oldest unread change may be removed, in milliseconds since the epoch; None if all of them are read."""
    if source.since is None:
        return None
    return source.since + int(feed_retention(source.head).total_seconds() * 1000)


def _shown(at: int) -> str:
    return datetime.fromtimestamp(at / 1000, UTC).isoformat(timespec="minutes")

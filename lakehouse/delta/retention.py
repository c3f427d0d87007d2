"""How long a table keeps what readers of its changes need, and how that is written."""

import re
from datetime import timedelta

from lakehouse.delta.log import Head

LOG_RETENTION, FILE_RETENTION = "delta.logRetentionDuration", "delta.deletedFileRetentionDuration"
_UNITS = {
    "microsecond": timedelta(microseconds=1),
    "millisecond": timedelta(milliseconds=1),
    "second": timedelta(seconds=1),
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
    "week": timedelta(weeks=1),
}
_PART = re.compile(r"(-?\d+)\s+([a-z]+?)s?\b")


def interval(text: str) -> timedelta | None:
    """A duration as Delta writes one ("interval 30 days"); None if it is not written so.

    Delta: `DeltaConfigs.parseCalendarInterval`; months and years are refused there.
    """
    body = text.strip().lower().removeprefix("interval").strip()
    parts = _PART.findall(body)
    if not parts or _PART.sub("", body).strip() or any(unit not in _UNITS for _, unit in parts):
        return None
    return sum((int(number) * _UNITS[unit] for number, unit in parts), timedelta())


_SHORT = re.compile(r"(\d+)\s*(min|h|d|w)")
_LONG = {"min": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def limit_from(text: str) -> timedelta | None:
    """A limit as a user writes one: "14d", "36 h", "2 weeks", "interval 14 days"; None if it is no time above zero."""
    short = _SHORT.fullmatch(text.strip())
    limit = interval(text if short is None else f"{short[1]} {_LONG[short[2]]}")
    return limit if limit is not None and limit > timedelta() else None


def as_interval(limit: timedelta) -> str:
    """A limit as Delta writes one, in the largest unit that gives a whole number."""
    seconds = int(limit.total_seconds())
    sizes = (("days", 86_400), ("hours", 3_600), ("seconds", 1))
    unit, size = next((unit, size) for unit, size in sizes if seconds % size == 0)
    return f"interval {seconds // size} {unit}"


def files_kept(head: Head) -> timedelta:
    """For how long Delta keeps files that the newest version does not use; seven days unless a property says it."""
    return interval(head.properties.get(FILE_RETENTION, "")) or timedelta(days=7)


def log_kept(head: Head) -> timedelta:
    """For how long Delta keeps the log; thirty days unless a property says it."""
    return interval(head.properties.get(LOG_RETENTION, "")) or timedelta(days=30)


def feed_retention(head: Head) -> timedelta:
    """For how long after its commit a change can be read: the log and the files of the change must both be there.

    A cleanup may come late, never early. Delta's defaults are 30 days for the log and 7 days for files that VACUUM
    may remove, change files among them.
    """
    return min(log_kept(head), files_kept(head))

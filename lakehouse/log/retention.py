"""How long a table keeps what a reader needs, by its own properties."""

import re
from datetime import timedelta

from lakehouse.log.log import Head

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


def feed_retention(head: Head) -> timedelta:
    """For how long after its commit a change can be read: the log and the files of the change must both be there.

    A cleanup may come late, never early. Delta's defaults are 30 days for the log and 7 days for files that VACUUM
    may remove, change files among them.
    """
    log = interval(head.properties.get(LOG_RETENTION, "")) or timedelta(days=30)
    files = interval(head.properties.get(FILE_RETENTION, "")) or timedelta(days=7)
    return min(log, files)

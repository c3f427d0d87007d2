"""Readers that a table cannot know from marks: registered by name in its properties, each with a limit.

A limit is how long a change stays readable for the reader. Delta 4.4 refuses a reader that is further behind than
`delta.deletedFileRetentionDuration`, even if the files are there (ADR 48), so that property is at least the longest
limit. The property `TIME_TRAVEL` has what the table promised before: files that all readers have passed are removed
after that time. `RETENTION_SET` has the retention that a registration set, to recognize one that a user has set since.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta

from lakehouse.delta.log import (
    FILE_RETENTION,
    LOG_RETENTION,
    READER,
    Head,
    as_interval,
    feed_retention,
    files_kept,
    interval,
    limit_from,
    log_kept,
)
from lakehouse.errors import UpkeepError

TIME_TRAVEL, RETENTION_SET = "lakehouse.timeTravel", "lakehouse.retentionSet"
_NAME = re.compile(r"[A-Za-z0-9_./ -]{1,120}")


@dataclass(frozen=True, slots=True)
class PropertyChange:
    """The properties that one metadata commit sets and removes."""

    to_set: Mapping[str, str]
    to_remove: tuple[str, ...] = ()


def registered_limits(properties: Mapping[str, str]) -> dict[str, timedelta]:
    """The limit of each registered reader, by name. A value that is not a limit does not count."""
    values = {name.removeprefix(READER): value for name, value in properties.items() if name.startswith(READER)}
    return {name: limit for name, value in sorted(values.items()) if (limit := limit_from(value)) is not None}


def limit_of(head: Head, reader: str) -> timedelta:
    """How long a reader may be behind: its registered limit, but never longer than Delta can answer."""
    longest = feed_retention(head)
    return min(registered_limits(head.properties).get(reader, longest), longest)


def time_travel(head: Head) -> timedelta:
    """For how long the table promises that every version can be read, whoever the readers are."""
    promised = interval(head.properties.get(TIME_TRAVEL, ""))
    return min(promised, files_kept(head)) if promised is not None and _has_set_retention(head) else files_kept(head)


def _has_set_retention(head: Head) -> bool:
    """Whether the retention of files is still what a registration set, so that no user has changed it since."""
    was_set = interval(head.properties.get(RETENTION_SET, ""))
    return was_set is None or files_kept(head) == was_set


def register(head: Head, table: str, reader: str, limit: timedelta) -> PropertyChange:
    """The change that registers a reader: its limit, and how long the table has to keep its past for it.

    Raises:
        UpkeepError (READER_NAME): The name cannot be that of a property, or a reader has it already.
    """
    if not _NAME.fullmatch(reader) or reader != reader.strip():
        raise UpkeepError.reader_name(table, reader, "a name has letters, digits, and any of _ . / - and spaces within")
    if READER + reader in head.properties:
        limit_before = head.properties[READER + reader]
        raise UpkeepError.reader_name(
            table, reader, f"it is registered already, with the limit '{limit_before}'. Release it first: --release"
        )
    return registration(head, reader, limit)


def registration(head: Head, reader: str, limit: timedelta) -> PropertyChange:
    """The change that gives a reader a limit, whatever its limit was."""
    return PropertyChange({READER + reader: as_interval(limit), **_kept_for(head, limit)})


def keep_longer(head: Head) -> PropertyChange | None:
    """The change that keeps the past of a table as long as each registered reader may be behind; None if it is kept.

    Two registrations at the same time may each have set the retention from what they found. A retention that a user
    has set since stays.
    """
    if not _has_set_retention(head):
        return None
    longest = max(registered_limits(head.properties).values(), default=timedelta())
    changes = _kept_for(head, longest)
    return PropertyChange(changes) if changes else None


def _kept_for(head: Head, limit: timedelta) -> dict[str, str]:
    """The properties by which files and log are kept as long as a limit, without those that already suffice."""
    changes = dict[str, str]()
    if limit > files_kept(head):
        retention_text = as_interval(limit)
        changes |= {
            FILE_RETENTION: retention_text,
            RETENTION_SET: retention_text,
            TIME_TRAVEL: as_interval(time_travel(head)),
        }
    if limit > log_kept(head):
        changes[LOG_RETENTION] = as_interval(limit)
    return changes


def release(head: Head, table: str, reader: str) -> PropertyChange:
    """The change that releases a reader: files are kept as long as others need them, and the log as long as before.

    Raises:
        UpkeepError (READER_NAME): No reader has that name.
    """
    if READER + reader not in head.properties:
        names = ", ".join(registered_limits(head.properties)) or "none"
        raise UpkeepError.reader_name(table, reader, f"no reader has that name. Registered are: {names}")
    if TIME_TRAVEL not in head.properties:
        return PropertyChange({}, (READER + reader,))
    promised, notes = time_travel(head), (TIME_TRAVEL, RETENTION_SET)
    if not _has_set_retention(head):
        return PropertyChange({}, (READER + reader, *notes))
    others = [limit for name, limit in registered_limits(head.properties).items() if name != reader]
    retention = max([promised, *others])
    retention_text = as_interval(retention)
    if retention == promised:
        return PropertyChange({FILE_RETENTION: retention_text}, (READER + reader, *notes))
    return PropertyChange({FILE_RETENTION: retention_text, RETENTION_SET: retention_text}, (READER + reader,))

"""When the versions of a table were committed, as a history counts: later from version to version, however it is read.

Writers' clocks differ, and two commits may fall into one millisecond. Delta makes its times monotonic over the
versions that it happens to list, so they depend on where a range begins. Here they depend on the history alone: each
range continues from the time of the version before it, which the mark carries (ADR 31).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a range of versions, in milliseconds since the epoch.

    Args:
        since: The time of the version after which the range begins; None if nothing was read before.
        of: The time of each version of the range; where everything is compared, that of the last one alone.
        upto: The time of its last version.
    """

    since: int | None
    upto: int
    of: Mapping[int, int] = field(default_factory=dict[int, int])


def times_of(commits: Iterable[tuple[int, int]], before: tuple[int, int] | None = None) -> dict[int, int]:
    """The time of each version: what its commit says, yet later by a millisecond than the version before at least.

    Args:
        commits: Versions and what their commits say, in the order of the versions; some may be missing.
        before: The version before them, and its time; None if nothing was read before.
    """
    times: dict[int, int] = {}
    for version, timestamp in commits:
        times[version] = timestamp if before is None else max(timestamp, before[1] + version - before[0])
        before = version, times[version]
    return times

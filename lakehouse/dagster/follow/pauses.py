"""How often a run is requested for changes that stay unread: what the sensor and the condition remember of requests."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

FIRST_PAUSE, LONGEST_PAUSE = 60.0, 3_600.0
"""Seconds after which a run is requested again for the same unread changes; twice as many after each further one."""


@dataclass(frozen=True, slots=True)
class Pause:
    """How long a run of a table, or of a partition, is not requested again for the same unread changes.

    Args:
        state: What was unread when a run was requested last, as a short text.
        at: When, in seconds since the epoch.
        times: How often for the same state.
    """

    state: str = ""
    at: float = 0.0
    times: int = 0

    @property
    def end(self) -> float:
        return self.at + min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** max(0, self.times - 1))

    def allows(self, state: str, now: float) -> bool:
        """Whether a run may be requested for a state: at once if it is another, else after the pause."""
        return state != self.state or now >= self.end

    def again(self, state: str, now: float) -> "Pause":
        """The pause once a run is requested."""
        return Pause(state, now, self.times + 1 if state == self.state else 1)


@dataclass(frozen=True, slots=True)
class Pauses:
    """What is remembered of one table: each partition has a pause of its own, so that one that fails delays no other.

    Args:
        by_partition: That of each partition that is behind, by its key; of a table without partitions, by `WHOLE`.
    """

    by_partition: Mapping[str, Pause] = field(default_factory=dict[str, Pause])

    def allow(self, states: Mapping[str, str], now: float) -> list[str]:
        """Those whose pause allows a run, given the state of each: what was requested least often comes first."""
        allowed = [key for key, state in states.items() if self._of(key).allows(state, now)]
        return sorted(allowed, key=lambda key: self._of(key).times)

    def again(self, states: Mapping[str, str], requested: Collection[str], now: float) -> "Pauses":
        """What is remembered once runs of some are requested; what is no longer behind is left out."""
        previous = {key: self.by_partition[key] for key in states if key in self.by_partition}
        return Pauses(previous | {key: self._of(key).again(states[key], now) for key in requested})

    def end(self, keys: Collection[str]) -> float:
        """When the first pause of some ends, in seconds since the epoch."""
        return min(self._of(key).end for key in keys)

    def to_json(self) -> dict[str, list[Any]]:
        return {key: [each.state, each.at, each.times] for key, each in self.by_partition.items()}

    @classmethod
    def from_json(cls, pauses: Mapping[str, list[Any]]) -> "Pauses":
        return cls({key: Pause(*each) for key, each in pauses.items()})

    def _of(self, key: str) -> Pause:
        return self.by_partition.get(key, Pause())

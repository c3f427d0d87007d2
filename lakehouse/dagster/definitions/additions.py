"""What `incremental` adds to definitions because somebody names it: a sensor, and nightly checks.

The caller names them, or the definitions do in their metadata: a component knows no definitions but its own.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Self

import dagster as dg

from lakehouse.dagster.definitions.nightly import Nightly

_SENSOR, _NIGHTLY_CHECKS = "lakehouse/sensor", "lakehouse/nightly_checks"


@dataclass(frozen=True, slots=True)
class Additions:
    """What is added.

    Args:
        sensor: The name of the change sensor; None for no sensor.
        night: When the nightly checks begin; None for no nightly checks.
    """

    sensor: str | None = None
    night: Nightly | None = None

    @classmethod
    def of(cls, metadata: Mapping[str, dg.MetadataValue[Any]]) -> Self:
        """What the metadata of definitions names."""
        sensor, night = (metadata.get(name) for name in (_SENSOR, _NIGHTLY_CHECKS))
        return cls(None if sensor is None else sensor.value, None if night is None else _night(night.value))

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of definitions that names the same."""
        named: dict[str, Any] = {_SENSOR: self.sensor, _NIGHTLY_CHECKS: self.night and _as_json(self.night)}
        return {name: value for name, value in named.items() if value is not None}

    def with_named(self, sensor: str | None, night: str | Nightly | None) -> "Additions":
        """The same, but what the caller names wins."""
        named = Nightly(night) if isinstance(night, str) else night
        return Additions(sensor or self.sensor, named or self.night)


def _as_json(night: Nightly) -> dict[str, Any]:
    seconds = night.limit.total_seconds()
    return {"cron_schedule": night.cron_schedule, "limit": seconds, "timezone": night.timezone}


def _night(stored: Mapping[str, Any]) -> Nightly:
    return Nightly(stored["cron_schedule"], timedelta(seconds=stored["limit"]), stored["timezone"])

"""What `incremental` adds to definitions because somebody names it: a sensor, nightly checks, and upkeep.

The caller names them, or the definitions do in their metadata: a component knows no definitions but its own.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any, Self

import dagster as dg

from lakehouse.dagster.nights.keeping import Upkeep
from lakehouse.dagster.nights.night_schedule import Nightly

_SENSOR, _NIGHTLY_CHECKS, _UPKEEP = "lakehouse/sensor", "lakehouse/nightly_checks", "lakehouse/upkeep"


@dataclass(frozen=True, slots=True)
class Additions:
    """What is added.

    Args:
        sensor: The name of the change sensor; None for no sensor.
        night: When the nightly checks begin; None for no nightly checks.
        upkeep: When tables are kept in shape; None for no upkeep.
    """

    sensor: str | None = None
    night: Nightly | None = None
    upkeep: Upkeep | None = None

    @classmethod
    def of(cls, metadata: Mapping[str, dg.MetadataValue[Any]]) -> Self:
        """What the metadata of definitions names."""
        sensor, night, upkeep = (metadata.get(name) for name in (_SENSOR, _NIGHTLY_CHECKS, _UPKEEP))
        return cls(
            None if sensor is None else sensor.value,
            None if night is None else Nightly(**_of_json(night.value)),
            None if upkeep is None else Upkeep(**_of_json(upkeep.value)),
        )

    @property
    def metadata(self) -> dict[str, Any]:
        """The metadata of definitions that names the same."""
        night, upkeep = (None if each is None else _as_json(each) for each in (self.night, self.upkeep))
        named: dict[str, Any] = {_SENSOR: self.sensor, _NIGHTLY_CHECKS: night, _UPKEEP: upkeep}
        return {name: value for name, value in named.items() if value is not None}

    def with_named(
        self, sensor: str | None, night: str | Nightly | None, upkeep: str | Upkeep | None = None
    ) -> "Additions":
        """The same, but what the caller names wins."""
        checks = Nightly(night) if isinstance(night, str) else night
        work = Upkeep(upkeep) if isinstance(upkeep, str) else upkeep
        return Additions(sensor or self.sensor, checks or self.night, work or self.upkeep)


def _as_json(named: Nightly | Upkeep) -> dict[str, Any]:
    return {**asdict(named), "limit": named.limit.total_seconds()}


def _of_json(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {**stored, "limit": timedelta(seconds=stored["limit"])}

"""An error and its sentences."""

from dataclasses import dataclass
from typing import Any

from lakehouse.errors import LakehouseError

WRITTEN = "Nothing was written."
REMEDY = "Do this."


@dataclass(frozen=True)
class Case:
    """An error, and its sentence in three parts."""

    error: type[LakehouseError]
    told: dict[str, Any]
    happened: str
    now: str
    to_do: str

    def raised(self) -> LakehouseError:
        return self.error(**self.told)

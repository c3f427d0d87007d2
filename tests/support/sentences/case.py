"""An error and its sentences."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakehouse.errors import LakehouseError

WRITTEN = "Nothing was written."
REMEDY = "Do this."


@dataclass(frozen=True)
class Case:
    """A constructor of errors, and the sentence of one of them in three parts."""

    build: Callable[..., LakehouseError]
    told: dict[str, Any]
    happened: str
    now: str
    to_do: str

    def raised(self) -> LakehouseError:
        return self.build(**self.told)

"""A snapshot input that is read only if the asset's function is called."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import dagster as dg
from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Postponed:
    """A table at its pinned version, before Spark is asked for it.

    Args:
        read: Returns its rows.
    """

    read: Callable[[], DataFrame]


def _is_frame(_: Any, value: Any) -> bool:
    return isinstance(value, DataFrame | Postponed)


POSTPONED = dg.DagsterType(_is_frame, name="PostponedDataFrame", typing_type=DataFrame)
"""The type of an input whose step may find that it has nothing to do."""

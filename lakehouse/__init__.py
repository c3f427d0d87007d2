"""An incremental lakehouse for Dagster, Spark and Delta Lake.

The type of an input says how to read, the type of the result how to write; see README.md.
"""

from lakehouse.aggregate import Aggregate
from lakehouse.changes import Changes
from lakehouse.errors import LakehouseError
from lakehouse.io_manager import DeltaIOManager
from lakehouse.read import Read
from lakehouse.recompute import checks
from lakehouse.retry import Retry
from lakehouse.sensors import change_sensor
from lakehouse.table import Table
from lakehouse.touched import Touched
from lakehouse.validation import validate
from lakehouse.versions import VersionRange
from lakehouse.writes import Append, Merge, Overwrite

__all__ = [
    "Aggregate",
    "Append",
    "Changes",
    "DeltaIOManager",
    "LakehouseError",
    "Merge",
    "Overwrite",
    "Read",
    "Retry",
    "Table",
    "Touched",
    "VersionRange",
    "change_sensor",
    "checks",
    "validate",
]

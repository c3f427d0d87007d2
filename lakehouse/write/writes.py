"""The closed set of writes: what an asset returns says how its table is written."""

from dataclasses import dataclass
from typing import TypeAlias

from pyspark.sql import DataFrame

from lakehouse.read.touched import Touched
from lakehouse.write.aggregate import Aggregate


@dataclass(frozen=True, slots=True)
class Append:
    """Adds rows and never touches one that is there.

    Materializing a partition again adds only what the partition does not hold yet, so it never doubles.

    Args:
        rows: The rows to add.
    """

    rows: DataFrame


@dataclass(frozen=True, slots=True)
class Overwrite:
    """The table, or this run's partitions of it, holds exactly these rows.

    Quiet: with a key only rows that differ are written; without one nothing is when the content is the same.
    Rows of other partitions than the run's are left out.

    Args:
        rows: What the table holds afterwards.
    """

    rows: DataFrame


@dataclass(frozen=True, slots=True)
class Merge:
    """For every touched key the table holds exactly these rows; all other keys keep theirs.

    So a filter, a delete, a key change or a re-insert upstream needs no special case. NULL is a key like any
    other. Rows that did not change are not written.

    Args:
        rows: The rows of the touched keys, and of no other.
        touched: The keys that this write is about; their columns are columns of the table.
    """

    rows: DataFrame
    touched: Touched


Stated: TypeAlias = Append | Overwrite | Merge
"""The writes that state rows which the table is to hold."""
Write: TypeAlias = Stated | Aggregate

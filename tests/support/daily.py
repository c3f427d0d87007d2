"""Runs of the partitioned table `daily` without Spark, which follows `orders`."""

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.cursor.digests import Code
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position


def run_day(root: Path, partition: str, columns: Sequence[str] = ("day",), code: Code | None = None) -> None:
    """Writes what a run of a partition leaves: a commit whose mark says that its source was read to its newest version.

    Args:
        root: Where the tables are.
        partition: The partition.
        columns: The partition columns of the table's files.
        code: The code of its asset.
    """
    read, path = DeltaTable(str(root / "orders")), root / "daily"
    base = DeltaTable(str(path)).version() if path.exists() else -1
    position = Position(str(read.metadata().id), read.version())
    mark = Mark(
        "daily",
        (partition,),
        FIRST_GENERATION,
        1,
        "run",
        f"attempt {base}",
        base,
        reads={"orders": position},
        code=code,
    )
    rows = pa.table({"id": pa.array([base], pa.int32()), "day": [partition]})
    properties = CommitProperties(custom_metadata={"userMetadata": mark.to_json()})
    write_deltalake(str(path), rows, mode="append", partition_by=[*columns] or None, commit_properties=properties)

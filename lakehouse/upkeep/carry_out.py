"""What upkeep asks of Spark: properties of a table, and Delta's statements that keep it in shape."""

import json
from collections.abc import Iterator, Sequence
from typing import assert_never
from urllib.parse import unquote

from pyspark.sql import SparkSession

from lakehouse.delta.location import scheme_of
from lakehouse.delta.text import literal
from lakehouse.spark.session import session_of_its_own
from lakehouse.spark.table_version import TableRef
from lakehouse.upkeep.due import FREED, TableUpkeep, UpkeepWork
from lakehouse.upkeep.past_files import PastFile
from lakehouse.upkeep.registration import PropertyChange

_LISTED = 10_000
"""So many files are listed in one statement."""
_NO_NULLS = "nullif(path, '') AS path, nullif(1L, 0L) AS length, nullif(false, true) AS isDir"
_INVENTORY = f"{_NO_NULLS}, nullif(1L, 0L) AS modificationTime"
"""Delta compares the schema with its own, whose columns may be NULL. It goes by the path, because 1 is long ago."""


def change_properties(spark: SparkSession, ref: TableRef, change: PropertyChange) -> None:
    """Removes properties of a table, then sets others; each is a commit. Between the two, files are kept longer."""
    if change.to_remove:
        names = ", ".join(map(literal, change.to_remove))
        spark.sql(f"ALTER TABLE {ref.identifier} UNSET TBLPROPERTIES ({names})").collect()
    if change.to_set:
        pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in change.to_set.items())
        spark.sql(f"ALTER TABLE {ref.identifier} SET TBLPROPERTIES ({pairs})").collect()


def carry_out(spark: SparkSession, ref: TableRef, upkeep: TableUpkeep) -> None:
    """Does the work that is due, each task by Delta's own statement.

    Each statement is whole by itself, so a run that is killed leaves nothing half done: OPTIMIZE and REORG are one
    commit each, and the next VACUUM removes what an earlier one did not come to.
    """
    for task in upkeep.tasks:
        match task.work:
            case UpkeepWork.COMPACT:
                spark.sql(f"OPTIMIZE {ref.identifier}").collect()
            case UpkeepWork.PURGE:
                spark.sql(f"REORG TABLE {ref.identifier} APPLY (PURGE)").collect()
            case UpkeepWork.FREE:
                _free(spark, ref, upkeep)
            case _:
                assert_never(task.work)


def _free(spark: SparkSession, ref: TableRef, upkeep: TableUpkeep) -> None:
    """Removes past files, in a session of its own: neither its settings nor what it records concern another session."""
    with session_of_its_own(spark) as own:
        own.conf.set("spark.databricks.delta.vacuum.logging.enabled", "true")  # on S3 it is off by default
        if upkeep.by_inventory:
            # RETAIN 0 is about what is listed alone (ADR 48).
            own.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        statements = list(_by_inventory(ref, upkeep.unneeded) if upkeep.by_inventory else [f"VACUUM {ref.identifier}"])
        for place, statement in enumerate(statements, 1):
            if place == len(statements):  # only the last may say that everything up to the horizon is gone
                metadata = json.dumps({FREED: upkeep.horizon})
                own.conf.set("spark.databricks.delta.commitInfo.userMetadata", metadata)
            own.sql(statement).collect()


def _by_inventory(ref: TableRef, files: Sequence[PastFile]) -> Iterator[str]:
    """Statements that remove listed files. VACUUM leaves out those that the newest version uses."""
    for first in range(0, len(files), _LISTED):
        paths = ", ".join(f"({literal(_inventory_path(ref, file))})" for file in files[first : first + _LISTED])
        inventory = f"SELECT {_INVENTORY} FROM VALUES {paths} AS listed(path)"
        yield f"VACUUM {ref.identifier} USING INVENTORY ({inventory}) RETAIN 0 HOURS"


def _inventory_path(ref: TableRef, file: PastFile) -> str:
    """The path of a file as Hadoop writes it; any other form names nothing, without an error."""
    assert ref.files is not None, "a table without a path lists no files"
    address = ref.files.address.rstrip("/")
    root = f"file:{ref.files.path.rstrip('/')}" if scheme_of(address) in (None, "file") else address
    return f"{root}/{unquote(file.path)}"

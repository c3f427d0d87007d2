"""What upkeep asks of Spark: properties of a table, and Delta's statements that keep it in shape."""

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import unquote
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehouse.commit.execute import save_mark
from lakehouse.delta.location import scheme_of
from lakehouse.delta.text import literal
from lakehouse.spark.abilities import USER_METADATA, is_lost
from lakehouse.spark.diagnosis import first_line
from lakehouse.spark.progress import Message, tell, watching
from lakehouse.spark.session import session_of_its_own
from lakehouse.spark.table_version import TableRef
from lakehouse.upkeep.due import FREED, TableUpkeep, UpkeepStep, UpkeepWork
from lakehouse.upkeep.readers import PastFile
from lakehouse.upkeep.registration import PropertyChange

_LISTED = 10_000
"""How many files one statement lists at most."""
_NO_NULLS = "nullif(path, '') AS path, nullif(1L, 0L) AS length, nullif(false, true) AS isDir"
_INVENTORY = f"{_NO_NULLS}, nullif(1L, 0L) AS modificationTime"
"""Delta compares this schema with its own, whose columns may be NULL. Time 1 is long ago, so the path alone counts."""


def change_properties(spark: SparkSession, ref: TableRef, change: PropertyChange) -> None:
    """Sets properties of a table, then removes others; each is a commit.

    In this order, because what is removed shows what was to be set: a caller that is cut off in between begins again.
    """
    if change.to_set:
        pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in change.to_set.items())
        spark.sql(f"ALTER TABLE {ref.identifier} SET TBLPROPERTIES ({pairs})").collect()
    if change.to_remove:
        names = ", ".join(map(literal, change.to_remove))
        spark.sql(f"ALTER TABLE {ref.identifier} UNSET TBLPROPERTIES ({names})").collect()


@dataclass(frozen=True, slots=True)
class Worker:
    """What does the upkeep of a table: a session, a run, and whether it has become late."""

    spark: SparkSession
    ref: TableRef
    run: str
    is_late: Callable[[], bool] = lambda: False

    def carry_out(self, upkeep: TableUpkeep, steps: Sequence[UpkeepStep]) -> tuple[UpkeepStep, ...]:
        """Does steps of the work that is due, each by Delta's own statement, until it is late.

        Each statement is whole by itself, so a run that is killed leaves nothing half done: a mark, OPTIMIZE and REORG
        are one commit each, and the next VACUUM removes what an earlier one did not get to.

        Returns:
            The steps that were left for the next run.
        """
        for place, step in enumerate(steps):
            if self.is_late():
                return tuple(steps[place:])
            with watching(self.spark, f"doing {step.work.value} of {self.ref.name}"):
                came_to_its_end = self._do(step, upkeep)
            if not came_to_its_end:
                return tuple(steps[place:])
        return ()

    def _do(self, step: UpkeepStep, upkeep: TableUpkeep) -> bool:
        """Does one step; returns whether it came to its end."""
        where = f" WHERE {step.where}" if step.where else ""
        match step.work:
            case UpkeepWork.MARK:
                assert upkeep.position is not None, "its mark is due"
                cursor, version = upkeep.position
                save_mark(self.spark, self.ref, cursor.again(self.run, uuid4().hex, version))
            case UpkeepWork.COMPACT:
                self.spark.sql(f"OPTIMIZE {self.ref.identifier}{where}").collect()
            case UpkeepWork.PURGE:
                self.spark.sql(f"REORG TABLE {self.ref.identifier}{where} APPLY (PURGE)").collect()
            case UpkeepWork.FREE:
                return self._free(upkeep)
        return True

    def _free(self, upkeep: TableUpkeep) -> bool:
        """Removes past files in a session of its own, so that its settings and what it records affect no other."""
        settings = {"spark.databricks.delta.vacuum.logging.enabled": "true"}  # on S3 it is off by default
        statements = [f"VACUUM {self.ref.identifier}"]
        if upkeep.by_inventory:
            # RETAIN 0 applies to the listed files alone (ADR 48).
            settings["spark.databricks.delta.retentionDurationCheck.enabled"] = "false"
            statements = list(_by_inventory(self.ref, upkeep.unneeded))
        for place, statement in enumerate(statements, 1):
            if place > 1 and self.is_late():
                return False
            if place == len(statements):  # only the last may record that everything up to the horizon is gone
                settings[USER_METADATA] = json.dumps({FREED: upkeep.horizon})
            with ExitStack() as stack:
                try:
                    own = stack.enter_context(session_of_its_own(self.spark, settings))
                except Exception as error:
                    if is_lost(error):
                        raise
                    return self._free_without_settings(error)
                with watching(own):
                    own.sql(statement).collect()
        return True

    def _free_without_settings(self, refused: Exception) -> bool:
        """Removes files that the table no longer promises to any reader, where Spark refuses the settings of VACUUM."""
        what = "What is no longer needed goes once the table keeps it for no reader, and VACUUM stays due until then"
        tell(Message(f"Spark refuses the settings of VACUUM ({first_line(refused)}). {what}."))
        self.spark.sql(f"VACUUM {self.ref.identifier}").collect()
        return True


def _by_inventory(ref: TableRef, files: Sequence[PastFile]) -> Iterator[str]:
    """Statements that remove listed files. VACUUM leaves out those that the newest version uses."""
    for first in range(0, len(files), _LISTED):
        paths = ", ".join(f"({literal(_inventory_path(ref, file))})" for file in files[first : first + _LISTED])
        inventory = f"SELECT {_INVENTORY} FROM VALUES {paths} AS listed(path)"
        yield f"VACUUM {ref.identifier} USING INVENTORY ({inventory}) RETAIN 0 HOURS"


def _inventory_path(ref: TableRef, file: PastFile) -> str:
    """The path of a file as Hadoop writes it; any other form matches no file, without an error."""
    assert ref.files is not None, "a table without a path lists no files"
    address = ref.files.address.rstrip("/")
    root = f"file:{ref.files.path.rstrip('/')}" if scheme_of(address) in (None, "file") else address
    return f"{root}/{unquote(file.path)}"

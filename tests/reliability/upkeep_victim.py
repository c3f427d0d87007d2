"""The work of a victim that is killed in the middle of upkeep."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from pyspark.sql import SparkSession

from lakehouse.upkeep import carry_out
from lakehouse.upkeep.carry_out import Worker
from lakehouse.upkeep.due import UpkeepWork, steps_of
from tests.reliability.park import park
from tests.support.lake import Lake
from tests.upkeep.by_hand import look

UpkeepPoint: TypeAlias = Literal["data written", "before the log entry", "entry durable", "some files gone"]
_PHASES = {"data written": "prepare", "before the log entry": "commit", "entry durable": "backfill"}


@dataclass(frozen=True)
class UpkeepOrder:
    """The upkeep that a victim is to do.

    Args:
        root: The lake's directory.
        table: The table.
        work: The statement to carry out.
        point: Where it stops; for VACUUM "entry durable" means that its log entry for the start is durable.
    """

    root: Path
    table: str
    work: UpkeepWork
    point: UpkeepPoint

    def carry_out(self, spark: SparkSession, stop: Callable[[], None]) -> None:
        """Does the work up to its point."""
        needed = look(Lake(spark, self.root), self.table)
        steps = steps_of([task for task in needed.tasks if task.work is self.work]).now
        assert steps, f"{self.work.value} is due"
        ref = Lake(spark, self.root).ref(self.table)
        if self.point == "some files gone":
            carry_out._LISTED = 1  # pyright: ignore[reportPrivateUsage]  (a statement for each file)
            asked = list[bool]()
            Worker(spark, ref, "victim", lambda: _at_second(asked, stop)).carry_out(needed, steps)
            return
        with park(spark, _PHASES[self.point]) as parked:
            threading.Thread(target=lambda: (parked.reached(), stop()), daemon=True).start()
            Worker(spark, ref, "victim").carry_out(needed, steps)


def _at_second(asked: list[bool], stop: Callable[[], None]) -> bool:
    """Whether it is late: never; but the second call, which comes after the first statement, stops there."""
    asked.append(True)
    if len(asked) == 2:
        stop()
    return False

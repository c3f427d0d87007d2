"""A result of which no row lies in the run's partitions: the run leaves out all of it, and that is seldom meant."""

from pyspark.sql import DataFrame

from lakehouse.difference.statements import Skip, Statement
from lakehouse.errors import WriteError
from lakehouse.read.run import Run
from lakehouse.spark.driver_rows import is_empty
from lakehouse.spark.listeners import AllOutside, tell


def judge_outside(
    run: Run, result: DataFrame, stored: DataFrame | None, statement: Statement | Skip, *, whole: bool
) -> None:
    """Tells, or refuses by policy, that all rows of a result lie outside the run's partitions.

    A result that speaks of some keys alone may well be about rows of other partitions, as those of a late day. It
    counts only if the table holds no row of the run's partitions either.

    Args:
        run: The run.
        result: The rows of the result, of any partition.
        stored: What the table holds in the run's partitions; None if there is no table yet.
        statement: What the run would do.
        whole: Whether the result speaks of all rows of the run's partitions.

    Raises:
        WriteError (ALL_OUTSIDE): All rows lie outside, and the policy refuses that.
    """
    policy, within = run.asset.policy.all_outside, run.within(result.schema)
    if within is None or policy == "ignore" or _writes_rows(statement):
        return
    if not is_empty(result.where(within)) or is_empty(result):
        return
    if not whole and stored is not None and not is_empty(stored):
        return
    if policy == "fail":
        raise WriteError.all_outside(run.name, run.partitions)
    tell(AllOutside())


def _writes_rows(statement: Statement | Skip) -> bool:
    """Whether a statement is known to insert or update a row."""
    if isinstance(statement, Skip) or statement.counts is None:
        return False
    return bool(statement.counts.inserted or statement.counts.updated)

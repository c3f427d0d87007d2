"""The rows of a result that lie in no partition of the run: the write leaves them out, and the run shows how many."""

from lakehouse.limits import limits
from lakehouse.read.run import Run
from lakehouse.results.writes import Append, Merge, Overwrite, Write
from lakehouse.sql.text import folded


def rows_outside(run: Run, write: Write) -> int | None:
    """How many rows of a result the run's partitions leave out; None if nobody counts them.

    Args:
        run: The run.
        write: What its asset returned.
    """
    if run.slice is None or run.inputs is None or run.inputs.rows > limits().outside_rows:
        return None
    match write:
        case Append(rows=rows) | Overwrite(rows=rows) | Merge(rows=rows) if folded(run.slice.columns) <= folded(
            rows.columns
        ):
            try:
                return rows.where(f"NOT coalesce({run.within(rows.schema)}, FALSE)").count()
            except Exception:  # the result is in the table, whatever becomes of the count
                return None
        case _:
            return None

"""The difference between a result and its table by key, found in the cheapest way that is exact (ADR 4, 8)."""

from pyspark.sql import DataFrame

from lakehouse.changes.touched import Touched
from lakehouse.changes.touched_keys import FromFeed
from lakehouse.difference.difference import difference, promised
from lakehouse.difference.driver_difference import insertions, local_difference
from lakehouse.frames.driver_rows import Local, computed, is_empty, small
from lakehouse.limits import limits
from lakehouse.sql.text import folded


def compared(
    asset: str,
    rows: DataFrame,
    touched: Touched | None,
    target: DataFrame,
    key: tuple[str, ...],
    partitions: tuple[str, ...],
) -> DataFrame | Local:
    """The difference, found in the cheapest way that is exact; at the driver if it is small.

    - Any key may differ: all rows of both sides are grouped by key (`difference`).
    - At most `one_task_keys` keys are touched: the rows with those, in one task.
    - The result is at the driver, and the table holds none of its keys: nothing is compared (`insertions`).
    - The result is at the driver: one scan of the table answers for its keys (`local_difference`).
    - Otherwise: the rows with touched keys, as in the first way.
    """
    if touched is None or touched.is_everything:
        return computed(difference(promised(asset, rows, touched), target, key, partition_columns=partitions))
    if folded(touched.columns) == folded(key) and is_one_task(touched):
        result, existing = promised(asset, rows, touched), touched.restricted(target)
        changed = difference(result, existing, key, one_task=True, partition_columns=partitions)
        return computed(changed, few=True)
    # One column is read, not all of them.
    new = touched.from_feed is FromFeed.NEW_ROWS and is_empty(touched.restricted(target))
    result = _result(rows, touched)
    if isinstance(result, Local):
        changed = (
            insertions(asset, result, key, touched)
            if new
            else local_difference(asset, result, target, key, touched, partition_columns=partitions)
        )
        if changed is not None:
            return changed
    rows = result.frame if isinstance(result, Local) else result
    existing = target.limit(0) if new else touched.restricted(target)
    return computed(difference(promised(asset, rows, touched), existing, key, partition_columns=partitions))


def _result(rows: DataFrame, touched: Touched) -> Local | DataFrame:
    """The result, at the driver if it is small. A result that may not be small is kept, and not computed a second time.

    Many changes are not worth the try: their result is computed while it is compared.
    """
    if not touched.few:
        return rows
    if touched.values is not None and len(touched.values) > limits().tried_keys:
        return computed(rows)
    return small(rows) or rows


def is_one_task(touched: Touched) -> bool:
    """Whether the keys are so few that one task computes and compares what they identify."""
    return touched.values is not None and len(touched.values) <= limits().one_task_keys

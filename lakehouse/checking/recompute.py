"""A table against a full recompute of what it has read: all of its rows, or those of a partition or of some keys."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.checking.finding import DIFFERING, SHOWN, Finding, Grade
from lakehouse.errors import FULL_REFRESH
from lakehouse.frames.compare import MORE, bag_difference
from lakehouse.log.rows import counted
from lakehouse.sql.text import quote

_DUE, _EXTRA = "__due", "__extra"


def recompute(
    asset: str, expected: DataFrame, table: DataFrame, key: Sequence[str], versions: str, of: str = ""
) -> Finding:
    """A table is right when it holds, row for row, what a recompute of the same versions of its sources gives.

    Args:
        asset: The asset's name.
        expected: The recomputed rows, in the table's columns and types.
        table: The table's rows.
        key: The columns of its key: differing keys are shown, never other columns. Empty if it has none.
        versions: The versions of its sources, as the end of a sentence.
        of: Which rows of the table these are, as a clause after "rows"; empty if they are all.
    """
    differing = bag_difference(expected, table)
    if key:
        more = F.col(MORE)
        due, extra = F.sum(F.greatest(more, F.lit(0))), F.sum(F.greatest(-more, F.lit(0)))
        differing = differing.groupBy(*map(quote, key)).agg(due.alias(_DUE), extra.alias(_EXTRA))
    count, rows = differing.count(), table.count()
    figures = {"rows": rows, DIFFERING: count}
    against = f"{counted(rows, 'row')}{of} against a full recompute of {versions}"
    if not count:
        return Finding(Grade.PASSED, against, figures)
    sentence = (
        f"{against}: {counted(count, 'key' if key else 'row')} differ{'s' if count == 1 else ''}. Something wrote to "
        f"'{asset}' beside its runs, its result does not follow from its inputs alone, or a source has two rows of a "
        f"key that it declares. A run with the tag {FULL_REFRESH}=true sets it right."
    )
    return Finding(Grade.FAILED, sentence, figures, _examples(differing, key) if key else ())


def _examples(by_key: DataFrame, key: Sequence[str]) -> tuple[dict[str, str], ...]:
    shown = [F.col(quote(column)).cast("string").alias(column) for column in key]
    examples = by_key.orderBy(*map(quote, key)).limit(SHOWN).select(*shown, _DUE, _EXTRA).collect()
    return tuple(
        {
            **{column: "NULL" if row[column] is None else row[column] for column in key},
            "what": _what(row[_DUE], row[_EXTRA]),
        }
        for row in examples
    )


def _what(due: int, extra: int) -> str:
    if not extra:
        return "missing from the table"
    return "other values" if due else "not in the recompute"

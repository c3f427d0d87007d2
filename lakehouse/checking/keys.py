"""Whether a table's key identifies its rows."""

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.checking.finding import SHOWN, Finding, Grade
from lakehouse.log.rows import counted
from lakehouse.sql.text import quote


def keys(asset: str, rows: DataFrame, key: Sequence[str]) -> Finding:
    """A key holds if no two rows have the same. NULL in a column of the key is worth a warning.

    Args:
        asset: The asset's name.
        rows: The table's rows.
        key: The columns of its key, at least one.
    """
    columns = [F.col(quote(column)) for column in key]
    counts = rows.groupBy(*columns).agg(F.count("*").alias("__rows"))
    incomplete = F.greatest(*(column.isNull().cast("int") for column in columns), F.lit(0)) == 1
    wrong = (F.col("__rows") > 1) | incomplete
    (totals,) = counts.agg(
        F.coalesce(F.sum("__rows"), F.lit(0)).alias("rows"),
        F.count_if(F.col("__rows") > 1).alias("repeated"),
        F.count_if(incomplete).alias("incomplete"),
    ).collect()
    figures = {"rows": totals["rows"], "keys repeated": totals["repeated"], "keys with NULL": totals["incomplete"]}
    name = ", ".join(key)
    if not totals["repeated"] and not totals["incomplete"]:
        return Finding(
            Grade.PASSED, f"The key ({name}) identifies every row: {counted(totals['rows'], 'row')}.", figures
        )
    shown = [column.cast("string").alias(name) for column, name in zip(columns, key, strict=True)]
    repeated = counts.where(wrong).orderBy(F.col("__rows").desc()).limit(SHOWN).select(*shown, "__rows").collect()
    if totals["repeated"]:
        grade = Grade.FAILED
        sentence = (
            f"The key ({name}) of '{asset}' does not identify its rows: {counted(totals['repeated'], 'key')} in more "
            f"than one row, {counted(totals['incomplete'], 'key')} with NULL. Declare a finer key, or correct the "
            "rows: what is read by the key is otherwise read wrong."
        )
    else:
        grade = Grade.WARNS
        sentence = (
            f"NULL stands in {counted(totals['incomplete'], 'key')} ({name}) of '{asset}', each of one row. A run "
            "takes NULL for a key like any other. Other programs may not: in SQL, NULL equals nothing."
        )
    records = tuple(
        {**{n: "NULL" if row[n] is None else row[n] for n in key}, "rows": row["__rows"]} for row in repeated
    )
    return Finding(grade, sentence, figures, records)

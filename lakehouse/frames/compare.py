"""Two frames compared as bags of rows."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.frames.types import comparable
from lakehouse.sql.text import quote

MORE = "__more"


def bag_difference(rows: DataFrame, existing: DataFrame) -> DataFrame:
    """Rows counted with their repetitions: `MORE` > 0 where the result has more of a row than the table."""
    columns = [quote(name) for name in existing.columns]
    texts = comparable(existing.schema).values()
    both = rows.select(*columns).withColumn("__one", F.lit(1)).union(existing.withColumn("__one", F.lit(-1)))
    grouped = both.groupBy(*(F.expr(text).alias(f"__by_{i}") for i, text in enumerate(texts)))
    first = [F.first(F.col(quote(name))).alias(name) for name in existing.columns]
    return grouped.agg(*first, F.sum("__one").alias(MORE)).where(F.col(MORE) != 0).select(*columns, MORE)

"""How a write with options of Spark's writer becomes one commit that carries the mark."""

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import DataFrame, DataFrameWriter, SparkSession

from lakehouse.cursor.mark import Mark
from lakehouse.read.run import Run
from lakehouse.spark.snapshot import TableRef


def save(rows: DataFrame, run: Run, mark: Mark, mode: str, by: Sequence[str] = (), **which: str) -> None:
    """Writes rows as one commit, whose transaction and mark are given as options of the writer.

    Args:
        rows: The rows.
        run: The run.
        mark: What the commit says about itself.
        mode: Spark's save mode.
        by: The partition columns of a table that does not exist yet.
        which: More options: which rows are replaced, properties of a new table.
    """
    writer = (
        rows.write.format("delta")
        .mode(mode)
        .option("txnAppId", mark.application_id)
        .option("txnVersion", str(mark.epoch))
        .option("userMetadata", mark.to_json())
        .option("mergeSchema", "true")
        .options(**which)
    )
    save_by(writer.partitionBy(*by) if by else writer, rows.sparkSession, run.ref)


def save_by(writer: DataFrameWriter, spark: SparkSession, ref: TableRef) -> None:
    """Saves by path, or by the name in the catalog."""
    if ref.path is not None:
        writer.save(ref.path)
        return
    # On a thread without an active session classic Spark takes the table for a new one and finds that it exists.
    spark.createDataFrame(pa.table({"active": [True]}))
    writer.saveAsTable(ref.identifier)

"""What upkeep asks of Spark: properties of a table."""

from pyspark.sql import SparkSession

from lakehouse.delta.text import literal
from lakehouse.spark.table_version import TableRef
from lakehouse.upkeep.registration import PropertyChange


def change_properties(spark: SparkSession, ref: TableRef, change: PropertyChange) -> None:
    """Removes properties of a table, then sets others; each is a commit. Between the two, files are kept longer."""
    if change.to_remove:
        names = ", ".join(map(literal, change.to_remove))
        spark.sql(f"ALTER TABLE {ref.identifier} UNSET TBLPROPERTIES ({names})").collect()
    if change.to_set:
        pairs = ", ".join(f"{literal(name)} = {literal(value)}" for name, value in change.to_set.items())
        spark.sql(f"ALTER TABLE {ref.identifier} SET TBLPROPERTIES ({pairs})").collect()

"""How a table is created together with its first rows and its mark."""

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.commit.save import save, save_by
from lakehouse.cursor.find import OWNER
from lakehouse.cursor.mark import Mark
from lakehouse.declare.table import Table
from lakehouse.errors import OtherFileSystemError, UnregisteredTableError
from lakehouse.frames.fitting import with_plain_texts
from lakehouse.read.run import Run
from lakehouse.spark.diagnosis import Meaning, said_by
from lakehouse.spark.session import handed_over
from lakehouse.spark.snapshot import TableRef
from lakehouse.spark.spark_log import SparkLog
from lakehouse.sql.text import literal, quote, quote_all

_DEFAULTS = {"CURRENT_DEFAULT", "EXISTS_DEFAULT"}
"""What a source's column says of its default: the rows that are written have their values."""


def create(rows: DataFrame, run: Run, mark: Mark) -> None:
    """CREATE TABLE AS SELECT: schema, properties, rows, position and mark in one commit."""
    table, rows = run.table, with_plain_texts(rows, rows.schema)
    if table.cluster_columns:
        rows = rows.repartitionByRange(*(F.col(quote(column)) for column in table.cluster_columns))
    described = rows.select(*(_described(column, table) for column in rows.schema.fields))
    if table.maps_columns:
        _create_mapped(described, run, mark)
        return
    table_properties = {**table.all_properties, OWNER: run.name}
    properties = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in table_properties.items())
    layout = ""
    if table.partition_columns:
        layout = f"PARTITIONED BY ({quote_all(table.partition_columns)}) "
    elif table.cluster_columns:
        layout = f"CLUSTER BY ({quote_all(table.cluster_columns)}) "
    rest = f"{run.ref.identifier} USING delta {layout}TBLPROPERTIES ({properties}) AS SELECT * FROM"
    with handed_over(described, mark.application_id, mark.epoch, mark.to_json()) as (own, view):
        try:
            own.sql(f"CREATE TABLE {rest} {view}").collect()
        except AnalysisException as error:
            if Meaning.NAME_TAKEN not in said_by(error) or run.ref.log(lambda: own).head() is not None:
                raise
            _refuse_unregistered(own, run, error)
            _refuse_other_file_system(own, run, error)
            # A directory without a log: its writer died before its first commit, or is about to commit.
            if mark.partitions and run.ref.path is not None:
                # The other writer may write other partitions. Whichever is second finds that the table exists.
                save(described, run, mark, "error", table.partition_columns, **table.all_properties)
                return
            # If a concurrent run commits now, it has the epoch of this run, and Delta skips the replacement.
            own.sql(f"CREATE OR REPLACE TABLE {rest} {view}").collect()


def _create_mapped(rows: DataFrame, run: Run, mark: Mark) -> None:
    """Creates a table without rows, and then commits, because Delta refuses rows together with a mapping and a feed.

    If a run dies between the two, it leaves an empty table, which the next run treats as new.
    Delta: `DELTA_BLOCK_COLUMN_MAPPING_AND_CDC_OPERATION`.
    """
    table = run.table
    writer = rows.limit(0).write.format("delta").mode("error").options(**table.all_properties)
    writer = writer.partitionBy(*table.partition_columns) if table.partition_columns else writer
    writer = writer.clusterBy(*table.cluster_columns) if table.cluster_columns else writer
    save_by(writer, rows.sparkSession, run.ref)
    within = run.within(rows.schema)
    if within is None:
        save(rows, run, mark, "append")
    else:  # another set of partitions may have been written to it by now
        save(rows, run, mark, "overwrite", replaceWhere=within)


def _refuse_unregistered(spark: SparkSession, run: Run, error: AnalysisException) -> None:
    """Refuses to replace a table that the catalog does not know; Delta itself would see no table there.

    Raises:
        UnregisteredTableError: The directory of the name holds a Delta table.
    """
    where = (error.getMessageParameters() or {}).get("tableLocation")
    if run.ref.path is not None or where is None:
        return
    head = TableRef.at_path(run.name, where).log(lambda: spark).head()
    if head is not None:
        raise UnregisteredTableError(run.name, run.ref.identifier, where, head.version) from error


def _refuse_other_file_system(spark: SparkSession, run: Run, error: AnalysisException) -> None:
    """Refuses to replace a table that Spark sees at a path where this process sees none.

    Raises:
        OtherFileSystemError: The path means another file system to Spark.
    """
    head = SparkLog(spark, run.ref.identifier, run.name).head()
    if head is None:
        return
    if run.ref.log(lambda: spark).head() is not None:  # a concurrent run made it this moment
        raise error
    raise OtherFileSystemError(run.name, run.ref.location, head.version) from error


def _described(column: StructField, table: Table) -> Column:
    """The column with its comment and without the source's default, because the written rows have values."""
    comment = table.descriptions.get(column.name)
    copied = {name: value for name, value in column.metadata.items() if name not in _DEFAULTS}
    metadata = copied | ({"comment": comment} if comment else {})
    value = F.col(quote(column.name))
    if metadata == column.metadata:
        return value
    # An alias of a column has its metadata, unless it is given some; that of an expression has none.
    return value.alias(column.name, metadata=metadata) if metadata else F.coalesce(value).alias(column.name)

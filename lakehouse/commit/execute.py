"""How each statement is executed as one Delta commit that carries its mark."""

import re
from collections.abc import Mapping

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.cursor.find import OWNER
from lakehouse.cursor.mark import Mark
from lakehouse.delta.commit_info import Rows
from lakehouse.delta.limits import limits
from lakehouse.delta.table import Table
from lakehouse.delta.text import fold, literal, quote, quote_all, same
from lakehouse.difference.row_comparison import AGAIN, DELETE, INSERT, OPERATION
from lakehouse.difference.statements import (
    DELETE_WHERE_EXISTS,
    HELD_BY,
    TAKEN_BY,
    Create,
    DeleteMatched,
    Insert,
    MarkOnly,
    MergeRows,
    Replace,
    ReplaceMatched,
    ReplaceRows,
    Statement,
)
from lakehouse.errors import TableError
from lakehouse.read.run import Run
from lakehouse.spark.abilities import abilities, handed_over
from lakehouse.spark.broken_promises import Breach, breach_text
from lakehouse.spark.diagnosis import Meaning, said_by
from lakehouse.spark.fitting import with_plain_texts
from lakehouse.spark.progress import phase
from lakehouse.spark.table_version import SparkLog, TableRef
from lakehouse.spark.types import char_length

_DATA_FILE = r"/(part-\d{5}-[0-9a-f-]{36}[^/]*\.parquet|deletion_vector_[^/]*\.bin)$"
"""The end of the path of a file that Delta has written."""
_PATTERN = re.compile(r"[][{}*?\\]")
"""Characters that make a pattern of a path that Spark reads, unless a backslash precedes them."""


def save(rows: DataFrame, ref: TableRef, mark: Mark, mode: str, new: Table | None = None, **which: str) -> None:
    """Writes rows as one commit, perhaps of a new table; transaction and mark are options of the writer."""
    writer = (
        rows.write.format("delta")
        .mode(mode)
        .option("txnAppId", mark.application_id)
        .option("txnVersion", str(mark.epoch))
        .option("userMetadata", mark.to_json())
        .option("mergeSchema", "true")
        .options(**which)
    )
    save_by(writer if new is None else _laid_out(writer, new), rows.sparkSession, ref)


def _laid_out(writer: DataFrameWriter, table: Table) -> DataFrameWriter:
    """The writer of a new table, with its properties, and with its partitions or clusters."""
    writer = writer.options(**table.all_properties)
    writer = writer.partitionBy(*table.partition_columns) if table.partition_columns else writer
    return writer.clusterBy(*table.cluster_columns) if table.cluster_columns else writer


def save_mark(spark: SparkSession, ref: TableRef, mark: Mark) -> None:
    """Commits a mark without a row."""
    save(spark.read.table(ref.identifier).limit(0), ref, mark, "append")


def save_by(writer: DataFrameWriter, spark: SparkSession, ref: TableRef, external_path: str | None = None) -> None:
    """Saves by path, or by the name in the catalog; there a new table is external if it has a path."""
    if ref.path is not None:
        writer.save(ref.path)
        return
    writer = writer if external_path is None else writer.option("path", external_path)
    # On a thread without an active session classic Spark takes the table for a new one and finds that it exists.
    spark.createDataFrame(pa.table({"active": [True]}))
    writer.saveAsTable(ref.identifier)


_DEFAULTS = {"CURRENT_DEFAULT", "EXISTS_DEFAULT"}
"""Metadata about the default of a source's column. The rows that are written have their values, so it is left out."""


def create(rows: DataFrame, run: Run, mark: Mark) -> None:
    """CREATE TABLE AS SELECT: schema, properties, rows, position and mark in one commit."""
    table, rows = run.table, with_plain_texts(rows, rows.schema)
    if table.cluster_columns:
        rows = rows.repartitionByRange(*(F.col(quote(column)) for column in table.cluster_columns))
    described = rows.select(*(_with_comment(column, table) for column in rows.schema.fields))
    if table.maps_columns or abilities(rows.sparkSession).statements is not None:
        _create_by_writer(described, run, mark)
        return
    table_properties = {**table.all_properties, OWNER: run.name}
    properties = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in table_properties.items())
    layout = ""
    if table.partition_columns:
        layout = f"PARTITIONED BY ({quote_all(table.partition_columns)}) "
    elif table.cluster_columns:
        layout = f"CLUSTER BY ({quote_all(table.cluster_columns)}) "
    if table.external_path is not None:
        layout += f"LOCATION {literal(table.external_path)} "
    rest = f"{run.ref.identifier} USING delta {layout}TBLPROPERTIES ({properties}) AS SELECT * FROM"
    with handed_over(described, mark.application_id, mark.epoch, mark.to_json()) as (own, view):
        try:
            own.sql(f"CREATE TABLE {rest} {view}").collect()
        except AnalysisException as error:
            if Meaning.NAME_TAKEN not in said_by(error) or run.ref.log(lambda: own).head() is not None:
                raise
            where = _refuse_unregistered(own, run, error) or run.ref.location
            _refuse_other_file_system(own, run, error)
            _refuse_foreign_files(own, run.name, where)
            # A directory without a log: its writer died before its first commit, or is about to commit.
            if mark.partitions and run.ref.path is not None:
                # The other writer may write other partitions. Whichever is second finds that the table exists.
                save(described, run.ref, mark, "error", table)
                return
            # If a concurrent run commits now, it has the epoch of this run, and Delta skips the replacement.
            own.sql(f"CREATE OR REPLACE TABLE {rest} {view}").collect()


def _create_by_writer(rows: DataFrame, run: Run, mark: Mark) -> None:
    """Creates a table by a writer: at a path and without mapped columns in one commit; otherwise first without rows.

    Delta refuses rows together with a mapping and a feed (`DELTA_BLOCK_COLUMN_MAPPING_AND_CDC_OPERATION`). If a catalog
    creates the table, Delta takes the transaction from the options, but not the mark.

    If a run dies between the two commits, it leaves an empty table, which the next run treats as new.
    """
    table = run.table
    if run.ref.path is not None:
        _refuse_foreign_files(rows.sparkSession, run.name, run.ref.path)
    if run.ref.path is not None and not table.maps_columns:
        try:
            save(rows, run.ref, mark, "error", table)
        except AnalysisException as error:
            _refuse_other_file_system(rows.sparkSession, run, error)
            raise
        return
    writer = _laid_out(rows.limit(0).write.format("delta").mode("error"), table)
    try:
        save_by(writer, rows.sparkSession, run.ref, table.external_path)
    except AnalysisException as error:
        if Meaning.NAME_TAKEN in said_by(error) and run.ref.log(lambda: rows.sparkSession).head() is None:
            where = _refuse_unregistered(rows.sparkSession, run, error)
            problem = "a directory that holds files but no log of Delta, as a writer leaves it that ended early"
            remedy = f"If no run is creating the table now, remove {where or run.ref.location} and run the asset again."
            raise TableError.place_taken(run.name, where or run.ref.location, problem, remedy) from error
        raise
    within = run.within(rows.schema)
    if within is None:
        save(rows, run.ref, mark, "append")
    else:  # another set of partitions may have been written to it by now
        save(rows, run.ref, mark, "overwrite", replaceWhere=within)


def _refuse_unregistered(spark: SparkSession, run: Run, error: AnalysisException) -> str | None:
    """Refuses to replace what Delta would not see: a table of another format, or one that the catalog does not know.

    Returns:
        The directory, if the table goes by a name in the catalog; None if it goes by a path.

    Raises:
        TableError (PLACE_TAKEN): The catalog has the name, and no Delta table is there; or the directory of the name
            holds a Delta table.
    """
    if run.ref.path is not None:
        return None
    where = (error.getMessageParameters() or {}).get("tableLocation")
    if where is None:  # the name is taken; for a directory that is not empty Delta would name it
        problem = "a name that the catalog has, but whose directory is gone, or has another format than Delta's"
        remedy = f"Bring the directory back. If that table is not needed, DROP TABLE {run.ref.identifier} first."
        raise TableError.place_taken(run.name, run.ref.identifier, problem, remedy) from error
    head = TableRef.at_path(run.name, where).log(lambda: spark).head()
    if head is not None:
        problem = f"where a Delta table stands at version {head.version}, which the session's catalog does not know"
        remedy = (
            f"If that is the asset's table, register it (CREATE TABLE {run.ref.identifier} USING delta LOCATION "
            f"'{where}') and run the asset again: it continues from its position. A catalog in memory forgets its "
            f"tables when Spark ends."
        )
        raise TableError.place_taken(run.name, where, problem, remedy) from error
    return where


def _refuse_other_file_system(spark: SparkSession, run: Run, error: AnalysisException) -> None:
    """Refuses to replace a table that Spark sees at a path where this process sees none.

    Raises:
        TableError (OTHER_FILE_SYSTEM): The path means another file system to Spark.
    """
    head = SparkLog(spark, run.ref.identifier, run.name).head()
    if head is None:
        return
    if run.ref.log(lambda: spark).head() is not None:  # a concurrent run made it this moment
        raise error
    raise TableError.other_file_system(run.name, run.ref.location, head.version) from error


def _refuse_foreign_files(spark: SparkSession, asset: str, where: str) -> None:
    """Refuses to create a table among files that Delta did not write, because VACUUM would remove them.

    Spark does not list `_delta_log` or other names that begin with an underscore or a dot. A path is a pattern to it.

    Raises:
        TableError (PLACE_TAKEN): The directory holds a file whose name is not one of Delta's.
    """
    reader = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    try:
        files = reader.load(_PATTERN.sub(r"\\\g<0>", where))
        other = files.select("path").where(~F.col("path").rlike(_DATA_FILE)).first()
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return
        raise
    if other is not None:
        problem = f"a directory with files that Delta did not write: {other['path']}. VACUUM would remove such files"
        remedy = "Move the files, or put the table elsewhere: another asset key, or Table(path=...)."
        raise TableError.place_taken(asset, where, problem, remedy)


def _with_comment(column: StructField, table: Table) -> Column:
    """The column with its comment and without the source's default, because the written rows have values."""
    comment = table.descriptions.get(column.name)
    copied = {name: value for name, value in column.metadata.items() if name not in _DEFAULTS}
    metadata = copied | ({"comment": comment} if comment else {})
    value = F.col(quote(column.name))
    if metadata == column.metadata:
        return value
    # An alias of a column keeps the column's metadata unless it is given some; an alias of an expression has none.
    return value.alias(column.name, metadata=metadata) if metadata else F.coalesce(value).alias(column.name)


@phase("execute")
def execute(spark: SparkSession, statement: Statement, run: Run, mark: Mark) -> None:
    """Runs the statement as one commit that carries the mark."""
    match statement:
        case Create(rows=rows):
            create(rows, run, mark)
        case Insert(rows=rows):
            save(rows, run.ref, mark, "append")
        case ReplaceRows(rows=rows, where=where) | Replace(rows=rows, where=where):
            # Without a predicate saveAsTable would replace the table itself, with another id and without its history.
            save(rows, run.ref, mark, "overwrite", replaceWhere=where or "true")
        case ReplaceMatched(rows=rows, on=on, counts=counts):
            written = _side_of_join(rows, counts).alias(TAKEN_BY)
            save(written, run.ref, mark, "overwrite", replaceOn=on, targetAlias=HELD_BY)
        case MarkOnly():
            save_mark(spark, run.ref, mark)
        case DeleteMatched(keys=keys, counts=counts, within=within, nulls=nulls):
            sent = _side_of_join(keys, counts)
            with handed_over(sent, mark.application_id, mark.epoch, mark.to_json()) as (own, view):
                own.conf.set(DELETE_WHERE_EXISTS, "true")
                same_key = f"SELECT 1 FROM {view} s WHERE {_on_key(run, {}, nulls=nulls)}"
                where = f"({within}) AND EXISTS ({same_key})" if within else f"EXISTS ({same_key})"
                own.sql(f"DELETE FROM {run.ref.identifier} t WHERE {where}").collect()
        case MergeRows(difference=rows, counts=counts, within=within, few=few, nulls=nulls):
            with handed_over(rows, mark.application_id, mark.epoch, mark.to_json()) as (own, view):
                if few:
                    # Few rows: broadcast in an inner join; hashed in an outer one, so the table need not be sorted.
                    own.conf.set("spark.sql.autoBroadcastJoinThreshold", str(2 * limits().driver_bytes))
                    own.conf.set("spark.sql.join.preferSortMergeJoin", "false")
                if _char_keys(run, rows):
                    own.conf.set("spark.sql.readSideCharPadding", "false")
                own.sql(merge_sql(run, rows, view, within, inserts=counts.inserted != 0, nulls=nulls)).collect()


def _side_of_join(rows: DataFrame, counts: Rows) -> DataFrame:
    """The rows as the side of a join with the table: sent to every task if they are few."""
    return F.broadcast(rows) if counts.total <= limits().broadcast_rows else rows


def merge_sql(run: Run, difference_: DataFrame, view: str, within: str | None, *, inserts: bool, nulls: bool) -> str:
    """The one MERGE of a difference. Inserting a row whose key exists is an error, not an update.

    Without inserts the MERGE is an inner join: few rows are then broadcast, and neither side is shuffled.
    """
    columns = [column for column in difference_.columns if column != OPERATION]
    chars = _char_keys(run, difference_)
    on = _on_key(run, chars, nulls=nulls)
    on = f"({within}) AND {on}" if within and not chars else on  # a literal may be padded where the column is not
    # If the table holds a key more than once, its rows are deleted, and the one row is inserted: it matches none.
    on = f"{on} AND s.{quote(OPERATION)} <> '{AGAIN}'"
    keys = fold(run.table.key_columns)
    changed = [c for c in columns if c.lower() not in keys]
    updates = changed or columns[:1]
    operation = f"s.{quote(OPERATION)}"
    refused = f"WHEN MATCHED AND {operation} = '{INSERT}' THEN UPDATE SET {_assignment_that_fails(run, difference_)} "
    inserted = f"INSERT ({quote_all(columns)}) VALUES ({quote_all(columns, 's.')})"
    return (
        f"MERGE WITH SCHEMA EVOLUTION INTO {run.ref.identifier} t USING {view} s ON {on} "
        f"WHEN MATCHED AND {operation} = '{DELETE}' THEN DELETE {refused if inserts else ''}"
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{quote(c)} = s.{quote(c)}' for c in updates)}"
        + (f" WHEN NOT MATCHED AND {operation} <> '{DELETE}' THEN {inserted}" if inserts else "")
    )


def _on_key(run: Run, chars: Mapping[str, str], *, nulls: bool) -> str:
    keys = {k: chars.get(k.lower(), f"t.{quote(k)}") for k in run.table.key_columns}
    return " AND ".join(same(own, f"s.{quote(k)}", nulls=nulls) for k, own in keys.items())


def _char_keys(run: Run, rows: DataFrame) -> Mapping[str, str]:
    """The key columns of the table that are CHARs, padded in SQL, by their names in lower case.

    Delta 4.4's `MERGE` fails over a condition on a column that Spark itself pads.
    """
    keys = fold(run.table.key_columns)
    lengths = {c.name: char_length(c) for c in rows.schema.fields if c.name.lower() in keys}
    return {name.lower(): f"rpad(t.{quote(name)}, {n}, ' ')" for name, n in lengths.items() if n is not None}


def _assignment_that_fails(run: Run, difference_: DataFrame) -> str:
    """An assignment that fails: the row is new among the touched keys, but its key is elsewhere in the table."""
    name = run.table.key_columns[0]
    kind = next(c.dataType for c in difference_.schema.fields if c.name.lower() == name.lower()).simpleString()
    return f"t.{quote(name)} = CAST(raise_error({literal(breach_text(Breach.ELSEWHERE))}) AS {kind})"

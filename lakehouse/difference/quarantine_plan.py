"""The plan of a quarantine: for each touched key it holds exactly the rows that the table of the same plan rejects."""

from functools import partial

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.cursor.cursor import Fresh, Known
from lakehouse.cursor.find import find_cursor
from lakehouse.delta.expect import NTH, RUN_ID, SUFFIX
from lakehouse.delta.log import Head, version_of
from lakehouse.delta.text import quote
from lakehouse.difference.by_key import statement_by_key
from lakehouse.difference.expectations import Judged
from lakehouse.difference.row_comparison import OPERATION, difference, with_promises
from lakehouse.difference.statements import Create, Planned, Skip, Statement, WithQuarantine
from lakehouse.errors import TableError
from lakehouse.read.asset import Asset, OtherTable, PastRows
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.spark.broken_promises import Breach, breach_sql
from lakehouse.spark.driver_rows import Local
from lakehouse.spark.fitting import fit
from lakehouse.spark.table_version import TableVersion
from lakehouse.spark.types import comparable


def with_quarantine(
    spark: SparkSession,
    run: Run,
    statement: Statement | Skip,
    judged: Judged,
    touched: Touched | None,
    head: Head | None,
    *,
    one_each: bool = False,
) -> Planned:
    """The statement of the table, and before it that of its quarantine, if the table has one or had one.

    With `one_each` a key has one rejected row at most, because later runs may see only some of its rows.

    Raises:
        WriteError (BROKEN_PROMISE): While the rows are written: a key has two, and `one_each`.
        WriteError (SCHEMA): The rows do not fit the quarantine.
        TableError (FOREIGN_TABLE): Another program made the table that is there.
    """
    had = run.cursor.mark.beside if isinstance(run.cursor, Known) else None
    if not run.table.quarantines and had is None:
        return statement
    own = _run_of_quarantine(spark, run, head, sets_all=touched is None or touched.is_everything)
    return WithQuarantine(own, _plan(spark, own, judged, touched, run.table.key_columns, one_each=one_each), statement)


def _run_of_quarantine(spark: SparkSession, run: Run, head: Head | None, *, sets_all: bool) -> Run:
    """The run as a writer of the quarantine: with the quarantine's epochs, and without a position in any source."""
    ref = run.ref.beside(SUFFIX)
    log = ref.log(lambda: spark)
    own_head = log.head()
    by_request = run.request.overrides_mark
    cursor = find_cursor(log, own_head, ref.name, run.partitions, positions=False, overrides_mark=by_request)
    if isinstance(cursor, Fresh) and cursor.foreign is not None:
        raise TableError.foreign_table(ref.name, ref.location, cursor.foreign, "quarantine")
    asset = Asset(ref.name, run.table.quarantine, ref, PastRows.COMPUTED)
    table = OtherTable(version_of(head), sets_all=sets_all)
    return Run(asset, run.run_id, cursor, own_head, slice=run.slice, other_table=table)


def _plan(
    spark: SparkSession, run: Run, judged: Judged, touched: Touched | None, key: tuple[str, ...], *, one_each: bool
) -> Statement | Skip:
    """The statement that sets the quarantine right. If no row is rejected, an empty one costs no job of Spark.

    A quarantine that is not there is made without rows as well, so that others can read it from the first run on.
    """
    head, rejected, asset = run.head, judged.rejected, run.name.removesuffix(SUFFIX)
    if not judged.rejects and head is not None and run.ref.log(lambda: spark).live_rows(head.version) == 0:
        return Skip()
    if head is None:
        if rejected is None:
            return Skip()
        numbered = with_numbers(rejected if judged.rejects else rejected.limit(0), key, one_each=one_each)
        rows = with_promises(asset, numbered, touched)
        created = difference(rows, None, run.table.key_columns).drop(OPERATION)
        return Create(created.withColumn(RUN_ID, F.lit(run.run_id)))
    stored = TableVersion.of(spark, run.ref, head).rows()
    within = run.within(stored.schema)
    existing = (stored if within is None else stored.where(within)).drop(RUN_ID)
    rows = existing.limit(0)
    if rejected is not None and judged.rejects:
        rows = fit(run.ref, with_numbers(rejected, key, one_each=one_each), existing.schema, may_add=True)
    stamp = partial(_with_run_id, run_id=run.run_id)
    return statement_by_key(run, rows, touched, existing, head, Skip(), asset=asset, stamp=stamp)


def with_numbers(rejected: DataFrame, key: tuple[str, ...], *, one_each: bool = False) -> DataFrame:
    """The rows, each with its number among those of its key: in the order of their values, so always the same.

    With `one_each` a key with two rows breaks a promise (`Breach.TWICE`).
    """
    order = [F.expr(text) for text in comparable(rejected.schema).values()]
    number = F.row_number().over(Window.partitionBy(*map(quote, key)).orderBy(*order))
    if one_each:
        twice = breach_sql(Breach.TWICE, {column: quote(column) for column in key})
        number = F.when(number > 1, F.raise_error(F.expr(twice))).otherwise(number)
    return rejected.withColumn(NTH, number)


def _with_run_id(changed: Local | DataFrame, run_id: str) -> Local | DataFrame:
    """The rows to write with the run that writes them. A row that stays keeps the run that put it there."""
    if not isinstance(changed, Local):
        return changed.withColumn(RUN_ID, F.lit(run_id))
    schema = StructType([*changed.schema.fields, StructField(RUN_ID, StringType())])
    column = pa.array([run_id] * changed.rows, pa.string())
    return Local(changed.spark, schema, changed.arrow.append_column(RUN_ID, column))

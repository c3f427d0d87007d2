"""`History(Snapshot(...))`: type 2 of full extracts, whose rows begin and end at the versions of the extracts.

One law for a newer extract, for the same version again and for one that is restated: *what the table says of the time
before the version stays, and from the version on it says of every entity of the extract, and of every current one in
its scope, what the extract does.* So rows that began at the version or later are dropped, and those that ended then are
taken up again, before the extract is applied.
"""

from datetime import date, datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.delta.log import Head
from lakehouse.delta.text import literal, quote
from lakehouse.difference.by_key import statement_by_key
from lakehouse.difference.statements import Create, MarkOnly, Skip, Statement
from lakehouse.errors import RESTATE_FROM, WriteError
from lakehouse.read.content import CHANGE, DELETE, INSERT, VERSION
from lakehouse.read.run import Run
from lakehouse.spark.driver_rows import is_empty
from lakehouse.spark.fitting import check_new, check_padding, conform, fit, with_lacking
from lakehouse.spark.table_version import TableVersion
from lakehouse.writes.extract import fill, former_rows, matching
from lakehouse.writes.history_rows import NEVER, Shape, check_columns, lay_out, refuse_other_shape
from lakehouse.writes.snapshot import Snapshot, refuse_deletions, scope_of, take_extract


def open_extracted(spark: SparkSession, run: Run, shape: Shape, snapshot: Snapshot) -> Run:
    """The run under the key of the history's rows, with the version of the extract.

    Raises:
        LakehouseError: No history can be kept so, or the extract is none that the table can take.
    """
    refuse_other_shape(run, shape)
    run = take_extract(run, snapshot)
    stored = None if run.head is None else TableVersion.of(spark, run.ref, run.head).rows()
    columns = () if stored is None else stored.columns
    check_columns(run.name, shape, f"The extract of '{run.name}'", snapshot.rows.columns, columns)
    if stored is not None and "version" in run.request.allowed and run.request.restate_from is None:
        _refuse_later(run, shape, stored)
    if snapshot.scope_columns and run.request.restate_from is not None:
        raise WriteError(
            f"'{run.name}' is to be restated from extract {run.extract}, but the extract has a scope, and the rows of "
            f"other scopes would lose what came later.",
            "Nothing was written. Restate it from an extract without a scope.",
        )
    return lay_out(run, shape)


def _refuse_later(run: Run, shape: Shape, stored: DataFrame) -> None:
    """Refuses to take an extract whatever the table holds, if later rows would be dropped by that."""
    assert run.extract is not None, "take_extract has given the version"
    version = _literal(run.extract.value)
    if not is_empty(stored.where(f"{quote(shape.start)} > {version} OR {quote(shape.end)} > {version}")):
        raise WriteError(
            f"The history '{run.name}' holds rows that begin or end after {run.extract}.",
            f"Nothing was written. To drop what came after extract {run.extract}, add the run tag "
            f"{RESTATE_FROM}{run.name}={run.extract}.",
        )


def plan_extracted_history(
    spark: SparkSession, run: Run, shape: Shape, snapshot: Snapshot, head: Head | None, rest: MarkOnly | Skip
) -> Statement | Skip:
    """The statement after which the history says from the extract's version on what the extract does.

    Args:
        spark: The session.
        run: The run, from `open_extracted`.
        shape: The columns of the history.
        snapshot: The extract.
        head: The table as the attempt finds it; None if there is no table.
        rest: What remains to be done if no row differs.

    Raises:
        ExtractError (DELETIONS_HELD_BACK): More entities would end than may.
        WriteError: A correction lacks entities whose rows of before are not known.
    """
    assert run.extract is not None, "take_extract has given the version"
    version = _literal(run.extract.value)
    at = spark.range(1).selectExpr("0L AS __version", f"{version} AS __at")
    if head is None:
        states = shape.states(_images(snapshot.rows, INSERT), at, NEVER)
        rows = shape.rows(states, one_task=False).drop(*shape.earliest)
        check_new(run.name, rows, run.table, None)
        return Create(rows)
    stored = TableVersion.of(spark, run.ref, head).rows()
    check_padding(run.name, snapshot.rows, stored.schema, (*shape.entity, *snapshot.scope_columns))
    end, start = quote(shape.end), quote(shape.start)
    reaches = f"{end} IS NULL OR {end} >= {version}"
    reaching = stored.where(reaches)
    values = StructType([field for field in stored.schema.fields if field.name.lower() not in shape.own])
    before = reaching.where(f"{start} < {version}")
    delivered = fill(snapshot.rows, before.select(*map(quote, values.names)), shape.entity)
    delivered = fit(run.ref, delivered, values, may_add=run.asset.policy.new_columns == "add")
    of_scope = scope_of(snapshot, delivered)
    within = of_scope(reaching.where(f"{end} IS NULL"))
    missing, back = matching(within, delivered, shape.entity, "left_anti"), None
    if snapshot.scope_columns:
        entity = [*map(quote, shape.entity)]
        concerned = delivered.select(*entity).unionByName(within.select(*entity))
        reaching, before = (matching(rows, concerned, shape.entity) for rows in (reaching, before))
        back = former_rows(run, missing, shape.entity, of_scope, f"{end} IS NULL", head)
    if back is not None:
        missing, before = (matching(rows, back, shape.entity, "left_anti") for rows in (missing, before))
    _judge(run, snapshot, within, missing)
    rows = _rows(shape, delivered, before, at)
    if back is not None:
        rows = rows.unionByName(conform(back.where(reaches), rows.schema))
    return statement_by_key(run, fit(run.ref, rows, stored.schema, may_add=True), None, reaching, head, rest)


def _judge(run: Run, snapshot: Snapshot, within: DataFrame, missing: DataFrame) -> None:
    if snapshot.max_deleted is not None and "max_deleted" not in run.request.allowed:
        refuse_deletions(run, snapshot, missing.count(), within)


def _rows(shape: Shape, delivered: DataFrame, before: DataFrame, at: DataFrame) -> DataFrame:
    """What the table is to say, from the version on, of the entities that are delivered or held before."""
    columns = delivered.columns
    before = with_lacking(before, delivered.schema)
    ended = _images(before.select(*map(quote, columns)), DELETE)
    states = shape.states(_images(delivered, INSERT).unionByName(ended), at, NEVER)
    rows = shape.rows(shape.states_before(before, columns).unionByName(states), one_task=False)
    return rows.drop(*shape.earliest)


def _images(rows: DataFrame, change: str) -> DataFrame:
    """Rows as those of a feed whose only version is 0."""
    return rows.withColumns({CHANGE: F.lit(change), VERSION: F.lit(0).cast("bigint")})


def _literal(version: int | date | datetime) -> str:
    return literal(version, "bigint")

"""How each statement is executed as one Delta commit that carries its mark."""

from typing import assert_never

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.commit.create import create
from lakehouse.commit.save import save
from lakehouse.cursor.mark import Mark
from lakehouse.difference.difference import (
    AGAIN,
    DELETE,
    INSERT,
    OPERATION,
)
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
from lakehouse.frames.promises import Breach, breach_text
from lakehouse.limits import limits
from lakehouse.log.rows import Rows
from lakehouse.read.run import Run
from lakehouse.spark.phases import phase
from lakehouse.spark.session import handed_over
from lakehouse.sql.text import folded, literal, quote, quote_all, same


@phase("execute")
def execute(spark: SparkSession, statement: Statement, run: Run, mark: Mark) -> None:
    """Runs the statement as one commit that carries the mark.

    Args:
        spark: The session.
        statement: What to do.
        run: The run.
        mark: What the commit says about itself.
    """
    match statement:
        case Create(rows=rows):
            create(rows, run, mark)
        case Insert(rows=rows):
            save(rows, run, mark, "append")
        case ReplaceRows(rows=rows, where=where) | Replace(rows=rows, where=where):
            # Without a predicate saveAsTable would replace the table itself, with another id and without its history.
            save(rows, run, mark, "overwrite", replaceWhere=where or "true")
        case ReplaceMatched(rows=rows, on=on, counts=counts):
            written = _joined(rows, counts).alias(TAKEN_BY)
            save(written, run, mark, "overwrite", replaceOn=on, targetAlias=HELD_BY)
        case MarkOnly():
            save(spark.read.table(run.ref.identifier).limit(0), run, mark, "append")
        case DeleteMatched(keys=keys, counts=counts, within=within, nulls=nulls):
            sent = _joined(keys, counts)
            with handed_over(sent, mark.application_id, mark.epoch, mark.to_json()) as (own, view):
                own.conf.set(DELETE_WHERE_EXISTS, "true")
                same_key = f"SELECT 1 FROM {view} s WHERE {_on_key(run, nulls=nulls)}"
                where = f"({within}) AND EXISTS ({same_key})" if within else f"EXISTS ({same_key})"
                own.sql(f"DELETE FROM {run.ref.identifier} t WHERE {where}").collect()
        case MergeRows(difference=rows, counts=counts, within=within, few=few, nulls=nulls):
            with handed_over(rows, mark.application_id, mark.epoch, mark.to_json()) as (own, view):
                if few:
                    # Few rows: broadcast to an inner join; in an outer one hashed, so the table need not be sorted.
                    own.conf.set("spark.sql.autoBroadcastJoinThreshold", str(2 * limits().driver_bytes))
                    own.conf.set("spark.sql.join.preferSortMergeJoin", "false")
                own.sql(merge_sql(run, rows, view, within, inserts=counts.inserted != 0, nulls=nulls)).collect()
        case _:
            assert_never(statement)


def _joined(rows: DataFrame, counts: Rows) -> DataFrame:
    """The rows as the side of a join with the table: sent to every task if they are few."""
    return F.broadcast(rows) if counts.total <= limits().broadcast_rows else rows


def merge_sql(run: Run, difference_: DataFrame, view: str, within: str | None, *, inserts: bool, nulls: bool) -> str:
    """The one MERGE of a difference. To insert a row whose key exists is an error, not an update.

    Without inserts the MERGE is an inner join: few rows are then broadcast, and neither side is shuffled.
    """
    columns = [column for column in difference_.columns if column != OPERATION]
    on = _on_key(run, nulls=nulls)
    on = f"({within}) AND {on}" if within else on
    # Of a key that the table holds more than once the rows are deleted, and the one row is inserted: it matches none.
    on = f"{on} AND s.{quote(OPERATION)} <> '{AGAIN}'"
    keys = folded(run.table.key_columns)
    changed = [c for c in columns if c.lower() not in keys]
    updates = changed or columns[:1]
    operation = f"s.{quote(OPERATION)}"
    refused = f"WHEN MATCHED AND {operation} = '{INSERT}' THEN UPDATE SET {_refused(run, difference_)} "
    inserted = f"INSERT ({quote_all(columns)}) VALUES ({quote_all(columns, 's.')})"
    return (
        f"MERGE WITH SCHEMA EVOLUTION INTO {run.ref.identifier} t USING {view} s ON {on} "
        f"WHEN MATCHED AND {operation} = '{DELETE}' THEN DELETE {refused if inserts else ''}"
        f"WHEN MATCHED THEN UPDATE SET {', '.join(f'{quote(c)} = s.{quote(c)}' for c in updates)}"
        + (f" WHEN NOT MATCHED AND {operation} <> '{DELETE}' THEN {inserted}" if inserts else "")
    )


def _on_key(run: Run, *, nulls: bool) -> str:
    return " AND ".join(same(f"t.{quote(k)}", f"s.{quote(k)}", nulls=nulls) for k in run.table.key_columns)


def _refused(run: Run, difference_: DataFrame) -> str:
    """An assignment that fails: the row is new among the touched keys, but its key is elsewhere in the table."""
    name = run.table.key_columns[0]
    kind = next(c.dataType for c in difference_.schema.fields if c.name.lower() == name.lower()).simpleString()
    return f"t.{quote(name)} = CAST(raise_error({literal(breach_text(Breach.ELSEWHERE))}) AS {kind})"

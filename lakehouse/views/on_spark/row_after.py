"""One row made of all rows: its old value, less the rows of touched keys before the changes, plus those after."""

from dataclasses import dataclass, replace

from pyspark.sql import DataFrame
from pyspark.sql.types import DataType, DecimalType, StructField, StructType

from lakehouse.delta.text import quote
from lakehouse.read.content import Feed, Nothing, SourceRead
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.driver_rows import Local, small
from lakehouse.spark.session import why_sums_may_be_lost
from lakehouse.views.on_spark.bound_text import BoundText, types_of
from lakehouse.views.on_spark.computing import OfKeys
from lakehouse.views.steps.one_row import AggregateFunction, OneRow, Total

_UNKNOWN = "__unknown"
_MOST_PLACES = 30
"""Sums of numbers with more decimal places than this may not fit into one decimal type."""


@dataclass(frozen=True, slots=True)
class _Column:
    """A column of the row, as SQL.

    Args:
        field: Its name and type.
        count: How many values some rows have for it.
        made: What the aggregate makes of the values of these rows.
        now: Its value after the changes, computed from what it was (`was_`) and from `count` and `made` of the rows
            that went (`went_`) and came (`came_`).
    """

    field: StructField
    count: str
    made: str
    now: str

    @classmethod
    def of(cls, place: int, total: Total, field: StructField, kind: DataType | None) -> "_Column":
        """The column at a position; `kind` is the type of its values, None for count(*)."""
        value = "1" if total.value is None else quote(total.value)
        was, went, came = f"was_{place}", f"went_{place}", f"came_{place}"
        went_n, came_n = f"went_n_{place}", f"came_n_{place}"
        made, now = "NULL", f"CASE WHEN {was} - {went_n} + {came_n} >= 0 THEN {was} - {went_n} + {came_n} END"
        match total.function:
            case AggregateFunction.COUNT:
                pass
            case AggregateFunction.SUM:
                places = _places(kind)
                made = f"try_sum(CAST({value} AS DECIMAL(38,{places})))"
                exact = f"DECIMAL(36,{places})"  # was - less + more then has 38 digits
                less, more = (
                    f"CASE WHEN {count} = 0 THEN CAST(0 AS {exact}) ELSE try_cast({side} AS {exact}) END"
                    for side, count in ((went, went_n), (came, came_n))
                )
                sum_ = f"(try_cast({was} AS {exact}) - {less} + {more})"
                may_be_none = f"WHEN {sum_} = 0 AND {came_n} = 0 AND {went_n} > 0 THEN NULL " if total.is_null else ""
                now = f"CASE WHEN {was} IS NULL THEN {came} {may_be_none}ELSE {sum_} END"
            case AggregateFunction.MIN | AggregateFunction.MAX:
                made = f"{total.function.value}({value})"
                beyond, best = ("<", "greatest") if total.function is AggregateFunction.MAX else (">", "least")
                now = (
                    f"CASE WHEN {was} IS NULL THEN {came} WHEN {went} IS NULL OR {went} {beyond} {was} "
                    f"THEN {best}({was}, {came}) WHEN {went} = {was} AND NOT {came} {beyond} {was} THEN {came} END"
                )
        return cls(field, f"count({value})", made, f"try_cast({now} AS {field.dataType.simpleString()})")


def _places(kind: DataType | None) -> int:
    """The decimal places of numbers of a type."""
    return kind.scale if isinstance(kind, DecimalType) else 0


def row_after(table: DataFrame, schema: StructType, below: BoundText, of_keys: OfKeys, one: OneRow) -> DataFrame | str:
    """The one row after the changes; else why it does not follow from the row before, as a clause.

    The row is not guessed if a minimum or maximum went, or if a sum is 0 and it is not known whether a value is left.

    The counting algorithm: Gupta and Mumick, "Maintenance of Materialized Views" (1995).

    Args:
        table: The table, which holds the row before the changes.
        schema: The columns of the row.
        below: The text of the rows from which it is made.
        of_keys: Those of these rows that have touched keys, after the changes.
        one: How its columns are computed.
    """
    kinds = {field.name: field.dataType for field in of_keys.rows.schema.fields}
    of_totals = [None if total.value is None else kinds[total.value] for total in one.totals]
    if max(map(_places, of_totals)) > _MOST_PLACES:
        return f"its sums have more than {_MOST_PLACES} decimal places"
    if (why := why_sums_may_be_lost(of_keys.rows.sparkSession, schema)) is not None:
        return why
    columns = [
        _Column.of(place, total, field, kind)
        for place, (total, field, kind) in enumerate(zip(one.totals, schema.fields, of_totals, strict=True))
    ]
    try:
        went = _rows_before(below, of_keys)
        row = went if isinstance(went, str) else small(_row(table, columns, went, of_keys.rows))
    except Exception as error:
        why = why_unreadable(error)
        if why is None:
            raise
        return f"a source cannot be read as it was ({why})"
    match row:
        case str():
            return row
        case Local(rows=1) if row.column(_UNKNOWN).to_pylist() == [False]:
            return row.select(schema.names).frame
        case Local(rows=1):
            return "what went cannot be taken from what it was"
        case _:
            return "its table does not hold one row"


def _row(table: DataFrame, columns: list[_Column], went: DataFrame, came: DataFrame) -> DataFrame:
    """The row, once for each row of the table, and whether it is unknown."""
    sides = [
        rows.selectExpr(
            *(f"{each.count} AS {side}_n_{place}" for place, each in enumerate(columns)),
            *(f"{each.made} AS {side}_{place}" for place, each in enumerate(columns)),
        )
        for side, rows in (("went", went), ("came", came))
    ]
    was = table.selectExpr(*(f"{quote(each.field.name)} AS was_{place}" for place, each in enumerate(columns)))
    names = [quote(each.field.name) for each in columns]
    now = (f"{each.now} AS {name}" for each, name in zip(columns, names, strict=True))
    # A column is unknown if it should have a value and has none, or if values went from a column without any.
    unknown = " OR ".join(
        f"({name} IS NULL AND NOT (was_{place} IS NULL AND came_n_{place} = 0)) "
        f"OR (was_{place} IS NULL AND went_n_{place} > 0)"
        for place, name in enumerate(names)
    )
    beside = was.crossJoin(sides[0]).crossJoin(sides[1]).selectExpr("*", *now)
    return beside.selectExpr(*names, f"{unknown} AS {_UNKNOWN}")


def _rows_before(below: BoundText, of_keys: OfKeys) -> DataFrame | str:
    """The rows of touched keys as they were before the changes; else why they cannot be computed, as a clause."""
    tables = dict[str, DataFrame]()
    for name, read in below.reads.items():
        before = _source_before(read)
        if isinstance(before, str):
            return before
        tables[name] = before
    execution = below.execution.over(tables)
    execution.run(of_keys.plan.steps)
    return of_keys.touched.restrict(below.as_declared(execution.frame(of_keys.plan.text)))


def _source_before(read: SourceRead) -> DataFrame | str:
    """A source as it was before the changes; else why it cannot be read like that, as a clause."""
    match read.content:
        case Nothing():
            return read.source
        case Feed(archived=False):
            before = replace(read.source_at, version=read.range.after).rows()
            is_same = types_of(before.schema) == types_of(read.source.schema)
            return before if is_same else f"the columns of '{read.name}' have changed"
        case _:
            return f"no feed tells the changes of '{read.name}'"

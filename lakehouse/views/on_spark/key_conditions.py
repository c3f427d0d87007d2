"""From the keys of a step to the condition that a row has one of them: literals, which leave out files, or a semi-join.

Named parameters also become literals in the SQL text, because Delta's parser does not pass their values on to Spark's.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from lakehouse.delta.keys import KeyPredicate, KeySet
from lakehouse.delta.text import Literal, literal, quote
from lakehouse.errors.views import ViewError
from lakehouse.spark.driver_rows import Local
from lakehouse.spark.types import INTEGERS, column_types
from lakehouse.views.plan import Restriction
from lakehouse.views.sql.tokens import Token, cut, replace_tokens

BoundSql: TypeAlias = Sequence[str | DataFrame]
"""SQL text with frames for relations."""
_KEY = "__view_key_"


def query(spark: SparkSession, sql: Iterable[str | DataFrame], args: Mapping[str, Any]) -> DataFrame:
    """A query over frames. Braces in its text are escaped, because `spark.sql` binds frames by braces."""
    frames, texts = dict[int, DataFrame](), list[str]()
    for part in sql:
        if isinstance(part, str):
            texts.append(with_values(part, args).replace("{", "{{").replace("}", "}}"))
        else:
            frames[id(part)] = part
            texts.append(f"{{frame_{id(part)}}}")
    text = "".join(texts)
    if not frames:  # without frames, Spark takes the text literally
        text = text.replace("{{", "{").replace("}}", "}")
    return spark.sql(text, None, **{f"frame_{number}": frame for number, frame in frames.items()})


def restrict(
    frame: DataFrame,
    any_of: Sequence[Sequence[Restriction]],
    keys: Mapping[str, Local | DataFrame],
) -> DataFrame:
    """The rows for which one of the alternatives holds; no alternative means all rows."""
    if not any_of:
        return frame
    alternatives = [_join((_condition(frame, one, keys[one.step]) for one in each), " AND ") for each in any_of]
    where = _join(alternatives, " OR ")
    if all(isinstance(part, str) for part in where):
        return frame.where("".join(map(str, where)))
    return query(frame.sparkSession, ("SELECT * FROM ", frame, " WHERE ", *where), {})


def _join(conditions: Iterable[BoundSql], word: str) -> list[str | DataFrame]:
    parts = [part for condition in conditions for part in (word, "(", *condition, ")")]
    return parts[1:]


def _condition(frame: DataFrame, restriction: Restriction, keys: Local | DataFrame) -> BoundSql:
    """The condition that a row has one of the keys. It holds for no other row."""
    values = _values(restriction, keys)
    if values == []:
        return ("FALSE",)
    literals = None if values is None else _literals(frame, restriction, keys, values)
    semi_join = _semi_join(restriction, keys)
    match literals:
        case None:
            return semi_join
        case KeyPredicate(sql=sql, is_exact=True):
            return (sql,)
        case KeyPredicate(sql=sql):
            return (f"({sql}) AND ", *semi_join)


def _values(restriction: Restriction, keys: Local | DataFrame) -> list[tuple[Literal, ...]] | None:
    """The distinct keys that a row may have, if they are at the driver and have literals."""
    if not isinstance(keys, Local):
        return None
    values = keys.values([column for _, column in restriction.pairs])
    if values is None or restriction.null_safe:
        return values
    return [key for key in values if None not in key]


def _literals(
    frame: DataFrame, restriction: Restriction, keys: Local | DataFrame, values: list[tuple[Literal, ...]]
) -> KeyPredicate | None:
    """The condition as literals; None if Spark would convert a value before it compares the value with a key."""
    assert isinstance(keys, Local), "only keys at the driver have literals"
    kinds = {column.name.lower(): column.dataType for column in keys.schema.fields}
    columns = [column for _, column in restriction.pairs]
    if not all(map(_are_compared_as_they_are, _types(frame, restriction), (kinds[each.lower()] for each in columns))):
        return None
    types = column_types(keys.schema)
    # Delta leaves out files only for a bare column; an expression needs parentheses next to an operator.
    operands = [
        f"({expression})" if column is None else quote(column)
        for (expression, _), column in zip(restriction.pairs, restriction.columns, strict=True)
    ]
    return KeySet.of(columns, values, [types[column.lower()] for column in columns]).predicate_on(operands)


def _types(frame: DataFrame, restriction: Restriction) -> list[DataType]:
    """The types of the expressions over a row. Spark is asked only if one is not a column."""
    kinds = {column.name.lower(): column.dataType for column in frame.schema.fields}
    named = restriction.columns
    if all(name is not None and name.lower() in kinds for name in named):
        return [kinds[str(name).lower()] for name in named]
    return [field.dataType for field in frame.selectExpr(*(text for text, _ in restriction.pairs)).schema.fields]


def _are_compared_as_they_are(row: DataType, key: DataType) -> bool:
    """Whether Spark converts neither value before it compares them: equal types, or both of whole numbers."""
    return row == key or (type(row) in INTEGERS and type(key) in INTEGERS)


def _semi_join(restriction: Restriction, keys: Local | DataFrame) -> BoundSql:
    """The condition as a semi-join with the keys."""
    names = [f"{_KEY}{place}" for place, _ in enumerate(restriction.pairs)]
    rows = (keys.frame if isinstance(keys, Local) else keys).select(
        *(F.col(quote(column)).alias(name) for name, (_, column) in zip(names, restriction.pairs, strict=True))
    )
    sign = "<=>" if restriction.null_safe else "="
    same = (f"({text}) {sign} {name}" for name, (text, _) in zip(names, restriction.pairs, strict=True))
    return ("EXISTS (SELECT 1 FROM ", rows, f" WHERE {' AND '.join(same)})")


def with_values(sql: str, args: Mapping[str, Any]) -> str:
    """SQL text with the value of each named parameter in its place. Texts, names and comments stay as they are."""
    return replace_tokens(sql, _values_in(sql, args)) if args else sql


def _values_in(sql: str, args: Mapping[str, Any]) -> Iterator[tuple[Token, str]]:
    """What replaces the colon and the name of each parameter; two colons are a cast."""
    sequence = tuple(cut(sql))
    for before, colon, name in zip((None, *sequence), sequence, sequence[1:], strict=False):
        is_cast = before is not None and before.is_symbol(":") and before.end == colon.start
        if colon.is_symbol(":") and colon.end == name.start and not is_cast and name.text in args:
            yield colon, " "
            yield name, f"{_value(name.text, args[name.text])} "


def _value(name: str, value: object) -> str:
    """A value as SQL."""
    if value is None or isinstance(value, str | bytes | bool | int | float | Decimal | date):
        return literal(value)
    raise ViewError(
        "VIEW_PARAMETER",
        f"The value of the parameter :{name} is a {type(value).__name__}, which is not a literal of SQL",
        None,
        "Give a text, a number, a date, a datetime, a boolean, bytes or None; write a list in the text itself.",
    )

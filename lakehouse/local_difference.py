"""The difference where the result is at the driver: one scan of the table, which says of each row whether it stays.

The table's rows stay where they are. Of each the driver learns which row of the result has its key, and whether the two
are the same; what the table does not hold is new. So nothing is shuffled, no second plan compares, and where the result
is empty no column is read but the key's.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, IntegerType, StringType, StructField, StructType

from lakehouse.difference import AGAIN, DELETE, HELD, INSERT, OPERATION, UPDATE, breach
from lakehouse.local import Local, small
from lakehouse.schema import comparable
from lakehouse.sql import Literal, quote, same
from lakehouse.touched import Touched, require

_NTH, _DIFFERS = "__lakehouse_nth", "__lakehouse_differs"


def local_difference(
    asset: str,
    rows: Local,
    existing: DataFrame,
    key: tuple[str, ...],
    touched: Touched,
    *,
    held: tuple[str, ...] = (),
) -> Local | None:
    """What turns `existing` into `rows`, in the form of `difference`; None where it cannot be told here.

    Args:
        asset: The asset, for messages.
        rows: What the table should hold of the touched keys.
        existing: What it holds of them.
        key: The table's key, at least one column.
        touched: The keys that the result is about.
        held: Columns whose values in the table are to stand beside each row, as structs in `HELD`.

    Raises:
        BrokenPromiseError: A row lies outside the touched keys, or a key occurs twice.
    """
    if not _is_kept(asset, rows, key, touched):
        return None
    found = small(_beside(rows, existing, key, held))
    if found is None:
        return None
    gone = _gone(found, key)
    return None if gone is None else _as_difference(rows, found, list(_steps(rows.rows, found)), gone, key)


def _is_kept(asset: str, rows: Local, key: tuple[str, ...], touched: Touched) -> bool:
    """Whether the result is known to keep its promises; False where its keys have no literals to tell them by.

    Raises:
        BrokenPromiseError: It is known not to.
    """
    require(rows.frame, touched.columns, f"The result of '{asset}'")
    named, within = rows.values(key), rows.values(touched.columns)
    if named is None or within is None or touched.values is None or touched.predicate(rows.frame) is None:
        return False
    outside = next(iter(set(within).difference(touched.values)), None)
    if outside is not None:
        raise breach(asset, {"kind": "outside", "key": dict(zip(touched.columns, outside, strict=True))})
    if len(named) < rows.rows:
        ((twice, _),) = Counter(_listed(rows, key)).most_common(1)
        raise breach(asset, {"kind": "twice", "key": dict(zip(key, twice, strict=True))})
    return True


def _beside(rows: Local, existing: DataFrame, key: tuple[str, ...], held: tuple[str, ...]) -> DataFrame:
    """The place of the result's row with the key of each row of the table, and whether the two differ; else the key."""
    schema = rows.frame.schema
    numbered: Any = rows.arrow.append_column(_NTH, pa.array(range(rows.rows), pa.int32()))
    place = StructField(_NTH, IntegerType())
    ours = existing.sparkSession.createDataFrame(numbered, schema=StructType([*schema.fields, place]))
    nulls = rows.has_nulls(key)
    on = " AND ".join(same(f"__theirs.{quote(name)}", f"__ours.{quote(name)}", nulls=nulls) for name in key)
    beside = existing.alias("__theirs").join(F.broadcast(ours.alias("__ours")), F.expr(on), "left")
    mine, yours = (comparable(schema, f"{side}.") for side in ("__ours", "__theirs"))
    keys = {name.lower() for name in key}
    differ = [f"NOT ({same(mine[name], yours[name])})" for name in schema.names if name.lower() not in keys]
    told = [f"IF({_NTH} IS NULL, __theirs.{quote(name)}, NULL) AS {quote(name)}" for name in key]
    if held:
        told.append(f"struct({', '.join(f'__theirs.{quote(name)} AS {quote(name)}' for name in held)}) AS {HELD}")
    return beside.selectExpr(_NTH, f"{_NTH} IS NOT NULL AND ({' OR '.join(differ) or 'FALSE'}) AS {_DIFFERS}", *told)


@dataclass(frozen=True, slots=True)
class _Step:
    """What is to become of a row of the result.

    Args:
        operation: As in `OPERATION`.
        row: Its place in the result.
        held: The places of the table's rows with its key.
    """

    operation: str
    row: int
    held: Sequence[int]


def _steps(rows: int, found: Local) -> Iterator[_Step]:
    """What is to become of each row of the result that the table does not hold as it is."""
    held = defaultdict[int, list[int]](list)
    for place, row in enumerate(found.arrow.column(_NTH).to_pylist()):
        if row is not None:
            held[row].append(place)
    differs: list[bool] = found.arrow.column(_DIFFERS).to_pylist()
    for row in range(rows):
        match held.get(row, []):
            case []:
                yield _Step(INSERT, row, [])
            case [place]:
                if differs[place]:
                    yield _Step(UPDATE, row, [place])
            case several:
                yield _Step(DELETE, row, several)
                yield _Step(AGAIN, row, several)


def _gone(found: Local, key: tuple[str, ...]) -> list[list[int]] | None:
    """The places of the table's rows that the result has none for, key by key; None where those have no literals."""
    if found.values(key) is None:
        return None
    by_key = defaultdict[tuple[Literal, ...], list[int]](list)
    rows: list[int | None] = found.arrow.column(_NTH).to_pylist()
    for place, (row, values) in enumerate(zip(rows, _listed(found, key), strict=True)):
        if row is None:
            by_key[values].append(place)
    return list(by_key.values())


def _as_difference(
    rows: Local, found: Local, steps: Sequence[_Step], gone: Sequence[Sequence[int]], key: tuple[str, ...]
) -> Local:
    """The rows of the steps, and the keys alone of those that are gone."""
    schema: Any = pa.schema([field.with_nullable(True) for field in rows.arrow.schema])
    mine = rows.arrow.take(pa.array([step.row for step in steps], pa.int64())).cast(schema)
    keys = found.arrow.take(pa.array([places[0] for places in gone], pa.int64()))
    named = {name.lower(): name for name in key}
    theirs: list[Any] = [
        keys.column(named[field.name.lower()]).cast(field.type)
        if field.name.lower() in named
        else pa.nulls(len(gone), field.type)
        for field in schema
    ]
    arrow: Any = pa.concat_tables([mine, pa.table(theirs, schema=schema)])
    fields = [StructField(field.name, field.dataType) for field in rows.frame.schema.fields]
    if HELD in found.arrow.column_names:
        arrow = arrow.append_column(HELD, _lists(found.arrow.column(HELD), [*(step.held for step in steps), *gone]))
        fields.append(StructField(HELD, ArrayType(found.frame.schema[HELD].dataType)))
    operations = [*(step.operation for step in steps), *(DELETE for _ in gone)]
    arrow = arrow.append_column(OPERATION, pa.array(operations, pa.string()))
    whole = StructType([*fields, StructField(OPERATION, StringType())])
    return Local(rows.frame.sparkSession.createDataFrame(arrow, schema=whole), arrow)


def _lists(values: Any, places: Sequence[Sequence[int]]) -> Any:
    ends = accumulate(map(len, places), initial=0)
    flat = values.combine_chunks().take(pa.array([place for some in places for place in some], pa.int64()))
    return pa.ListArray.from_arrays(pa.array(list(ends), pa.int32()), flat)


def _listed(rows: Local, key: tuple[str, ...]) -> Iterator[tuple[Literal, ...]]:
    """The key of each row."""
    return zip(*(column.to_pylist() for column in rows.select(key).arrow.columns), strict=True)

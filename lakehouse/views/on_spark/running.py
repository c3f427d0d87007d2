"""The plans of a view on Spark: the keys of each step come to the driver, and restrict what later steps read."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType

from lakehouse.delta.limits import limits
from lakehouse.delta.text import quote
from lakehouse.read.content import AFTER, BEFORE, CHANGE, DELETE, INSERT, LOG_NAMES, Feed, SourceRead
from lakehouse.spark.driver_rows import MORE, ONE, Local, compute_once, net
from lakehouse.spark.types import ATOMS, can_be_told_apart, identities, padding_like
from lakehouse.views.on_spark.key_conditions import query, restrict, with_values
from lakehouse.views.plan import CHANGES, Found, Image, Restriction, SourceRows, Sql, Step

PinnedTable: TypeAlias = SourceRead | DataFrame
"""A table of a text: a source whose changes are followed, or the rows of a snapshot, which has no changes."""


@dataclass(frozen=True, eq=False)
class Execution:
    """The plans of one text in one run, and the rows of the steps so far.

    Args:
        spark: The session.
        tables: The tables of the text, by the names that the plans have for them.
        args: The values of Spark's named parameters.
    """

    spark: SparkSession
    tables: Mapping[str, PinnedTable]
    args: Mapping[str, Any]
    _keys: dict[str, Local | DataFrame] = field(default_factory=dict[str, Local | DataFrame], init=False)
    _frames: dict[SourceRows, DataFrame] = field(default_factory=dict[SourceRows, DataFrame], init=False)

    def run(self, steps: Sequence[Step], last: Callable[[DataFrame], DataFrame] = lambda keys: keys) -> None:
        """Computes steps one after the other. The rows of a step come to the driver if they are few.

        Many rows stay where Spark has computed them; the rows of later steps may still be few. `last` selects some rows
        of the last step, before they are computed.
        """
        for place, step in enumerate(steps, 1):
            keys = self.frame(step.sql)
            rows = compute_once(last(keys) if place == len(steps) else keys, few=self._follows_from_few(step.sql))
            self._keys[step.name] = rows if isinstance(rows, Local) else _to_send(rows)

    def over(self, tables: Mapping[str, PinnedTable]) -> "Execution":
        """The same plans over other rows of the tables, with the rows of the steps so far."""
        other = Execution(self.spark, tables, self.args)
        other._keys.update(self._keys)
        return other

    def with_keys(self, step: str, keys: Local) -> "Execution":
        """The same plans over other rows of a step."""
        other = Execution(self.spark, self.tables, self.args)
        other._keys.update(self._keys | {step: keys})
        return other

    def keys(self, step: str) -> Local | DataFrame:
        """The rows of a step, at the driver if they are few."""
        return self._keys[step]

    def frame(self, sql: Sql) -> DataFrame:
        """The result of a query over the rows at its places."""
        return query(self.spark, map(self._place, sql), self.args)

    def bind(self, rows: SourceRows) -> SourceRows:
        """A place of rows, with values in place of the named parameters in its restrictions."""
        return replace(rows, any_of=tuple(tuple(map(self._bound, each)) for each in rows.any_of))

    def _bound(self, one: Restriction) -> Restriction:
        return replace(one, pairs=tuple((with_values(text, self.args), key) for text, key in one.pairs))

    def source(self, table: str) -> DataFrame:
        """The rows of a table at its pinned version."""
        match self.tables[table]:
            case SourceRead() as read:
                return read.source
            case rows:
                return rows

    def _place(self, place: str | SourceRows | Found) -> str | DataFrame:
        match place:
            case str():
                return place
            case Found(step=step):
                keys = self._keys[step]
                return keys.frame if isinstance(keys, Local) else keys
            case SourceRows():
                if place not in self._frames:
                    self._frames[place] = restrict(self._image(place), self.bind(place).any_of, self._keys)
                return self._frames[place]

    def _image(self, rows: SourceRows) -> DataFrame:
        table = self.tables[rows.table]
        if isinstance(table, DataFrame):
            return table if rows.image is Image.NOW else table.limit(0)
        match rows.image:
            case Image.NOW:
                return table.source
            case Image.GONE:
                return _images(table, DELETE, BEFORE)
            case Image.CAME:
                return _images(table, INSERT, AFTER)
            case Image.MOVED:
                return _moved_rows(table, rows.columns)
            case Image.NONE:
                return table.source.limit(0)

    def _follows_from_few(self, sql: Sql) -> bool:
        """Whether all keys and changes that a query uses are at the driver."""
        steps = set[str]()
        for place in sql:
            match place:
                case str():
                    pass
                case Found(step=step):
                    steps.add(step)
                case SourceRows(table=name, image=image, any_of=any_of):
                    table = self.tables[name]
                    if image in CHANGES and not isinstance(table, DataFrame) and not table.read_no_feed:
                        return False
                    steps.update(restriction.step for alternative in any_of for restriction in alternative)
        return all(isinstance(self._keys[step], Local) for step in steps)


def _to_send(rows: DataFrame) -> DataFrame:
    """The computed rows of a step: Spark broadcasts them in a join if they are not too many for that.

    Spark does not know the size of rows that it keeps, and would shuffle both sides.
    """
    return F.broadcast(rows) if rows.count() <= limits().broadcast_rows else rows


def _images(read: SourceRead, *changes: str) -> DataFrame:
    """The changes of some types, in the source's columns."""
    return read.feed.where(F.col(CHANGE).isin(*changes)).drop(*LOG_NAMES)


def _moved_rows(read: SourceRead, columns: tuple[str, ...]) -> DataFrame:
    """The distinct rows, in some columns, that the source has more or fewer of than before: changes may cancel out."""
    match read.content:
        case Feed(rows=Local() as images):
            net = _net(images, columns)
            return _net_by_spark(images.frame, columns) if net is None else net.frame
        case _:
            return _net_by_spark(read.feed, columns)


def _net(images: Local, columns: tuple[str, ...]) -> Local | None:
    """These rows, found at the driver; None if a column is of a nested type.

    Arrow groups values by their bytes. So it never merges two values that a query can tell apart.
    """
    rows = images.select(columns)
    if not all(type(column.dataType) in ATOMS for column in rows.schema.fields):
        return None
    arrow: Any = pc
    is_gone = arrow.is_in(images.column(CHANGE), value_set=pa.array([DELETE, BEFORE]))
    sign = arrow.if_else(is_gone, pa.scalar(-1, pa.int64()), pa.scalar(1, pa.int64()))
    names = [str(place) for place, _ in enumerate(columns)]
    table: Any = rows.arrow.rename_columns(names).append_column(ONE, sign)
    summed = table.group_by(names).aggregate([(ONE, "sum")])
    # The sum of no row is NULL, as in Spark.
    moved = summed.filter(arrow.not_equal(summed.column(f"{ONE}_sum"), 0))
    if not columns:  # an Arrow table without columns has no rows
        return Local(images.spark, StructType([StructField(ONE, LongType())]), moved.rename_columns([ONE]))
    return Local(images.spark, rows.schema, moved.select(names).rename_columns(list(columns)).cast(rows.arrow.schema))


def _net_by_spark(feed: DataFrame, columns: tuple[str, ...]) -> DataFrame:
    names = [quote(name) for name in columns]
    rows = feed.select(*names, F.when(F.col(CHANGE).isin(DELETE, BEFORE), -1).otherwise(1).alias(ONE))
    schema = feed.select(*names).schema
    unknown = [column.name for column in schema.fields if not can_be_told_apart(column.dataType)]
    if unknown:  # Spark has no DISTINCT for MAP and VARIANT: nothing cancels out, and the column is NULL
        return rows.drop(ONE).withColumns({name: F.lit(None).cast("int") for name in unknown})
    moved = net(rows, schema, identities(schema).values())
    return padding_like(schema, moved.drop(MORE)) if names else moved

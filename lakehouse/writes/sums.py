"""Counts and sums over the rows of a source, as SQL: of every group, and of what changes bring and take away."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StructField

from lakehouse.delta.text import quote
from lakehouse.errors import WriteError
from lakehouse.read.content import BEFORE, CHANGE, DELETE, SourceRead
from lakehouse.spark.exactness import inexact_in_sql
from lakehouse.spark.types import INTEGERS
from lakehouse.views.sql.row_sql import names_in

if TYPE_CHECKING:
    from lakehouse.views.adding import Added
    from lakehouse.views.on_spark.bound_text import BoundText

COUNT, INEXACT = "__lakehouse_count", "__lakehouse_inexact"


@dataclass(frozen=True)
class Sums:
    """For every group of a source's rows: how many they are, and sums over them.

    Args:
        changes: What the run reads of the source.
        groups: The columns of the groups, each as SQL.
        count: The column that counts the rows of a group.
        sums: Columns, each with the SQL whose values are summed.
        where: The SQL condition on the rows that count; None for all of them.
    """

    changes: SourceRead
    groups: Mapping[str, str]
    count: str
    sums: Mapping[str, str]
    where: str | None

    @cached_property
    def digest(self) -> str:
        """A digest of the sums and their rows. The commits of the table record which sums it holds."""
        source, groups = self.changes.source_at, list(self.groups.items())
        used = [(column.name, column.dataType.simpleString()) for column in self._usable_columns]
        sums = [(name, sql, self._kinds[name].simpleString()) for name, sql in sorted(self.sums.items())]
        zone = source.spark.conf.get("spark.sql.session.timeZone")
        parts = [self.changes.name, source.where, groups, self.count, sums, self.where, used, zone]
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:16]

    @cached_property
    def rows(self) -> DataFrame:
        """Every group of the source, as of the end of the range."""
        nothing = {name: f"CAST(0 AS {kind.simpleString()})" for name, kind in self._kinds.items()}
        summed = {name: f"coalesce({sql}, {nothing[name]})" for name, sql in self.sums.items()}
        sums = [F.sum(quote(name)).alias(name) for name in self.sums]
        rows = _counting(self.changes.source, {**self.groups, **summed}, self.where)
        return rows.groupBy(*map(quote, self.groups)).agg(F.count("*").alias(self.count), *sums)

    @cached_property
    def images(self) -> DataFrame:
        """What each image of the feed adds to the count and the sums of its group, and whether it may be inexact."""
        minus = f"{CHANGE} IN ('{DELETE}', '{BEFORE}')"
        exact = {name: self.exact(name) for name in self.sums}
        added = {name: f"coalesce(CAST({self.sums[name]} AS {to}), CAST(0 AS {to}))" for name, to in exact.items()}
        signed = {name: f"IF({minus}, -{sql}, {sql})" for name, sql in added.items()}
        inexact = [
            condition
            for column in self._usable_columns
            for condition in inexact_in_sql(quote(column.name), column.dataType)
        ]
        is_inexact = f"coalesce({' OR '.join(inexact) or 'FALSE'}, FALSE)"
        own = {COUNT: f"IF({minus}, -1, 1)", INEXACT: is_inexact}
        # A row that the feed does not represent exactly may count in the source although it does not here.
        where = None if self.where is None else f"({self.where}) OR {is_inexact}"
        return _counting(self.changes.feed, {**self.groups, **signed, **own}, where)

    def exact(self, name: str) -> str:
        """The type in which a sum is computed: the scale of its values, and the largest precision."""
        kind = self._kinds[name]
        return f"DECIMAL(38,{kind.scale if isinstance(kind, DecimalType) else 0})"

    def check(self, asset: str) -> None:
        """Refuses sums that depend on the order of their values.

        Raises:
            WriteError (SCHEMA): A sum of something else than whole numbers or decimals.
        """
        problems = {
            name: f"sums {kind.simpleString()}"
            for name, kind in self._kinds.items()
            if not isinstance(kind, (*INTEGERS, DecimalType))
        }
        if problems:
            raise WriteError.schema(
                asset, problems, "An Aggregate sums whole numbers and decimals: CAST the values to one."
            )

    @cached_property
    def _kinds(self) -> dict[str, DataType]:
        """The type of each sum's values."""
        # In an aggregate Spark refuses what is not of the row alone: windows, aggregates, generators, chance.
        sums = [f"max({sql})" for sql in self.sums.values()]
        others = [f"max(({sql}) IS NULL)" for sql in self.expressions]
        fields = self.changes.source.selectExpr(*sums, *others).schema.fields
        return {name: column.dataType for name, column in zip(self.sums, fields, strict=False)}

    @property
    def expressions(self) -> tuple[str, ...]:
        """All SQL expressions of the aggregate."""
        return (*self.groups.values(), *self.sums.values(), *(() if self.where is None else (self.where,)))

    @cached_property
    def _usable_columns(self) -> list[StructField]:
        """The source's columns that the groups, the sums and the condition may name."""
        named = " , ".join(map(names_in, self.expressions)).lower()
        return [
            column
            for column in self.changes.source.schema.fields
            if quote(column.name).lower() in named
            or re.search(rf"(?<!\w){re.escape(column.name.lower())}(?!\w)", named) is not None
        ]


def _counting(frame: DataFrame, columns: Mapping[str, str], where: str | None) -> DataFrame:
    """Columns of the rows that count."""
    counting = frame if where is None else frame.where(where)
    return counting.selectExpr(*(f"{sql} AS {quote(name)}" for name, sql in columns.items()))


def sums_of(bound: "BoundText", added: "Added") -> Sums | str:
    """The sums of a view over its pinned tables; else why they do not fit its columns, as a clause.

    Args:
        bound: The text of the view.
        added: The counts and sums that it is.
    """
    from lakehouse.views.on_spark.bound_text import refuse_null
    from lakehouse.views.on_spark.key_conditions import with_values

    values = {name: with_values(sql, bound.text.args) for name, sql in {**added.by, **added.sums}.items()}
    groups = {name: refuse_null(values[name], name, bound.text) for name in added.by}
    where = None if added.where is None else with_values(added.where, bound.text.args)
    sums = Sums(bound.reads[added.source], groups, added.count, {name: values[name] for name in added.sums}, where)
    types = {field.name: field.dataType for field in sums.rows.schema.fields}
    if any(types[field.name] != field.dataType for field in bound.rows.schema.fields):
        return "a column is declared with another type than its sum has"
    return sums

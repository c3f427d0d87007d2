"""`Aggregate`: counts and sums that a step adds to, instead of recomputing its groups."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, cast

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, DecimalType, StructField

from lakehouse.delta.text import quote
from lakehouse.errors import SchemaError
from lakehouse.read.changes import Changes
from lakehouse.read.content import BEFORE, CHANGE, DELETE
from lakehouse.spark.exactness import inexact_in_sql
from lakehouse.spark.types import INTEGERS
from lakehouse.writes.row_sql import names_in, why_not_of_the_row

COUNT, INEXACT = "__lakehouse_count", "__lakehouse_inexact"


@dataclass(frozen=True)
class Aggregate:
    """For every group of the source's rows the table holds one row: how many they are, and sums over them.

    What the changes bring and take away is added to what the table holds, so a step does not read the source. If the
    table may not hold the sums at its position, because another program wrote to it, it was restored or the sums were
    changed, all sums are recomputed and compared.

    Args:
        changes: The source's changes, read without `start`, `exclude_operations` and `exclude_metadata`.
        by: The columns by which rows are grouped: the table's key. As a mapping, that key's columns with the SQL
            expression of each.
        count: The column that counts the rows of a group. A group without rows leaves the table.
        sums: Columns, each with the SQL expression over a row whose values are summed: whole numbers or decimals. NULL
            adds nothing, and the sum of nothing is 0.
        where: A SQL condition on the rows that count; None for all of them.

    Raises:
        ValueError: No column to group by, two columns of one name, or SQL that depends on more than a row's columns.
        TypeError: Something else than SQL.

    Sums of changes: Gupta and Mumick, "Maintenance of Materialized Views" (1995), the counting algorithm.
    """

    changes: Changes
    by: str | Sequence[str] | Mapping[str, str]
    count: str
    sums: Mapping[str, str] = field(default_factory=dict[str, str])
    where: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(cast("Any", self.sums), Mapping):
            raise TypeError(f"An Aggregate's sums are a mapping from columns to SQL texts, not {self.sums!r}.")
        names = [name.lower() for name in (*self.groups, self.count, *self.sums)]
        if not self.groups or len(set(names)) < len(names):
            raise ValueError(f"An Aggregate has columns to group by, and each name once, not {', '.join(names)}.")
        for sql in cast("tuple[Any, ...]", self._expressions):
            if not isinstance(sql, str):
                raise TypeError(f"An Aggregate's groups, sums and condition are SQL texts, not {sql!r}.")
            if (why := why_not_of_the_row(sql)) is not None:
                raise ValueError(why)

    @property
    def groups(self) -> dict[str, str]:
        """The columns of the groups, each as SQL."""
        if isinstance(self.by, Mapping):
            return dict(self.by)
        return {name: quote(name) for name in ((self.by,) if isinstance(self.by, str) else self.by)}

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
        rows = _counting(self.changes.source, self.groups | summed, self.where)
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
        # A row that the feed tells wrong may count in the source although it does not here.
        where = None if self.where is None else f"({self.where}) OR {is_inexact}"
        return _counting(self.changes.feed, self.groups | signed | own, where)

    def exact(self, name: str) -> str:
        """The type in which a sum is computed: the scale of its values, and the largest precision."""
        kind = self._kinds[name]
        return f"DECIMAL(38,{kind.scale if isinstance(kind, DecimalType) else 0})"

    def check(self, asset: str) -> None:
        """Refuses sums that depend on the order of their values.

        Raises:
            SchemaError: A sum of something else than whole numbers or decimals.
        """
        problems = {
            name: f"sums {kind.simpleString()}"
            for name, kind in self._kinds.items()
            if not isinstance(kind, (*INTEGERS, DecimalType))
        }
        if problems:
            raise SchemaError(asset, problems, "An Aggregate sums whole numbers and decimals: CAST the values to one.")

    @cached_property
    def _kinds(self) -> dict[str, DataType]:
        """The type of each sum's values."""
        # In an aggregate Spark refuses what is not of the row alone: windows, aggregates, generators, chance.
        sums = [f"max({sql})" for sql in self.sums.values()]
        others = [f"max(({sql}) IS NULL)" for sql in self._expressions]
        fields = self.changes.source.selectExpr(*sums, *others).schema.fields
        return {name: column.dataType for name, column in zip(self.sums, fields, strict=False)}

    @property
    def _expressions(self) -> tuple[str, ...]:
        """All SQL expressions of the aggregate."""
        return (*self.groups.values(), *self.sums.values(), *(() if self.where is None else (self.where,)))

    @cached_property
    def _usable_columns(self) -> list[StructField]:
        """The source's columns that the groups, the sums and the condition may name."""
        named = " , ".join(map(names_in, self._expressions)).lower()
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


def why_not_summed(asset: str, source: str) -> str:
    """What is wrong with sums over a source whose changes are not all read."""
    return (
        f"'{asset}' sums all rows of '{source}', of which Read(start=..., exclude_operations=...) would leave some "
        f"out. Say by Aggregate(where=...) which rows count, or return a Merge."
    )

"""A text over pinned tables: what it says, by which columns its changes are followed, and its result."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta.file_ranges import FileRanges
from lakehouse.delta.text import quote
from lakehouse.errors.views import ViewError
from lakehouse.read.content import Everything, SourceRead
from lakehouse.read.decide import NeedOfAllRows
from lakehouse.views.algebra import Query, Scan, nodes_of
from lakehouse.views.on_spark.dialect import refuse_other_dialect
from lakehouse.views.on_spark.output_columns import with_declared_columns
from lakehouse.views.on_spark.running import Execution, PinnedTable
from lakehouse.views.plan import Image, SourceRows, Sql, TouchedPlan
from lakehouse.views.query import read
from lakehouse.views.rows_plan import why_whole
from lakehouse.views.sql.lineage import SourceColumn, is_plain, lineage
from lakehouse.views.touch import choose_touch, table_key
from lakehouse.views.touched_plan import touched_plan
from lakehouse.views.view_text import ViewText, with_place


@dataclass(frozen=True, slots=True)
class Whole:
    """All rows of the result, unless the policy of the table forbids that; and why no fewer, as a clause."""

    need: NeedOfAllRows
    why: str


RangesOf: TypeAlias = Callable[[str, Collection[str]], FileRanges | None]
"""What the files of a table say of some columns; None if nobody knows without Spark."""


@dataclass(frozen=True, eq=False, slots=True)
class TableFacts:
    """What is known of the tables of a text beside their rows.

    Args:
        small: The tables that are read whole instead of by keys.
        keys: The keys of tables, where they have one.
        ranges_of: What the files of a table say.
    """

    small: Collection[str] = ()
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    ranges_of: RangesOf = lambda _table, _columns: None


@dataclass(frozen=True, eq=False)
class BoundText:
    """A text whose tables are pinned; `of` makes it.

    Args:
        text: The text.
        query: What the text says.
        execution: Its plans in this run.
        facts: What is known of its tables.
    """

    text: ViewText
    query: Query
    execution: Execution
    facts: TableFacts = TableFacts()
    _touches: dict[tuple[str, ...], tuple[str, ...]] = field(
        default_factory=dict[tuple[str, ...], tuple[str, ...]], init=False
    )

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        text: ViewText,
        tables: Mapping[str, PinnedTable],
        asset: str | None = None,
        facts: TableFacts = TableFacts(),
    ) -> Self:
        """A text over pinned tables.

        Args:
            spark: The session.
            text: The text.
            tables: The tables, by the names that the text has for them, in lower case.
            asset: The asset, for messages.
            facts: What is known of the tables.

        Raises:
            ViewError: A view cannot be kept of the text.
        """
        refuse_other_dialect(spark)
        execution = Execution(spark, tables, text.args)
        schemas = {name: _types(execution.source(name)) for name in tables}
        try:
            query = read(text.text, schemas, tuple(text.args))
        except ViewError as error:
            raise with_place(error, text.origin, asset) from error.__cause__
        return cls(text, query, execution, facts)

    @cached_property
    def rows(self) -> DataFrame:
        """All rows of the result."""
        return self.result(_whole_text(self.query))

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the result, in order."""
        declared = tuple(column.name for column in self.text.columns)
        return declared or tuple(output.name for output in self.query.outputs)

    @property
    def reads(self) -> dict[str, SourceRead]:
        """The tables whose changes are followed."""
        tables = self.execution.tables.items()
        return {name: table for name, table in tables if isinstance(table, SourceRead)}

    @property
    def whole(self) -> Whole | None:
        """Why all rows are computed, if what was read says so; else None."""
        if not self.reads:
            return Whole(NeedOfAllRows.NO_SOURCE, "it follows no source")
        contents = {table.name: table.content for table in self.reads.values()}
        whole = {name: content.reason for name, content in contents.items() if isinstance(content, Everything)}
        compared = next((reason for reason in whole.values() if reason is not None), None)
        if compared is not None:
            return Whole(NeedOfAllRows.READ, compared)
        return Whole(NeedOfAllRows.BEGINNING, f"'{next(iter(whole))}' is read for the first time") if whole else None

    def result(self, sql: Sql) -> DataFrame:
        """The result of the text over the rows at its places, under the columns of the view."""
        try:
            return with_declared_columns(self.execution.frame(sql), self.text.columns)
        except ViewError as error:
            raise with_place(error, self.text.origin) from error.__cause__

    def plan(self, touch: tuple[str, ...]) -> TouchedPlan:
        """How the keys of some columns of the query's result are found.

        Raises:
            ViewError: The result has no such column, or no step can compute it.
        """
        changed = [name for name, table in self.reads.items() if not table.is_empty]
        return touched_plan(self.query, touch, changed, self.facts.small)

    def why_never_by_keys(self, key: tuple[str, ...]) -> str | None:
        """Why keys alone do not do if each followed table changes, as a clause; None if they do.

        Args:
            key: The key of the table; empty if it has none.

        Raises:
            ViewError: Changes can be followed by no column.
        """
        plan = touched_plan(self.query, self.touch(key), tuple(self.reads), self.facts.small)
        return why_whole(self.query, plan, self.reads, self.facts.small, has_key=bool(key))

    def touch(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """The columns by which changes are followed, by their names in the query; none of a result of one row.

        Args:
            key: The key of the table; empty if it has none.

        Raises:
            ViewError: Changes can be followed by no column.
        """
        if self.text.touch:
            return self._in_query(self.text.touch)
        if key not in self._touches:
            self._touches[key] = choose_touch(
                self.query, self._in_query(key), self.facts.small, self.facts.keys
            ).columns
        return self._touches[key]

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the result as it follows from the text and the keys of its tables; empty if none follows."""
        key = table_key(self.query, self.facts.keys)
        named = {output.name.lower(): name for name, output in zip(self.names, self.query.outputs, strict=False)}
        return tuple(named[column.lower()] for column in key or ())

    def is_plain(self, column: str) -> bool:
        """Whether a column of the result is a column of a table as it is."""
        (name,) = self._in_query((column,))
        return is_plain(self.query, name)

    @property
    def lineage(self) -> dict[str, tuple[SourceColumn, ...]]:
        """The columns of tables of which each column of the result takes its value."""
        return dict(zip(self.names, lineage(self.query), strict=False))

    def _in_query(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Columns of the result by their names in the query, which declared names replace."""
        outputs = zip(self.names, self.query.outputs, strict=False)
        in_query = {name.lower(): output.name for name, output in outputs}
        return tuple(in_query.get(column.lower(), column) for column in columns)


def _types(frame: DataFrame) -> dict[str, str]:
    """The columns of a table, and their types as SQL says them."""
    return {column.name: column.dataType.simpleString() for column in frame.schema.fields}


def _whole_text(query: Query) -> Sql:
    """The text with a place for each table, of which all rows are needed."""
    scans = {node.place: node for node in nodes_of(query.root) if isinstance(node, Scan)}
    parts: list[str | SourceRows] = []
    end = 0
    for place, scan in sorted(scans.items(), key=lambda each: each[0].start):
        alias = "" if place.has_alias else f" AS {quote(scan.alias)}"
        rows = SourceRows(scan.table, Image.NOW, tuple(scan.names.values()))
        parts += [query.text[end : place.start], rows, f"{alias}"]
        end = place.end
    return (*parts, query.text[end:])

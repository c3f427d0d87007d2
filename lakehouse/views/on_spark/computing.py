"""From the text of a view to the rows that its table is to hold: those of touched keys, or all of them."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta.commit_info import count_of
from lakehouse.delta.policy import Refresh
from lakehouse.delta.text import quote, same
from lakehouse.errors.views import ViewError
from lakehouse.read.content import Everything, SourceRead
from lakehouse.read.decide import NeedOfAllRows, PolicyAnswer, answer_by_policy
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import SomeKeys
from lakehouse.spark.driver_rows import Local, is_empty
from lakehouse.views.algebra import Query, Scan, nodes_of
from lakehouse.views.on_spark.dialect import refuse_other_dialect
from lakehouse.views.on_spark.inexact import why_every_key
from lakehouse.views.on_spark.output_columns import convert_keys, keeps_keys_apart, with_declared_columns
from lakehouse.views.on_spark.running import Execution, PinnedTable
from lakehouse.views.plan import Image, KeyFacts, RowsPlan, SourceRows, Sql, TouchedPlan
from lakehouse.views.query import read
from lakehouse.views.rows_plan import rows_of_any_keys, rows_plan, why_whole
from lakehouse.views.touch import choose_touch, table_key
from lakehouse.views.touched_plan import touched_plan
from lakehouse.views.view_text import ViewText, with_place


@dataclass(frozen=True, slots=True)
class Whole:
    """All rows of the result, unless the policy of the table forbids that; and why no fewer, as a clause."""

    need: NeedOfAllRows
    why: str


@dataclass(frozen=True, eq=False, slots=True)
class OfKeys:
    """The rows of touched keys.

    Args:
        rows: The rows.
        touched: The keys.
        need: Why all of a followed table is read; None if none is.
        read_whole: Which tables are read whole, and why, as a clause; None if none is.
    """

    rows: DataFrame
    touched: Touched
    need: NeedOfAllRows | None = None
    read_whole: str | None = None


@dataclass(frozen=True, slots=True)
class Unmoved:
    """No row of the result can differ."""


Computed: TypeAlias = Whole | OfKeys | Unmoved


@dataclass(frozen=True, eq=False)
class BoundText:
    """A text whose tables are pinned; `of` makes it.

    Args:
        text: The text.
        query: What the text says.
        execution: Its plans in this run.
        small: The tables that are read whole instead of by keys.
        keys: The keys of its tables; none of a table without one.
    """

    text: ViewText
    query: Query
    execution: Execution
    small: Collection[str] = ()
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    @classmethod
    def of(
        cls,
        spark: SparkSession,
        text: ViewText,
        tables: Mapping[str, PinnedTable],
        asset: str | None = None,
        small: Collection[str] = (),
        keys: Mapping[str, tuple[str, ...]] | None = None,
    ) -> Self:
        """A text over pinned tables.

        Args:
            spark: The session.
            text: The text.
            tables: The tables, by the names that the text has for them, in lower case.
            asset: The asset, for messages.
            small: The tables that are read whole instead of by keys.
            keys: The keys of the tables, where they have one.

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
        return cls(text, query, execution, small, {name: key for name, key in (keys or {}).items() if key})

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
        return touched_plan(self.query, touch, changed, self.small)

    def why_never_by_keys(self, key: tuple[str, ...]) -> str | None:
        """Why keys alone do not do if each followed table changes, as a clause; None if they do.

        Args:
            key: The key of the table; empty if it has none.

        Raises:
            ViewError: Changes can be followed by no column.
        """
        plan = touched_plan(self.query, self.touch(key), tuple(self.reads), self.small)
        return why_whole(self.query, plan, self.reads, self.small, has_key=bool(key))

    def touch(self, key: tuple[str, ...]) -> tuple[str, ...]:
        """The columns by which changes are followed, by their names in the query; none of a result of one row.

        Args:
            key: The key of the table; empty if it has none.

        Raises:
            ViewError: Changes can be followed by no column.
        """
        if self.text.touch:
            return self._in_query(self.text.touch)
        return choose_touch(self.query, self._in_query(key), self.small, self.keys).columns

    @property
    def key(self) -> tuple[str, ...]:
        """The key of the result as it follows from the text and the keys of its tables; empty if none follows."""
        key = table_key(self.query, self.keys)
        named = {output.name.lower(): name for name, output in zip(self.names, self.query.outputs, strict=False)}
        return tuple(named[column.lower()] for column in key or ())

    def _in_query(self, columns: tuple[str, ...]) -> tuple[str, ...]:
        """Columns of the result by their names in the query, which declared names replace."""
        outputs = zip(self.names, self.query.outputs, strict=False)
        in_query = {name.lower(): output.name for name, output in outputs}
        return tuple(in_query.get(column.lower(), column) for column in columns)


def compute(bound: BoundText, key: tuple[str, ...], refresh: Refresh, table_rows: Callable[[], int | None]) -> Computed:
    """The rows that a table is to hold.

    Args:
        bound: The text over its pinned tables.
        key: The key of the table; empty if it has none, and then all rows are computed if one may differ.
        refresh: The policy of the table.
        table_rows: Says how many rows the table holds; None if nobody knows.

    Raises:
        ViewError: Changes cannot be followed.
    """
    if bound.whole is not None:
        return bound.whole
    plan = bound.plan(bound.touch(key))
    is_strict = answer_by_policy(NeedOfAllRows.PLAN, refresh) is PolicyAnswer.REFUSED
    if is_strict and (why := plan.why_read_whole(bound.reads)) is not None:
        return Whole(NeedOfAllRows.PLAN, why)
    match find_keys(bound, plan):
        case None:
            return Unmoved()
        case str() as why:
            return Whole(NeedOfAllRows.PLAN, why)
        case keys:
            number = _count(keys)
            if number == 0:
                return Unmoved()
            whole = _why_whole(plan, key, number, refresh, table_rows)
            if whole is None and is_strict:
                why = rows_of_any_keys(bound.query, plan, bound.small).why_read_whole(bound.reads)
                whole = None if why is None else Whole(NeedOfAllRows.PLAN, why)
            return whole or _of_keys(bound, plan, keys)


def _why_whole(
    plan: TouchedPlan, key: tuple[str, ...], number: int, refresh: Refresh, table_rows: Callable[[], int | None]
) -> Whole | None:
    """Why some touched keys have all rows computed; None if their rows are."""
    if not plan.touch:
        return Whole(NeedOfAllRows.PLAN, "a row moved, and its result is one row of all rows")
    if not key:
        return Whole(NeedOfAllRows.PLAN, "its table has no key")
    of = table_rows()
    if of is None or 2 * number <= of or answer_by_policy(NeedOfAllRows.COST, refresh) is PolicyAnswer.BY_KEYS:
        return None
    return Whole(NeedOfAllRows.COST, f"{count_of(number, 'key')} of {count_of(of, 'row')} are touched")


def find_keys(bound: BoundText, plan: TouchedPlan) -> Local | DataFrame | str | None:
    """The touched keys as the last step gives them; None if there are none; a clause that says why every key counts."""
    if plan.touched is None:
        return None
    why = why_every_key(bound.query, plan, bound.execution.tables)
    if why is not None:
        return why
    bound.execution.run(plan.steps)
    return bound.execution.keys(plan.touched)


def _of_keys(bound: BoundText, plan: TouchedPlan, keys: Local | DataFrame) -> Whole | OfKeys:
    """The rows of the keys."""
    needed = rows_plan(bound.query, plan, _facts(bound, plan, keys), bound.small)
    bound.execution.run(needed.steps)
    rows = bound.result(needed.text)
    touched = touched_keys(bound, plan, rows, keys)
    if touched is None:
        return Whole(NeedOfAllRows.PLAN, "two keys may be one in the declared type of their column")
    return OfKeys(touched.restrict(rows), touched, *_read_whole(bound, plan, needed))


def _read_whole(bound: BoundText, plan: TouchedPlan, needed: RowsPlan) -> tuple[NeedOfAllRows | None, str | None]:
    """Which followed tables are read whole: in each run, or because NULL or a constant is among these keys."""
    clauses = [why for each in (plan, needed) if (why := each.why_read_whole(bound.reads)) is not None]
    if not clauses:
        return None, None
    in_each_run = why_whole(bound.query, plan, bound.reads, bound.small, has_key=True) is not None
    return NeedOfAllRows.PLAN if in_each_run else NeedOfAllRows.SOME_KEYS, " and ".join(clauses)


def _count(keys: Local | DataFrame) -> int:
    """How many keys there are."""
    return keys.rows if isinstance(keys, Local) else keys.count()


def _facts(bound: BoundText, plan: TouchedPlan, keys: Local | DataFrame) -> KeyFacts:
    """What is known of the keys. Of keys that are not at the driver nothing is known."""
    assert plan.touched is not None, "these keys are of a step"
    if not isinstance(keys, Local):
        return KeyFacts(plan.touched, frozenset(), lambda _column, _constant: True)
    column_of = dict(zip(plan.touch, key_columns(bound.query, plan.touch), strict=True))
    null_free = frozenset(name for name, column in column_of.items() if not keys.has_nulls([column]))

    def holds(name: str, constant: str) -> bool:
        return not is_empty(keys.frame.where(same(quote(column_of[name]), f"({constant})")))

    return KeyFacts(plan.touched, null_free, holds)


def key_columns(query: Query, touch: tuple[str, ...]) -> tuple[str, ...]:
    """The columns of the last step for touch columns. Two columns of the result may be one of the query."""
    columns = {output.name.lower(): output.column for output in query.outputs}
    return tuple(columns[name.lower()] for name in touch)


def touched_keys(bound: BoundText, plan: TouchedPlan, rows: DataFrame, keys: Local | DataFrame) -> Touched | None:
    """The keys under the names and types of the result; None if two of them may be one there."""
    places = {output.name.lower(): place for place, output in enumerate(bound.query.outputs)}
    fields = [rows.schema.fields[places[name.lower()]] for name in plan.touch]
    columns = key_columns(bound.query, plan.touch)
    kinds = {field.name.lower(): field.dataType for field in keys.schema.fields}
    if not all(
        keeps_keys_apart(kinds[column.lower()], field.dataType) for column, field in zip(columns, fields, strict=True)
    ):
        return None
    names = tuple(field.name for field in fields)
    most = keys.rows if isinstance(keys, Local) else None
    some = SomeKeys(names, convert_keys(keys, columns, fields), most)
    return Touched(names, some, None, tuple(bound.reads.values()))


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

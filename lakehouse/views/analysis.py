"""A text over tables of known columns: its key, the columns by which its changes are followed, and how."""

from collections.abc import Callable, Collection, Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Self, TypeAlias

from lakehouse.cursor.query_digest import QueryDigest
from lakehouse.delta.file_ranges import FileRanges
from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import Output, Query
from lakehouse.views.plan import TouchedPlan
from lakehouse.views.query import read, refuse_values_of_the_run
from lakehouse.views.rows_plan import why_whole
from lakehouse.views.sql.lineage import KIND_OF_NAMES, digest_of_names
from lakehouse.views.sql.tokens import digest_of_view
from lakehouse.views.touch import Touch, choose_touch, table_key
from lakehouse.views.touched_plan import touched_plan
from lakehouse.views.view_text import ViewText, with_place

RangesOf: TypeAlias = Callable[[str, Collection[str]], FileRanges | None]
"""What the files of a table say of some columns; None if nobody knows without Spark."""


@dataclass(frozen=True, eq=False, slots=True)
class TableFacts:
    """What is known of the tables of a text beside their columns.

    Args:
        followed: The tables whose changes are followed.
        small: The tables that are read whole instead of by keys.
        keys: The keys of tables, where they have one.
        ranges_of: What the files of a table say.
        needs_whole_keys: Whether the rows of a key of the view have to be computed together, because its table asks how
            many there are.
    """

    followed: tuple[str, ...] = ()
    small: Collection[str] = ()
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    ranges_of: RangesOf = lambda _table, _columns: None
    needs_whole_keys: bool = False


@dataclass(frozen=True, eq=False, slots=True)
class Analysis:
    """A text over tables of known columns; `of` makes it.

    Args:
        text: The text.
        query: What it says, under the names that its head declares for the columns of the result.
        facts: What is known of its tables.
        given: The columns of the result, in order, under the names that the query itself gives.
        asset: The asset, for messages.
    """

    text: ViewText
    query: Query
    facts: TableFacts
    given: tuple[str, ...]
    asset: str | None = None
    _touches: dict[tuple[str, ...], Touch] = field(default_factory=dict[tuple[str, ...], Touch], init=False)

    @property
    def digest(self) -> QueryDigest:
        """What the text says, and for which columns its names stand."""
        return QueryDigest(digest_of_view(self.text), digest_of_names(self.query), KIND_OF_NAMES)

    @classmethod
    def of(
        cls, text: ViewText, schemas: Mapping[str, Mapping[str, str]], facts: TableFacts, asset: str | None = None
    ) -> Self:
        """The analysis of a text.

        Args:
            text: The text.
            schemas: For each table, its columns, and their types as Spark's `simpleString()` has them.
            facts: What is known of the tables.
            asset: The asset, for messages.

        Raises:
            ViewError: A view cannot be kept of the text.
        """
        try:
            refuse_values_of_the_run(text.args)
            read_text = read(text.text, schemas, tuple(text.args))
            query = _with_declared_names(text, read_text)
        except ViewError as error:
            raise with_place(error, text.origin, asset) from error.__cause__
        return cls(text, query, facts, tuple(output.name for output in read_text.outputs), asset)

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the result, in order."""
        return tuple(output.name for output in self.query.outputs)

    @property
    def key(self) -> tuple[str, ...] | None:
        """The key of the result, if it follows from the text and the keys of its tables; else None."""
        return table_key(self.query, self.facts.keys)

    def touch(self, key: tuple[str, ...]) -> Touch:
        """The columns by which changes are followed; none of a result of one row.

        Args:
            key: The key of the table; empty if it has none.

        Raises:
            ViewError: Changes can be followed by no column.
        """
        if self.text.touch:
            return Touch(self.text.touch, 0)
        if key not in self._touches:
            whole, facts = self.facts.needs_whole_keys, self.facts
            with self._places():
                self._touches[key] = choose_touch(self.query, key, facts.small, facts.keys, within_key=whole)
        return self._touches[key]

    def plan(self, touch: tuple[str, ...], changed: Collection[str]) -> TouchedPlan:
        """How the keys of some columns of the result are found if some tables have changed.

        Raises:
            ViewError: The result has no such column, or no step can compute it.
        """
        with self._places():
            return touched_plan(self.query, touch, changed, self.facts.small)

    @contextmanager
    def _places(self) -> Generator[None]:
        """Refusals from here on say where the text stands."""
        try:
            yield
        except ViewError as error:
            raise with_place(error, self.text.origin, self.asset) from error.__cause__

    def why_never_by_keys(self, key: tuple[str, ...], *, has_key: bool) -> str | None:
        """Why keys alone are not enough if each followed table changes, as a clause; None if they are.

        Args:
            key: The columns of the key that are known; empty if none are.
            has_key: Whether the table has a key.

        Raises:
            ViewError: Changes can be followed by no column.
        """
        plan = self.plan(self.touch(key).columns, self.facts.followed)
        return why_whole(self.query, plan, self.facts.followed, self.facts.small, has_key=has_key)


@dataclass(frozen=True, slots=True)
class CheckedView:
    """How a view would follow its tables.

    Args:
        columns: The columns of the result, in order.
        key: The key of the result, if it follows from the text and the keys of the tables; else None.
        touch: The columns by which changes are followed, and the others by which they could be.
        plan: How the keys are found whose rows may differ, if all tables change.
        notes: What of the text means nothing for a table, as sentences.
        why_whole: Why changes need all rows, or all of a table, as a clause; `Policy(refresh="strict")` refuses that.
            None if keys do, in a table that has a key: `key`, or the one that `Table(key=...)` declares.
    """

    columns: tuple[str, ...]
    key: tuple[str, ...] | None
    touch: Touch
    plan: TouchedPlan
    notes: tuple[str, ...] = ()
    why_whole: str | None = None


def check_text(
    text: ViewText, schemas: Mapping[str, Mapping[str, str]], keys: Mapping[str, tuple[str, ...]]
) -> CheckedView:
    """How a text would follow tables of these columns, none of which is small.

    Args:
        text: The text.
        schemas: For each table, its columns, and their types as Spark's `simpleString()` has them.
        keys: The keys of tables, where they have one.

    Raises:
        ViewError: A view cannot be kept of the text.
    """
    analysis = Analysis.of(text, schemas, TableFacts(tuple(schemas), keys=keys))
    key = analysis.key
    touch = analysis.touch(key or ())
    plan = analysis.plan(touch.columns, schemas)
    why = analysis.why_never_by_keys(key or (), has_key=True)
    return CheckedView(analysis.names, key, touch, plan, analysis.query.notes, why)


def _with_declared_names(text: ViewText, query: Query) -> Query:
    """The query whose columns have the names that a head declares."""
    if not text.columns:
        return query
    if len(text.columns) != len(query.outputs):
        given = ", ".join(output.name for output in query.outputs)
        what = f"The head declares {len(text.columns)} columns, and the query gives {len(query.outputs)}"
        raise ViewError("VIEW_COLUMN_LIST", what, None, f"Declare a column for each of {given}, or none.")
    names = zip(text.columns, query.outputs, strict=True)
    return replace(query, outputs=tuple(Output(column.name, output.column) for column, output in names))

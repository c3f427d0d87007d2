"""A text over tables of known columns: its key, and by which columns and how its changes are followed."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Self, TypeAlias

from lakehouse.cursor.definition import digest
from lakehouse.cursor.digests import QueryDigest
from lakehouse.delta.limits import limits
from lakehouse.delta.text import fold
from lakehouse.errors.views import TextPlace, ViewError
from lakehouse.read.decide import NeedOfAllRows
from lakehouse.views.adding import Added, as_sums
from lakehouse.views.algebra import FirstRows, OrderBy, Output, Query, column, columns_in
from lakehouse.views.plan import TouchedPlan
from lakehouse.views.planner import rows_of_any_keys, touched_plan
from lakehouse.views.query import names_in, read, refuse_values_of_the_run
from lakehouse.views.row_order import open_orders
from lakehouse.views.sql.lineage import KIND_OF_NAMES, digest_of_names
from lakehouse.views.sql.tokens import digest_of_view
from lakehouse.views.steps.one_row import OneRow, have_same_rows, one_row
from lakehouse.views.touch import choose_touch, table_key
from lakehouse.views.view_text import NotFollowedError, OutputColumn, Reason, ViewText, with_place


@dataclass(frozen=True, eq=False, slots=True)
class TableFacts:
    """What is known of the tables of a text besides their columns, and of the view's own table.

    Args:
        followed: The tables whose changes are followed.
        small: The tables that are read whole instead of by keys.
        keys: The keys of tables, where they have one.
        key: The key that the view's own table declares; empty if it declares none, None if that is not known.
        partitioned_by: The columns by which that table is partitioned.
        needs_whole_keys: Whether all rows of a key of the view have to be computed together, because its table checks
            how many rows a key has.
        leaves_rows_out: Whether an expectation of that table leaves rows out.
    """

    followed: tuple[str, ...] = ()
    small: Collection[str] = ()
    keys: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    key: tuple[str, ...] | None = None
    partitioned_by: tuple[str, ...] = ()
    needs_whole_keys: bool = False
    leaves_rows_out: bool = False


@dataclass(frozen=True, slots=True)
class Whole:
    """All rows of the result are computed, unless the policy of the table forbids that.

    Args:
        need: What needs all rows.
        why: Why keys are not enough, as a clause.
        place: Where the text shows that; None if the reason is not in the text.
        touch: The columns by which a run still finds out whether any row changed; None if it only sees whether a table
            changed.
    """

    need: NeedOfAllRows
    why: str
    place: TextPlace | None = None
    touch: tuple[str, ...] | None = None

    def __str__(self) -> str:
        return self.why if self.place is None else f"{self.why} ({self.place})"

    @property
    def more(self) -> str:
        """Why keys alone are not enough, as a clause."""
        return str(self)


@dataclass(frozen=True, slots=True)
class ByKeys:
    """The rows of touched keys are computed.

    Args:
        touch: The columns by which changes are followed; empty if the result is one row.
        plan: How the keys whose rows may differ are found if all tables change.
        more: Which tables each run reads whole in addition, and why, as a clause; None if keys alone are enough.
        above: How the result is made of these rows: the first of them under a last LIMIT, or one row of all. If it does
            not follow from them and the table, all rows are computed. None if the result is the rows themselves.
    """

    touch: tuple[str, ...]
    plan: TouchedPlan
    more: str | None = None
    above: FirstRows | OneRow | None = None

    def __str__(self) -> str:
        return self.more or f"keys ({', '.join(self.touch)}) are enough"


Verdict: TypeAlias = Whole | ByKeys
"""How the table of a text follows changes, whichever rows change."""


@dataclass(frozen=True, eq=False)
class Analysis:
    """A text over tables of known columns, and its verdict; `of` makes it.

    Args:
        text: The text.
        read: Its algebra, under the names that its head declares for the columns of the result; or why no keys follow
            it, and then only Spark knows what it says.
        facts: What is known of its tables, and of the table that it makes.
        given: The columns of the result, in order, under the names that the query itself gives.
        meaning: A digest of the columns of the tables that its names stand for.
        schemas: The columns of its tables, with their types.
        asset: The name of the asset, for messages.
    """

    text: ViewText
    read: Query | Reason
    facts: TableFacts
    given: tuple[str, ...]
    meaning: str
    schemas: Mapping[str, Mapping[str, str]]
    asset: str | None = None

    @property
    def digest(self) -> QueryDigest:
        """The digest of the text, and of the columns that its names stand for."""
        return QueryDigest(digest_of_view(self.text), self.meaning, KIND_OF_NAMES)

    @classmethod
    def of(
        cls, text: ViewText, schemas: Mapping[str, Mapping[str, str]], facts: TableFacts, asset: str | None = None
    ) -> Self:
        """The analysis of a text.

        Raises:
            ViewError: The text cannot be kept as a view.
        """
        try:
            refuse_values_of_the_run(text.args)
            query = read(text.text, schemas, tuple(text.args), is_named=bool(text.columns))
            given = tuple(output.name for output in query.outputs)
            named = _with_declared_names(text, query)
            made = cls(text, named, facts, given, digest_of_names(named), schemas, asset)
            notes = (*named.notes, *open_orders(named, facts.keys), *made._notes_of_ties())
            return replace(made, read=replace(named, notes=notes))
        except NotFollowedError as error:
            why = Reason(error.reason.clause, text.origin.place(error.reason.place))
            columns = sorted((table, sorted(columns.items())) for table, columns in schemas.items())
            return cls(text, why, facts, (), digest(columns), schemas, asset)
        except ViewError as error:
            raise with_place(error, text.origin, asset) from error.__cause__

    @property
    def query(self) -> Query:
        """The algebra of the text, if keys follow its changes."""
        assert isinstance(self.read, Query), "no keys follow the text"
        return self.read

    @cached_property
    def key(self) -> tuple[str, ...] | None:
        """The key of the result, if it follows from the text and the keys of its tables; else None."""
        return table_key(self.read, self.facts.keys) if isinstance(self.read, Query) else None

    @cached_property
    def verdict(self) -> Verdict:
        """Whether keys follow the changes of all tables, and by which columns.

        Raises:
            ViewError: The text names touch columns that the result lacks.
        """
        query, declared = self.read, self.facts.key
        if isinstance(query, Reason):
            return Whole(NeedOfAllRows.PLAN, query.clause, query.place)
        key = declared or self.key or ()
        below = None if self.below is None else self.below.verdict
        if isinstance(below, ByKeys):
            one = self.one_row if query.top is None else None
            if isinstance(one, OneRow) and below.more is None:
                return replace(below, above=one)
            if query.top is not None:
                return replace(below, above=query.top.first)
        verdict = self._verdict_of(query, key)
        if isinstance(verdict, Whole) and query.top is not None and isinstance(below, Whole):
            return replace(verdict, why=below.why, place=below.place)
        has_key = declared is None or bool(key)
        if isinstance(verdict, ByKeys) and verdict.plan.touched is not None and not has_key:
            return Whole(NeedOfAllRows.PLAN, "its table has no key", None, verdict.touch)
        return verdict

    @cached_property
    def one_row(self) -> OneRow | str:
        """How the result is one row made of all rows; else why it does not follow from its old value, as a clause."""
        if isinstance(self.read, Reason) or self.read.why_whole is not None:
            return "all of its rows are computed"
        if any(column.type for column in self.text.columns) or self.text.touch:
            return "its head declares types, or `touch` names columns"
        if not {*names_in(self.text.text)} <= {*self.facts.followed}:
            return "the changes of one of its tables are not followed"
        return one_row(self.read, self.facts.keys)

    @cached_property
    def below(self) -> Self | None:
        """The text of the rows that the result takes the first of, or makes one row of; None if there is none."""
        query, types = self.read, {column.name: column.type for column in self.text.columns}
        if isinstance(query, Reason) or self.facts.leaves_rows_out:
            return None
        if query.top is None:
            return self._rows_of_one(query, self.one_row) if query.offer else None
        if query.top.first is None or query.top.first.rows > limits().driver_rows:
            return None
        by = columns_in(*(each.value for each in self.order))
        for output in (each for each in query.outputs if each.column in by):
            declared = types.get(output.name)  # the cast value may have another place in the order
            if declared is not None and declared.replace(" ", "").lower() != query.types.get(output.column):
                return None
        # What the head refuses and casts concerns the first rows alone, and these are found in a table without a key.
        names, first = tuple(OutputColumn(column.name) for column in self.text.columns), query.top.first
        text = replace(self.text, text=first.text, columns=names, required=frozenset())
        facts = replace(self.facts, key=self.facts.key or None)
        if first.left_out:
            return self._with_order(query, text, facts, first.left_out)
        return replace(self, read=replace(query, top=None, text=first.text), text=text, facts=facts)

    def _with_order(self, query: Query, text: ViewText, facts: TableFacts, values: tuple[str, ...]) -> Self | None:
        """The text of the rows with the values that order them, followed by columns of the result."""
        touch = replace(self, read=replace(query, top=None), facts=facts).verdict.touch
        if not touch or any(column.type for column in self.text.columns):
            return None
        columns = tuple(map(OutputColumn, (*(output.name for output in query.outputs), *values)))
        try:
            return type(self).of(replace(text, columns=columns, touch=touch), self.schemas, facts, self.asset)
        except ViewError:
            return None

    def _rows_of_one(self, query: Query, one: OneRow | str) -> Self | None:
        """The text of the rows from which the result makes its one row; None if there is none."""
        if isinstance(one, str):
            return None
        columns = tuple(map(OutputColumn, one.names))
        text = replace(self.text, text=one.rows, columns=columns, required=frozenset())
        facts = replace(self.facts, key=None, partitioned_by=(), needs_whole_keys=False)
        try:
            below = type(self).of(text, self.schemas, facts, self.asset)
        except ViewError:
            return None
        return below if isinstance(below.read, Query) and have_same_rows(one, below.read, query) else None

    @cached_property
    def sums(self) -> Added | str:
        """The counts and sums that the view consists of; else why changes cannot be added to it, as a clause."""
        facts = self.facts
        if facts.leaves_rows_out:
            return "an expectation leaves groups out, to whose sums nothing could be added later"
        if self.text.touch:
            return "`touch` names the columns by which changes are followed"
        if isinstance(self.read, Reason) or self.read.why_whole is not None:
            return "all of its rows are computed"
        added = as_sums(self.read)
        if isinstance(added, str):
            return added
        if added.source not in facts.followed:
            return f"the changes of {added.source} are not followed"
        groups = fold(added.by)
        if groups != fold(facts.key or self.key or ()) or not fold(facts.partitioned_by) <= groups:
            return "the key of its table is another than the columns of GROUP BY"
        return added

    def _verdict_of(self, query: Query, key: tuple[str, ...]) -> Verdict:
        facts = self.facts
        try:
            touch = (
                self.text.touch
                if self.text.touch and query.why_whole is None
                else choose_touch(query, key, facts.small, facts.keys, within_key=facts.needs_whole_keys)
            )
            plan = self.plan(touch, facts.followed)
            rows = None if plan.touched is None else rows_of_any_keys(query, plan, facts.small)
        except NotFollowedError as error:
            return self._whole(error.reason)
        if (why := query.why_whole) is not None:
            return self._whole(why, touch)
        if rows is not None and not touch:
            below = None if self.below is None else self.below.verdict.more
            more = self.one_row if isinstance(self.one_row, str) else below
            clause = f"its result is one row of all rows{'' if more is None else f', and {more}'}"
            return Whole(NeedOfAllRows.PLAN, clause, None, touch)
        reads_whole = (
            None if rows is None else plan.why_read_whole(facts.followed) or rows.why_read_whole(facts.followed)
        )
        return ByKeys(touch, plan, reads_whole)

    def _whole(self, why: Reason, touch: tuple[str, ...] | None = None) -> Whole:
        return Whole(NeedOfAllRows.PLAN, why.clause, self.text.origin.place(why.place), touch)

    @cached_property
    def ties(self) -> tuple[int, ...]:
        """The places, from 1, of the columns that order the rows which the ORDER BY of a last LIMIT leaves equal.

        Under the other columns of the result as well, only equal rows have no order, and any of these may be taken.
        """
        query = self.read
        if isinstance(query, Reason) or query.top is None:
            return ()
        by = {output.name.lower() for output in query.outputs if output.column in query.top.columns}
        key = fold(self.key or ())  # a declared key promises nothing of the rows before the LIMIT
        if key and key <= by:
            return ()
        return tuple(place for place, output in enumerate(query.outputs, 1) if output.name.lower() not in by)

    @property
    def order(self) -> tuple[OrderBy, ...]:
        """The order in which a last LIMIT takes rows, over the unique names of the columns of the result."""
        assert self.query.top is not None, "only a LIMIT takes rows in an order"
        settling = (column(self.query.outputs[place - 1].column) for place in self.ties)
        return (*self.query.top.by, *(OrderBy(each, descending=False, nulls_first=True) for each in settling))

    @property
    def settled_text(self) -> str:
        """The text of the view, in which further columns, by their places, settle the ties of a last LIMIT.

        They begin a line, because a comment may end the line before.
        """
        if not self.ties or self.query.top is None:
            return self.text.text
        text, end = self.text.text, self.query.top.end
        return f"{text[:end].rstrip()}\n, {', '.join(map(str, self.ties))} {text[end:]}"

    def _notes_of_ties(self) -> tuple[str, ...]:
        if not self.ties:
            return ()
        names = ", ".join(self.query.outputs[place - 1].name for place in self.ties)
        return (
            f"Rows that are equal in the ORDER BY of its LIMIT are taken in the order of their other columns: {names}.",
        )

    def plan(self, touch: tuple[str, ...], changed: Collection[str]) -> TouchedPlan:
        """How touched keys, in some columns of the result, are found if some tables have changed.

        Raises:
            ViewError: The result has no such column.
            NotFollowedError: No step can compute the keys.
        """
        try:
            return touched_plan(self.query, touch, changed, self.facts.small)
        except ViewError as error:
            raise with_place(error, self.text.origin, self.asset) from error.__cause__


@dataclass(frozen=True, slots=True)
class CheckedView:
    """How a view would follow its tables.

    Args:
        verdict: Whether keys follow their changes, by which columns, and by which plan; or why not.
        columns: The columns of the result, in order; empty if only Spark knows them.
        key: The key of the result, if it follows from the text and the keys of the tables; else None.
        notes: What in the text has no meaning, or no certain one, for a table, as sentences.
    """

    verdict: Verdict
    columns: tuple[str, ...] = ()
    key: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()

    @property
    def why_whole(self) -> str | None:
        """Why changes need all rows, or all of a table, as a clause; None if keys are enough, in a table with a key."""
        return self.verdict.more


def check_text(
    text: ViewText, schemas: Mapping[str, Mapping[str, str]], keys: Mapping[str, tuple[str, ...]]
) -> CheckedView:
    """How a text would follow tables with these columns, if no table is small.

    Raises:
        ViewError: The text cannot be kept as a view.
    """
    analysis = Analysis.of(text, schemas, TableFacts(tuple(schemas), keys=keys))
    verdict = analysis.verdict
    if isinstance(analysis.read, Reason):
        return CheckedView(verdict)
    columns = tuple(output.name for output in analysis.read.outputs)
    return CheckedView(verdict, columns, analysis.key, analysis.read.notes)


def _with_declared_names(text: ViewText, query: Query) -> Query:
    """The query, with the column names that the head declares."""
    if not text.columns:
        return query
    if len(text.columns) != len(query.outputs):
        given = ", ".join(output.name for output in query.outputs)
        what = f"The head declares {len(text.columns)} columns, and the query gives {len(query.outputs)}"
        raise ViewError("VIEW_HEAD", what, None, f"Declare a column for each of {given}, or none.")
    names = zip(text.columns, query.outputs, strict=True)
    return replace(query, outputs=tuple(Output(column.name, output.column) for column, output in names))

"""GROUP BY, HAVING and windows of a block: expressions over rows become expressions over groups and partitions."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import Aggregation, Extend, Node, SetKind, SetOperation, Windows, column, columns
from lakehouse.views.functions import AGGREGATES
from lakehouse.views.sql.parsing import CALLED
from lakehouse.views.sql.scopes import TextReading
from lakehouse.views.sql.subqueries import SAID, correlation, sides
from lakehouse.views.sql.time_windows import TimeWindow


@dataclass(frozen=True, eq=False, slots=True)
class Projection:
    """A column of SELECT: its name, and its expression over unique columns."""

    name: str
    expression: Expression


def is_aggregate(node: Expression) -> bool:
    """Whether a node itself is an aggregate, possibly wrapped in FILTER, WITHIN GROUP, IGNORE or RESPECT NULLS."""
    call = _bare_call(node, (*_AROUND, exp.WithinGroup))
    if isinstance(call, exp.Anonymous):
        return call.meta.get(CALLED, call.name.lower()) in AGGREGATES
    return isinstance(call, exp.AggFunc) and not isinstance(call, exp.Grouping | exp.GroupingId)


def has_aggregate(expression: Expression) -> bool:
    """Whether an expression contains an aggregate of rows; the function of a window is not one."""
    if isinstance(expression, exp.Window):
        within = (
            *_bare_call(expression.this).iter_expressions(),
            *(each for each in expression.iter_expressions() if each is not expression.this),
        )
        return any(map(has_aggregate, within))
    if isinstance(expression, exp.Query):
        return False
    return is_aggregate(expression) or any(map(has_aggregate, expression.iter_expressions()))


_AROUND = (exp.Filter, exp.IgnoreNulls, exp.RespectNulls)
"""The nodes that may wrap a call, including the call of a window."""


def _bare_call(expression: Expression, around: tuple[type[Expression], ...] = _AROUND) -> Expression:
    """A call without the nodes that wrap it."""
    while isinstance(expression, around):
        expression = expression.this
    return expression


@dataclass(eq=False)
class Grouping:
    """The groups of a block, and the aggregates that its expressions turn out to need.

    Args:
        reading: The reading of the text.
        keys: The expressions after GROUP BY, each with its column.
        computed: The columns that are computed so that rows can be grouped by them, each with its expression.
        aggregates: The aggregates, by the columns that hold them.
        sets: With ROLLUP, CUBE or GROUPING SETS, the columns of each grouping; else empty.
        given: With `sets`, the name that each column has in the union of the groupings.
        levels: With `sets`, the columns that each GROUPING or GROUPING_ID asks about, by the column of its answer.
    """

    reading: TextReading
    keys: list[tuple[Expression, str]] = field(default_factory=list[tuple[Expression, str]])
    computed: dict[str, Expression] = field(default_factory=dict[str, Expression])
    aggregates: dict[str, Expression] = field(default_factory=dict[str, Expression])
    sets: tuple[tuple[str, ...], ...] = ()
    given: dict[str, str] = field(default_factory=dict[str, str])
    levels: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def add(self, expression: Expression) -> str:
        """Group by an expression, and return its column."""
        expression = _bare(expression)
        existing = next((name for key, name in self.keys if key == expression), None)
        if existing is not None:
            return existing
        name = expression.name
        if not isinstance(expression, exp.Column):
            name = self.reading.unique("g")
            self.computed[name] = expression
            self.reading.retype(name, expression)
        self.keys.append((expression, name))
        return name

    def correlate(self, conditions: tuple[Expression, ...], node: Node) -> tuple[Expression, ...]:
        """The conditions over columns of the surrounding query, whose sides over this query become groups."""
        new: list[Expression] = []
        for condition in conditions:
            pair = sides(condition, columns(node))
            if pair is None or self.sets:
                raise correlation(self.reading, condition)
            new.append(exp.EQ(this=column(self.add(pair[0])), expression=pair[1].copy()))
        return tuple(new)

    def over_groups(self, expression: Expression, aliases: Mapping[str, Expression] | None = None) -> Expression:
        """An expression over the columns of the groups and of the aggregates.

        Args:
            expression: The expression, over the columns of the rows.
            aliases: What names mean that are not groups, as in HAVING: expressions over groups, by lower-case name.
        """
        key = next((name for key, name in self.keys if key == expression), None)
        if key is not None:
            return _at(expression, column(self._given(key)))
        if isinstance(expression, exp.Window):
            return self._over_window(expression, aliases)
        if isinstance(expression, exp.Grouping | exp.GroupingId):
            return _at(expression, column(self._level(expression)))
        if is_aggregate(expression):
            return _at(expression, column(self._given(self._aggregate(expression))))
        alias = (aliases or {}).get(expression.meta.get(SAID, "")) if isinstance(expression, exp.Column) else None
        if alias is not None:
            return exp.Paren(this=alias.copy())
        return _with_children(expression, lambda child: self.over_groups(child, aliases))

    def _aggregate(self, expression: Expression) -> str:
        """The column of an aggregate."""
        existing = next((name for name, each in self.aggregates.items() if each == expression), None)
        if existing is not None:
            return existing
        name = self.reading.unique(_bare_call(expression, (*_AROUND, exp.WithinGroup)).key)
        self.aggregates[name] = expression.copy()
        self.reading.retype(name, expression)
        return name

    def _over_window(self, window: exp.Window, aliases: Mapping[str, Expression] | None) -> Expression:
        """A window over groups: its function is not an aggregate of rows, but the arguments may contain aggregates."""
        new = _with_children(
            window, lambda child: child.copy() if child is window.this else self.over_groups(child, aliases)
        )
        for child in list(_bare_call(new.this).iter_expressions()):
            child.replace(self.over_groups(child, aliases))
        return new

    def _given(self, name: str) -> str:
        """The name of a column after grouping; with several groupings, its name in their union."""
        if not self.sets:
            return name
        if name not in self.given:
            self.given[name] = self.reading.unique(name, self.reading.types.get(name))
        return self.given[name]

    def _level(self, call: exp.Grouping | exp.GroupingId) -> str:
        """The column of a GROUPING or GROUPING_ID call; GROUPING_ID without arguments is about all columns."""
        of = [name for each in call.expressions for key, name in self.keys if key == _bare(each)]
        if not self.sets or len(of) != len(call.expressions):
            raise self.reading.not_followed("GROUPING is of no column of ROLLUP, CUBE or GROUPING SETS", call)
        level = self.reading.unique("level", "tinyint" if isinstance(call, exp.Grouping) else "bigint")
        self.levels[level] = tuple(of or (name for _, name in self.keys))
        return level

    def node(self, rows: Node, window: TimeWindow | None = None, *, is_all: bool = False) -> Node:
        """The groups as a node; with several groupings, the union of their rows.

        Args:
            rows: The rows, in which each has been repeated for the intervals of `window`.
            window: The intervals of time that contain the rows; None if the block asks for none.
            is_all: Whether the groups are those of GROUP BY ALL.
        """
        below = Extend(rows, dict(self.computed)) if self.computed else rows
        groups = tuple(dict.fromkeys(name for _, name in self.keys))
        if window is not None and window.session is not None:
            self._require_sessions(window, is_all=is_all)
            below = Windows(below, tuple(sorted(set(groups) - {window.start})), {window.start: window.session})
        if not self.sets:
            return Aggregation(below, groups, dict(self.aggregates))
        for name in groups:
            self._given(name)
        branches = [self._grouping(below, one, groups) for one in self.sets]
        nodes, names = zip(*branches, strict=True)
        return SetOperation(SetKind.UNION_ALL, nodes, names, has_same_types=True)

    def _require_sessions(self, window: TimeWindow, *, is_all: bool) -> None:
        """Raise if the groups do not divide the rows into sessions of the rows that are equal in another column."""
        names, is_of_end = {name for _, name in self.keys}, any(has_aggregate(key) for key, _ in self.keys)
        if is_all or self.sets or window.start not in names or is_of_end:
            what = "session_window() stands next to ALL, ROLLUP, CUBE or GROUPING SETS, or is no column of GROUP BY"
            raise self.reading.not_followed(what, window.call)
        if len(names) == 1:
            what = "session_window() without another column in GROUP BY goes over all rows"
            raise self.reading.not_followed(what, window.call)

    def _grouping(self, below: Node, own: tuple[str, ...], groups: tuple[str, ...]) -> tuple[Node, dict[str, str]]:
        """The rows of one grouping, with NULL in columns that it leaves out, and its column for each of the union."""
        columns, new = dict[str, str](), dict[str, Expression]()
        for name in groups:
            columns[self.given[name]] = name if name in own else self.reading.unique(name)
            if name not in own:
                new[columns[self.given[name]]] = exp.null()
        for level, of in self.levels.items():
            columns[level] = self.reading.unique(level)
            bits = sum((name not in own) << place for place, name in enumerate(reversed(of)))
            new[columns[level]] = exp.cast(exp.Literal.number(bits), self.reading.types[level])
        columns |= {self._given(name): name for name in self.aggregates}
        node = Aggregation(below, own, dict(self.aggregates))
        return Extend(node, new) if new else node, columns


def _bare(expression: Expression) -> Expression:
    """An expression without brackets around it."""
    return _bare(expression.this) if isinstance(expression, exp.Paren) else expression


def _at(place: Expression, expression: Expression) -> Expression:
    """An expression with the place in the text that another one has."""
    expression.meta.update({key: value for key, value in place.meta.items() if key in ("start", "end")})
    return expression


def _with_children(expression: Expression, change: Callable[[Expression], Expression]) -> Expression:
    """A copy of an expression with each of its parts changed."""
    new = expression.copy()
    for part, child in zip(list(new.iter_expressions()), list(expression.iter_expressions()), strict=True):
        part.replace(change(child))
    return new


def over_windows(
    reading: TextReading, node: Node, expressions: tuple[Expression, ...]
) -> tuple[Node, tuple[Expression, ...]]:
    """A node with the windows that expressions need, and the expressions over their columns."""
    windows: dict[str, exp.Window] = {}

    def pull(part: Expression) -> Expression:
        if not isinstance(part, exp.Window):
            return part
        existing = next((name for name, each in windows.items() if each == part), None)
        name = existing or reading.unique("w")
        windows[name] = part.copy()
        return column(name)

    pulled = tuple(expression.copy().transform(pull) for expression in expressions)
    computed: dict[str, Expression] = {}
    by_partition: dict[frozenset[str], dict[str, Expression]] = {}
    for name, window in windows.items():
        parts: list[Expression] = window.args.get("partition_by") or []
        if all(isinstance(part, exp.Literal | exp.Null) for part in parts):
            why = reading.not_followed("a window without PARTITION BY goes over all rows", window).reason
            reading.whole = reading.whole or why
        partition = tuple(_partition(reading, part, computed) for part in parts)
        window.set("partition_by", [column(part) for part in partition])
        by_partition.setdefault(frozenset(partition), {})[name] = window
        reading.retype(name, window)
    node = Extend(node, computed) if computed else node
    for partition, same in by_partition.items():
        node = Windows(node, tuple(sorted(partition)), same)
    return node, pulled


def _partition(reading: TextReading, expression: Expression, computed: dict[str, Expression]) -> str:
    """The column of an expression in PARTITION BY, which is computed unless the expression is a column."""
    expression = _bare(expression)
    if isinstance(expression, exp.Column):
        return expression.name
    existing = next((name for name, each in computed.items() if each == expression), None)
    if existing is not None:
        return existing
    name = reading.unique("p")
    computed[name] = expression.copy()
    reading.retype(name, expression)
    return name

"""FROM: tables, subqueries, joins and LATERAL VIEW, as items of a join, and the columns that they offer to names."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import cast

from sqlglot import exp
from sqlglot.expressions.core import Expr, Expression

from lakehouse.errors.views import ViewError
from lakehouse.views.algebra import (
    CONSTANT,
    Extend,
    Filter,
    FullJoin,
    Generate,
    Item,
    Join,
    MarkUse,
    Node,
    Output,
    Scan,
    SetKind,
    SetOperation,
    Side,
    column,
    columns,
    columns_in,
)
from lakehouse.views.functions import GENERATORS
from lakehouse.views.sql.parsing import CALLED, name_of, place_of
from lakehouse.views.sql.pivots import read_pivot
from lakehouse.views.sql.scopes import Common, Ctes, FromItem, ReadQuery, Scope, TextReading, type_of
from lakehouse.views.sql.subqueries import Block, Sought, beside, conjuncts, correlation, rewrite, rewrite_below
from lakehouse.views.view_text import NotFollowedError


def read_from(block: Block, select: exp.Select) -> tuple[Node, tuple[Expression, ...]]:
    """The rows of FROM and WHERE, and the conditions over columns of the surrounding query."""
    source: exp.From | None = select.args.get("from_")
    rows = _Rows(block)
    if source is None:
        block.items.append(Item(CONSTANT))
    else:
        rows.read(source.this, select.args.get("joins") or ())
    for lateral in select.args.get("laterals") or ():
        rows.generate(lateral)
    where: exp.Where | None = select.args.get("where")
    rows.filter(conjuncts(where.this if where else None))
    return rows.close(), tuple(rows.correlated)


def with_ctes(query: Expr, ctes: Ctes) -> Ctes:
    """The common table expressions in reach, with those of a query's WITH."""
    common: exp.With | None = query.args.get("with_")
    for cte in common.expressions if common else ():
        ctes = {**ctes, cte.alias.lower(): Common(cte, ctes)}
    return ctes


@dataclass(eq=False)
class _Rows:
    """The rows of a FROM while its items are read, with the conditions that filter, mark or correlate them."""

    block: Block
    where: list[Expression] = field(default_factory=list[Expression])
    marked: list[Expression] = field(default_factory=list[Expression])
    correlated: list[Expression] = field(default_factory=list[Expression])

    def read(self, first: Expr, joins: Iterable[exp.Join]) -> None:
        """Read the first item, and those that join it."""
        node, self.block.scope = read_source(self.block, first)
        self.block.items.append(Item(node))
        crossed = False
        for join in joins:
            if crossed and (join.side in ("RIGHT", "FULL") or join.method):
                what = f"After a comma or CROSS JOIN, it is not plain what a {join.side or join.method} JOIN joins"
                raise self.block.reading.not_followed(what, join)
            crossed = crossed or join.kind == "CROSS"
            match join.this:
                case exp.Lateral(this=exp.Subquery()) as lateral:
                    self.join_each(lateral, is_outer=join.side == "LEFT")
                case exp.Lateral() as lateral:
                    self.generate(lateral, is_outer=join.side == "LEFT")
                case _:
                    self.join(join)

    def join(self, join: exp.Join) -> None:
        """Read an item of FROM that joins those before it."""
        block = self.block
        node, scope = read_source(block, join.this)
        block.scope, before = block.scope.beside(scope), block.scope
        pairs = _pairs(block, join, before, scope)
        on = list[Expression](exp.EQ(this=column(a.column), expression=column(b.column)) for a, b in pairs)
        marks = len(block.marks)
        items = len(block.items)
        on += [rewrite(block, each) for each in conjuncts(join.args.get("on"))]
        if len(block.marks) > marks or len(block.items) > items:
            raise block.reading.not_followed("A subquery stands in ON", join)
        match join.side, join.kind:
            case _, "SEMI" | "ANTI":
                block.scope = replace(before, visible=_merge([left for left, _ in pairs], pairs, before, Scope()))
                self._mark(Sought(node, tuple(on), block.reading.unique("semi")), positive=join.kind == "SEMI")
                return
            case "RIGHT", _:
                self._no_correlation(on, node)
                block.items = [Item(node), Item(self.close(), Side.LEFT, tuple(on))]
                keys = [right for _, right in pairs]
            case "FULL", _:
                self._no_correlation(on, node)
                full, keys = self._full(node, tuple(on), pairs)
                block.items = [Item(full)]
            case "LEFT", _:
                self._no_correlation(on, node)
                if block.marks:
                    block.items = [Item(self.close())]
                block.items.append(Item(node, Side.LEFT, tuple(on)))
                keys = [left for left, _ in pairs]
            case _:
                block.items.append(Item(node))
                for condition in on:
                    self.keep(condition)
                keys = [left for left, _ in pairs]
        visible = _merge(keys, pairs, before, scope)
        hidden = tuple(output for pair in zip(*pairs, strict=True) for output in pair if output not in visible)
        block.scope = Scope(block.scope.relations, visible, (*hidden, *block.scope.hidden))

    def _full(
        self, node: Node, on: tuple[Expression, ...], pairs: list[tuple[Output, Output]]
    ) -> tuple[Node, list[Output]]:
        """A full join, and the columns of USING, each taken from the side that has the row."""
        full: Node = FullJoin(self.close(), node, on)
        keys: list[Output] = []
        new: dict[str, Expression] = {}
        for left, right in pairs:
            value = exp.Coalesce(this=column(left.column), expressions=[column(right.column)])
            key = self.block.reading.unique(left.name, type_of(value, self.block.reading.types))
            keys.append(Output(left.name, key))
            new[key] = value
        return (Extend(full, new) if new else full), keys

    def _no_correlation(self, on: list[Expression], node: Node) -> None:
        """Raise if the condition of an outer join names a column of the surrounding query."""
        within = self._columns() | columns(node)
        for condition in on:
            if columns_in(condition) - within:
                raise correlation(self.block.reading, condition)

    def _columns(self) -> frozenset[str]:
        """The columns of the items so far."""
        return frozenset[str]().union(*(columns(item.node) for item in self.block.items))

    def _mark(self, mark: Sought, *, positive: bool) -> None:
        """Keep the rows that have a match, as a semi join does, or those that have none, as an anti join does."""
        if columns_in(*mark.on) - columns(mark.sub) - self._columns():
            raise correlation(self.block.reading, mark.on[0])
        self.block.marks.append(mark)
        self.marked.append(column(mark.value) if positive else exp.not_(column(mark.value)))

    def filter(self, conditions: Iterable[Expression]) -> None:
        """Keep the rows for which conditions of the text hold."""
        for condition in conditions:
            self.keep(rewrite(self.block, condition))

    def keep(self, condition: Expression) -> None:
        """Keep the rows for which a condition over unique columns holds."""
        marks = frozenset(mark.value for mark in self.block.marks)
        names = columns_in(condition)
        if not names - self._columns() - marks:
            (self.marked if names & marks else self.where).append(condition)
        elif names & marks:
            raise correlation(self.block.reading, condition)
        else:
            self.correlated.append(condition)

    def generate(self, lateral: exp.Lateral, *, is_outer: bool = False) -> None:
        """Read a LATERAL VIEW, or a generator after LATERAL."""
        block, alias = self.block, lateral.args.get("alias")
        names = tuple(name.name for name in alias.columns) if alias is not None else ()
        generator, new = read_generator(block, lateral.this, names)
        is_outer = is_outer or bool(lateral.args.get("outer")) or is_outer_generator(lateral.this)
        block.items = [Item(Generate(self.close(), generator, new, is_outer))]
        outputs = tuple(map(Output, names, new))
        relation = FromItem(alias.name.lower() if alias is not None else "", outputs)
        block.scope = block.scope.beside(Scope((relation,), outputs))

    def join_each(self, lateral: exp.Lateral, *, is_outer: bool) -> None:
        """Read a LATERAL subquery, which may name columns of the items before it."""
        block, reading = self.block, self.block.reading
        query = block.read(lateral.this)
        outputs = query.outputs
        is_outside = not columns(query.node).issuperset(output.column for output in outputs)
        if isinstance(query.node, Extend) and query.node.node is CONSTANT and not query.correlated:
            block.items = [Item(Extend(self.close(), query.node.new))]
        elif query.is_one_row:
            item, of_none = beside(reading, query)
            block.items.append(item)
            if of_none:
                names = {name: reading.unique(name, reading.types.get(name)) for name in of_none}
                new = {names[name]: value for name, value in of_none.items()}
                block.items = [Item(Extend(self.close(), new))]
                outputs = tuple(replace(each, column=names.get(each.column, each.column)) for each in outputs)
        elif is_outer and is_outside:  # it is NULL where the subquery has no row, and the outer row's own column is not
            raise correlation(reading, lateral)
        elif is_outer:
            if block.marks:
                block.items = [Item(self.close())]
            block.items.append(Item(query.node, Side.LEFT, query.correlated))
        else:
            block.items.append(Item(query.node))
            for condition in query.correlated:
                self.keep(condition)
        relation = _relation(reading, lateral.args.get("alias"), outputs)
        block.scope = block.scope.beside(Scope((relation,), relation.columns))

    def close(self) -> Node:
        """The rows so far as one node."""
        block = self.block
        items, marks = block.take()
        node = items[0].node if len(items) == 1 and not self.where else Join(items, tuple(self.where))
        for mark in marks:
            node = mark.over(node, use_of(mark.value, self.marked))
        if self.marked:
            node = Filter(node, tuple(self.marked))
        self.where, self.marked = [], []
        return node


def use_of(mark: str, conditions: Iterable[Expression]) -> MarkUse:
    """How conditions use a mark."""
    uses = {
        MarkUse.POSITIVE
        if condition == column(mark)
        else MarkUse.NEGATIVE
        if condition == exp.not_(column(mark))
        else MarkUse.ANY
        for condition in conditions
        if mark in columns_in(condition)
    }
    return uses.pop() if len(uses) == 1 else MarkUse.ANY


def read_generator(block: Block, call: Expr, names: tuple[str, ...]) -> tuple[Expression, tuple[str, ...]]:
    """A generator over unique columns, and the unique names of the columns that it gives."""
    reading, name = block.reading, call.meta.get(CALLED, "")
    if name not in GENERATORS or call.find(exp.Query):
        what = "What stands after LATERAL VIEW makes no rows of one, or reads another table"
        raise reading.not_followed(what, call)
    if not names:
        raise reading.not_followed(f"The columns of {name}() have no names", call)
    generator = cast("Expression", call.copy())
    rewrite_below(block, generator)
    return generator, tuple(reading.unique(each) for each in names)


def is_outer_generator(call: Expr) -> bool:
    """Whether a generator gives a row of NULLs where it would otherwise give no row."""
    return str(call.meta.get(CALLED, "")).endswith("_outer")


def read_source(block: Block, source: Expr) -> tuple[Node, Scope]:
    """An item of FROM, and what it offers."""
    joins: list[exp.Join] = source.args.get("joins") or []
    if joins:
        alone = source.copy()
        alone.set("joins", None)
        return _read_bracket(block, alone, joins)
    if pivots := source.args.get("pivots"):
        alone = source.copy()
        alone.set("pivots", None)
        return read_pivot(block, pivots[0], *read_source(block, alone))
    match source:
        case exp.Table():
            return _read_table(block, source)
        case exp.Subquery(this=exp.Table() | exp.Subquery() as within) if _is_bracket(within):
            node, scope = read_source(block, within)
            if source.alias:
                relation = _relation(block.reading, source.args["alias"], scope.visible)
                scope = Scope((relation,), relation.columns)
            return node, scope
        case exp.Subquery() | exp.Values():
            query = _read_alone(block, source, block.ctes)
            relation = _relation(block.reading, source.args.get("alias"), query.outputs)
            return query.node, Scope((relation,), relation.columns)
        case _:
            raise block.reading.not_followed("This is not read in FROM", source)


def _read_alone(block: Block, tree: Expr, ctes: Ctes) -> ReadQuery:
    """A query in FROM. That a name is of a query around the block is no mistake, but not followed."""
    reading = block.reading
    try:
        return reading.read_query(reading, tree, ctes, ())
    except ViewError as error:
        if not block.outer or not _is_read_within(block, tree, ctes):
            raise
        raise correlation(reading, tree) from error


def _is_read_within(block: Block, tree: Expr, ctes: Ctes) -> bool:
    """Whether names of the queries around a block are what a query lacks."""
    try:
        block.reading.read_query(block.reading, tree, ctes, block.outer)
    except NotFollowedError:
        return True
    except ViewError:
        return False
    return True


_MOST_VALUES = 100
"""At most this many rows of VALUES are followed, because each becomes a branch of the steps."""


def read_values(reading: TextReading, values: exp.Values) -> tuple[Node, tuple[Output, ...]]:
    """The rows of VALUES, each computed from no table, and their columns under Spark's names."""
    rows = [each.expressions for each in values.expressions if isinstance(each, exp.Tuple)]
    block = Block(reading, {})
    is_plain = len({len(row) for row in rows}) == 1 and len(rows) == len(values.expressions) <= _MOST_VALUES
    if not is_plain or values.find(exp.Query, exp.Alias) is not None:
        raise reading.not_followed("VALUES are more than rows of expressions, or too many", values, "VALUES")
    branches, names = list[Node](), list[dict[str, str]]()
    outputs = tuple(Output(f"col{place}", reading.unique("col")) for place, _ in enumerate(rows[0], 1))
    for row in rows:
        own = {output.column: reading.unique("value") for output in outputs}
        new = dict(zip(own.values(), (rewrite(block, each) for each in row), strict=True))
        for name, value in new.items():
            reading.retype(name, value)
        branches.append(Extend(CONSTANT, new))
        names.append(own)
    node = SetOperation(SetKind.UNION_ALL, tuple(branches), tuple(names))
    for name in node.of_one_type(reading.types):
        reading.types[name] = reading.types[names[0][name]]
    return node, outputs


def _is_bracket(within: Expr) -> bool:
    """Whether brackets hold tables rather than a query."""
    while isinstance(within, exp.Subquery) and not within.alias and not within.args.get("joins"):
        within = within.this
    return isinstance(within, exp.Table) or bool(within.args.get("joins") and isinstance(within, exp.Subquery))


def _read_bracket(block: Block, first: Expr, joins: Iterable[exp.Join]) -> tuple[Node, Scope]:
    """Tables in brackets, which are joined with each other before they join others."""
    within = Block(block.reading, block.ctes, block.outer)
    rows = _Rows(within)
    rows.read(first, joins)
    if rows.correlated:
        raise correlation(block.reading, rows.correlated[0])
    return rows.close(), within.scope


def _read_table(block: Block, table: exp.Table) -> tuple[Node, Scope]:
    """A table, or a use of a common table expression."""
    reading, name, alias = block.reading, name_of(table), table.args.get("alias")
    if not table.args.get("db") and name in block.ctes:
        common = block.ctes[name]
        query = _read_alone(block, common.tree.this, common.ctes)
        inner = _relation(reading, common.tree.args["alias"], query.outputs)
        relation = _relation(reading, alias, inner.columns) if alias is not None else inner
        return query.node, Scope((relation,), relation.columns)
    if alias is not None and alias.columns:
        raise reading.not_followed("An alias of a table renames its columns", table)
    if name not in reading.schemas:
        what = f"Nothing is known of a table {name}"
        raise reading.refuse("VIEW_UNKNOWN_TABLE", what, table, f"The tables are: {', '.join(reading.schemas)}.")
    schema = reading.schemas[name]
    names = {reading.unique(column, type_): column for column, type_ in schema.items()}
    shown = table.alias or table.name
    outputs = tuple(Output(column, unique) for unique, column in names.items())
    path = () if table.alias else tuple(name.split("."))
    return Scan(name, names, shown, place_of(table)), Scope((FromItem(shown.lower(), outputs, path),), outputs)


def _relation(reading: TextReading, alias: exp.TableAlias | None, outputs: tuple[Output, ...]) -> FromItem:
    """What a subquery offers under its alias, which may rename the columns."""
    names: list[exp.Identifier] = alias.columns if alias is not None else []
    if names and len(names) != len(outputs):
        what = f"An alias names {len(names)} columns of {len(outputs)}"
        raise reading.refuse("VIEW_UNKNOWN_COLUMN", what, alias, "Name each of them.")
    renamed = (Output(name.name, output.column) for name, output in zip(names, outputs, strict=False))
    return FromItem(alias.name.lower() if alias is not None else "", tuple(renamed) if names else outputs)


def _pairs(block: Block, join: exp.Join, left: Scope, right: Scope) -> list[tuple[Output, Output]]:
    """The columns of both sides that USING, or NATURAL, makes equal."""
    if join.method and join.method != "NATURAL":
        raise block.reading.not_followed(f"A {join.method} JOIN is not read", join)
    names: list[tuple[str, Expression]] = [(name.name.lower(), name) for name in join.args.get("using") or ()]
    if join.method:
        _refuse_other_case(block, join, left, right)
        of_right = {output.name for output in right.visible}
        shared = dict.fromkeys(output.name for output in left.visible)
        names = [(name.lower(), join) for name in shared if name in of_right]
    return [(_only(block, left, name, at), _only(block, right, name, at)) for name, at in names]


def _refuse_other_case(block: Block, join: exp.Join, left: Scope, right: Scope) -> None:
    """Raise if names on the two sides differ only in the case of letters: NATURAL takes them for different names."""
    of_right = {output.name.lower(): output.name for output in right.visible}
    for output in left.visible:
        other = of_right.get(output.name.lower(), output.name)
        if other != output.name:
            what = f"NATURAL JOIN takes {output.name} and {other} for two columns"
            raise block.reading.not_followed(what, join)


def _only(block: Block, scope: Scope, name: str, at: Expression) -> Output:
    """The column of one side of a join that USING names."""
    outputs = [output for output in scope.visible if output.name.lower() == name]
    if len(outputs) != 1:
        what = f"One side of the join has {'several' if outputs else 'no'} columns {name}"
        raise block.reading.refuse("VIEW_UNKNOWN_COLUMN", what, at, "Write the condition after ON.")
    return outputs[0]


def _merge(keys: list[Output], pairs: list[tuple[Output, Output]], left: Scope, right: Scope) -> tuple[Output, ...]:
    """The columns that a join with USING offers without a qualifier: its keys once, and the rest of both sides."""
    once = {output.column for pair in pairs for output in pair}
    rest = (output for output in (*left.visible, *right.visible) if output.column not in once)
    return (*keys, *rest)

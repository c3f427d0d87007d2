"""Relations as SQL with places, from which steps are built, and limits: that values are among the keys of a step.

Column names are unique, so nothing needs an alias.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import (
    Extend,
    Filter,
    Generate,
    Item,
    Join,
    Node,
    Scan,
    SetOperation,
    Side,
    column,
    columns,
    columns_in,
    is_captured,
    substitute,
)
from lakehouse.views.equalities import Classes, KeyPair, on_equalities, without_coalesce
from lakehouse.views.plan import Found, Image, Restriction, SourceRows, Sql
from lakehouse.views.sql.parsing import CALLED
from lakehouse.views.sql.scopes import type_of

NOTHING = "1 AS one_"
"""What a relation without columns selects: it shows only whether there is a row."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A query and the columns of its rows."""

    sql: Sql
    columns: tuple[str, ...]


def print_sql(expression: Expression) -> str:
    """SQL of an expression that can be put next to AND: sqlglot writes no parentheses around OR by itself."""
    sql = expression.sql(dialect="spark")
    return f"({sql})" if isinstance(expression, exp.Connector | exp.Not) else sql


def text(*parts: str | Sql | Relation) -> Sql:
    """SQL put together from texts, SQL and relations; the relations are in parentheses."""
    joined: list[str | Sql] = []
    for part in parts:
        joined += ["(", part.sql, ")"] if isinstance(part, Relation) else [part]
    flat = [one for part in joined for one in ((part,) if isinstance(part, str) else part)]
    merged: list[object] = []
    for one in flat:
        if isinstance(one, str) and merged and isinstance(merged[-1], str):
            merged[-1] += one
        else:
            merged.append(one)
    return tuple(merged)  # type: ignore[return-value]


def separate(parts: Iterable[Sql | str], by: str) -> Sql:
    """SQL texts with a word between them."""
    listed = list(parts)
    return text(*(one for k, part in enumerate(listed) for one in ((by, part) if k else (part,))))


def where(conditions: Sequence[Sql | str]) -> Sql:
    """WHERE, if there is a condition."""
    return text(" WHERE ", separate(conditions, " AND ")) if conditions else ()


def select(
    relation: Relation,
    columns: Iterable[str],
    conditions: Sequence[Sql | str] = (),
    computed: Mapping[str, str] | None = None,
) -> Relation:
    """Columns of a relation's rows, some of them computed, under conditions."""
    names = tuple(sorted(columns))
    values = computed or {}
    if names == relation.columns and not conditions and not values:
        return relation
    listed = ", ".join(f"{values[name]} AS {name}" if name in values else name for name in names)
    return Relation(text(f"SELECT {listed or NOTHING} FROM ", relation, where(conditions)), names)


def unite(relations: Sequence[Relation]) -> Relation | None:
    """All rows of relations that have the same columns; None if there is no relation."""
    if len(relations) < 2:
        return relations[0] if relations else None
    names = relations[0].columns
    return Relation(separate((select(each, names).sql for each in relations), " UNION ALL "), names)


def combine(one: Relation, other: Relation, conditions: Sequence[Sql | str]) -> Relation:
    """The pairs of rows of two relations for which conditions hold; without columns, `other` only has to have a row."""
    if not other.columns:
        return select(one, one.columns, [*conditions, text("EXISTS ", other)])
    names = tuple(sorted({*one.columns, *other.columns}))
    return Relation(
        text(f"SELECT {', '.join(names) or NOTHING} FROM ", one, " CROSS JOIN ", other, where(conditions)), names
    )


_SOUGHT = "sought__"


@dataclass(frozen=True, slots=True)
class KeyLimit:
    """The condition that values of a row are among the keys of a step.

    Args:
        step: The step.
        pairs: An expression over the columns of a node, and the column of the step that equals it.
        null_safe: Whether two NULLs are equal.
    """

    step: str
    pairs: tuple[tuple[Expression, str], ...]
    null_safe: bool = True

    @property
    def columns(self) -> frozenset[str]:
        """The columns of the node that are limited."""
        return columns_in(*(expression for expression, _ in self.pairs))

    def over(self, columns: Collection[str]) -> "KeyLimit | None":
        """The part of the limit that applies to rows with these columns alone; None if there is none."""
        pairs = [(e, key) for e, key in self.pairs if columns_in(e) and columns_in(e) <= set(columns)]
        return KeyLimit(self.step, tuple(pairs), self.null_safe) if pairs else None


def limits_over(limits: Iterable[KeyLimit], columns: Collection[str]) -> tuple[KeyLimit, ...]:
    """The parts of limits that apply to rows with these columns alone."""
    return tuple(part for limit in limits if (part := limit.over(columns)) is not None)


def through(limits: tuple[KeyLimit, ...], by: Mapping[str, Expression]) -> tuple[KeyLimit, ...]:
    """Limits with expressions in place of columns; some may have no column left."""
    return tuple(
        KeyLimit(limit.step, tuple((substitute(e, by), key) for e, key in limit.pairs), limit.null_safe)
        for limit in limits
    )


def as_compared(pair: KeyPair, types: Mapping[str, str]) -> Expression:
    """What a pair seeks; in brackets, as a computed value, if Spark converts a text to compare it, which may fail."""
    given = type_of(pair.given, types)
    is_converted = given not in (None, "string") and type_of(pair.sought, types) == "string"
    return exp.Paren(this=pair.sought) if is_converted else pair.sought


def guard(
    limits: Iterable[KeyLimit], node: Node, conditions: Iterable[Expression], types: Mapping[str, str]
) -> tuple[KeyLimit, ...]:
    """Limits on a node of whose rows only those under conditions are used: for other rows no value is computed.

    The query computes none there, and may rely on that: `CAST(value AS INT)` fails for most texts.
    """
    stored = _columns_of_table(node)
    of_row = [each for each in conditions if columns_in(each) and columns_in(each) <= stored]
    if not of_row:
        return tuple(limits)

    def value(expression: Expression) -> Expression:
        if not columns_in(expression) or _never_fails(expression, types):
            return expression
        return exp.Case(ifs=[exp.If(this=exp.and_(*of_row, copy=True), true=expression.copy())])

    return tuple(KeyLimit(one.step, tuple((value(e), key) for e, key in one.pairs), one.null_safe) for one in limits)


_PARTS_OF_TIMES = frozenset(
    {
        *("date", "date_trunc", "day", "dayofmonth", "dayofweek", "dayofyear", "hour", "last_day", "minute", "month"),
        *("quarter", "trunc", "weekday", "weekofyear", "year"),
    }
)


def _never_fails(expression: Expression, types: Mapping[str, str]) -> bool:
    """Whether an expression is a column, or a part of dates and times, by which Spark leaves out partitions."""
    if isinstance(expression, exp.Column):
        return True
    if not all((types.get(name) or "").startswith(("date", "timestamp")) for name in columns_in(expression)):
        return False
    plain = (exp.Column, exp.Identifier, exp.Literal, exp.Paren, exp.Cast, exp.DataType)
    nodes = list(expression.walk())
    is_date = all(each.this is exp.DType.DATE for each in nodes if isinstance(each, exp.DataType))
    return is_date and all(
        isinstance(each, plain) or (isinstance(each, exp.Anonymous) and each.meta.get(CALLED) in _PARTS_OF_TIMES)
        for each in nodes
    )


def _columns_of_table(node: Node) -> frozenset[str]:
    """The columns of a node that are those of one table."""
    match node:
        case Scan(names=names):
            return frozenset(names)
        case Extend(node=below) | Filter(node=below) | Generate(node=below) | Join(items=(Item(node=below),)):
            return _columns_of_table(below)
        case _:
            return frozenset()


def of_branch(
    node: SetOperation, place: int, limits: tuple[KeyLimit, ...], types: Mapping[str, str]
) -> tuple[KeyLimit, ...]:
    """What limits on a set operation imply for the rows of one branch: by columns of one type in all branches."""
    own = node.names[place]
    same = limits_over(limits, node.of_one_type(types))
    return through(same, {name: column(one) for name, one in own.items()})


def of_join_item(
    join: Join, index: int, limit: KeyLimit, types: Mapping[str, str], null_free: frozenset[str] = frozenset()
) -> KeyLimit | None:
    """What a limit on a join implies for the rows of one item: by columns that are equal in all rows of the join.

    A LEFT item is limited through its ON alone, or by its own columns if no key is NULL.
    """
    item = join.items[index]
    own = columns(item.node)
    classes = Classes(join.where, types)
    of_on = {classes.of(other): one for other, one in on_equalities(item.on, own, types).items()}
    pairs: list[tuple[Expression, str]] = []
    for written, key in limit.pairs:
        expression = without_coalesce(join, written, types)
        names: dict[str, str | None] = {}
        for name in columns_in(expression):
            if item.side is Side.INNER:
                names[name] = classes.among(name, own)
            elif name in own:
                is_plain = isinstance(expression, exp.Column) and key in null_free
                names[name] = name if is_plain else None
            else:
                names[name] = of_on.get(classes.of(name))
        equal = {name: column(one) for name, one in names.items() if one is not None}
        if equal and len(equal) == len(names):
            pairs.append((substitute(expression, equal), key))
    return KeyLimit(limit.step, tuple(pairs), limit.null_safe) if pairs else None


def holds(limit: KeyLimit) -> Sql:
    """The SQL condition that a row has one of the keys; for a limit without columns, that there is a key."""
    if not limit.pairs:
        return text("EXISTS (SELECT 1 FROM ", (Found(limit.step),), ")")
    keys = ", ".join(f"{key} AS {_SOUGHT}{k}" for k, (_, key) in enumerate(limit.pairs))
    sign = "IS NOT DISTINCT FROM" if limit.null_safe else "="
    equal = " AND ".join(f"({print_sql(e)}) {sign} {_SOUGHT}{k}" for k, (e, _) in enumerate(limit.pairs))
    return text(f"EXISTS (SELECT 1 FROM (SELECT {keys} FROM ", (Found(limit.step),), f") WHERE {equal})")


def rows_of(scan: Scan, names: Iterable[str], image: Image, any_of: Iterable[tuple[KeyLimit, ...]]) -> SourceRows:
    """The place of an occurrence's rows, with limits on the table's own columns."""
    own: dict[str, Expression] = {name: exp.column(own, quoted=True) for name, own in scan.names.items()}
    alternatives = dict.fromkeys(
        tuple(one for limit in limits if (one := _restriction(limit, own)) is not None) for limits in any_of
    )
    columns = tuple(dict.fromkeys(scan.names[name] for name in names))
    return SourceRows(scan.table, image, columns, () if () in alternatives else tuple(alternatives))


def _restriction(limit: KeyLimit, own: dict[str, Expression]) -> Restriction | None:
    """A limit as a restriction on a table's own columns; None if none of its pairs can be written with them."""
    pairs = [(substitute(e, own), key) for e, key in limit.pairs if not is_captured(e, own)]
    if limit.pairs and not pairs:
        return None
    return Restriction(limit.step, tuple((print_sql(e), key) for e, key in pairs), limit.null_safe)

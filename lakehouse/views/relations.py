"""Relations as SQL with places, of which steps are put together. Column names are unique, so nothing needs an alias."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import columns_in
from lakehouse.views.plan import Found, Sql

NOTHING = "1 AS one_"
"""What a relation without columns selects: whether it has a row is all that it says."""
_SOUGHT = "sought__"


@dataclass(frozen=True, slots=True)
class Relation:
    """A query and the columns of its rows."""

    sql: Sql
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Limit:
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

    def over(self, columns: Collection[str]) -> "Limit | None":
        """What the limit says of rows that have no columns but these; None if nothing."""
        pairs = [(e, key) for e, key in self.pairs if columns_in(e) and columns_in(e) <= set(columns)]
        return Limit(self.step, tuple(pairs), self.null_safe) if pairs else None


def limits_over(limits: Iterable[Limit], columns: Collection[str]) -> tuple[Limit, ...]:
    """What limits say of rows that have no columns but these."""
    return tuple(part for limit in limits if (part := limit.over(columns)) is not None)


def printed(expression: Expression) -> str:
    """SQL of an expression that may stand beside AND: sqlglot writes no parentheses around OR by itself."""
    sql = expression.sql(dialect="spark")
    return f"({sql})" if isinstance(expression, exp.Connector | exp.Not) else sql


def text(*parts: str | Sql | Relation) -> Sql:
    """SQL put together of texts, of SQL and of relations; these in parentheses."""
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
    """The rows of relations that have the same columns, all of them; None of no relation."""
    if len(relations) < 2:
        return relations[0] if relations else None
    names = relations[0].columns
    return Relation(separate((select(each, names).sql for each in relations), " UNION ALL "), names)


def combine(one: Relation, other: Relation, conditions: Sequence[Sql | str]) -> Relation:
    """The pairs of rows of two relations for which conditions hold; of one without columns it counts whether it has any."""
    if not other.columns:
        return select(one, one.columns, [*conditions, text("EXISTS ", other)])
    names = tuple(sorted({*one.columns, *other.columns}))
    return Relation(
        text(f"SELECT {', '.join(names) or NOTHING} FROM ", one, " CROSS JOIN ", other, where(conditions)), names
    )


def holds(limit: Limit) -> Sql:
    """The SQL condition that a row has one of the keys; of a limit without columns: that there is a key."""
    if not limit.pairs:
        return text("EXISTS (SELECT 1 FROM ", (Found(limit.step),), ")")
    keys = ", ".join(f"{key} AS {_SOUGHT}{k}" for k, (_, key) in enumerate(limit.pairs))
    sign = "IS NOT DISTINCT FROM" if limit.null_safe else "="
    equal = " AND ".join(f"({printed(e)}) {sign} {_SOUGHT}{k}" for k, (e, _) in enumerate(limit.pairs))
    return text(f"EXISTS (SELECT 1 FROM (SELECT {keys} FROM ", (Found(limit.step),), f") WHERE {equal})")

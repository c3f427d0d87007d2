"""Relations as SQL with places, of which steps are put together. Column names are unique, so nothing needs an alias."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.plan import Sql

NOTHING = "1 AS one_"
"""What a relation without columns selects: whether it has a row is all that it says."""


@dataclass(frozen=True, slots=True)
class Relation:
    """A query and the columns of its rows."""

    sql: Sql
    columns: tuple[str, ...]


def print_sql(expression: Expression) -> str:
    """SQL of an expression that may stand beside AND: sqlglot writes no parentheses around OR by itself."""
    sql = expression.sql(dialect="spark")
    return f"({sql})" if isinstance(expression, exp.Connector | exp.Not) else sql


def replace_columns(expression: Expression, by: Mapping[str, Expression]) -> Expression:
    """An expression with others in the place of columns, as they are."""

    def replace(node: Expression) -> Expression:
        return by[node.name].copy() if isinstance(node, exp.Column) and node.name in by else node

    return expression.copy().transform(replace)


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
    """The pairs of rows of two relations for which conditions hold; of one without columns: whether it has any."""
    if not other.columns:
        return select(one, one.columns, [*conditions, text("EXISTS ", other)])
    names = tuple(sorted({*one.columns, *other.columns}))
    return Relation(
        text(f"SELECT {', '.join(names) or NOTHING} FROM ", one, " CROSS JOIN ", other, where(conditions)), names
    )

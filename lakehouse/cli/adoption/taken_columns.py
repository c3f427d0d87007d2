"""Which columns tables must have beyond the declared ones: those that the queries of a folder take from them."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import sqlglot
from sqlglot import exp
from sqlglot.errors import OptimizeError, SqlglotError
from sqlglot.optimizer.scope import Scope, build_scope

Relation: TypeAlias = exp.Table | Scope


@dataclass
class TakenColumns:
    """The columns of tables, in lower case, as far as they are known.

    Args:
        tables: The columns of each table.
        is_open: The tables that may have more columns: those that something else fills, and models that take their `*`.
    """

    tables: dict[str, dict[str, None]] = field(default_factory=dict[str, dict[str, None]])
    is_open: set[str] = field(default_factory=set[str])

    def add_model(self, name: str, query: str) -> None:
        """Keeps the columns that a query gives; the models that it reads have to be added before."""
        self.tables[name], is_open = {}, True
        with suppress(SqlglotError):  # a query that sqlglot cannot read may give any column
            self.tables[name], is_open = self._columns_of(_scope_of(query))
        if is_open:
            self.is_open.add(name)

    def demand(self, query: str, wanted: Iterable[str]) -> None:
        """Keeps the columns that a query takes from its tables, also those that it needs to give the wanted columns."""
        with suppress(SqlglotError):
            root = _scope_of(query)
            for scope in root.traverse():
                for column in scope.columns:
                    qualified = [scope.sources[column.table]] if column.table in scope.sources else []
                    self._take(qualified if column.table else _relations(scope), column.name)
                for join in scope.expression.args.get("joins") or ():
                    for column in join.args.get("using") or ():
                        for relation in _relations(scope):
                            self._take([relation], column.name)
            for name in wanted:
                self._take([root], name)

    def _take(self, relations: Iterable[Relation], name: str) -> None:
        """Keeps that a column is in one of the relations: one that is known to have it, else the first that may."""
        every = [(relation, *self._columns_of(relation)) for relation in relations]
        if any(name.lower() in columns for _, columns, _ in every):
            return
        relation = next((relation for relation, _, is_open in every if is_open), None)
        if isinstance(relation, exp.Table):
            self.tables.setdefault(_name(relation), {})[name.lower()] = None
        elif relation is not None:
            for scope in relation.set_operation_scopes or [relation]:
                self._take(_relations_of_star(scope), name)

    def _columns_of(self, relation: Relation) -> tuple[dict[str, None], bool]:
        """The columns that a relation is known to have, and whether it may have more."""
        if isinstance(relation, exp.Table):
            name = _name(relation)
            return self.tables.setdefault(name, {}), name in self.is_open
        below = [self._columns_of(each) for each in _relations_of_star(relation)]
        columns = {one.alias_or_name.lower(): None for one in _projections(relation) if not one.is_star}
        return {name: None for each, _ in below for name in each} | columns, any(is_open for _, is_open in below)


def _scope_of(query: str) -> Scope:
    scope = build_scope(sqlglot.parse_one(query, read="spark"))
    if scope is None:
        raise OptimizeError("no query")
    return scope


def _name(table: exp.Table) -> str:
    return ".".join(part.name for part in table.parts).lower()


def _projections(scope: Scope) -> list[Any]:
    return scope.expression.selects if isinstance(scope.expression, exp.Query) else []


def _relations(scope: Scope) -> list[Relation]:
    return [relation for _, relation in scope.selected_sources.values()]


def _relations_of_star(scope: Scope) -> Iterator[Relation]:
    """The relations whose columns `*` takes."""
    if scope.set_operation_scopes:
        yield from scope.set_operation_scopes
    for one in _projections(scope):
        if isinstance(one, exp.Column) and one.is_star and one.table in scope.sources:
            yield scope.sources[one.table]
        elif isinstance(one, exp.Star):
            yield from _relations(scope)

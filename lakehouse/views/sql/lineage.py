"""Which table columns the names of a text stand for, and from which of them a column of the result takes its value."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.metadata import version
from itertools import count
from typing import TypeAlias

from sqlglot import exp

from lakehouse.cursor.definition import digest
from lakehouse.views.algebra import (
    Query,
    Scan,
    SetOperation,
    columns_in,
    computed_columns,
    expressions,
    nodes_of,
)

SourceColumn: TypeAlias = tuple[str, str]
"""A table as the text names it, in lower case, and its column."""


def lineage(query: Query) -> tuple[tuple[SourceColumn, ...], ...]:
    """The table columns from which each column of the result takes its value, in the order of the result.

    Conditions of joins and WHERE only decide which rows there are, and do not count. `count(*)` has no such column.
    """
    origins = _Origins(query)
    return tuple(origins.of(output.column) for output in query.outputs)


def is_plain(query: Query, name: str) -> bool:
    """Whether a column of the result, given by its name, is in each row the unchanged value of a table column."""
    origins = _Origins(query)
    return all(origins.is_plain(output.column) for output in query.outputs if output.name.lower() == name.lower())


@dataclass(eq=False)
class _Origins:
    """The columns of tables behind unique names."""

    query: Query
    _parts: dict[str, frozenset[str]] = field(default_factory=dict[str, frozenset[str]])
    _branches: set[str] = field(default_factory=set[str])
    _scanned: dict[str, SourceColumn] = field(default_factory=dict[str, SourceColumn])

    def __post_init__(self) -> None:
        for node in nodes_of(self.query.root):
            computed = computed_columns(node)
            self._parts.update({name: columns_in(*of) for name, of in computed.items()})
            if isinstance(node, Scan):
                self._scanned.update({name: (node.table, column) for name, column in node.names.items()})
            if isinstance(node, SetOperation):
                self._branches |= computed.keys()

    def of(self, name: str) -> tuple[SourceColumn, ...]:
        """The columns of tables behind a unique name, in the order of their names."""
        if name in self._scanned:
            return (self._scanned[name],)
        return tuple(sorted({origin for part in self._parts.get(name, ()) for origin in self.of(part)}))

    def is_plain(self, name: str) -> bool:
        """Whether a unique name is a column of a table, in each branch of a set operation."""
        if name in self._branches:
            return all(map(self.is_plain, self._parts[name]))
        return name in self._scanned


KIND_OF_NAMES = f"1 {version('sqlglot')}"
"""The format of `digest_of_names`, which depends on the parser's nodes and on how this library rewrites them."""


def digest_of_names(query: Query) -> str:
    """A digest of the table columns, with their types, for which the names of a query stand.

    It changes if a name, a star or NATURAL stands for another column. Other columns of the tables do not count.
    """
    return digest(list(_meanings(query)))


def _meanings(query: Query) -> Iterator[list[str]]:
    """Each node's columns, from the root: a column of a table with its type, a computed one by its number."""
    scans = [node for node in nodes_of(query.root) if isinstance(node, Scan)]
    meanings = {
        name: f"{number}.{own.lower()} {query.types.get(name, '')}"
        for number, scan in enumerate(scans)
        for name, own in scan.names.items()
    }

    computed = count(1)

    def meaning(name: str) -> str:
        if name not in meanings:
            meanings[name] = f"#{next(computed)}"
        return meanings[name]

    for node in nodes_of(query.root):
        yield [
            type(node).__name__,
            *(meaning(each.name) for one in expressions(node) for each in one.find_all(exp.Column)),
        ]
    yield [f"{output.name}={meaning(output.column)}" for output in query.outputs]

"""What people call a column of a query: by its name in the result or in its table, else by what it is computed from."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from re import fullmatch
from typing import Self, TypeAlias

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import (
    Generate,
    MarkJoin,
    Query,
    Scan,
    computed_columns,
    nodes_of,
)
from lakehouse.views.steps.relations import print_sql, replace_columns

_Definition: TypeAlias = str | Expression | exp.Column
_LONG = 60
"""So many letters of an expression are enough to find it in the text."""


@dataclass(frozen=True, eq=False, slots=True)
class Wording:
    """The words for the columns of a query. No unique name is among them, because nobody knows these.

    Args:
        outputs: The names of the columns of the result, by their unique names.
        definitions: Of every other column its name in its table, or the expression that it is.
    """

    outputs: Mapping[str, str]
    definitions: Mapping[str, _Definition]

    @classmethod
    def of(cls, query: Query) -> Self:
        """The words for the columns of a query."""
        definitions = dict[str, _Definition]()
        for node in nodes_of(query.root):
            if isinstance(node, Scan):
                definitions.update(node.names)
            elif isinstance(node, MarkJoin):
                definitions[node.value] = "IN (...)" if node.sought else "EXISTS (...)"
            elif not isinstance(node, Generate):
                definitions.update({name: of[0] for name, of in computed_columns(node).items()})
        return cls({output.column: output.name for output in reversed(query.outputs)}, definitions)

    def of_column(self, name: str) -> str:
        """What people call a column."""
        if name in self.outputs:
            return self.outputs[name]
        match self.definitions.get(name):
            case str() as own:
                return own
            case None:  # a generator gives it, under a name after which its unique name is
                stem = fullmatch(r"(.*?)_\d+", name)
                return name if stem is None else stem[1]
            case expression:
                words = self.of_expression(expression)
                return words if len(words) <= _LONG else f"{words[:_LONG]}..."

    def of_columns(self, names: Iterable[str]) -> str:
        """What people call some columns, in the order of the words."""
        return ", ".join(sorted({self.of_column(name) for name in names}))

    def of_expression(self, expression: Expression) -> str:
        """An expression with the words for its columns."""
        words = {each.name: exp.Var(this=self.of_column(each.name)) for each in expression.find_all(exp.Column)}
        return print_sql(replace_columns(expression, words))

"""The algebra of a query as SQL, so that its rows can be compared with those of the text."""

import itertools
from dataclasses import dataclass

import sqlglot
from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import (
    CONSTANT,
    Aggregation,
    Extend,
    Filter,
    FullJoin,
    Generate,
    Item,
    Join,
    MarkJoin,
    Node,
    Query,
    Scan,
    SetOperation,
    Side,
    Windows,
    columns,
)

_NUMBERS = itertools.count()


def text_in_duckdb(text: str) -> str:
    """A text in Spark's dialect, translated to DuckDB's."""
    return sqlglot.transpile(text, read="spark", write="duckdb")[0]


def sql_of(query: Query, dialect: str) -> str:
    """SQL that gives the result of a query, made from its algebra."""
    writer = _Writer(dialect)
    outputs = ", ".join(f"{output.column} AS c{number}" for number, output in enumerate(query.outputs))
    return f"SELECT {outputs} FROM {writer.below(query.root)}"


@dataclass(frozen=True)
class _Writer:
    dialect: str

    def of(self, expression: Expression) -> str:
        return f"({sqlglot.transpile(expression.sql(dialect='spark'), read='spark', write=self.dialect)[0]})"

    def all(self, conditions: tuple[Expression, ...]) -> str:
        return " AND ".join(map(self.of, conditions)) or "TRUE"

    def below(self, node: Node) -> str:
        return f"({self.sql(node)}) AS q{next(_NUMBERS)}"

    def item(self, item: Item, *, first: bool) -> str:
        if first:
            return self.below(item.node)
        join = "LEFT JOIN" if item.side is Side.LEFT else "JOIN"
        return f"{join} {self.below(item.node)} ON {self.all(item.on)}"

    def extend(self, node: Node, new: dict[str, str]) -> str:
        names = [*sorted(columns(node)), *(f"{sql} AS {name}" for name, sql in new.items())]
        return f"SELECT {', '.join(names) or '1 AS nothing'} FROM {self.below(node)}"

    def sql(self, node: Node) -> str:
        match node:
            case Scan() if node is CONSTANT:
                return "SELECT 1 AS nothing"
            case Scan(table=table, names=names):
                quote = "`" if self.dialect == "spark" else '"'
                return f"SELECT {', '.join(f'{quote}{column}{quote} AS {name}' for name, column in names.items())} FROM {table}"
            case Join(items=items, where=where):
                joined = " ".join(self.item(item, first=number == 0) for number, item in enumerate(items))
                return f"SELECT {', '.join(sorted(columns(node)))} FROM {joined} WHERE {self.all(where)}"
            case FullJoin(left=left, right=right, on=on):
                names = ", ".join(sorted(columns(node)))
                return f"SELECT {names} FROM {self.below(left)} FULL JOIN {self.below(right)} ON {self.all(on)}"
            case MarkJoin(node=below, sub=sub, on=on, value=value, sought=sought, among=among):
                inside = f"FROM {self.below(sub)} WHERE {self.all(on)}"
                left = exp.Tuple(expressions=[each.copy() for each in sought]).sql(dialect=self.dialect)
                is_in = f"{left} IN (SELECT {', '.join(among)} {inside})"
                # DuckDB's EXISTS in a list of columns is true of `x <> NULL`
                return self.extend(below, {value: is_in if sought else f"(SELECT count(*) {inside}) > 0"})
            case Filter(node=below, where=where):
                return f"SELECT * FROM {self.below(below)} WHERE {self.all(where)}"
            case Extend(node=below, new=new):
                return self.extend(below, {name: self.of(each) for name, each in new.items()})
            case Generate(node=below, generator=generator, new=new, outer=outer):
                view = f"LATERAL VIEW {'OUTER ' if outer else ''}{generator.sql(dialect=self.dialect)} g"
                return f"SELECT * FROM {self.below(below)} {view} AS {', '.join(new)}"
            case Aggregation(node=below, groups=groups, aggregates=aggregates):
                names = [*groups, *(f"{self.of(each)} AS {name}" for name, each in aggregates.items())]
                by = f" GROUP BY {', '.join(groups)}" if groups else ""
                return f"SELECT {', '.join(names) or '1 AS nothing'} FROM {self.below(below)}{by}"
            case Windows(node=below, windows=windows):
                return self.extend(below, {name: self.of(each) for name, each in windows.items()})
            case SetOperation(kind=kind, nodes=nodes, names=names):
                branches = (
                    f"(SELECT {', '.join(f'{column} AS {name}' for name, column in each.items())} FROM {self.below(node)})"
                    for node, each in zip(nodes, names, strict=True)
                )
                return f" {kind.value} ".join(branches)

"""PIVOT and UNPIVOT of the only item of a FROM: a column with an aggregate for each value; a row for each column.

Spark: sql-ref-syntax-qry-select-pivot.md, sql-ref-syntax-qry-select-unpivot.md.
"""

from collections.abc import Iterable
from dataclasses import replace

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import Extend, Filter, Generate, Node, Output, column, columns, columns_in
from lakehouse.views.sql.grouping import Grouping, is_aggregate
from lakehouse.views.sql.parsing import CALLED
from lakehouse.views.sql.scopes import FromItem, Scope
from lakehouse.views.sql.subqueries import Block, rewrite


def read_pivot(block: Block, pivot: exp.Pivot, node: Node, scope: Scope) -> tuple[Node, Scope]:
    """The rows that PIVOT or UNPIVOT makes of an item of FROM, and what they offer."""
    within = Block(block.reading, block.ctes, scope=scope)
    read = _unpivot if pivot.args.get("unpivot") else _pivot
    node, consumed, new = read(within, pivot, node, pivot.args["fields"][0])
    alias = pivot.args.get("alias")
    relations = () if alias is not None else tuple(_without(relation, consumed) for relation in scope.relations)
    visible = (*(output for output in scope.visible if output.column not in consumed), *new)
    named = (FromItem(alias.name.lower(), visible),) if alias is not None else ()
    return node, Scope((*relations, *named), visible)


def _without(relation: FromItem, consumed: Iterable[str]) -> FromItem:
    """An item of FROM without some columns."""
    return replace(relation, columns=tuple(output for output in relation.columns if output.column not in consumed))


def _pivot(block: Block, pivot: exp.Pivot, node: Node, values: exp.In) -> tuple[Node, frozenset[str], list[Output]]:
    """One row for each group of the other columns, with aggregates of the rows of each value."""
    reading, of = block.reading, rewrite(block, values.this)
    aggregates = [(each.alias, rewrite(block, each.unalias())) for each in pivot.expressions]
    used = columns_in(of, *(each for _, each in aggregates))
    are_plain = all(is_aggregate(each) and not isinstance(each, exp.Filter) for _, each in aggregates)
    if not isinstance(of, exp.Column) or not are_plain or not used <= columns(node):
        raise reading.not_followed("PIVOT has more than aggregates of the values of one column", pivot, "PIVOT")
    groups = [output.column for output in block.scope.visible if output.column not in used]
    if not groups or (len(aggregates) > 1 and not all(name for name, _ in aggregates)):
        raise reading.not_followed("PIVOT groups by no column, or one of its aggregates has no name", pivot, "PIVOT")
    grouping, new, computed = Grouping(reading), list[Output](), dict[str, Expression]()
    for name in groups:
        grouping.add(column(name))
    for value, name in _values_of(block, pivot, values):
        is_value = exp.Where(this=exp.NullSafeEQ(this=of.copy(), expression=value))
        count = exp.Count(this=exp.Star(), big_int=True)
        count.meta[CALLED] = "count"
        has_rows = exp.GT(this=exp.Filter(this=count, expression=is_value), expression=exp.Literal.number(0))
        for alias, aggregate in aggregates:
            of_value = exp.Filter(this=aggregate.copy(), expression=is_value.copy())
            result = exp.Case(ifs=[exp.If(this=has_rows.copy(), true=of_value)])  # NULL for no rows, even of a count
            output = Output(f"{name}_{alias}" if len(aggregates) > 1 else name, reading.unique(name))
            new.append(output)
            computed[output.column] = grouping.over_groups(result)
            reading.retype(output.column, aggregate)
    return Extend(grouping.node(node), computed), used, new


def _values_of(block: Block, pivot: exp.Pivot, values: exp.In) -> Iterable[tuple[Expression, str]]:
    """The values of PIVOT, with the names of their columns."""
    for each in values.expressions:
        value = each.this if isinstance(each, exp.PivotAlias) else each
        if not isinstance(value, exp.Literal) or not (value.is_string or value.is_int):
            raise block.reading.not_followed("a value of PIVOT is neither text nor whole number", pivot, "PIVOT")
        yield value.copy(), each.alias if isinstance(each, exp.PivotAlias) else value.name


def _unpivot(block: Block, pivot: exp.Pivot, node: Node, values: exp.In) -> tuple[Node, frozenset[str], list[Output]]:
    """A row for each of the listed columns, with the column's name and value."""
    reading, arguments, used = block.reading, list[Expression](), list[str]()
    for each in values.expressions:
        original = each.this if isinstance(each, exp.PivotAlias) else each
        outputs = block.scope.find((original.name.lower(),))[0] if type(original) is exp.Column else ()
        if len(outputs) != 1 or outputs[0].name != original.name or original.table:
            raise reading.not_followed("UNPIVOT has more than columns as the table names them", pivot, "UNPIVOT")
        used.append(outputs[0].column)
        name = each.alias if isinstance(each, exp.PivotAlias) else original.name
        arguments += [exp.Literal.string(name), column(outputs[0].column)]
    types = {reading.types.get(name) for name in used}
    is_one = len(types) == 1 and None not in types and isinstance(pivot.expressions[0], exp.Identifier)
    if not is_one or not isinstance(values.this, exp.Identifier):
        raise reading.not_followed("the columns of UNPIVOT have several types, or values", pivot, "UNPIVOT")
    generator = exp.Anonymous(this="stack", expressions=[exp.Literal.number(len(used)), *arguments])
    generator.meta[CALLED] = "stack"
    value, name = pivot.expressions[0].name, values.this.name
    new = [Output(name, reading.unique(name, "string")), Output(value, reading.unique(value, types.pop()))]
    rows: Node = Generate(node, generator, tuple(output.column for output in new), outer=False)
    if not pivot.args.get("include_nulls"):
        is_null = exp.Is(this=column(new[1].column), expression=exp.Null())
        rows = Filter(rows, (exp.Not(this=is_null),))
    return rows, frozenset(used), new

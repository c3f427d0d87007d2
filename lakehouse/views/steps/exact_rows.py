"""The third reading of a node: its rows in a state, each as often as it is there, among perhaps others.

Only keys that are computed from many rows need this reading, and keys of branches with several types. The rows before
are those of now, with those that went and without those that came: as bags, of the columns in use, and after the
limits, with which both commute.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import assert_never

from sqlglot import exp
from sqlglot.expressions.core import Expression

from lakehouse.views.algebra import (
    Aggregation,
    Extend,
    Filter,
    FullJoin,
    Generate,
    Join,
    MarkJoin,
    Node,
    Scan,
    SetKind,
    SetOperation,
    Side,
    Windows,
)
from lakehouse.views.plan import Image, Sql
from lakehouse.views.steps.key_limits import KeyLimit
from lakehouse.views.steps.planning import Planning, State
from lakehouse.views.steps.relations import NOTHING, Relation, print_sql, replace_columns, select, separate, text, where
from lakehouse.views.steps.supersets import compute_columns, generate_columns

_MARK = "\0"
"""No expression has this character: between two of them stands the name of a mark."""


@dataclass(frozen=True, eq=False, slots=True)
class ExactRows:
    """The rows of one state.

    Args:
        planning: The plan in the making.
        limits: The alternatives that limit each occurrence of a table, by its identity.
        state: Which rows are asked for.
    """

    planning: Planning
    limits: Mapping[int, tuple[tuple[KeyLimit, ...], ...]]
    state: State

    def of(self, node: Node) -> Relation:
        """The rows of a node, with the columns in use."""
        match node:
            case Scan():
                return self._of_scan(node)
            case Extend():
                rows = self.of(node.node)
                return compute_columns(node, frozenset((*rows.columns, *node.new)), rows)
            case Generate():
                rows = self.of(node.node)
                return generate_columns(node, frozenset((*rows.columns, *node.new)), rows)
            case Filter():
                return self._of_filter(node)
            case MarkJoin():
                base, marks = self._marks(node)
                return _with_sql(base, marks)
            case Aggregation():
                rows = self.of(node.node)
                listed = [*node.groups, *(f"{print_sql(e)} AS {name}" for name, e in node.aggregates.items())]
                by = f" GROUP BY {', '.join(node.groups)}" if node.groups else ""
                sql = text(f"SELECT {', '.join(listed)} FROM ", rows, by)
                return Relation(sql, (*node.groups, *node.aggregates))
            case Windows():
                rows = self.of(node.node)
                windows = {name: (print_sql(e),) for name, e in node.windows.items()}
                return _with_sql(rows, windows)
            case SetOperation():
                return self._of_branches(node)
            case FullJoin():
                left, right = self.of(node.left), self.of(node.right)
                sql = text(
                    f"SELECT {_names_of(left, right)} FROM ", left, " FULL JOIN ", right, " ON ", _all_of(node.on)
                )
                return Relation(sql, (*left.columns, *right.columns))
            case Join():
                return self._of_join(node)
            case _:
                assert_never(node)

    def _of_scan(self, scan: Scan) -> Relation:
        used = self.planning.facts.used & set(scan.names)
        if self.state is State.NONE:
            return self.planning.scan(scan, used, Image.NONE, ())
        any_of = self.limits.get(id(scan), ((),))
        now = self.planning.scan(scan, used, Image.NOW, any_of)
        if self.state is State.NOW or scan.table not in self.planning.facts.changed:
            return now
        rows_gone, rows_came = (self.planning.scan(scan, used, image, any_of) for image in (Image.GONE, Image.CAME))
        listed = ", ".join(now.columns) or "one_"
        sql = text(f"SELECT {listed} FROM ((", now, " UNION ALL ", rows_gone, ") EXCEPT ALL ", rows_came, ")")
        return Relation(sql, now.columns)

    def _of_filter(self, node: Filter) -> Relation:
        """EXISTS and IN are written where conditions have them: NOT IN is more than the negation of a value."""
        if not isinstance(node.node, MarkJoin):
            rows = self.of(node.node)
            return select(rows, rows.columns, [print_sql(each) for each in node.where])
        base, marks = self._marks(node.node)
        shown = {name: exp.Var(this=f"{_MARK}{name}{_MARK}") for name in marks}
        conditions = [_with_marks(print_sql(replace_columns(each, shown)), marks) for each in node.where]
        return select(base, base.columns, conditions)

    def _marks(self, node: MarkJoin) -> tuple[Relation, dict[str, Sql]]:
        """The rows below marks that stand right above each other, and the SQL of each mark."""
        if isinstance(node.node, MarkJoin):
            base, marks = self._marks(node.node)
        else:
            base, marks = self.of(node.node), {}
        sub = self.of(node.sub)
        conditions = [print_sql(each) for each in node.on]
        if not node.sought:
            return base, {**marks, node.value: text("EXISTS (SELECT 1 FROM ", sub, where(conditions), ")")}
        sought = ", ".join(map(print_sql, node.sought))
        sought = f"({sought})" if len(node.sought) > 1 else sought
        values = text(f"SELECT {', '.join(node.among)} FROM ", sub, where(conditions))
        return base, {**marks, node.value: text(f"({sought} IN (", values, "))")}

    def _of_branches(self, node: SetOperation) -> Relation:
        """UNION ALL of the columns in use; of the others every column says whether two rows are equal."""
        names = set(node.names[0])
        kept_names = names & self.planning.facts.used if node.kind is SetKind.UNION_ALL else names
        branches = [
            select(self.of(branch), kept_names, computed=of_branch)
            for branch, of_branch in zip(node.nodes, node.names, strict=True)
        ]
        return Relation(
            separate((text("(", each.sql, ")") for each in branches), f" {node.kind.value} "), branches[0].columns
        )

    def _of_join(self, join: Join) -> Relation:
        rows = [self.of(item.node) for item in join.items]
        sql = text(f"SELECT {_names_of(*rows)} FROM ", rows[0])
        for item, relation in zip(join.items[1:], rows[1:], strict=True):
            if item.side is Side.LEFT:
                sql = text(sql, " LEFT JOIN ", relation, " ON ", _all_of(item.on))
            else:
                sql = text(sql, " CROSS JOIN ", relation)
        names = tuple(name for relation in rows for name in relation.columns)
        return Relation(text(sql, where([print_sql(each) for each in join.where])), names)


def _with_sql(rows: Relation, values: Mapping[str, Sql]) -> Relation:
    """Rows with computed columns."""
    listed = [text(", ", sql, f" AS {name}") for name, sql in values.items()]
    sql = text(f"SELECT {', '.join(rows.columns) or NOTHING}", *listed, " FROM ", rows)
    return Relation(sql, (*rows.columns, *values))


def _with_marks(sql: str, marks: Mapping[str, Sql]) -> Sql:
    """A condition with the SQL of each mark at its place."""
    return text(*(marks[part] if k % 2 else part for k, part in enumerate(sql.split(_MARK))))


def _names_of(*relations: Relation) -> str:
    return ", ".join(name for each in relations for name in each.columns) or NOTHING


def _all_of(conditions: tuple[Expression, ...]) -> str:
    return " AND ".join(map(print_sql, conditions)) or "TRUE"

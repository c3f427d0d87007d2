"""A view in DuckDB: its tables and their changes, its plans carried out, and the result of the query itself."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date
from decimal import Decimal
from enum import Enum
from random import Random
from typing import Any, TypeAlias

import duckdb
import sqlglot

from lakehouse.delta.text import quote
from lakehouse.views.algebra import Query
from lakehouse.views.plan import Found, Image, KeyFacts, Restriction, RowsPlan, SourceRows, Sql, Step, TouchedPlan, fuse
from lakehouse.views.planner import rows_plan, touch_columns, touched_plan
from lakehouse.views.touch import choose_touch
from lakehouse.views.view_text import NotFollowedError

Row: TypeAlias = tuple[Any, ...]
Schemas: TypeAlias = Mapping[str, Mapping[str, str]]


class Searching(Enum):
    """How rows are found by keys: by literals, by the range of the keys (which finds more rows), or by a join."""

    LITERALS = "literals"
    RANGES = "ranges"
    JOIN = "join"


@dataclass
class Tables:
    """The current tables, and the rows that went and came since the last round."""

    schemas: Schemas
    connection: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)
    rows: dict[str, list[Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.run("SET threads = 1")
        for table, columns in self.schemas.items():
            types = ", ".join(f"{name} {kind}" for name, kind in columns.items())
            for image in (Image.NOW, Image.GONE, Image.CAME, Image.NONE):
                self.run(f"CREATE TABLE {table}__{image.value} ({types})")
            self.run(f"CREATE VIEW {table} AS SELECT * FROM {table}__now")

    def run(self, sql: str, *values: Any) -> list[Row]:
        return self.connection.execute(sql, values or None).fetchall()

    def put(self, table: str, image: Image, rows: list[Row]) -> None:
        """Replaces the rows of an image."""
        self.run(f"DELETE FROM {table}__{image.value}")
        if rows:
            row = f"({', '.join('?' * len(self.schemas[table]))})"
            listed = ", ".join([row] * len(rows))
            self.run(f"INSERT INTO {table}__{image.value} VALUES {listed}", *(value for row in rows for value in row))

    def fill(self, table: str, rows: list[Row]) -> None:
        """Replaces the rows of a table."""
        self.rows[table] = list(rows)
        self.put(table, Image.NOW, rows)

    def change(self, table: str, gone: list[Row], came: list[Row], through: list[Row]) -> None:
        """Removes rows and adds rows; the rows `through` came and went again, so they are in both images."""
        self.put(table, Image.GONE, [*gone, *through])
        self.put(table, Image.CAME, [*came, *through])
        for row in gone:
            self.rows[table].remove(row)
        if gone or came:
            self.fill(table, [*self.rows[table], *came])

    def changed(self) -> set[str]:
        """The tables that have changed since the last round."""
        return {table for table in self.schemas if self.run(f"FROM {table}__gone UNION ALL FROM {table}__came")}


def edit(tables: Tables, random: Random, new_row: "NewRow", most: int) -> None:
    """Random inserts, updates (also of keys, also twice, also back) and deletes, on most tables at once."""
    for table in tables.schemas:
        if random.random() < 0.25:
            tables.change(table, [], [], [])
            continue
        rows = tables.rows[table]
        gone = random.sample(rows, min(random.randint(0, most), len(rows)))
        came = [new_row(table) for _ in range(random.randint(0, most))]
        through: list[Row] = []
        for row in gone:
            chance, other = random.random(), new_row(table)
            if chance < 0.3:
                continue
            changed = set(random.sample(range(len(row)), random.randint(1, min(2, len(row)))))
            updated = tuple(other[k] if k in changed else value for k, value in enumerate(row))
            came.append(other if table in new_row.replaced else updated)
            if chance < 0.5:
                through.append(new_row(table))
        tables.change(table, gone, came, through)


class NewRow:
    """Random rows: few values, so that they meet; some NULL."""

    replaced: frozenset[str] = frozenset()
    """Tables whose columns belong together, so that an update replaces the whole row."""

    def __init__(self, schemas: Schemas, random: Random) -> None:
        self.schemas, self.random = schemas, random

    def __call__(self, table: str) -> Row:
        return tuple(self.value(name, kind) for name, kind in self.schemas[table].items())

    def value(self, name: str, kind: str) -> Any:
        if self.random.random() < 0.12:
            return None
        if kind == "int":
            return self.random.randint(0, 5)
        return self.random.choice(["x", "y"] if name == "st" else ["a", "b", "x", "r9"])


class NewRowOfWarehouse(NewRow):
    """Random rows of TPC-H's tables, with values that its queries look for; no NULL."""

    NUMBERS: Mapping[str, tuple[float, ...]] = {
        "l_quantity": (3, 8, 15, 20, 151),
        "l_discount": (0.05, 0.06, 0.07),
        "l_extendedprice": (100, 250, 999),
        "ps_availqty": (1, 40, 9999),
        "c_acctbal": (-10, 100, 900),
        "p_size": (3, 9, 14, 15, 49),
    }

    def __init__(self, schemas: Schemas, random: Random, queries: Iterable[str]) -> None:
        super().__init__(schemas, random)
        self.texts: dict[str, list[str]] = {}
        compared = re.compile(r"(\w+)(?: FROM 1 FOR 2\))?(?: NOT)? (?:=|<>|LIKE|IN) \(?((?:'[^']*'(?:, )?)+)")
        for query in queries:
            for name, listed in compared.findall(query):
                texts = (text.replace("%", "") for text in re.findall(r"'([^']*)'", listed))
                self.texts.setdefault(name, []).extend(texts)

    def value(self, name: str, kind: str) -> Any:
        match kind:
            case "string":
                return self.random.choice([*self.texts.get(name, ["one", "two"]), "none of these"])
            case "date":
                return date(self.random.randint(1993, 1998), self.random.choice([1, 3, 8, 10]), 15)
            case _:
                return self.random.choice(self.NUMBERS.get(name, (1, 2, 3, 4, 5)))


class WrongRowsError(AssertionError):
    """The table does not hold the result of its query."""


@dataclass
class ViewTable:
    """The table of a view, which follows its sources by touched keys."""

    tables: Tables
    query: Query
    searching: Searching = Searching.LITERALS
    small: frozenset[str] = frozenset()
    approximate: bool = False

    def __post_init__(self) -> None:
        self.names = [f"c{k}" for k in range(len(self.query.outputs))]
        self.plans: list[TouchedPlan | RowsPlan] = []

    def compute(self, name: str = "stored") -> None:
        """Makes a table of the query's result."""
        sql = in_duckdb(self.query.text)
        self.tables.run(f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT * FROM ({sql}) AS q({', '.join(self.names)})")

    def step(self, touch: tuple[str, ...], changed: set[str]) -> int:
        """Replaces the rows of the touched keys; how many keys were touched."""
        plan = touched_plan(self.query, touch, changed, self.small)
        self.plans = [plan]
        if plan.whole:
            self.compute()
            return 0
        for one in fuse(plan.steps):
            self.take(one)
        if plan.touched is None or not (count := self.tables.run(f"SELECT count(*) FROM {plan.touched}")[0][0]):
            return 0
        rows = rows_plan(self.query, plan, self.facts(plan), self.small)
        self.plans.append(rows)
        for one in rows.steps:
            self.take(one)
        columns = dict(zip(touch, touch_columns(self.query, touch), strict=True))
        own = {output.name: name for output, name in zip(self.query.outputs, self.names, strict=True)}
        same = " AND ".join(f"{own[name]} IS NOT DISTINCT FROM t.{key}" for name, key in columns.items()) or "TRUE"
        among = f"EXISTS (SELECT 1 FROM {plan.touched} AS t WHERE {same})"
        text = in_duckdb(self.text_of(rows.text))
        self.tables.run(f"DELETE FROM stored WHERE {among}")
        self.tables.run(f"INSERT INTO stored SELECT * FROM ({text}) AS q({', '.join(self.names)}) WHERE {among}")
        return count

    def facts(self, plan: TouchedPlan) -> KeyFacts:
        columns = touch_columns(self.query, plan.touch)
        assert plan.touched is not None
        free = {key for key in columns if not self.tables.run(f"FROM {plan.touched} WHERE {key} IS NULL")}

        def holds(column: str, constant: str) -> bool:
            sql = f"SELECT 1 FROM {plan.touched} WHERE {column} IS NOT DISTINCT FROM ({constant})"
            return bool(self.tables.run(in_duckdb(sql)))

        return KeyFacts(plan.touched, frozenset(free), holds)

    def take(self, step: Step) -> None:
        sql = in_duckdb(self.text_of(step.sql))
        self.tables.run(f"CREATE OR REPLACE TEMP TABLE {step.name} AS {sql}")
        columns = [row[0] for row in self.tables.run(f"DESCRIBE {step.name}")]
        assert columns == list(step.columns or ("one_",)), (step.name, columns, step.columns)

    def check(self) -> None:
        """Raises if the table does not hold the result of its query."""
        self.compute("recomputed")
        columns = ", ".join(self.comparable())
        differences = [
            self.tables.run(f"SELECT {columns} FROM {one} EXCEPT ALL SELECT {columns} FROM {other}")
            for one, other in (("recomputed", "stored"), ("stored", "recomputed"))
        ]
        if any(differences):
            raise WrongRowsError(f"missing {differences[0][:3]}, too many {differences[1][:3]}")

    def comparable(self) -> Iterator[str]:
        """The columns; sums that are not whole numbers are rounded to two digits."""
        for name, kind, *_ in self.tables.run("DESCRIBE recomputed"):
            rounds = self.approximate and ("DOUBLE" in kind or "DECIMAL" in kind)
            yield f"round({name}::DOUBLE, 2) AS {name}" if rounds else name

    # places

    def text_of(self, sql: Sql) -> str:
        return "".join(self.place(part) for part in sql)

    def place(self, part: str | SourceRows | Found) -> str:
        match part:
            case str():
                return part
            case Found(step=step):
                return step
            case SourceRows(image=Image.MOVED):
                columns = ", ".join(map(quote, part.columns))
                listed = f"{columns}, " if columns else ""
                group = f" GROUP BY {columns}" if columns else ""
                images = (
                    f"SELECT {listed}{sign} AS sign__ FROM {part.table}__{image}"
                    for sign, image in (("-1", "gone"), ("1", "came"))
                )
                return (
                    f"(SELECT {columns or '1 AS one_'} FROM ({' UNION ALL '.join(images)}){group}"
                    " HAVING SUM(sign__) <> 0)"
                )
            case SourceRows():
                where = " OR ".join(
                    f"({' AND '.join(self.condition(one) for one in together)})" for together in part.any_of
                )
                columns = ", ".join(map(quote, part.columns)) or "1 AS one_"
                return f"(SELECT {columns} FROM {part.table}__{part.image.value}{f' WHERE {where}' if where else ''})"

    def condition(self, one: Restriction) -> str:
        sign = "IS NOT DISTINCT FROM" if one.null_safe else "="
        keys = ", ".join(f"{key} AS k{k}__" for k, (_, key) in enumerate(one.pairs))
        same = " AND ".join(f"({sql}) {sign} k{k}__" for k, (sql, _) in enumerate(one.pairs))
        joined = f"EXISTS (SELECT 1 FROM (SELECT {keys} FROM {one.step}) WHERE {same})"
        match self.searching:
            case Searching.JOIN:
                return joined
            case Searching.LITERALS:
                return " AND ".join([*(self.literals(one, *pair) for pair in one.pairs), joined])
            case Searching.RANGES:
                return " AND ".join(self.ranges(one, *pair) for pair in one.pairs)

    def literals(self, one: Restriction, sql: str, key: str) -> str:
        values = [row[0] for row in self.tables.run(f"SELECT DISTINCT {key} FROM {one.step}")]
        listed = ", ".join(
            str(value) if isinstance(value, int | float | Decimal) else f"'{value}'"
            for value in values
            if value is not None
        )
        found = f"({sql}) IN ({listed})" if listed else "FALSE"
        return f"({found} OR ({sql}) IS NULL)" if one.null_safe and None in values else found

    def ranges(self, one: Restriction, sql: str, key: str) -> str:
        low, high, nulls = (f"(SELECT {function} FROM {one.step})" for function in _bounds(key))
        return f"(({sql}) BETWEEN {low} AND {high} OR ({sql}) IS NULL AND {nulls})"


def follow(table: ViewTable, random: Random, new_row: NewRow, rounds: int, *, most: int = 2) -> int:
    """Lets a table follow random changes by random columns; how many steps it took, each of them right.

    In half of the rounds the plan is not given the tables that changed. Where no keys follow, all rows are computed.
    """
    names = [output.name for output in table.query.outputs]
    try:
        chosen = choose_touch(table.query, (), table.small)
    except NotFollowedError:
        chosen = ()
    table.compute()
    right = 0
    for number in range(rounds):
        edit(table.tables, random, new_row, most)
        changed = table.tables.changed() if random.random() < 0.5 else set(table.tables.schemas)
        some = tuple(random.sample(names, random.randint(1, min(3, len(names)))))
        touch = chosen if random.random() < 0.5 else some
        try:
            table.step(touch, changed)
        except NotFollowedError:
            table.compute()
            continue
        try:
            table.check()
        except WrongRowsError as error:
            by = f"round {number} by {touch}, {table.searching}, small {sorted(table.small)}, changed {sorted(changed)}"
            raise WrongRowsError(f"{by}: {error}") from None
        right += 1
    return right


def _bounds(key: str) -> tuple[str, str, str]:
    return f"min({key})", f"max({key})", f"count(*) > count({key})"


def in_duckdb(sql: str) -> str:
    return sqlglot.transpile(sql, read="spark", write="duckdb")[0]

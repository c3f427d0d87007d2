"""Random queries, composed of all operators, over small tables with common columns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random

SCHEMAS: Mapping[str, Mapping[str, str]] = {
    "a": {"x": "int", "y": "int", "z": "int"},
    "b": {"x": "int", "y": "int", "w": "int"},
    "c": {"x": "int", "w": "int", "s": "int"},
    "d": {"k": "int", "s": "int"},
}
LONGEST = 1800


@dataclass(frozen=True)
class Text:
    """A query and the names of its columns."""

    sql: str
    columns: list[str]


@dataclass(frozen=True)
class Part:
    """An item of FROM under an alias."""

    sql: str
    alias: str
    names: list[str]

    @property
    def columns(self) -> list[str]:
        return [f"{self.alias}.{name}" for name in self.names]


class RandomQueries:
    """Draws queries."""

    def __init__(self, random: Random) -> None:
        self.random, self.aliases = random, 0

    def query(self, depth: int) -> str:
        """A query in which at most `depth` operators are nested."""
        while len(sql := self.text(depth).sql) > LONGEST:
            pass
        return sql

    def text(self, depth: int) -> Text:
        if depth <= 0:
            table = self.random.choice(list(SCHEMAS))
            alias = self.alias()
            names = list(SCHEMAS[table])
            where = self.where(Part(table, alias, names), 0.3)
            return Text(f"SELECT * FROM {table} AS {alias}{where}", names)
        kinds: list[tuple[Callable[[int], Text], int]] = [
            (self.join, 7),
            (self.chain, 2),
            (self.semi_join, 3),
            (self.group, 2),
            (self.distinct, 1),
            (self.set_operation, 2),
            (self.windows, 2),
            (self.scalar, 2),
            (self.filter, 1),
        ]
        return self.random.choices(*zip(*kinds, strict=True))[0](depth)

    # parts

    def alias(self) -> str:
        self.aliases += 1
        return f"t{self.aliases}"

    def happens(self, chance: float) -> bool:
        return self.random.random() < chance

    def part(self, depth: int) -> Part:
        if depth <= 0 or self.happens(0.35):
            table = self.random.choice(list(SCHEMAS))
            alias, names = self.alias(), list(SCHEMAS[table])
            if self.happens(0.7):
                return Part(f"{table} AS {alias}", alias, names)
            inner = self.text(0)
            return Part(f"({inner.sql}) AS {alias}", alias, inner.columns)
        inner = self.text(depth)
        alias = self.alias()
        return Part(f"({inner.sql}) AS {alias}", alias, inner.columns)

    def one(self, part: Part) -> str:
        return self.random.choice(part.columns)

    def condition(self, part: Part) -> str:
        one, other, number = self.one(part), self.one(part), self.random.randint(0, 5)
        return self.random.choice(
            [
                f"{one} > {number % 4}",
                f"{one} IS NOT NULL",
                f"{one} IS NULL",
                f"{one} = {other}",
                f"{one} <> {number}",
                f"({one} = {number} OR {other} > 2)",
                f"NOT ({one} = {number})",
                f"{one} IN (1, 2, 3)",
                f"coalesce({one}, 0) < 4",
            ]
        )

    def where(self, part: Part, chance: float) -> str:
        return f" WHERE {self.condition(part)}" if self.happens(chance) else ""

    def outputs(self, expressions: list[str]) -> Text:
        """A SELECT list with new names."""
        names = [f"c{k}" for k in range(len(expressions))]
        return Text(", ".join(f"{e} AS {name}" for e, name in zip(expressions, names, strict=True)), names)

    def some(self, columns: list[str], least: int = 1, most: int = 4) -> list[str]:
        """Some of the columns, now and then an expression over a column instead."""
        count = min(len(columns), self.random.randint(least, most))
        return [self.computed(one) if self.happens(0.15) else one for one in self.random.sample(columns, count)]

    def computed(self, one: str) -> str:
        return self.random.choice(
            [f"coalesce({one}, 9)", f"{one} % 2", f"CASE WHEN {one} > 2 THEN {one} END", f"{one} + 1"]
        )

    # operators

    def join(self, depth: int) -> Text:
        kind = self.random.choice(["JOIN", "JOIN", "JOIN", "LEFT JOIN", "LEFT JOIN", "FULL JOIN", "RIGHT JOIN"])
        left, right = self.part(depth - 1), self.part(depth - 1)
        equal = "<=>" if kind != "FULL JOIN" and self.happens(0.15) else "="
        on = f"{self.one(left)} {equal} {self.one(right)}"
        if self.happens(0.2):
            on += f" AND {self.one(left)} = {self.one(right)}"
        if kind != "FULL JOIN":
            if self.happens(0.2):
                on += f" AND {self.condition(self.random.choice([left, right]))}"
            if self.happens(0.1):
                on += f" AND {self.one(left)} < {self.one(right)}"
        listed = self.outputs(self.some(left.columns + right.columns, 1, 5))
        where = self.where(self.random.choice([left, right]), 0.3)
        return Text(f"SELECT {listed.sql} FROM {left.sql} {kind} {right.sql} ON {on}{where}", listed.columns)

    def chain(self, depth: int) -> Text:
        one, two, three = (self.part(depth - 2) for _ in range(3))
        listed = self.outputs(self.some(one.columns + two.columns + three.columns, 1, 5))
        if self.happens(0.4):
            where = f"{self.one(one)} = {self.one(two)} AND {self.one(two)} = {self.one(three)}"
            sql = f"{one.sql}, {two.sql}, {three.sql} WHERE {where} AND {self.condition(one)}"
            return Text(f"SELECT {listed.sql} FROM {sql}", listed.columns)
        first = self.random.choice(["LEFT JOIN", "JOIN"])
        second = self.random.choice(["LEFT JOIN", "LEFT JOIN", "JOIN", "RIGHT JOIN", "FULL JOIN"])
        near = self.random.choice([one, two])
        sql = (
            f"{one.sql} {first} {two.sql} ON {self.one(one)} = {self.one(two)}"
            f" {second} {three.sql} ON {self.one(near)} = {self.one(three)}"
        )
        where = self.where(self.random.choice([one, two, three]), 0.3)
        return Text(f"SELECT {listed.sql} FROM {sql}{where}", listed.columns)

    def filter(self, depth: int) -> Text:
        part = self.part(depth - 1)
        listed = self.outputs(self.some(part.columns))
        conditions = f"{self.condition(part)} AND {self.condition(part)}"
        return Text(f"SELECT {listed.sql} FROM {part.sql} WHERE {conditions}", listed.columns)

    def semi_join(self, depth: int) -> Text:
        """SEMI, ANTI, IN, NOT IN, EXISTS, NOT EXISTS, also below OR."""
        part, sub = self.part(depth - 1), self.part(depth - 1)
        listed = self.outputs(self.some(part.columns))
        kind, negation = self.random.choice(["join", "in", "exists"]), self.random.choice(["", "NOT ", "NOT "])
        if kind == "join":
            join = self.random.choice(["SEMI", "ANTI"])
            on = f"{self.one(part)} = {self.one(sub)}"
            return Text(f"SELECT {listed.sql} FROM {part.sql} LEFT {join} JOIN {sub.sql} ON {on}", listed.columns)
        if kind == "in":
            where = f" WHERE {self.one(sub)} = {self.one(part)}" if self.happens(0.25) else self.where(sub, 0.4)
            test = f"{self.one(part)} {negation}IN (SELECT {self.one(sub)} FROM {sub.sql}{where})"
        else:
            where = f"{self.one(sub)} = {self.one(part)}"
            if self.happens(0.3):
                where += f" AND {self.one(sub)} <> {self.one(part)}"
            test = f"{negation}EXISTS (SELECT 1 FROM {sub.sql} WHERE {where})"
        if self.happens(0.2):
            test = f"({test} OR {self.condition(part)})"
        if self.happens(0.3):
            test += f" AND {self.condition(part)}"
        return Text(f"SELECT {listed.sql} FROM {part.sql} WHERE {test}", listed.columns)

    def aggregate(self, part: Part) -> str:
        one = self.one(part)
        return self.random.choice(
            ["count(*)", f"sum({one})", f"max({one})", f"min({one})", f"count({one})", f"count(DISTINCT {one})"]
        )

    def group(self, depth: int) -> Text:
        part = self.part(depth - 1)
        groups = self.some(part.columns, 1, 2)
        listed = self.outputs([*groups, *(self.aggregate(part) for _ in range(self.random.randint(1, 2)))])
        having = f" HAVING {self.random.choice(['count(*) > 1', f'sum({self.one(part)}) > 3'])}"
        having = having if self.happens(0.25) else ""
        return Text(f"SELECT {listed.sql} FROM {part.sql} GROUP BY {', '.join(groups)}{having}", listed.columns)

    def distinct(self, depth: int) -> Text:
        part = self.part(depth - 1)
        listed = self.outputs(self.some(part.columns, 1, 3))
        return Text(f"SELECT DISTINCT {listed.sql} FROM {part.sql}", listed.columns)

    def set_operation(self, depth: int) -> Text:
        one, other = self.part(depth - 1), self.part(depth - 1)
        width = min(len(one.names), len(other.names), self.random.randint(1, 3))
        first = self.outputs(self.random.sample(one.columns, width))
        second = self.outputs(self.random.sample(other.columns, width))
        kinds = ["UNION ALL", "UNION ALL", "UNION", "UNION", "EXCEPT", "EXCEPT ALL", "INTERSECT", "INTERSECT ALL"]
        kind = self.random.choice(kinds)
        return Text(f"SELECT {first.sql} FROM {one.sql} {kind} SELECT {second.sql} FROM {other.sql}", first.columns)

    def windows(self, depth: int) -> Text:
        part = self.part(depth - 1)
        partition = self.random.sample(part.columns, min(len(part.columns), self.random.randint(1, 2)))
        if self.happens(0.15):
            partition[0] = f"{partition[0]} % 2"
        by = ", ".join(f"{one} NULLS FIRST" for one in self.random.sample(part.columns, len(part.columns)))
        over = f"PARTITION BY {', '.join(partition)}"
        value = self.random.choice(
            [
                f"row_number() OVER ({over} ORDER BY {by})",
                f"sum({self.one(part)}) OVER ({over})",
                f"count(*) OVER ({over})",
                f"lag({self.one(part)}) OVER ({over} ORDER BY {by})",
            ]
        )
        listed = self.outputs([*self.some(part.columns, 1, 3), value])
        sql = f"SELECT {listed.sql} FROM {part.sql}"
        if self.happens(0.4):
            test = f"{listed.columns[-1]} {self.random.choice(['= 1', '<= 2', '> 1'])}"
            sql = f"SELECT {', '.join(listed.columns)} FROM ({sql}) AS {self.alias()} WHERE {test}"
        return Text(sql, listed.columns)

    def scalar(self, depth: int) -> Text:
        """A scalar subquery, correlated or not, in SELECT or WHERE."""
        part, sub = self.part(depth - 1), self.part(depth - 1)
        listed = self.some(part.columns, 1, 3)
        sign = self.random.choice(["=", ">", "<="])
        if self.happens(0.5):
            function = self.random.choice(["max", "min", "count"])
            outputs = self.outputs(listed)
            test = f"{self.one(part)} {sign} (SELECT {function}({self.one(sub)}) FROM {sub.sql})"
            return Text(f"SELECT {outputs.sql} FROM {part.sql} WHERE {test}", outputs.columns)
        one = self.one(sub)
        value = self.random.choice(["count(*)", f"sum({one})", f"max({one})", f"coalesce(sum({one}), 0)"])
        scalar = f"(SELECT {value} FROM {sub.sql} WHERE {self.one(sub)} = {self.one(part)})"
        if self.happens(0.5):
            outputs = self.outputs([*listed, scalar])
            return Text(f"SELECT {outputs.sql} FROM {part.sql}", outputs.columns)
        outputs = self.outputs(listed)
        return Text(f"SELECT {outputs.sql} FROM {part.sql} WHERE {self.one(part)} {sign} {scalar}", outputs.columns)


class WiderQueries(RandomQueries):
    """Random queries that also have VALUES, GROUP BY ALL, ROLLUP, CUBE and GROUPING SETS."""

    def part(self, depth: int) -> Part:
        if not self.happens(0.15):
            return super().part(depth)
        alias, names = self.alias(), self.random.sample(["x", "y", "k"], self.random.randint(1, 3))
        values = ["NULL", "0", "1", "2", "3", "4"]
        rows = [f"({', '.join(self.random.choices(values, k=len(names)))})" for _ in range(self.random.randint(1, 4))]
        return Part(f"(VALUES {', '.join(rows)}) AS {alias}({', '.join(names)})", alias, names)

    def group(self, depth: int) -> Text:
        part = self.part(depth - 1)
        groups = list(dict.fromkeys(self.some(part.columns, 1, 3)))
        by, aggregates = "ALL", [self.aggregate(part) for _ in range(self.random.randint(1, 2))]
        if self.happens(0.7):
            by = self.sets(groups)
            aggregates += [f"grouping({one})" for one in groups if self.happens(0.3)]
            aggregates += [f"grouping_id({', '.join(groups)})"] if self.happens(0.2) else []
        listed = self.outputs([*groups, *aggregates])
        return Text(f"SELECT {listed.sql} FROM {part.sql} GROUP BY {by}", listed.columns)

    def sets(self, groups: list[str]) -> str:
        """ROLLUP, CUBE or GROUPING SETS of all columns, or of all but the first."""
        before = [] if len(groups) == 1 or self.happens(0.5) else groups[:1]
        of = groups[len(before) :]
        kind = self.random.choice(["ROLLUP", "CUBE", "GROUPING SETS"])
        some = [f"({', '.join(self.random.sample(of, self.random.randint(0, len(of))))})" for _ in range(2)]
        listed = [*some, f"({', '.join(of)})"] if kind == "GROUPING SETS" else of
        return ", ".join([*before, f"{kind} ({', '.join(listed)})"])

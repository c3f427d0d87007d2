"""Which views are counts and sums over the rows of one table, to which changes can be added, and why others are not."""

from random import Random

import pytest

from lakehouse.views.adding import Added, as_sums
from lakehouse.views.query import read
from tests.support.for_each import for_each
from tests.support.views_in_duckdb import Tables, in_duckdb
from tests.views import queries

SUMS = """
    SELECT day % 3 AS m, o.st, count(*) AS n, count(amt) AS amounts, coalesce(sum(amt * 2 - day), 0) AS s,
           sum(CASE WHEN amt > 2 THEN 1 ELSE 0 END) AS more
    FROM o WHERE st <> 'x' OR amt IS NULL GROUP BY day % 3, o.st"""


def test_counts_and_sums_over_one_table_are_such() -> None:
    sums = as_sums(read(SUMS, queries.TABLES))
    assert isinstance(sums, Added)
    tables = Tables(queries.TABLES)
    tables.fill("o", [(k, k, k % 4, None if k % 3 else k, "xy"[k % 2]) for k in range(20)])
    groups = ", ".join(f"{sql} AS {name}" for name, sql in sums.by.items())
    values = ", ".join(f"coalesce(sum({sql}), 0) AS {name}" for name, sql in sums.sums.items())
    text = f"SELECT {groups}, count(*) AS {sums.count}, {values} FROM {sums.source} WHERE {sums.where} GROUP BY ALL"

    assert sorted(map(str, tables.run(in_duckdb(text)))) == sorted(map(str, tables.run(in_duckdb(SUMS))))


@for_each(
    "text, why",
    [
        ("SELECT id FROM o", "the query has no GROUP BY"),
        ("SELECT count(*) AS n FROM o", "one row of all rows"),
        (
            "SELECT n, count(*) AS k FROM (SELECT st, count(*) AS n FROM o GROUP BY st) GROUP BY n",
            "not those of one table",
        ),
        (
            "SELECT st, n FROM (SELECT st, count(*) AS n FROM o GROUP BY st) JOIN c ON c.id = n",
            "its outermost part is not a GROUP BY",
        ),
        ("SELECT st, count(*) AS n FROM o GROUP BY st HAVING count(*) > 1", "such as HAVING, leaves groups out"),
        ("SELECT st, count(*) AS n, sum(amt) AS s FROM o GROUP BY st", "the sum s may be NULL"),
        ("SELECT st, count(amt) AS n FROM o GROUP BY st", "no column is count(*)"),
        ("SELECT st, count(*) AS n, max(amt) AS m FROM o GROUP BY st", "MAX(amt) is neither a plain count nor"),
        ("SELECT st, count(*) AS n, count(DISTINCT amt) AS m FROM o GROUP BY st", "COUNT(DISTINCT amt) is neither"),
        ("SELECT st, count(*) AS n, count(amt, day) AS m FROM o GROUP BY st", "m counts several values"),
        ("SELECT st, count(*) AS n, coalesce(sum(amt / 2), 0) AS m FROM o GROUP BY st", "sum m are not known to be"),
        ("SELECT st, count(*) + 1 AS n FROM o GROUP BY st", "n is computed from aggregates"),
        ("SELECT c.seg, count(*) AS n FROM o JOIN c ON o.cust = c.id GROUP BY c.seg", "not those of one table"),
        ("SELECT count(*) AS n FROM o GROUP BY st", "lacks a column of GROUP BY"),
    ],
)
def test_what_cannot_be_added_to_is_said(text: str, why: str) -> None:
    said = as_sums(read(text, queries.TABLES))

    assert isinstance(said, str) and why in said


@pytest.mark.slow
def test_the_sums_of_nested_queries_are_those_of_the_text() -> None:
    """Columns computed in a subquery are put in where they are named, and conditions of all levels apply together."""
    tables = Tables(queries.TABLES)
    random = Random(7)
    tables.fill("o", [(k, k % 5, k % 7, random.choice([None, k % 6]), "xy"[k % 2]) for k in range(60)])
    added = 0
    for _ in range(150):
        text = nested(random)
        sums = as_sums(read(text, queries.TABLES))
        if isinstance(sums, str):
            continue
        added += 1
        columns = {**sums.by, sums.count: "count(*)"} | {n: f"coalesce(sum({sql}), 0)" for n, sql in sums.sums.items()}
        where = f" WHERE {sums.where}" if sums.where else ""
        names = [output.name for output in read(text, queries.TABLES).outputs]
        listed = ", ".join(f"{columns[name]} AS {name}" for name in names)
        groups = ", ".join(sums.by.values())
        flat = f"SELECT {listed} FROM {sums.source}{where} GROUP BY {groups}"
        assert sorted(map(str, tables.run(in_duckdb(flat)))) == sorted(map(str, tables.run(in_duckdb(text)))), text
    assert added > 80


def nested(random: Random) -> str:
    """Counts and sums over a table whose columns are computed in up to three levels."""
    rows, columns = "o", ["day", "amt", "cust"]
    for level in range(random.randrange(3)):
        new = f"c{level}"
        condition = f" WHERE {predicate(random, columns)}" if random.random() < 0.6 else ""
        rows = f"(SELECT {', '.join(columns)}, {number(random, columns)} AS {new} FROM {rows}{condition})"
        columns = [*columns, new]
    condition = f" WHERE {predicate(random, columns)}" if random.random() < 0.6 else ""
    group, value = number(random, columns), number(random, columns)
    return (
        f"SELECT coalesce(sum({value}), 0) AS s, {group} AS g, count(*) AS n, "
        f"sum(CASE WHEN {predicate(random, columns)} THEN 1 ELSE 0 END) AS m, count({number(random, columns)}) AS k, "
        f"count({predicate(random, columns)}) AS p "
        f"FROM {rows}{condition} GROUP BY {group}"
    )


def number(random: Random, columns: list[str], depth: int = 2) -> str:
    if depth == 0 or random.random() < 0.3:
        return random.choice([*columns, "2", "3"]) if depth < 2 else random.choice(columns)
    one, other = number(random, columns, depth - 1), number(random, columns, depth - 1)
    return random.choice([f"{one} {{}} {other}", f"({one} {{}} {other})"]).format(random.choice("+-*"))


def predicate(random: Random, columns: list[str], depth: int = 2) -> str:
    if depth == 0 or random.random() < 0.3:
        column = random.choice(columns)
        return random.choice([f"{column} IS NULL", f"{number(random, columns)} {random.choice('<>=')} {column}"])
    one, other = predicate(random, columns, depth - 1), predicate(random, columns, depth - 1)
    return random.choice([f"{one} AND {other}", f"{one} OR {other}", f"NOT ({one} OR {other})", f"({one}) AND {other}"])

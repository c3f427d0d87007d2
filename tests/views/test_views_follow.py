"""A table that follows its sources by touched keys is what its query gives, after every step: in DuckDB, by the plans.

The queries: one for each operator and its traps, those of TPC-H, and random ones. The changes: rows of all tables at
once, also join and group keys, duplicates, NULL, and rows that come and go.
"""

import os
import sys
from random import Random
from typing import Any

import pytest

from lakehouse.views.query import read
from tests.support import random_queries
from tests.support.for_each import for_each
from tests.support.random_queries import RandomQueries, WiderQueries
from tests.support.views_in_duckdb import NewRow, NewRowOfWarehouse, Searching, Tables, ViewTable, follow
from tests.views import queries, tpch

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "10"))
START = Random().randrange(10**6) if "LAKEHOUSE_EXAMPLES" in os.environ else 0


@pytest.fixture(scope="module")
def tables() -> Tables:
    return Tables(queries.TABLES)


@pytest.fixture(scope="module")
def random_tables() -> Tables:
    return Tables(random_queries.SCHEMAS)


@pytest.fixture(scope="module")
def warehouse() -> Tables:
    return Tables(tpch.SCHEMAS)


def fill(tables: Tables, random: Random, new_row: NewRow, most: int = 14) -> None:
    for table in tables.schemas:
        tables.fill(table, [new_row(table) for _ in range(random.randint(0, most))])


def follow_one(tables: Tables, name: str, seed: int, rounds: int) -> int:
    random = Random(f"{seed}{name}")
    new_row = NewRow(queries.TABLES, random)
    fill(tables, random, new_row)
    small = frozenset(random.choice([(), (), ("n",), ("c", "n")]))
    query = read(queries.QUERIES[name], queries.TABLES)
    return follow(ViewTable(tables, query, random.choice(list(Searching)), small), random, new_row, rounds)


@pytest.mark.parametrize("name", queries.QUERIES)
def test_the_table_is_what_the_query_says(tables: Tables, name: str):
    assert follow_one(tables, name, 1, 2) >= 0


LISTS = {"o": {"id": "int", "items": "int[]", "st": "string"}, "c": {"id": "int", "seg": "string"}}
GENERATED = {
    "a list": "SELECT o.id, l.item FROM o LATERAL VIEW explode(o.items) l AS item WHERE st <> 'x'",
    "groups of a list": "SELECT l.item, count(*) AS n FROM o LATERAL VIEW explode(o.items) l AS item GROUP BY l.item",
    "joined by a list": "SELECT t.id, c.seg FROM (SELECT o.id, l.item FROM o LATERAL VIEW explode(o.items) l AS item) t LEFT JOIN c ON t.item = c.id",
}


class NewRowWithList(NewRow):
    def value(self, name: str, kind: str) -> Any:
        if kind == "int[]" and self.random.random() > 0.1:
            return [self.random.randint(0, 4) for _ in range(self.random.randint(0, 3))]
        return None if kind == "int[]" else super().value(name, kind)


@for_each("name", GENERATED)
def test_the_table_is_what_a_query_of_lists_says(name: str):
    tables, random = Tables(LISTS), Random(name)
    new_row = NewRowWithList(LISTS, random)
    fill(tables, random, new_row)
    in_spark = {table: {**columns, "items": "array<int>"} for table, columns in LISTS.items()}
    in_spark["c"].pop("items")
    table = ViewTable(tables, read(GENERATED[name], in_spark), Searching.JOIN)
    assert follow(table, random, new_row, 5) > 0


def follow_random(tables: Tables, seed: int, rounds: int, kind: type[RandomQueries] = RandomQueries) -> int:
    random = Random(seed)
    new_row = NewRow(random_queries.SCHEMAS, random)
    fill(tables, random, new_row)
    text = kind(random).query(random.randint(1, 3))
    table = ViewTable(tables, read(text, random_queries.SCHEMAS), random.choice(list(Searching)))
    try:
        return follow(table, random, new_row, rounds)
    except Exception as error:
        error.add_note(f"seed {seed}: {text}")
        raise


@pytest.mark.parametrize("seed", [*range(20), 100027, 100054])
def test_the_table_is_what_a_random_query_says(random_tables: Tables, seed: int):
    assert follow_random(random_tables, seed, 2) >= 0


@pytest.mark.parametrize("seed", range(10))
def test_the_table_is_what_a_random_query_of_more_clauses_says(random_tables: Tables, seed: int):
    assert follow_random(random_tables, seed, 2, WiderQueries) >= 0


def follow_warehouse(tables: Tables, number: int, seed: int, rounds: int) -> int:
    random = Random(f"{seed}{number}")
    new_row = NewRowOfWarehouse(tpch.SCHEMAS, random, tpch.QUERIES.values())
    for table in tables.schemas:
        tables.fill(table, [new_row(table) for _ in range(5 if table in {"region", "nation"} else 25)])
    query = read(tpch.QUERIES[number], tpch.SCHEMAS)
    table = ViewTable(tables, query, random.choice(list(Searching)), approximate=True)
    return follow(table, random, new_row, rounds, most=3)


@pytest.mark.parametrize("number", tpch.QUERIES)
def test_the_table_is_what_a_query_of_tpch_says(warehouse: Tables, number: int):
    assert follow_warehouse(warehouse, number, 1, 1) >= 0


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_tables_are_what_many_queries_say(
    tables: Tables, random_tables: Tables, warehouse: Tables, capsys: pytest.CaptureFixture[str]
):
    right = dict.fromkeys(("operators", "random", "wider", "tpch"), 0)
    for seed in range(START, START + EXAMPLES):
        right["operators"] += sum(follow_one(tables, name, seed, 4) for name in queries.QUERIES)
        right["random"] += sum(follow_random(random_tables, 20 * seed + k, 4) for k in range(20))
        right["wider"] += sum(follow_random(random_tables, 20 * seed + k, 4, WiderQueries) for k in range(20))
        right["tpch"] += sum(follow_warehouse(warehouse, number, seed, 2) for number in tpch.QUERIES)
        with capsys.disabled():
            sys.stdout.write(f"\nseeds {START} to {seed}: right steps {right}\n")
    assert all(right.values())

"""The algebra of a text has the rows of the text, as a bag, in DuckDB, on random tables with NULLs and duplicates."""

import random
import re
import sys
import time
from collections.abc import Mapping

import duckdb
import pytest

from lakehouse.views.query import read
from tests.views import queries, tpch
from tests.views.algebra_sql import sql_of, text_in_duckdb

SEEDS = range(6)


def rows_apart(
    connection: duckdb.DuckDBPyConnection, text: str, schemas: Mapping[str, Mapping[str, str]]
) -> list[tuple]:
    """The rows that the text has and its algebra lacks, and the reverse."""
    by_text, by_algebra = text_in_duckdb(text), sql_of(read(text, schemas), "duckdb")
    return [
        *connection.execute(f"({by_text}) EXCEPT ALL ({by_algebra})").fetchall(),
        *connection.execute(f"({by_algebra}) EXCEPT ALL ({by_text})").fetchall(),
    ]


def fill(
    connection: duckdb.DuckDBPyConnection, seed: int, tables: dict[str, dict[str, str]], pools: dict[str, list[str]]
):
    """Tables with up to 30 random rows."""
    rng = random.Random(seed)
    for table, columns in tables.items():
        connection.execute(f"CREATE TABLE {table} ({', '.join(f'{name} {kind}' for name, kind in columns.items())})")
        rows = [
            ", ".join("NULL" if rng.random() < 0.1 else rng.choice(pools[kind]) for kind in columns.values())
            for _ in range(rng.randint(1, 30))
        ]
        connection.execute(f"INSERT INTO {table} VALUES {', '.join(f'({row})' for row in rows)}")


@pytest.fixture(params=SEEDS)
def small(request: pytest.FixtureRequest) -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    pools = {"int": [str(number) for number in range(6)], "string": ["'x'", "'y'", "'z'", "'a'", "'b'"]}
    fill(connection, request.param, queries.TABLES, pools)
    return connection


def test_the_rows_of_each_operator(small: duckdb.DuckDBPyConnection):
    apart = {name: rows_apart(small, text, queries.TABLES) for name, text in queries.QUERIES.items()}
    assert {name: rows for name, rows in apart.items() if rows} == {}


@pytest.fixture(params=SEEDS)
def warehouse(request: pytest.FixtureRequest) -> duckdb.DuckDBPyConnection:
    """Tables of TPC-H; their texts are those that the queries compare with."""
    connection = duckdb.connect()
    texts = {text for query in tpch.QUERIES.values() for text in re.findall(r"'([^']*)'", query)}
    keys = [str(number) for number in range(1, 6)]
    dates = [f"DATE '{year}-{month:02}-15'" for year in range(1993, 1999) for month in (1, 3, 8, 10)]
    pools = {
        "int": [*keys, "15", "49", "14"],
        "bigint": keys,
        "decimal(15,2)": ["0.05", "0.06", "1.00", "7.50", "23.00", "301.00", "900.00"],
        "string": [f"'{text.replace('%', ' ')}'" for text in sorted(texts)],
        "date": dates,
    }
    fill(connection, request.param, tpch.SCHEMAS, pools)
    return connection


def test_the_rows_of_the_queries_of_tpch(warehouse: duckdb.DuckDBPyConnection):
    apart = {number: rows_apart(warehouse, text, tpch.SCHEMAS) for number, text in tpch.QUERIES.items()}
    assert {number: rows for number, rows in apart.items() if rows} == {}


def test_reading_takes_milliseconds(capsys: pytest.CaptureFixture[str]):
    texts = [(text, tpch.SCHEMAS) for text in tpch.QUERIES.values()]
    texts += [(text, queries.TABLES) for text in queries.QUERIES.values()]
    before = time.process_time()
    for text, schemas in texts:
        read(text, schemas)
    each = (time.process_time() - before) / len(texts)
    with capsys.disabled():
        sys.stdout.write(f"\n{each * 1000:.1f} ms to read a query, of {len(texts)}\n")
    assert each < 0.1

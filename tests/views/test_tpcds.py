"""The queries of TPC-DS as written, in DuckDB: a query that keys once followed stays followed, and rows are right.

The coverage page has the reasons why keys do not follow a query.
"""

import re
import sys
from random import Random

import pytest

from lakehouse.errors.views import ViewError
from lakehouse.views.analysis import ByKeys
from lakehouse.views.query import names_in, read
from lakehouse.views.view_text import OutputColumn, ViewText
from lakehouse.writes.view import View
from tests.support.views_in_duckdb import Searching, Tables, ViewTable, follow
from tests.views import tpcds

FOLLOWED = ["2", "31", "34", "71", "73", "91", "98"]


def test_a_query_that_keys_followed_stays_followed() -> None:
    checked = {number: View(tpcds.QUERIES[number]).check(tpcds.SCHEMAS, tpcds.KEYS) for number in FOLLOWED}
    assert [number for number, each in checked.items() if not isinstance(each.verdict, ByKeys)] == []


COLUMNS = {"14b": 12, "39a": 10, "39b": 10, "64": 21}
"""The queries that give two columns one name, and how many columns they give."""


def test_keys_follow_columns_of_one_name_under_a_head_that_names_them() -> None:
    for number, columns in COLUMNS.items():
        head = tuple(OutputColumn(f"column_{place}") for place in range(columns))
        with pytest.raises(ViewError, match="Two columns of the result are called"):
            View(tpcds.QUERIES[number]).check(tpcds.SCHEMAS, tpcds.KEYS)
        named = View(ViewText(tpcds.QUERIES[number], columns=head))
        assert isinstance(named.check(tpcds.SCHEMAS, tpcds.KEYS).verdict, ByKeys), number


def test_all_queries_are_here() -> None:
    assert {number.rstrip("ab") for number in tpcds.QUERIES} == set(map(str, range(1, 100)))
    assert len(tpcds.SCHEMAS) == 24


def follow_one(number: str, seed: int, rounds: int) -> tuple[int, int]:
    """Lets a table follow a query over a few rows, without its LIMIT; returns how many steps were right, and rows."""
    text = re.sub(r"\s+LIMIT \d+$", "", tpcds.QUERIES[number])
    random = Random(f"{seed} {number}")
    schemas = {table: tpcds.SCHEMAS[table] for table in names_in(text)}
    tables, new_row = Tables(schemas), tpcds.NewRowOfStores(schemas, random, text)
    tables.run("SET scalar_subquery_error_on_multiple_rows = false")  # a day may occur twice, with the same number
    for table in schemas:
        tables.fill(table, [new_row(table) for _ in range(50 if table.endswith(tpcds.FACTS) else 6)])
    query = read(text, tpcds.SCHEMAS, is_named=True)
    view = ViewTable(tables, query, random.choice(list(Searching)), approximate=True)
    return follow(view, random, new_row, rounds, most=3), tables.run("SELECT count(*) FROM stored")[0][0]


@pytest.mark.parametrize("number", ["3", "7", "12", "15", "19", "20", "26", "32", "42", "55", "86", "98"])
def test_the_table_is_what_a_query_says(number: str) -> None:
    assert follow_one(number, 1, 2)[0] >= 0


@pytest.mark.slow
@pytest.mark.timeout(0)
def test_the_tables_are_what_all_queries_say(capsys: pytest.CaptureFixture[str]) -> None:
    steps, full = 0, set[str]()
    for seed in range(3):
        for number in tpcds.QUERIES:
            right, rows = follow_one(number, seed, 3)
            steps, full = steps + right, full | ({number} if rows else set())
    with capsys.disabled():
        sys.stdout.write(f"\n{steps} steps right; {len(full)} of {len(tpcds.QUERIES)} queries had rows\n")
    assert len(full) > 70

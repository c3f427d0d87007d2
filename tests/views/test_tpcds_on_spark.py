"""A dozen of the TPC-DS queries on Delta, others each day: after random edits each table is what its query gives."""

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from random import Random
from typing import Any

import pytest

from lakehouse import Table
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors import ViewError
from lakehouse.views.analysis import Analysis, TableFacts
from lakehouse.views.view_text import ViewText
from lakehouse.writes.view import View
from tests.support.lake import Lake
from tests.support.views import Kept
from tests.views import tpcds

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SEED = int(os.environ.get("LAKEHOUSE_SEED", datetime.now(UTC).toordinal()))
QUERIES, ROUNDS = 12, 2
MAPPED = Table(properties={"delta.columnMapping.mode": "name"})
"""Some columns have names such as `substr(w_warehouse_name, 1, 20)`."""


def is_a_view(number: str) -> bool:
    """Whether the query, as written, is accepted, and its result has a key."""
    try:
        return View(tpcds.QUERIES[number]).check(tpcds.SCHEMAS).key is not None
    except ViewError:
        return False


@cache
def chosen() -> list[str]:
    """The queries for this seed."""
    return Random(SEED).sample([number for number in tpcds.QUERIES if is_a_view(number)], QUERIES)


@pytest.mark.parametrize("place", range(QUERIES))
def test_the_table_is_what_the_query_says(lake: Lake, place: int) -> None:
    number = chosen()[place]
    random, view = Random(f"{SEED} {number}"), Kept(f"query_{number}", tpcds.QUERIES[number])
    schemas = {table: tpcds.SCHEMAS[table] for table in view.tables}
    new_row = tpcds.NewRowOfStores(schemas, random, view.sql)
    for table, columns in schemas.items():
        rows = [new_row(table) for _ in range(50 if table.endswith(tpcds.FACTS) else 6)]
        lake.create(table, of_days(columns, rows), ", ".join(f"{name} {kind}" for name, kind in columns.items()))
    for turn in range(ROUNDS + 1):
        for table, columns in schemas.items() if turn else ():
            edit(lake, table, of_days(columns, [new_row(table) for _ in range(3)]), random)
        with in_force(Limits(whole_rows=0)):
            lake.materialize(view.asset, MAPPED)
        assert rounded(lake.rows(view.name)) == rounded(recomputed(lake, view)), f"query {number} of seed {SEED}"


def of_days(columns: Mapping[str, str], rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows, each day once: a query compares with the single row of a day."""
    if "d_date" not in columns:
        return rows
    place = list(columns).index("d_date")
    return list({row[place]: row for row in rows}.values())


def edit(lake: Lake, table: str, came: list[tuple[Any, ...]], random: Random) -> None:
    """One commit that removes about a tenth of the rows, and one that adds others."""
    columns = ", ".join(tpcds.SCHEMAS[table])
    lake.sql(f"DELETE FROM {{{table}}} WHERE pmod(xxhash64({columns}), 10) = {random.randrange(10)}")
    if "d_date" in tpcds.SCHEMAS[table]:
        days = ", ".join(f"DATE'{row[list(tpcds.SCHEMAS[table]).index('d_date')]}'" for row in came)
        lake.sql(f"DELETE FROM {{{table}}} WHERE d_date IN ({days})")
    lake.insert(table, came)


def recomputed(lake: Lake, view: Kept) -> list[tuple[Any, ...]]:
    """The result of the query over the tables' present rows, with the order that settles its ties."""
    settled = Analysis.of(ViewText(view.sql), tpcds.SCHEMAS, TableFacts(view.tables)).settled_text
    for table in view.tables:
        lake.frame(table).createOrReplaceTempView(table)
    rows: list[tuple[Any, ...]] = [tuple(row) for row in lake.sql(settled)]
    for table in view.tables:
        lake.spark.catalog.dropTempView(table)
    return rows


def rounded(rows: list[tuple[Any, ...]]) -> list[str]:
    """The rows sorted, with floating-point values to nine digits: averages depend on the order of their values."""
    return sorted(repr(tuple(float(f"{v:.9g}") if isinstance(v, float) else v for v in row)) for row in rows)

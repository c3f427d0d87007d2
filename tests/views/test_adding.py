"""Which views are counts and sums over the rows of one table, to which changes can be added, and why others are not."""

import pytest

from lakehouse.views.adding import Added, as_sums
from lakehouse.views.query import read
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


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT id FROM o", "no GROUP BY"),
        ("SELECT st, count(*) AS n FROM o GROUP BY st HAVING count(*) > 1", "or has HAVING"),
        ("SELECT st, count(*) AS n, sum(amt) AS s FROM o GROUP BY st", "the sum s may be NULL"),
        ("SELECT st, count(amt) AS n FROM o GROUP BY st", "no column is count(*)"),
        ("SELECT st, count(*) AS n, max(amt) AS m FROM o GROUP BY st", "m is neither a count nor a sum"),
        ("SELECT st, count(*) AS n, count(DISTINCT amt) AS m FROM o GROUP BY st", "m is neither a count nor a sum"),
        ("SELECT st, count(*) AS n, count(amt, day) AS m FROM o GROUP BY st", "m counts several values"),
        ("SELECT st, count(*) AS n, coalesce(sum(amt / 2), 0) AS m FROM o GROUP BY st", "sum m are not known to be"),
        ("SELECT st, count(*) + 1 AS n FROM o GROUP BY st", "n is computed of aggregates"),
        ("SELECT c.seg, count(*) AS n FROM o JOIN c ON o.cust = c.id GROUP BY c.seg", "not those of one table"),
        ("SELECT count(*) AS n FROM o GROUP BY st", "lacks a column of GROUP BY"),
    ],
)
def test_what_cannot_be_added_to_is_said(text: str, why: str) -> None:
    said = as_sums(read(text, queries.TABLES))

    assert isinstance(said, str) and why in said

"""The page docs/reference/coverage.md: how clauses, functions and TPC-DS are computed (`make coverage` writes it)."""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakehouse.errors.views import ViewError
from lakehouse.views.analysis import ByKeys, Whole
from lakehouse.views.functions import (
    AGGREGATES,
    FORMS,
    GENERATORS,
    OF_THE_RUN,
    ROW_FUNCTIONS,
    WINDOW_FUNCTIONS,
)
from lakehouse.views.printing import REWRITTEN_FUNCTIONS
from lakehouse.views.steps.one_row import OneRow
from lakehouse.writes.view import View
from tests.views import tpcds

PAGE = Path(__file__).parents[2] / "docs/reference/coverage.md"
BY_KEYS, PARTLY, WHOLE, REFUSED = "by keys", "by keys, but", "whole", "refused"
TOP, TOP_PARTLY = "by keys below its `LIMIT`", "by keys below its `LIMIT`, but"
ONE_ROW = "by keys below its one row"
KINDS = (BY_KEYS, PARTLY, TOP, TOP_PARTLY, ONE_ROW, WHOLE, REFUSED)

_HEAD = """# Coverage

How queries are computed: the rows of the keys that changes touch ([by keys](queries.md)); all rows if a table moved (whole);
or not at all (refused). `make coverage` writes this page from the code, and `make check` fails if another page stands here.

## Clauses

Over `orders (id, customer, at, status, amount, tags, info)` and `customers (id, city, segment)`, with the key `id`.

| Clause | Example | Computed |
|---|---|---|"""
SCHEMAS = {
    "orders": {
        **dict.fromkeys(("id", "customer", "amount"), "int"),
        **dict.fromkeys(("status", "tags"), "string"),
        "at": "timestamp",
        "info": "struct<shop:string>",
    },
    "customers": {"id": "int", "city": "string", "segment": "string"},
}
KEYS = {"orders": ("id",), "customers": ("id",)}
_JOINED = "FROM orders o {} JOIN customers c ON o.customer = c.id"
CLAUSES = {
    "DISTINCT": "SELECT DISTINCT customer, status FROM orders",
    "joins": f"SELECT o.id, c.city {_JOINED.format('LEFT')}",
    "a join without equality": "SELECT o.id, c.id AS other FROM orders o JOIN customers c ON o.amount < c.id",
    "semi and anti joins": "SELECT id FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)",
    "NOT IN": "SELECT id FROM orders WHERE customer NOT IN (SELECT id FROM customers)",
    "GROUP BY, HAVING": f"SELECT c.city, sum(o.amount) AS s {_JOINED.format('')} GROUP BY c.city HAVING count(*) > 1",
    "GROUP BY ALL": "SELECT status, count(*) AS n FROM orders GROUP BY ALL",
    "a group by a count": "SELECT n, count(*) AS m FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) GROUP BY n",
    "an aggregate of all rows": "SELECT count(DISTINCT customer) AS n, sum(amount) AS s, min(at) AS first, max(at) AS last FROM orders",
    "ROLLUP, CUBE": "SELECT city, segment, count(*) AS n FROM customers GROUP BY ROLLUP (city, segment)",
    "GROUPING SETS": "SELECT city, segment, count(*) AS n FROM customers GROUP BY GROUPING SETS ((city), (city, segment))",
    "windows, QUALIFY": "SELECT id FROM orders QUALIFY row_number() OVER (PARTITION BY customer ORDER BY at, id) = 1",
    "WINDOW": "SELECT id, rank() OVER w AS r FROM orders WINDOW w AS (PARTITION BY customer ORDER BY amount)",
    "a window over all rows": "SELECT id, rank() OVER (ORDER BY amount, id) AS r FROM orders",
    "UNION, EXCEPT, INTERSECT": "SELECT id FROM customers EXCEPT SELECT customer FROM orders",
    "a subquery of the row": "SELECT id, (SELECT count(*) FROM orders o WHERE o.customer = c.id) AS n FROM customers c",
    "a value of all rows": "SELECT id FROM orders WHERE amount > (SELECT avg(amount) FROM orders)",
    "WITH": "WITH paid AS (SELECT * FROM orders WHERE status = 'paid') SELECT id FROM paid",
    "WITH RECURSIVE": "WITH RECURSIVE r AS (SELECT id FROM orders UNION ALL SELECT id + 1 FROM r WHERE id < 3) SELECT id FROM r",
    "LATERAL VIEW, explode": "SELECT id, tag FROM orders LATERAL VIEW explode(split(tags, ',')) t AS tag",
    "LATERAL explode": "SELECT id, tag FROM orders, LATERAL explode(split(tags, ',')) AS t(tag)",
    "LATERAL": "SELECT c.id, n FROM customers c, LATERAL (SELECT count(*) AS n FROM orders o WHERE o.customer = c.id)",
    "VALUES": "SELECT v.s, count(o.id) AS n FROM VALUES ('open'), ('paid') AS v(s) LEFT JOIN orders o ON o.status = v.s GROUP BY v.s",
    "SELECT without FROM": "SELECT d.n, o.id FROM (SELECT explode(sequence(1, 9)) AS n) d JOIN orders o ON o.amount = d.n",
    "fields, elements": "SELECT info.shop, split(tags, ',')[0] AS tag, count(*) AS n FROM orders GROUP BY info.shop, split(tags, ',')[0]",
    "PIVOT": "SELECT * FROM (SELECT customer, status, amount FROM orders) PIVOT (sum(amount) FOR status IN ('open', 'paid'))",
    "UNPIVOT": "SELECT id, what, value FROM customers UNPIVOT (value FOR what IN (city, segment))",
    "window(at, ...)": "SELECT window.start AS hour, count(*) AS n FROM orders GROUP BY window(at, '1 hour')",
    "overlapping window(...)": "SELECT window.start AS hour, count(*) AS n FROM orders GROUP BY window(at, '2 hours', '1 hour')",
    "session_window(at, ...)": "SELECT customer, session_window.start AS began, count(*) AS n FROM orders GROUP BY customer, session_window(at, '1 hour')",
    "pipes": "FROM orders |> WHERE amount > 3 |> SELECT id",
    "a function in FROM": "SELECT r.id, o.id AS other FROM range(4) r JOIN orders o ON o.amount = r.id",
    "ORDER BY": "SELECT id FROM orders ORDER BY amount",
    "ORDER BY ... LIMIT": "SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 10",
    "a LIMIT by other columns": "SELECT id FROM orders ORDER BY amount DESC, id LIMIT 10",
    "a LIMIT with ties": "SELECT id, amount FROM orders ORDER BY amount DESC LIMIT 10",
    "TABLESAMPLE": "SELECT id FROM orders TABLESAMPLE (10 PERCENT)",
}
"""An example of each clause."""


def outcome(
    text: str, schemas: Mapping[str, Mapping[str, str]], keys: Mapping[str, tuple[str, ...]]
) -> tuple[str, str]:
    """How a query is computed, and why."""
    try:
        verdict = View(text).check(schemas, keys).verdict
    except ViewError as error:
        what = error.what if error.what[1].isupper() else error.what[:1].lower() + error.what[1:]
        return REFUSED, f"{what}. {error.remedy}"
    why = re.sub(r" \(line \d+, column \d+.*\)$", "", verdict.more or "", flags=re.DOTALL)
    match verdict:
        case ByKeys(above=None):
            return PARTLY if why else BY_KEYS, why
        case ByKeys(above=OneRow()):
            return ONE_ROW, why
        case ByKeys():
            return TOP_PARTLY if why else TOP, why
        case Whole():
            return WHOLE, why


def _of_clauses() -> Iterator[str]:
    for clause, text in CLAUSES.items():
        kind, why = outcome(text, SCHEMAS, KEYS)
        row = f"`{text}`; {kind}{' ' if kind == PARTLY else ': ' if why else ''}{why}".replace("|", "\\|")
        yield f"| {clause} | {row.replace('`; ', '` | ')} |"


def _of_functions() -> Iterator[str]:
    """The section of functions: how many of each class there are, and the names of those that are not followed."""
    of_row = ROW_FUNCTIONS | FORMS
    yield "\n## Functions\n\n| Functions | Computed |\n|---|---|"
    yield f"| {len(of_row)} functions of a row, {len(GENERATORS)} that make rows | by keys, also as keys |"
    yield f"| of these {_listed(of_row & REWRITTEN_FUNCTIONS)} | by keys, but not as keys |"
    yield f"| {len(AGGREGATES)} aggregates, {len(WINDOW_FUNCTIONS)} functions of windows | by keys |"
    yield "| any other, such as your own | whole |"
    yield f"| {_listed(OF_THE_RUN)} | refused |"


def _listed(names: frozenset[str]) -> str:
    return ", ".join(f"`{name}`" for name in sorted(names))


_CLASSES = {
    r"a change of .*": "changes of some tables need all rows",
    r"all of .* is read (to find the keys|for the rows of the keys), .*": r"all of some tables is read \1",
    r"its result is one row of all rows, and .*": "its result is one row of all rows",
    r".* decides which keys change, .*": "a value of many rows decides the keys",
    r"rows that are equal in the ORDER BY .*: (.*)\.": r"add to its `ORDER BY` \1",
    r"two columns of the result are called (.*?)\. .*": r"two columns are called \1",
}
"""Reasons that are worded differently for each query, and one wording for all of them."""


def _class_of(why: str) -> str:
    """A reason, in the wording for all reasons of its kind."""
    for reason, words in _CLASSES.items():
        why = re.sub(f"^{reason}$", words, why)
    return why


def _of_tpcds() -> Iterator[str]:
    """The section of TPC-DS: one row for all queries of one outcome."""
    every = {number: outcome(text, tpcds.SCHEMAS, tpcds.KEYS) for number, text in tpcds.QUERIES.items()}
    outcomes = {number: (kind, _class_of(why)) for number, (kind, why) in every.items()}
    kinds = [kind for kind, _ in outcomes.values()]
    yield "\n## TPC-DS\n"
    yield "The 99 queries as they are written, four of them in two variants ([tests/views/tpcds.sql](../../tests/views/tpcds.sql)):"
    yield f"{kinds.count(BY_KEYS)} by keys, {kinds.count(TOP) + kinds.count(TOP_PARTLY)} by keys below their `LIMIT`,"
    yield f"{kinds.count(ONE_ROW)} by keys below their one row, {kinds.count(WHOLE)} whole, {kinds.count(REFUSED)} refused."
    yield "A table has no two columns of one name: keys follow these four under a head that names all columns.\n"
    yield "| Queries | Computed |\n|---|---|"
    for kind, why in sorted(set(outcomes.values()), key=lambda each: (KINDS.index(each[0]), each[1])):
        numbers = ", ".join(number for number, of in outcomes.items() if of == (kind, why))
        yield f"| {numbers} | {kind}{': ' if why else ''}{why} |"


def page() -> str:
    """The page as the code makes it."""
    return "\n".join([_HEAD, *_of_clauses(), *_of_functions(), *_of_tpcds()]) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit(f"{PAGE.name} is not what the code does: make coverage writes it.")

"""No query of TPC-H is refused; how many paths of changes are of which kind, and which queries need all rows."""

from collections import Counter
from collections.abc import Iterator
from enum import Enum

import pytest

from lakehouse import Policy, View
from lakehouse.errors.views import ViewError
from lakehouse.views.analysis import Analysis, TableFacts
from lakehouse.views.explained import ChangePath, follow
from lakehouse.views.query import names_in
from lakehouse.views.view_text import ViewText
from tests.support.for_each import for_each
from tests.support.warehouse import KEYS
from tests.views import tpch


class Kind(Enum):
    """How the changes of a table reach the keys."""

    THEMSELVES = "they have the keys"
    BY_KEYS = "over rows of other tables, by keys"
    WHOLE = "over all rows of a table"
    ALL_ROWS = "a value of many rows decides the keys"
    ONE_ROW = "the result is one row"


PATHS = {
    1: Counter({Kind.THEMSELVES: 1}),
    2: Counter({Kind.THEMSELVES: 2, Kind.BY_KEYS: 3}),
    3: Counter({Kind.THEMSELVES: 2, Kind.BY_KEYS: 1}),
    4: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 1}),
    5: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 5}),
    6: Counter({Kind.THEMSELVES: 1}),
    7: Counter({Kind.BY_KEYS: 5}),
    8: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 6}),
    9: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 5}),
    10: Counter({Kind.THEMSELVES: 2, Kind.BY_KEYS: 2}),
    11: Counter({Kind.ALL_ROWS: 3}),
    12: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 1}),
    13: Counter({Kind.ALL_ROWS: 2}),
    14: Counter({Kind.ONE_ROW: 2}),
    15: Counter({Kind.THEMSELVES: 1, Kind.ALL_ROWS: 1}),
    16: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 1, Kind.WHOLE: 1}),
    17: Counter({Kind.ONE_ROW: 2}),
    18: Counter({Kind.THEMSELVES: 2, Kind.BY_KEYS: 1}),
    19: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 1}),
    20: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 4}),
    21: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 3}),
    22: Counter({Kind.BY_KEYS: 1, Kind.ALL_ROWS: 1}),
}
DECIDES = "decides which keys change, and is computed from many rows"
ONE_ROW, NO_TOTAL = (
    "its result is one row of all rows",
    "is not a plain count, sum of exact numbers, minimum or maximum",
)
OF_ALL_ROWS = {
    14: f"{ONE_ROW}, and promo_revenue {NO_TOTAL}",
    17: f"{ONE_ROW}, and avg_yearly {NO_TOTAL}",
    11: f"SUM(ps_supplycost * ps_availqty) {DECIDES} (line 7, column 10: sum)",
    13: f"c_count {DECIDES} (line 4, column 21: count)",
    15: f"a change of lineitem needs all rows, because MAX(SUM(l_extendedprice * (1 - l_discount))) {DECIDES}",
    16: "all of part is read to find the keys, because no equality links it to supplier",
    22: f"a change of customer needs all rows, because AVG(c_acctbal) {DECIDES}",
}
"""Why `refresh="strict"` refuses a query."""


def kinds_of(number: int) -> Iterator[Kind]:
    text = tpch.QUERIES[number]
    analysis = Analysis.of(
        ViewText(text), tpch.SCHEMAS, TableFacts(names_in(text), keys=KEYS, key=tpch.DECLARED.get(number))
    )
    verdict = analysis.verdict
    if verdict.touch is None:
        assert DECIDES in str(verdict)
        yield from (Kind.ALL_ROWS for _ in names_in(text))
        return
    of = follow((analysis.below or analysis).query, verdict.touch, names_in(text))
    yield from (kind_of(path, is_one_row=not of.touch) for path in of.paths)


def kind_of(path: ChangePath, *, is_one_row: bool) -> Kind:
    assert path.reaches, path
    if path.why_all_rows is not None:
        return Kind.ALL_ROWS
    if is_one_row:
        return Kind.ONE_ROW
    if not path.reads:
        return Kind.THEMSELVES
    return Kind.WHOLE if any(read.by is None for read in path.reads) else Kind.BY_KEYS


@for_each("number", tpch.QUERIES)
def test_the_changes_of_each_table_reach_the_keys_of_a_query(number: int):
    assert Counter(kinds_of(number)) == PATHS[number]


@for_each("number", tpch.QUERIES)
def test_strict_refuses_a_query_that_needs_all_rows_and_says_why(number: int):
    view, strict = View(tpch.QUERIES[number]), Policy(refresh="strict")
    if number not in OF_ALL_ROWS:
        assert view.check(tpch.SCHEMAS, KEYS, strict).why_whole is None
        return
    assert view.check(tpch.SCHEMAS, KEYS).why_whole == OF_ALL_ROWS[number]
    with pytest.raises(ViewError) as refused:
        view.check(tpch.SCHEMAS, KEYS, strict)
    assert refused.value.code == "VIEW_NOT_INCREMENTAL"
    assert f"Keys alone are not enough, because {OF_ALL_ROWS[number]}" in str(refused.value)

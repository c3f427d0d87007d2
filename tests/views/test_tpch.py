"""Of the queries of TPC-H none is refused; how many paths of changes are of which kind, and which queries need all rows."""

from collections import Counter
from enum import Enum

import pytest

from lakehouse import Policy, View
from lakehouse.errors.views import ViewError
from lakehouse.views.analysis import Analysis, TableFacts
from lakehouse.views.explained import ChangePath, Following, follow
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
    ONE_ROW = "the result is one row"


PATHS = {
    1: Counter({Kind.THEMSELVES: 1}),
    2: Counter({Kind.THEMSELVES: 2, Kind.BY_KEYS: 3}),
    3: Counter({Kind.THEMSELVES: 2, Kind.BY_KEYS: 1}),
    4: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 1}),
    5: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 5}),
    6: Counter({Kind.ONE_ROW: 1}),
    7: Counter({Kind.BY_KEYS: 5}),
    8: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 6}),
    9: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 5}),
    10: Counter({Kind.THEMSELVES: 2, Kind.BY_KEYS: 2}),
    11: Counter({Kind.WHOLE: 3}),
    12: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 1}),
    13: Counter({Kind.BY_KEYS: 2}),
    14: Counter({Kind.ONE_ROW: 2}),
    15: Counter({Kind.THEMSELVES: 1, Kind.WHOLE: 1}),
    16: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 1, Kind.WHOLE: 1}),
    17: Counter({Kind.ONE_ROW: 2}),
    18: Counter({Kind.THEMSELVES: 2, Kind.BY_KEYS: 1}),
    19: Counter({Kind.ONE_ROW: 2}),
    20: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 4}),
    21: Counter({Kind.THEMSELVES: 1, Kind.BY_KEYS: 3}),
    22: Counter({Kind.BY_KEYS: 1, Kind.WHOLE: 1}),
}
OF_ALL_ROWS = {
    **dict.fromkeys((6, 14, 17, 19), "its result is one row of all rows"),
    11: "all of partsupp, supplier, nation is read to find the keys, because one value is computed from it",
    13: "all of customer, orders is read for the rows of the keys, because c_count is computed from many rows",
    15: "all of lineitem is read to find the keys, because one value is computed from it",
    16: "all of part is read to find the keys, because no equality links it to supplier",
    22: "all of customer is read to find the keys, because one value is computed from it",
}
"""Why `refresh="strict"` refuses a query."""


def following(number: int) -> Following:
    text = tpch.QUERIES[number]
    analysis = Analysis.of(ViewText(text), tpch.SCHEMAS, TableFacts(names_in(text), keys=KEYS))
    touch = analysis.verdict(tpch.DECLARED.get(number) or analysis.key or ()).touch
    assert touch is not None
    return follow(analysis.query, touch.columns, names_in(text))


def kind_of(path: ChangePath, *, is_one_row: bool) -> Kind:
    assert path.reaches, path
    if is_one_row:
        return Kind.ONE_ROW
    if not path.reads:
        return Kind.THEMSELVES
    return Kind.WHOLE if any(read.by is None for read in path.reads) else Kind.BY_KEYS


@for_each("number", tpch.QUERIES)
def test_the_changes_of_each_table_reach_the_keys_of_a_query(number: int):
    of = following(number)
    assert Counter(kind_of(path, is_one_row=not of.touch) for path in of.paths) == PATHS[number]


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

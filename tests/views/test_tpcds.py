"""The queries of TPC-DS as they are written: what keys followed once stays followed. The page of coverage has the reasons."""

from lakehouse.views.analysis import ByKeys
from lakehouse.writes.view import View
from tests.views import coverage, tpcds

FOLLOWED = ["2", "31", "34", "71", "73", "91", "98"]


def test_a_query_that_keys_followed_stays_followed() -> None:
    checked = {number: View(tpcds.QUERIES[number]).check(tpcds.SCHEMAS, tpcds.KEYS) for number in FOLLOWED}
    assert [number for number, each in checked.items() if not isinstance(each.verdict, ByKeys)] == []


def test_keys_follow_what_is_below_the_last_limit_of_as_many_queries_as_before() -> None:
    limited = [text for text in tpcds.QUERIES.values() if text.endswith("LIMIT 100")]
    outcomes = [coverage.outcome(text, tpcds.SCHEMAS, tpcds.KEYS)[0] for text in limited]
    assert sum(kind in {coverage.TOP, coverage.TOP_PARTLY} for kind in outcomes) >= 55


def test_all_queries_are_here() -> None:
    assert {number.rstrip("ab") for number in tpcds.QUERIES} == set(map(str, range(1, 100)))
    assert len(tpcds.SCHEMAS) == 24

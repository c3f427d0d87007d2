"""The queries of TPC-DS as they are written: what keys followed once stays followed. The page of coverage has the reasons."""

from lakehouse.views.analysis import ByKeys
from lakehouse.writes.view import View
from tests.views import tpcds

FOLLOWED = ["2", "31", "34", "71", "73", "91", "98"]


def test_a_query_that_keys_followed_stays_followed() -> None:
    checked = {number: View(tpcds.QUERIES[number]).check(tpcds.SCHEMAS, tpcds.KEYS) for number in FOLLOWED}
    assert [number for number, each in checked.items() if not isinstance(each.verdict, ByKeys)] == []


def test_all_queries_are_here() -> None:
    assert {number.rstrip("ab") for number in tpcds.QUERIES} == set(map(str, range(1, 100)))
    assert len(tpcds.SCHEMAS) == 24

"""For which tables the tag of a run asks that everything is compared."""

from lakehouse import Table
from lakehouse.dagster.run_tags import request_by
from lakehouse.delta.table import Read
from lakehouse.errors import FULL_REFRESH
from lakehouse.read.asset import Asset, PastRows
from lakehouse.spark.table_version import TableRef
from tests.support.for_each import for_each

FLIGHTS = Asset(
    "silver/flights",
    Table(key="id"),
    TableRef.at_path("silver/flights", "/nowhere"),
    past=PastRows.COMPUTED,
    read_options={"src": Read()},
)


@for_each("wanted", ["true", "TRUE", "silver/flights, gold/x", "gold/x,silver/flights", "silver/flights"])
def test_a_full_refresh_is_asked_for_by_a_word_or_by_name(wanted: str) -> None:
    assert request_by({FULL_REFRESH: wanted}, FLIGHTS).compare == "a full refresh was asked for"


@for_each("wanted", ["gold/x", "", "false", "flights", "silver/flights_archive"])
def test_a_full_refresh_of_others_is_none_of_this_table(wanted: str) -> None:
    assert request_by({FULL_REFRESH: wanted}, FLIGHTS).compare is None
    assert request_by({}, FLIGHTS).compare is None

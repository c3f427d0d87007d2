"""Of which tables a run's tag says that everything is to be compared."""

import pytest

from lakehouse.dagster.run_tags import compare_by
from lakehouse.errors import FULL_REFRESH


@pytest.mark.parametrize(
    "wanted", ["true", "TRUE", "silver/flights, gold/x", "gold/x,silver/flights", "silver/flights"]
)
def test_a_full_refresh_is_asked_for_by_a_word_or_by_name(wanted: str) -> None:
    assert compare_by({FULL_REFRESH: wanted}, "silver/flights") == "a full refresh was asked for"


@pytest.mark.parametrize("wanted", ["gold/x", "", "false", "flights", "silver/flights_archive"])
def test_a_full_refresh_of_others_is_none_of_this_table(wanted: str) -> None:
    assert compare_by({FULL_REFRESH: wanted}, "silver/flights") is None
    assert compare_by({}, "silver/flights") is None

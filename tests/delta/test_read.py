"""How one input is read; Dagster's metadata carries it unchanged."""

from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.table import Read
from tests.support.for_each import for_each

zones = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
limits = st.none() | st.integers(1, 10**12)
rules = st.sampled_from(["DELETE", "STREAMING UPDATE", "backfill", "{"])
reads = st.builds(
    Read,
    start=st.just("snapshot") | st.integers(0, 10**9) | st.datetimes(timezones=zones) | st.datetimes(),
    clamp=st.booleans(),
    max_versions=limits,
    max_bytes=limits,
    exclude_operations=st.lists(rules, max_size=3).map(tuple),
    exclude_metadata=st.lists(rules, max_size=3).map(tuple),
    archive=st.none() | st.sampled_from(["bronze/events_archive"]),
)


@given(reads)
def test_metadata_carries_every_option(read: Read):
    assert Read.from_metadata(dict(read)) == read


def test_metadata_holds_only_what_was_asked_for():
    assert dict(Read()) == {}
    assert dict(Read(exclude_operations=("DELETE",), max_versions=3)) == {
        "lakehouse/read/max_versions": 3,
        "lakehouse/read/exclude_operations": ["DELETE"],
    }


def test_a_time_without_a_zone_means_the_same_on_every_machine():
    at = datetime(2013, 1, 1, tzinfo=UTC)
    assert Read(start="2013-01-01").start == Read(start=datetime(2013, 1, 1)).start == at  # noqa: DTZ001
    assert Read(start="2013-01-01T00:00:00-05:00").start == at + timedelta(hours=5)


def test_one_rule_may_be_given_as_itself():
    assert Read(exclude_operations="DELETE").exclude_operations == ("DELETE",)


@for_each(
    "options, why",
    [
        ({"start": -1}, "from 0"),
        ({"start": "yesterday"}, "ISO timestamp"),
        ({"start": ""}, "ISO timestamp"),
        ({"start": 1.5}, "version or a timestamp"),
        ({"start": True}, "version or a timestamp"),
        ({"start": None}, "version or a timestamp"),
        ({"start": date(2013, 1, 1)}, "version or a timestamp"),
        ({"max_versions": 0}, "at least 1"),
        ({"max_bytes": -5}, "at least 1"),
        ({"exclude_operations": ""}, "in every commit"),
        ({"exclude_operations": ("DELETE", "")}, "in every commit"),
        ({"exclude_metadata": " "}, "in every commit"),
    ],
)
def test_an_option_that_means_nothing_cannot_be_given(options: dict[str, Any], why: str):
    with pytest.raises(ValueError, match=why):
        Read(**options)

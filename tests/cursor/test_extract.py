"""The version of an extract: how the mark records it, and which of two is older."""

import datetime as dt
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.cursor.extract_version import ExtractVersion
from tests.support.for_each import for_each

numbers = st.integers(-(2**63), 2**63 - 1)
zones = st.none() | st.integers(-23, 23).map(lambda hours: dt.timezone(dt.timedelta(hours=hours)))
moments = st.datetimes(dt.datetime(2, 1, 1), dt.datetime(9998, 1, 1), timezones=zones)  # noqa: DTZ001  (of any zone)
KINDS = {"int": numbers, "date": st.dates(), "datetime": moments}
versions = st.one_of(*KINDS.values())


@given(versions)
def test_a_version_comes_back_from_its_text_and_is_named_by_a_run_tag(version: Any) -> None:
    extract = ExtractVersion.of(version)
    assert ExtractVersion.parse(extract.text) == extract
    assert extract.is_named(f" {version} ") and extract.is_named(str(extract))


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
def test_versions_of_one_kind_have_the_order_of_their_values(kind: str, data: st.DataObject) -> None:
    one, other = (ExtractVersion.of(data.draw(KINDS[kind])) for _ in range(2))
    assert {one.kind, other.kind} == {kind}
    assert one.is_before(other) == bool(one.value < other.value)  # pyright: ignore[reportOperatorIssue]
    assert (one.is_before(other), other.is_before(one)).count(True) == (one != other)


@for_each("text", ["", "int", "int 1.5", "week 3", "date 2026-13-01", "datetime yesterday", "int " + "9" * 30])
def test_a_text_that_names_no_version_is_damaged(text: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        ExtractVersion.parse(text)

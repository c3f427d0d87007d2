"""What run tags decide about extracts and histories, and of which assets."""

from collections.abc import Callable
from typing import Any

import pytest

from lakehouse import Table
from lakehouse.dagster.run_tags import allowed_by, restated_by, version_by
from lakehouse.errors import ALLOW, GO_ON_FROM, RESTATE_FROM, ReadError, WriteError
from lakehouse.read.asset import Asset
from lakehouse.spark.snapshot import TableRef


def asset(**kinds: bool) -> Asset:
    described = {"appends": False, "incremental": False} | kinds
    return Asset("silver/customers", Table(key="id"), TableRef.at_path("silver/customers", "/nowhere"), **described)


KEPT = asset(takes_extracts=True)
PAST = asset(keeps_past=True)


@pytest.mark.parametrize("name", [KEPT, PAST])
def test_an_extract_is_allowed_what_its_tag_names(name: Asset) -> None:
    tags = {ALLOW + name.name: "version, max_deleted", ALLOW + "other": "version"}
    assert allowed_by(tags, name) == {"version", "max_deleted"}
    assert allowed_by({ALLOW + name.name: "max_deleted"}, name) == {"max_deleted"}
    assert allowed_by({}, name) == frozenset()


def test_a_history_is_restated_from_what_its_tag_names() -> None:
    assert restated_by({RESTATE_FROM + PAST.name: "2026-01-31"}, PAST) == "2026-01-31"
    assert restated_by({}, PAST) is None


def test_a_history_goes_on_from_now_only() -> None:
    followed, tag = asset(keeps_past=True, incremental=True), GO_ON_FROM + "silver/customers"
    assert version_by({tag: "now"}, followed) == "now"
    with pytest.raises(ReadError, match="from now only") as refused:
        version_by({tag: "3"}, followed)
    assert RESTATE_FROM in str(refused.value)
    with pytest.raises(ReadError, match="no Append of Changes"):
        version_by({tag: "now"}, PAST)


@pytest.mark.parametrize(
    ("read", "tag", "of", "said"),
    [
        (allowed_by, f"{ALLOW}silver/customers=anything", KEPT, "one or several of: max_deleted, version"),
        (allowed_by, f"{ALLOW}silver/customers=", KEPT, "cannot be allowed"),
        (allowed_by, f"{ALLOW}silver/customers=version", asset(), "takes no extracts"),
        (allowed_by, f"{ALLOW}silver/customers=version", asset(keeps_past=True, incremental=True), "takes no extracts"),
        (restated_by, f"{RESTATE_FROM}silver/customers=2026-01-31", KEPT, "keeps no history"),
    ],
)
def test_a_tag_that_means_nothing_is_refused(read: Callable[..., Any], tag: str, of: Asset, said: str) -> None:
    with pytest.raises(WriteError, match=said) as refused:
        read(dict([tag.split("=")]), of)
    assert "Nothing was written." in str(refused.value)

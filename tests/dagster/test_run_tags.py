"""What run tags decide about extracts and histories, and for which assets."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse import Changes, DeltaIOManager, Merge, Table
from lakehouse.cursor.cursor import Fresh
from lakehouse.dagster.run_tags import (
    CHECKS,
    COMPARE,
    DRIVER,
    GAP,
    SENSOR,
    UNREAD,
    refuse_unknown,
    request_by,
    without_effect,
)
from lakehouse.delta.log import VersionRange
from lakehouse.delta.table import Read
from lakehouse.errors import ALLOW, FULL_REFRESH, GO_ON_FROM, RESTATE_FROM, ReadError, WriteError
from lakehouse.read.asset import Asset, PastRows, UserRequest
from lakehouse.read.content import Nothing, SourceRead
from lakehouse.read.run import Run
from lakehouse.spark.table_version import TableRef, TableVersion
from tests.support.for_each import for_each


def asset(**kinds: Any) -> Asset:
    described: dict[str, Any] = {"past": PastRows.COMPUTED} | kinds
    return Asset("silver/customers", Table(key="id"), TableRef.at_path("silver/customers", "/nowhere"), **described)


KEPT = asset(past=PastRows.DELIVERED)
PAST = asset(past=PastRows.KEPT)


@for_each("name", [KEPT, PAST])
def test_an_extract_is_allowed_what_its_tag_names(name: Asset) -> None:
    tags = {ALLOW + name.name: "version, max_deleted", ALLOW + "other": "version"}
    assert request_by(tags, name).allowed == {"version", "max_deleted"}
    assert request_by({ALLOW + name.name: "max_deleted"}, name).allowed == {"max_deleted"}
    assert request_by({}, name).allowed == frozenset()


def test_a_history_is_restated_from_what_its_tag_names() -> None:
    assert request_by({RESTATE_FROM + PAST.name: "2026-01-31"}, PAST).restate_from == "2026-01-31"
    assert request_by({}, PAST).restate_from is None


def test_a_history_goes_on_from_now_only() -> None:
    followed, tag = asset(past=PastRows.KEPT, read_options={"src": Read()}), GO_ON_FROM + "silver/customers"
    assert request_by({tag: "now"}, followed).go_on_from == "now"
    with pytest.raises(ReadError, match="from now only") as refused:
        request_by({tag: "3"}, followed)
    assert RESTATE_FROM in str(refused.value)
    with pytest.raises(ReadError, match="not an Append of Changes"):
        request_by({tag: "now"}, PAST)


@for_each(
    "tag, of, said",
    [
        (f"{ALLOW}silver/customers=anything", KEPT, "one or several of: max_deleted, version"),
        (f"{ALLOW}silver/customers=", KEPT, "cannot be allowed"),
        (f"{ALLOW}silver/customers=version", asset(), "takes no extracts"),
        (
            f"{ALLOW}silver/customers=version",
            asset(past=PastRows.KEPT, read_options={"src": Read()}),
            "takes no extracts",
        ),
        (f"{RESTATE_FROM}silver/customers=2026-01-31", KEPT, "keeps no history"),
    ],
)
def test_a_tag_that_means_nothing_is_refused(tag: str, of: Asset, said: str) -> None:
    with pytest.raises(WriteError, match=said) as refused:
        request_by(dict([tag.split("=")]), of)
    assert "Nothing was written." in str(refused.value)


ASSETS = ("silver/customers", "gold/totals")
MEANT: list[dict[str, str]] = [
    {},
    {"team": "sales", "dagster/run_key": "x", SENSOR: "s", UNREAD: "a, b", DRIVER: "app-1", CHECKS: "true"},
    {FULL_REFRESH: "TRUE"},
    {FULL_REFRESH: "false"},
    {FULL_REFRESH: "gold/totals, silver/customers"},
    {each + "gold/totals": "now" for each in (ALLOW, GO_ON_FROM, RESTATE_FROM, GAP, COMPARE)},
]


@for_each("tags", MEANT)
def test_a_tag_with_a_meaning_is_taken(tags: dict[str, str]) -> None:
    assert refuse_unknown(tags, ASSETS) == []


@for_each("tag", [(FULL_REFRESH, "gold/totals,other/table"), (ALLOW + "other/table", "version")])
def test_an_asset_of_another_code_location_is_told_and_not_refused(tag: tuple[str, str]) -> None:
    (sentence,) = refuse_unknown(dict([tag]), ASSETS)
    assert "names 'other/table', which is not an asset of this code location. It has no effect here." in sentence


@for_each(
    "tag, value, said",
    [
        (FULL_REFRESH, "yes", "full_refresh=yes says neither true nor the keys of assets."),
        (FULL_REFRESH, "", "says neither true nor the keys of assets."),
        (FULL_REFRESH, "gold/totals, silver/customer", "Did you mean silver/customers?"),
        ("lakehouse/full_refesh", "true", "There is no run tag lakehouse/full_refesh."),
        (GO_ON_FROM + "gold/total", "now", "names 'gold/total', and there is no asset of that key"),
        (
            ALLOW.rstrip("/"),
            "version",
            "There are: lakehouse/full_refresh, lakehouse/checks, lakehouse/go_on_from/<ass",
        ),
    ],
)
def test_a_misspelt_tag_is_refused(tag: str, value: str, said: str) -> None:
    with pytest.raises(ReadError) as refused:
        refuse_unknown({tag: value}, ASSETS)
    assert said in str(refused.value)
    assert "Nothing was written." in str(refused.value)


def test_a_step_of_dagster_refuses_a_misspelt_tag_before_anything_is_read(tmp_path: Path) -> None:
    @dg.asset(metadata=Table(key="id"))
    def copies(orders: Changes) -> Merge: ...

    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=str(tmp_path))
    with pytest.raises(dg.Failure, match=r"There is no run tag lakehouse/full_refesh\. Nothing was written\."):
        dg.materialize(
            [dg.AssetSpec("orders"), copies],
            selection=["copies"],
            resources={"io_manager": manager},
            tags={"lakehouse/full_refesh": "true"},
        )


def test_a_tag_that_was_not_needed_is_told() -> None:
    run = Run(
        asset(past=PastRows.APPENDED, read_options={"src": Read()}), "r", Fresh(), request=UserRequest(go_on_from=3)
    )
    assert without_effect(run) == (
        "The run tag lakehouse/go_on_from/silver/customers=3 had no effect: nothing kept 'silver/customers' from "
        "reading on."
    )
    source = TableVersion(None, TableRef.at_path("orders", "/orders"), "s", 5)  # type: ignore[arg-type]
    changes = SourceRead(source, VersionRange(3, 5), Nothing(), refusal="a gap")
    continued = replace(run, changes=(changes,))
    assert continued.continued_from == "went on from 3: a gap" and without_effect(continued) is None
    assert without_effect(replace(run, request=UserRequest())) is None


@for_each("tag", [FULL_REFRESH, f"{GO_ON_FROM}customers", f"{RESTATE_FROM}customers"])
def test_a_tag_with_the_last_part_of_a_key_is_refused(tag: str) -> None:
    tags = {tag: "customers"}
    with pytest.raises(ReadError, match="Did you mean crm/customers or silver/customers"):
        refuse_unknown(tags, ["silver/customers", "crm/customers", "orders"])
    assert len(refuse_unknown({FULL_REFRESH: "raw/customers"}, ["silver/customers", "crm/customers"])) == 1


@for_each("value", ["yes", "1", "true ", ""])
def test_a_value_of_the_tag_for_checks_is_true_or_false(value: str) -> None:
    with pytest.raises(ReadError, match="neither true nor false"):
        refuse_unknown({CHECKS: value}, [])
    assert refuse_unknown({CHECKS: "True"}, []) == refuse_unknown({CHECKS: "false"}, []) == []

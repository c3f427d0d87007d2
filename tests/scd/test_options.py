"""Options and events without a single meaning: each is refused with the rule, the column and a key."""

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Table, scd
from tests.support.for_each import for_each
from tests.support.lake import Lake
from tests.support.raises import raises_code
from tests.support.slow import slow

EVENTS = "id int, region string, at int, v int, w double, m map<string, int>, __END_AT int"
TRACKING = ("track_history_column_list", "track_history_except_column_list")
REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("EMPTY_KEYS", {"keys": []}, "was given no keys"),
    ("UNKNOWN_COLUMN", {"keys": ["id", "nr"]}, "a column nr in keys"),
    ("UNKNOWN_COLUMN", {"except_column_list": ["nr"]}, "a column nr in except_column_list"),
    ("UNKNOWN_COLUMN", {"track_history_except_column_list": ["nr"]}, "a column nr in track_history_except_column_list"),
    ("UNKNOWN_COLUMN", {"track_history_column_list": ["m.key"]}, "a field within a struct is not a column"),
    ("UNKNOWN_COLUMN", {"ignore_null_updates_column_list": ["id"]}, "a column id in ignore_null_updates_column_list"),
    ("ONE_COLUMN_LIST", {"column_list": ["id"]}, "both column_list and except_column_list"),
    (
        "ONE_COLUMN_LIST",
        {"track_history_column_list": [], "track_history_except_column_list": []},
        "both track_history_column_list and track_history_except_column_list",
    ),
    ("ONE_NULL_OPTION", {"ignore_null_updates": True, "ignore_null_updates_column_list": ["v"]}, "both"),
    ("EMPTY_COLUMN_LIST", {"ignore_null_updates_column_list": []}, "an empty ignore_null_updates_column_list"),
    ("KEY_NOT_SELECTED", {"except_column_list": ["id", "__END_AT"]}, "leaves out the key column id"),
    ("RESERVED_COLUMN", {"except_column_list": []}, "reads a column __END_AT"),
    ("FLOATING_POINT_KEY", {"keys": ["id", "w"]}, "a key column w of double"),
    ("UNORDERED_KEY", {"keys": "m"}, "a key column m of map<string,int>"),
    ("UNORDERED_SEQUENCE", {"sequence_by": "struct(at, m)"}, "whose values have no order"),
    ("NO_CONDITION", {"apply_as_deletes": "v + 1"}, "apply_as_deletes with a value of int"),
    ("UNRESOLVED_EXPRESSION", {"sequence_by": "att"}, "sequence_by that Spark cannot resolve: [UNRESOLVED_COLUMN"),
    ("UNRESOLVED_EXPRESSION", {"apply_as_deletes": "opp = 'D'"}, "apply_as_deletes that Spark cannot resolve"),
    ("UNRESOLVED_EXPRESSION", {"apply_as_deletes": "v = = 1"}, "apply_as_deletes that Spark cannot resolve: [PARSE"),
]


@for_each("rule, options, problem", REFUSED)
def test_options_that_do_not_fit_are_refused_before_any_row_is_read(spark: SparkSession, rule, options, problem):
    events = spark.createDataFrame([], EVENTS)
    given = {"keys": "id", "sequence_by": "at", "except_column_list": ["__END_AT"]} | options
    for function in (scd.type2,) if options.keys() & TRACKING else (scd.type1, scd.type2):
        with raises_code("EVENT_OPTION") as refused:
            function(events, **given)
        assert refused.value.rule == rule
        assert problem in str(refused.value)


def test_expressions_may_be_columns(spark: SparkSession):
    events = spark.createDataFrame([(1, 1, "U"), (1, 2, "D")], "id int, at int, op string")
    past = scd.type2(events, "ID", F.col("at") * 2, apply_as_deletes=F.col("op") == "D", column_list=["id"])
    assert [tuple(row) for row in past.rows.collect()] == [(1, 2, 4)]
    with raises_code("EVENT_OPTION", match="apply_as_truncates"):
        scd.type1(events, "id", "at", apply_as_truncates="at + 1")
    with raises_code("EVENT_OPTION", match="apply_as_truncates that Spark cannot resolve"):
        scd.type1(events, "id", "at", apply_as_truncates="nosuch")


def changed(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(
        scd.type2(touched.rows, ["id", "region"], "struct(at, n)", column_list=["id", "region", "v", "w"]), touched
    )


BAD: list[tuple[str, list[tuple[Any, ...]], dict[str, str | None], str | None, tuple[str, ...]]] = [
    ("NULL_KEY", [(7, None, 5, 0, 1, 1)], {"id": "7", "region": None}, "{5, 0}", ("region",)),
    ("NULL_SEQUENCE", [(7, "x", 5, None, 1, 1)], {"id": "7", "region": "x"}, "{5, null}", ()),
    ("TWO_UPSERTS", [(7, "x", 5, 0, 1, 1), (7, "x", 5, 0, 1, None)], {"id": "7", "region": "x"}, "{5, 0}", ("w",)),
]


@pytest.mark.parametrize(("rule", "events", "key", "sequence", "columns"), BAD, ids=[bad[0] for bad in BAD])
@pytest.mark.parametrize("when", ["at the first read", slow("in a later range")])
def test_an_event_without_one_meaning_is_named_and_nothing_is_written(
    lake: Lake, when: str, rule, events, key, sequence, columns
):
    first = when == "at the first read"
    good = (1, "x", 1, 0, 1, 1)
    lake.create("src", [good, *events] if first else [good], "id int, region string, at int, n int, v int, w int")
    declared = Table(key=("id", "region", "__START_AT"))
    if not first:
        lake.materialize(changed, declared)
        lake.insert("src", events)
    with raises_code("BAD_EVENT") as refused:
        lake.materialize(changed, declared)
    bad = refused.value
    assert (bad.rule, bad.key, bad.sequence, bad.columns) == (rule, key, sequence, columns)
    assert lake.exists("changed") is not first
    assert first or len(lake.commits("changed")) == 1


def cut(src: Changes) -> Merge:
    touched = src.touched("id", also="op = 'T'")
    return Merge(scd.type1(touched.rows, "id", "at", apply_as_truncates="op = 'T'"), touched)


def test_a_truncate_without_a_sequence_is_refused(lake: Lake):
    lake.create("src", [(1, 1, "U"), (None, None, "T")], "id int, at int, op string")
    with raises_code("BAD_EVENT") as refused:
        lake.materialize(cut, Table(key="id"))
    assert refused.value.rule == "NULL_SEQUENCE"

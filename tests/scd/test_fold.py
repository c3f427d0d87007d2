"""Thousands of random histories as the keys of one frame: each must be what a fold in plain Python makes of it.

LAKEHOUSE_SCD_HISTORIES sets how many (400).
"""

import os
from random import Random
from typing import Any

from pyspark.sql import SparkSession

from lakehouse import scd
from tests.support.events import COLUMNS, frame, past, present, random_events, shown
from tests.support.for_each import for_each

HISTORIES = int(os.environ.get("LAKEHOUSE_SCD_HISTORIES", "400"))
KEPT: dict[str, Any] = {
    "keys": "id",
    "sequence_by": "struct(at, n)",
    "apply_as_deletes": "op = 'D'",
    "except_column_list": ["at", "n", "op"],
}
OPTIONS = [
    ({}, {}),
    ({"track_history_column_list": ["a"]}, {"tracked": ["a"]}),
    ({"track_history_except_column_list": ["s"]}, {"tracked": ["a", "b"]}),
    ({"track_history_column_list": []}, {"tracked": []}),
    ({"ignore_null_updates": True}, {"ignored": COLUMNS[1:]}),
    (
        {"ignore_null_updates_except_column_list": ["b"], "track_history_except_column_list": ["a"]},
        {"ignored": ["a", "s"], "tracked": ["b", "s"]},
    ),
]


WITHOUT_HISTORY = [pair for pair in OPTIONS if not any("track" in option for option in pair[0])]


@for_each("options, folded", OPTIONS)
def test_type_2_of_random_events_is_what_a_fold_makes_of_them(spark: SparkSession, options, folded):
    events = random_events(Random(f"type 2 {options}"), range(HISTORIES))
    assert shown(scd.type2(frame(spark, events), **KEPT, **options).rows) == past(events, **folded)


@for_each("options, folded", WITHOUT_HISTORY)
def test_type_1_of_random_events_is_what_a_fold_makes_of_them(spark: SparkSession, options, folded):
    events = random_events(Random(f"type 1 {options}"), range(HISTORIES))
    assert shown(scd.type1(frame(spark, events), **KEPT, **options).rows) == present(events, **folded)


def test_the_current_rows_of_type_2_are_those_of_type_1(spark: SparkSession):
    events = frame(spark, random_events(Random("both"), range(HISTORIES)))
    open_rows = scd.type2(events, **KEPT).rows.where("__END_AT IS NULL").drop("__START_AT", "__END_AT")
    assert shown(open_rows) == shown(scd.type1(events, **KEPT).rows)


@for_each("seed", range(4))
def test_a_truncate_leaves_what_a_fold_leaves_of_random_events(spark: SparkSession, seed: int):
    events = random_events(Random(seed), range(50), truncates=seed)
    truncated = scd.type1(frame(spark, events), **KEPT, apply_as_truncates="op = 'T'")
    assert shown(truncated.rows) == present(events)

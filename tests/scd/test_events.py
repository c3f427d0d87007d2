"""Neither scd's events nor touched keys are a DataFrame: its methods are refused, and the error names the rows."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse import Append, Merge, Overwrite, Snapshot, Touched, scd
from lakehouse.read.touched_keys import EveryKey
from tests.support.for_each import for_each

NO_ROWS: Any = None
METHODS = ("select", "where", "filter", "drop", "join", "groupBy", "withColumnRenamed", "schema", "collect")


def every_key() -> Touched:
    return Touched(("id",), EveryKey(), NO_ROWS, ())


@for_each("method", METHODS)
def test_events_have_no_method_of_a_dataframe_and_say_where_one_is(method: str):
    with pytest.raises(AttributeError, match=rf"Events are not a DataFrame.*events\.rows\.{method}$"):
        getattr(scd.Events(NO_ROWS), method)


@for_each("method", METHODS)
def test_touched_keys_have_no_method_of_a_dataframe_and_say_what_has(method: str):
    with pytest.raises(AttributeError, match=rf"no `{method}`.*touched\.rows.*touched\.of\(frame\)"):
        getattr(every_key(), method)


@for_each("value", [scd.Events(NO_ROWS), every_key()])
def test_another_attribute_is_as_unknown_as_of_any_object(value: object):
    with pytest.raises(AttributeError, match="has no attribute 'colums'"):
        value.colums  # type: ignore[attr-defined]  # noqa: B018


def test_events_say_what_was_left_out(spark: SparkSession):
    events = spark.createDataFrame([(1, 1, "U", 7)], "id int, at int, op string, v int")
    now = scd.type1(events, "id", "at", apply_as_truncates="op = 'T'", ignore_null_updates_column_list=["v"])
    past = scd.type2(events, "id", "at", ignore_null_updates=True)
    assert (now.truncates, now.ignored_nulls) == ("op = 'T'", ("v",))
    assert (past.truncates, past.ignored_nulls) == (None, ("at", "op", "v"))
    assert [type(result.rows).__name__ for result in (now, past)] == ["DataFrame", "DataFrame"]


def test_a_merge_and_touched_keys_take_events_and_other_writes_name_the_rows(spark: SparkSession):
    touched = every_key()
    events = scd.Events(spark.range(1).toDF("id"), "op = 'T'")
    merge = Merge(touched.of(events), touched)
    assert isinstance(merge.rows, DataFrame)
    assert merge.truncates == "op = 'T'"
    for write in (Append, Overwrite, lambda rows: Snapshot(rows, 1)):
        for given in (events, touched):
            with pytest.raises(TypeError, match=r"Give its `rows`\."):
                write(given)

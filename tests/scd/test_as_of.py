"""Facts joined with their dimension as it was at the time, and a type 2 table that existed before."""

import pytest
from pyspark.sql import SparkSession

from lakehouse import Changes, Merge, Table, scd
from tests.support.lake import Lake
from tests.support.raises import raises_code

HISTORY = "id int, city string, __START_AT int, __END_AT int"
EVENTS = "id int, city string, op string, at int"


def test_a_fact_has_the_row_that_was_current_when_it_happened(spark: SparkSession):
    facts = spark.createDataFrame([(n, 1, at) for n, at in enumerate((0, 1, 4, 5, 7, 8, 9))], "n int, id int, at int")
    history = spark.createDataFrame([(1, "A", 1, 5), (1, "B", 5, 7), (1, "C", 8, None), (2, "X", 0, None)], HISTORY)
    joined = scd.as_of(facts, history, "at", "id")
    assert joined.columns == ["n", "id", "at", "city"]
    assert [row["city"] for row in joined.sort("n").collect()] == [None, "A", "A", "B", None, "C", "C"]


def test_a_key_that_is_null_is_a_key_as_a_history_keeps_it(spark: SparkSession):
    facts = spark.createDataFrame([(1, None, 4), (2, 1, 4)], "n int, id int, at int")
    history = spark.createDataFrame([(None, "A", 1, None), (1, "B", 1, None)], HISTORY)
    assert [row["city"] for row in scd.as_of(facts, history, "at", "id").sort("n").collect()] == ["A", "B"]


def test_a_column_on_both_sides_is_refused(spark: SparkSession):
    facts = spark.createDataFrame([], "id int, at int, city string")
    with raises_code("EVENT_OPTION", match="finds a column city in the facts and in the history"):
        scd.as_of(facts, spark.createDataFrame([], HISTORY), "at", "id")


def sold_in(sales: Changes, past: Changes) -> Merge:
    touched = sales.touched("n") | past.touched("id").via(sales.source, "n")
    return Merge(touched.of(scd.as_of(sales.source, past.source, "at", "id")), touched)


def past(events: Changes) -> Merge:
    touched = events.touched("id")
    return Merge(
        scd.type2(touched.rows, "id", "at", apply_as_deletes="op = 'D'", except_column_list=["op", "at"]), touched
    )


@pytest.mark.slow
def test_a_late_event_moves_the_facts_that_happened_in_its_interval(lake: Lake):
    lake.create("events", [(1, "A", "U", 1), (1, "C", "U", 20)], EVENTS)
    lake.create("sales", [(1, 1, 5), (2, 1, 15), (3, 1, 25)], "n int, id int, at int")
    declared = Table(key=("id", "__START_AT"))
    lake.materialize(past, declared)
    lake.materialize(sold_in, Table(key="n"))
    lake.insert("events", [(1, "B", "U", 10)])
    lake.insert("sales", [(4, 1, 12)])
    lake.materialize(past, declared)
    lake.materialize(sold_in, Table(key="n"))
    assert [(row[0], row[3]) for row in lake.rows("sold_in")] == [(1, "A"), (2, "B"), (3, "C"), (4, "B")]


def snapshot(events: Changes) -> Merge:
    touched = events.touched("id")
    past = scd.type2(touched.rows, "id", "at", apply_as_deletes="op = 'D'", except_column_list=["op", "at"])
    return Merge(past.rows.withColumnsRenamed({"__START_AT": "valid_from", "__END_AT": "valid_to"}), touched)


@pytest.mark.slow
def test_a_type_2_table_that_others_have_kept_is_taken_over_and_only_rows_that_differ_are_written(lake: Lake):
    lake.create("events", [(1, "A", "U", 1), (1, "B", "U", 5), (2, "C", "U", 2)], EVENTS)
    columns = "id int, city string, valid_from int, valid_to int"
    lake.create("snapshot", [(1, "A", 1, 5), (1, "B", 5, None), (2, "C", 2, 9)], columns)
    declared = Table(key=("id", "valid_from"))
    with raises_code("FOREIGN_TABLE"):
        lake.materialize(snapshot, declared)
    lake.materialize(snapshot, declared, compare="it is taken over")
    assert lake.rows("snapshot") == [(1, "A", 1, 5), (1, "B", 5, None), (2, "C", 2, None)]
    feed = lake.spark.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 1)
    assert {row["id"] for row in feed.load(str(lake.root / "snapshot")).collect()} == {2}
    lake.insert("events", [(1, None, "D", 7)])
    lake.materialize(snapshot, declared)
    assert lake.rows("snapshot") == [(1, "A", 1, 5), (1, "B", 5, 7), (2, "C", 2, None)]

"""The rules of AUTO CDC one at a time, R1 to R23; the first examples are those of its public documentation."""

from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse import scd
from tests.support.for_each import for_each

EVENTS = "id int, grade string, city string, operation string, at int"
DOCUMENTED = [
    (124, "R", "Oaxaca", "INSERT", 1),
    (123, "I", "Monterrey", "INSERT", 1),
    (125, "M", "Tijuana", "INSERT", 2),
    (126, "L", "Cancun", "INSERT", 2),
    (123, None, None, "DELETE", 6),
    (125, "M", "Guadalajara", "UPDATE", 6),
    (125, "M", "Mexicali", "UPDATE", 5),
    (123, "I", "Chihuahua", "UPDATE", 5),
]
OPTIONS: dict[str, Any] = {
    "keys": "id",
    "sequence_by": "at",
    "apply_as_deletes": "operation = 'DELETE'",
    "except_column_list": ["operation", "at"],
}


def events(spark: SparkSession, *rows: tuple[Any, ...], schema: str = EVENTS) -> DataFrame:
    return spark.createDataFrame(list(rows), schema)


def rows(result: scd.Events) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in result.rows.collect()), key=repr)


def cities(spark: SparkSession, *of_one: tuple[str | None, int], **options: Any) -> list[tuple[Any, ...]]:
    """Type 2 of one key's cities; None as the city is a delete."""
    given = [(1, "G", city, "DELETE" if city is None else "UPDATE", at) for city, at in of_one]
    return [row[2:] for row in rows(scd.type2(events(spark, *given), **(OPTIONS | options)))]


def test_r4_the_documented_example_of_type_2(spark: SparkSession):
    assert rows(scd.type2(events(spark, *DOCUMENTED), **OPTIONS)) == [
        (123, "I", "Chihuahua", 5, 6),
        (123, "I", "Monterrey", 1, 5),
        (124, "R", "Oaxaca", 1, None),
        (125, "M", "Guadalajara", 6, None),
        (125, "M", "Mexicali", 5, 6),
        (125, "M", "Tijuana", 2, 5),
        (126, "L", "Cancun", 2, None),
    ]


def test_r20_the_documented_example_of_type_2_that_tracks_all_but_one_column(spark: SparkSession):
    tracked = scd.type2(events(spark, *DOCUMENTED), **OPTIONS, track_history_except_column_list=["city"])
    assert rows(tracked) == [
        (123, "I", "Chihuahua", 1, 6),
        (124, "R", "Oaxaca", 1, None),
        (125, "M", "Guadalajara", 2, None),
        (126, "L", "Cancun", 2, None),
    ]


def test_r7_the_documented_example_of_type_1(spark: SparkSession):
    assert rows(scd.type1(events(spark, *DOCUMENTED), **OPTIONS)) == [
        (124, "R", "Oaxaca"),
        (125, "M", "Guadalajara"),
        (126, "L", "Cancun"),
    ]


def test_r10_the_documented_example_of_a_truncate(spark: SparkSession):
    given = events(spark, *DOCUMENTED, (None, None, None, "TRUNCATE", 3))
    now = scd.type1(given, **OPTIONS, apply_as_truncates="operation = 'TRUNCATE'")
    assert rows(now) == [(125, "M", "Guadalajara")]


def test_r10_a_truncate_takes_away_what_is_not_later_and_a_late_event_from_before_stays_away(spark: SparkSession):
    given = events(spark, (1, "G", "A", "U", 3), (2, "G", "A", "U", 4), (9, "x", "x", "T", 3), (3, "G", "A", "U", 2))
    assert rows(scd.type1(given, **OPTIONS, apply_as_truncates="operation = 'T'")) == [(2, "G", "A")]


def test_r7_a_late_upsert_from_before_a_delete_stays_away_and_a_later_one_revives_the_key(spark: SparkSession):
    gone = [(1, "G", "A", "U", 1), (1, None, None, "DELETE", 5), (1, "G", "B", "U", 4)]
    assert rows(scd.type1(events(spark, *gone), **OPTIONS)) == []
    assert rows(scd.type1(events(spark, *gone, (1, "H", "C", "U", 6)), **OPTIONS)) == [(1, "H", "C")]


def test_r16_of_type_1_a_late_update_fills_what_later_ones_left_null(spark: SparkSession):
    given = events(spark, (1, None, "C", "U", 4), (1, "G", "A", "U", 2))
    assert rows(scd.type1(given, **OPTIONS, ignore_null_updates=True)) == [(1, "G", "C")]


def test_r2_a_struct_as_the_sequence_orders_field_by_field_and_is_the_type_of_the_interval(spark: SparkSession):
    schema = "id int, v string, at int, n int"
    given = events(spark, (1, "c", 2, 1), (1, "b", 1, 9), (1, "a", 1, 2), schema=schema)
    past = scd.type2(given, "id", "struct(at, n)", column_list=["id", "v"])
    assert rows(past) == [(1, "a", (1, 2), (1, 9)), (1, "b", (1, 9), (2, 1)), (1, "c", (2, 1), None)]
    assert past.rows.schema["__START_AT"].dataType == past.rows.schema["__END_AT"].dataType


def test_r3_equal_events_are_one_event(spark: SparkSession):
    assert cities(spark, ("A", 1), ("A", 1), ("B", 2), ("B", 2)) == [("A", 1, 2), ("B", 2, None)]


def test_r3_of_an_upsert_and_a_delete_at_one_sequence_the_delete_counts(spark: SparkSession):
    assert cities(spark, ("A", 1), ("B", 2), (None, 2)) == [("A", 1, 2)]
    assert cities(spark, ("A", 1), (None, 1)) == []


def test_r5_a_condition_that_is_null_is_no_delete(spark: SparkSession):
    given = events(spark, (1, "G", "A", None, 1))
    assert rows(scd.type2(given, **OPTIONS)) == [(1, "G", "A", 1, None)]


def test_r6_the_delete_condition_sees_columns_that_are_not_kept(spark: SparkSession):
    assert "operation" not in scd.type2(events(spark, *DOCUMENTED), **OPTIONS).rows.columns


def test_r9_a_late_upsert_from_before_a_delete_of_an_unknown_key_ends_at_the_delete(spark: SparkSession):
    assert cities(spark, (None, 5)) == []
    assert cities(spark, (None, 5), ("A", 3)) == [("A", 3, 5)]


def test_r9_a_key_that_comes_back_has_a_gap_between_its_rows(spark: SparkSession):
    assert cities(spark, ("A", 1), (None, 3), ("A", 6)) == [("A", 1, 3), ("A", 6, None)]


def test_r14_a_null_in_an_update_leaves_the_value_and_an_insert_keeps_its_null(spark: SparkSession):
    given = events(spark, (1, None, "A", "I", 1), (1, "G", None, "U", 2), (1, None, "B", "U", 3))
    assert rows(scd.type2(given, **OPTIONS, ignore_null_updates=True)) == [
        (1, "G", "A", 2, 3),
        (1, "G", "B", 3, None),
        (1, None, "A", 1, 2),
    ]


def test_r16_a_late_update_fills_what_later_ones_left_null(spark: SparkSession):
    early = [(1, "G", "A", "I", 1), (1, None, "C", "U", 4)]
    late = (1, "H", None, "U", 2)
    assert rows(scd.type2(events(spark, *early, late), **OPTIONS, ignore_null_updates=True)) == [
        (1, "G", "A", 1, 2),
        (1, "H", "A", 2, 4),
        (1, "H", "C", 4, None),
    ]


def test_r17_nothing_from_before_a_delete_fills_a_null_after_it(spark: SparkSession):
    given = events(spark, (1, "G", "A", "I", 1), (1, None, None, "DELETE", 2), (1, None, "B", "U", 3))
    assert rows(scd.type2(given, **OPTIONS, ignore_null_updates=True))[-1] == (1, None, "B", 3, None)


def test_r18_a_struct_of_which_nothing_is_known_is_null_and_other_columns_are_as_the_newest_event_says(
    spark: SparkSession,
):
    schema = "id int, at int, v int, s struct<x: int, y: struct<z: int>>"
    given = events(
        spark, (1, 1, 1, (None, (None,))), (1, 2, None, (7, None)), (1, 3, None, (None, (8,))), schema=schema
    )
    past = scd.type2(given, "id", "at", except_column_list=["at"], ignore_null_updates_column_list=["s"])
    assert [row[1:3] for row in sorted(past.rows.collect(), key=lambda row: row["__START_AT"])] == [
        (1, None),
        (None, (7, None)),
        (None, (7, (8,))),
    ]


def test_r19_a_row_without_width_is_not_stored(spark: SparkSession):
    assert cities(spark, ("A", 1), ("B", 2), (None, 2), ("C", 3)) == [("A", 1, 2), ("C", 3, None)]


def test_r20_a_run_of_equal_rows_has_the_start_of_its_first_event_and_the_values_of_its_last(spark: SparkSession):
    schema = "id int, city string, seen int, at int"
    given = events(spark, (1, "A", 10, 1), (1, "A", 20, 2), (1, None, 30, 3), (1, None, 40, 4), schema=schema)
    past = scd.type2(given, "id", "at", except_column_list=["at"], track_history_column_list=["city"])
    assert rows(past) == [(1, "A", 20, 1, 3), (1, None, 40, 3, None)]


def test_r21_the_sequence_is_tracked_like_any_other_column_unless_it_is_left_out(spark: SparkSession):
    given = [("A", 1), ("A", 2)]
    assert len(cities(spark, *given, except_column_list=["operation"])) == 2
    assert len(cities(spark, *given)) == 1


def test_r21_without_a_tracked_column_all_upserts_between_two_deletes_are_one_row(spark: SparkSession):
    assert cities(spark, ("A", 1), ("B", 2), (None, 3), ("C", 4), track_history_column_list=[]) == [
        ("B", 1, 3),
        ("C", 4, None),
    ]


def test_r22_a_late_event_splits_a_run(spark: SparkSession):
    early = [("A", 5), ("A", 10), ("A", 15), ("C", 20)]
    assert cities(spark, *early) == [("A", 5, 20), ("C", 20, None)]
    assert cities(spark, *early, ("B", 12)) == [("A", 15, 20), ("A", 5, 12), ("B", 12, 15), ("C", 20, None)]


def test_r23_a_late_event_before_all_others_ends_where_the_first_begins(spark: SparkSession):
    assert cities(spark, ("B", 5), ("A", 2)) == [("A", 2, 5), ("B", 5, None)]


def test_r23_a_late_update_cuts_an_interval_that_is_closed(spark: SparkSession):
    assert cities(spark, ("A", 10), (None, 20), ("B", 15)) == [("A", 10, 15), ("B", 15, 20)]


def test_r23_after_a_late_delete_the_rest_of_an_interval_is_there_only_from_an_event_on(spark: SparkSession):
    assert cities(spark, ("A", 10), (None, 20), (None, 15)) == [("A", 10, 15)]
    assert cities(spark, ("A", 10), ("A", 18), (None, 20), (None, 15)) == [("A", 10, 15), ("A", 18, 20)]


def test_values_without_an_equality_of_their_own_are_compared_all_the_same(spark: SparkSession):
    given = spark.sql(
        "SELECT id, map(k, 1, 'z', 2) AS m, parse_json(j) AS j, v, at FROM VALUES (1, 'a', '[1]', DOUBLE('NaN'), 1), "
        "(1, 'a', '[1]', DOUBLE('NaN'), 2), (1, 'b', '[1]', 0.0D, 3) AS t(id, k, j, v, at)"
    )
    past = scd.type2(given, "id", "at", except_column_list=["at"])
    assert sorted(row[-2:] for row in past.rows.select("__START_AT", "__END_AT").collect()) == [(1, 3), (3, None)]


@for_each("name", ["a b", "a.b", "a`b", "$ENV", "select", "A'"])
def test_no_column_name_breaks_out_of_its_quotes(spark: SparkSession, name: str):
    given = spark.createDataFrame([(1, 1, "x"), (1, 2, "y")], ["key", "at", "v"]).withColumnRenamed("key", name)
    past = scd.type2(given, name, "at", except_column_list=["at"])
    assert past.rows.columns == [name, "v", "__START_AT", "__END_AT"]
    assert rows(past) == [(1, "x", 1, 2), (1, "y", 2, None)]

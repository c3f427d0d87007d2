"""The rules of AUTO CDC, R1 to R23; the first examples are those of its public documentation.

Random events are folded in test_fold.py.
"""

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


def test_r2_a_struct_as_the_sequence_orders_field_by_field_and_is_the_type_of_the_interval(spark: SparkSession):
    schema = "id int, v string, at int, n int"
    given = events(spark, (1, "c", 2, 1), (1, "b", 1, 9), (1, "a", 1, 2), schema=schema)
    past = scd.type2(given, "id", "struct(at, n)", column_list=["id", "v"])
    assert rows(past) == [(1, "a", (1, 2), (1, 9)), (1, "b", (1, 9), (2, 1)), (1, "c", (2, 1), None)]
    assert past.rows.schema["__START_AT"].dataType == past.rows.schema["__END_AT"].dataType


def test_r5_a_condition_that_is_null_is_no_delete(spark: SparkSession):
    given = events(spark, (1, "G", "A", None, 1))
    assert rows(scd.type2(given, **OPTIONS)) == [(1, "G", "A", 1, None)]


CITIES: dict[str, tuple[list[tuple[str | None, int]], list[tuple[str, int, int | None]]]] = {
    "R3: equal events are one": ([("A", 1), ("A", 1), ("B", 2), ("B", 2)], [("A", 1, 2), ("B", 2, None)]),
    "R3: of an upsert and a delete at one sequence the delete counts": ([("A", 1), ("B", 2), (None, 2)], [("A", 1, 2)]),
    "R3: also of the first": ([("A", 1), (None, 1)], []),
    "R9: a delete of an unknown key": ([(None, 5)], []),
    "R9: a late upsert ends at it": ([(None, 5), ("A", 3)], [("A", 3, 5)]),
    "R9: a key that comes back has a gap": ([("A", 1), (None, 3), ("A", 6)], [("A", 1, 3), ("A", 6, None)]),
    "R19: no row without width": ([("A", 1), ("B", 2), (None, 2), ("C", 3)], [("A", 1, 2), ("C", 3, None)]),
    "R21: the sequence is not tracked": ([("A", 1), ("A", 2)], [("A", 1, None)]),
    "R22: a run": ([("A", 5), ("A", 10), ("A", 15), ("C", 20)], [("A", 5, 20), ("C", 20, None)]),
    "R22: a late event splits it": (
        [("A", 5), ("A", 10), ("A", 15), ("C", 20), ("B", 12)],
        [("A", 5, 12), ("B", 12, 15), ("A", 15, 20), ("C", 20, None)],
    ),
    "R23: a late event before all others": ([("B", 5), ("A", 2)], [("A", 2, 5), ("B", 5, None)]),
    "R23: a late update cuts what is closed": ([("A", 10), (None, 20), ("B", 15)], [("A", 10, 15), ("B", 15, 20)]),
    "R23: a late delete": ([("A", 10), (None, 20), (None, 15)], [("A", 10, 15)]),
    "R23: the rest is there from an event on": (
        [("A", 10), ("A", 18), (None, 20), (None, 15)],
        [("A", 10, 15), ("A", 18, 20)],
    ),
}
"""The cities of a key with the sequence of each, where None is a delete; and the rows of its past."""


def test_the_past_of_a_key_is_as_the_rules_say(spark: SparkSession):
    given = [
        (key, "G", city, "DELETE" if city is None else "UPDATE", at)
        for key, (of_one, _) in enumerate(CITIES.values())
        for city, at in of_one
    ]
    due = [(key, "G", *row) for key, (_, past) in enumerate(CITIES.values()) for row in past]
    assert rows(scd.type2(events(spark, *given), **OPTIONS)) == sorted(due, key=repr)


FILLED: dict[str, tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]] = {
    "R14: a NULL in an update leaves the value, and an insert keeps its NULL": (
        [(None, "A", "I", 1), ("G", None, "U", 2), (None, "B", "U", 3)],
        [(None, "A", 1, 2), ("G", "A", 2, 3), ("G", "B", 3, None)],
    ),
    "R16: a late update fills what later ones left NULL": (
        [("G", "A", "I", 1), (None, "C", "U", 4), ("H", None, "U", 2)],
        [("G", "A", 1, 2), ("H", "A", 2, 4), ("H", "C", 4, None)],
    ),
    "R17: nothing from before a delete fills a NULL after it": (
        [("G", "A", "I", 1), (None, None, "DELETE", 2), (None, "B", "U", 3)],
        [("G", "A", 1, 2), (None, "B", 3, None)],
    ),
}
"""The events of a key, and the rows of its past where NULLs are ignored."""


def test_nulls_that_are_ignored_are_filled_as_the_rules_say(spark: SparkSession):
    given = events(spark, *((key, *event) for key, (of_one, _) in enumerate(FILLED.values()) for event in of_one))
    due = [(key, *row) for key, (_, past) in enumerate(FILLED.values()) for row in past]
    assert rows(scd.type2(given, **OPTIONS, ignore_null_updates=True)) == sorted(due, key=repr)
    now = [row[:3] for row in due if row[-1] is None]
    assert rows(scd.type1(given, **OPTIONS, ignore_null_updates=True)) == sorted(now, key=repr)


def test_r21_the_sequence_is_tracked_unless_it_is_left_out_and_without_a_tracked_column_a_past_is_one_row(
    spark: SparkSession,
):
    given = events(spark, (1, "G", "A", "U", 1), (1, "G", "A", "U", 2))
    assert len(rows(scd.type2(given, **OPTIONS | {"except_column_list": ["operation"]}))) == 2
    given = events(
        spark, (1, "G", "A", "U", 1), (1, "G", "B", "U", 2), (1, None, None, "DELETE", 3), (1, "G", "C", "U", 4)
    )
    past = rows(scd.type2(given, **OPTIONS, track_history_column_list=[]))
    assert past == [(1, "G", "B", 1, 3), (1, "G", "C", 4, None)]


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

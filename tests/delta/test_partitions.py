"""A run's partitions select their rows and no others, whatever their keys contain."""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.delta.partition_keys import PartitionKey, Slice, Window
from lakehouse.errors import WriteError
from lakehouse.spark.types import CHAR, partition_types
from tests.delta.test_text import HOSTILE, texts
from tests.support.for_each import for_each
from tests.support.spark_text import tokens

NEW_YORK = ZoneInfo("America/New_York")
START = datetime(2013, 1, 1, tzinfo=UTC)


def keyed(*keys: str, column: str = "region") -> Slice:
    return Slice(tuple(PartitionKey(key, {column: key}, {}) for key in keys))


def windowed(*windows: tuple[datetime, datetime], column: str = "at") -> Slice:
    return Slice(
        tuple(
            PartitionKey(start.isoformat(), {column: start.date().isoformat()}, {column: Window(start, end)})
            for start, end in windows
        )
    )


def hours(*found: int) -> Slice:
    return windowed(*((START + timedelta(hours=h), START + timedelta(hours=h + 1)) for h in found))


def days(zone: ZoneInfo, *found: int, column: str = "day") -> Slice:
    starts = [datetime(2013, 3, day, tzinfo=zone) for day in found]
    return windowed(*((start, start + timedelta(days=1)) for start in starts), column=column)


@for_each(
    "keys, column_type, predicate",
    [
        (["east"], "string", "`c` IN ('east')"),
        (["b", "a", "b"], "string", "`c` IN ('a', 'b')"),
        (["2013", "-1"], "int", "`c` IN (-1, 2013)"),
        (["01"], "tinyint", "`c` IN (1)"),
        (["2013-01-02", "2013-01-01"], "date", "`c` IN (DATE'2013-01-01', DATE'2013-01-02')"),
        (["true", "False"], "boolean", "`c` IN (FALSE, TRUE)"),
    ],
)
def test_keys_are_values_of_their_columns_type(keys: list[str], column_type: str, predicate: str):
    assert keyed(*keys, column="c").predicate({"c": column_type}) == predicate


@for_each(
    "key, column_type",
    [
        ("east", "int"),
        ("1_0", "int"),
        ("٣", "int"),  # a digit in Python, but not in SQL
        (" 1", "int"),
        ("1.0", "bigint"),
        ("128", "tinyint"),
        ("-32769", "smallint"),
        (str(2**63), "bigint"),
        ("2013-02-30", "date"),
        ("yes", "boolean"),
        ("1", "double"),
        ("2013-01-01", "timestamp"),
    ],
)
def test_a_key_that_is_no_value_of_its_column_is_refused_and_named(key: str, column_type: str):
    with pytest.raises(
        WriteError, match=re.escape(f"Partition key {key!r} is not a value of column c, which is a {column_type}")
    ):
        keyed(key, column="c").predicate({"c": column_type})


@given(
    st.lists(texts.filter(bool) | st.sampled_from(HOSTILE), min_size=1, max_size=3),
    texts.filter(lambda name: "${" not in name),
)
@example(["a' OR '1'='1"], "c")
def test_a_hostile_key_stays_one_value(keys: list[str], column: str):
    predicate = keyed(*keys, column=column).predicate({column: "string"})
    found = list(tokens(predicate))
    assert found[:2] == [("name", column), ("word", "IN")]
    assert {value for kind, value in found if kind == "string"} == set(keys)
    assert {kind for kind, _ in found[2:]} == {"sign", "string"}


@given(st.lists(st.tuples(texts.filter(bool), texts.filter(bool)), min_size=1, max_size=3, unique=True))
def test_several_dimensions_belong_together_row_by_row(keys: list[tuple[str, str]]):
    parts = tuple(PartitionKey(f"{a}|{b}", {"a": a, "b": b}, {}) for a, b in keys)
    predicate = Slice(parts).predicate({"a": "string", "b": "string"}, prefix="t.")
    found = [(kind, value) for kind, value in tokens(predicate) if kind != "space"]
    strings = [value for kind, value in found if kind == "string"]
    assert set(zip(strings[::2], strings[1::2], strict=True)) == set(keys)
    words = [value for kind, value in found if kind == "word" and value != "t"]
    assert words == (["AND", "OR"] * len(keys))[:-1]


def test_a_dimension_of_time_is_a_range_beside_the_other_dimensions():
    part = PartitionKey("x", {"at": "x", "region": "east"}, {"at": Window(START, START + timedelta(hours=1))})
    assert Slice((part,)).predicate({"at": "timestamp", "region": "string"}) == (
        "(`at` >= TIMESTAMP'2013-01-01 00:00:00+00:00' AND `at` < TIMESTAMP'2013-01-01 01:00:00+00:00' "
        "AND `region` = 'east')"
    )


def test_a_year_of_days_is_one_range():
    year = [(START + timedelta(days=d), START + timedelta(days=d + 1)) for d in range(365)]
    assert windowed(*year[::-1]).predicate({"at": "date"}) == "(`at` >= DATE'2013-01-01' AND `at` < DATE'2014-01-01')"


def test_a_day_is_the_day_of_the_partitions_own_time_zone():
    day = days(NEW_YORK, 10)  # clocks go forward
    assert day.predicate({"day": "date"}) == "(`day` >= DATE'2013-03-10' AND `day` < DATE'2013-03-11')"
    assert day.predicate({"day": "timestamp"}) == (
        "(`day` >= TIMESTAMP'2013-03-10 00:00:00-05:00' AND `day` < TIMESTAMP'2013-03-11 00:00:00-04:00')"
    )
    assert day.predicate({"day": "timestamp_ntz"}) == (
        "(`day` >= TIMESTAMP_NTZ'2013-03-10 00:00:00' AND `day` < TIMESTAMP_NTZ'2013-03-11 00:00:00')"
    )


def test_a_time_partition_of_a_text_column_is_its_key():
    assert days(NEW_YORK, 10, 11).predicate({"day": "string"}) == "`day` IN ('2013-03-10', '2013-03-11')"


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 9)), min_size=1, max_size=6),
    st.sampled_from(["timestamp", "timestamp_ntz"]),
)
@example([(0, 9), (2, 1), (9, 2)], "timestamp")
def test_joined_windows_cover_what_each_of_them_covers(windows: list[tuple[int, int]], column_type: str):
    spans = [(START + timedelta(hours=at), START + timedelta(hours=at + long)) for at, long in windows]
    joined = ranges(windowed(*spans).predicate({"at": column_type}))
    for half_hour in range(2 * 50):
        at = START + timedelta(minutes=30 * half_hour)
        assert inside(joined, at) == inside(spans, at)


def ranges(predicate: str) -> list[tuple[datetime, datetime]]:
    values = [datetime.fromisoformat(value) for kind, value in tokens(predicate) if kind == "string"]
    values = [value if value.tzinfo else value.replace(tzinfo=UTC) for value in values]
    return list(zip(values[::2], values[1::2], strict=True))


def inside(spans: Iterable[tuple[datetime, datetime]], at: datetime) -> bool:
    return any(start <= at < end for start, end in spans)


@for_each("slice_", [hours(5), hours(23), hours(22, 23), hours(*range(24))])
def test_partitions_shorter_than_a_day_are_refused_on_a_date_column(slice_: Slice):
    """A date does not contain the hour: the rows of all hours of the day would be replaced, or none."""
    with pytest.raises(WriteError, match="shorter than a day"):
        slice_.predicate({"at": "date"})


def test_a_day_of_23_hours_is_a_day():
    start, end = (datetime(2013, 3, day, tzinfo=NEW_YORK).astimezone(UTC) for day in (10, 11))
    assert end - start == timedelta(hours=23)
    assert windowed((start, end)).predicate({"at": "date"})


def test_no_partition_selects_no_row():
    assert Slice(()).predicate({"day": "date"}) == "FALSE"
    assert Slice(()).keys == Slice(()).columns == ()


def test_a_slice_knows_its_keys_and_columns():
    slice_ = keyed("b", "a")
    assert (slice_.keys, slice_.columns) == (("b", "a"), ("region",))
    assert date.fromisoformat(days(NEW_YORK, 10).partitions[0].values["day"]) == date(2013, 3, 10)


def of_month(text: str, keyless: str | None = None) -> Slice:
    window = Window(START, datetime(2013, 2, 1, tzinfo=UTC), keyless)
    return Slice((PartitionKey(text, {"day": text}, {"day": window}),))


@for_each(
    "text, keyless, column_type",
    [("2013-01-01", "2013-01-02", "string"), ("20130101", "20130102", "int"), ("01.01.2013", "02.01.2013", "string")],
)
def test_a_month_whose_key_is_one_of_its_days_is_refused_on_a_column_that_is_compared_with_the_key(
    text: str, keyless: str, column_type: str
):
    """Otherwise thirty of its days would be left out."""
    with pytest.raises(WriteError, match=r"covers 2013-01-01 to 2013-01-31.*Nothing was written.*CAST\(day AS DATE\)"):
        of_month(text, keyless).predicate({"day": column_type})
    assert of_month(text, keyless).predicate({"day": "date"})


@for_each("text, column_type", [("2013-01", "string"), ("201301", "int")])
def test_a_month_whose_key_names_no_day_is_compared_with_the_key(text: str, column_type: str):
    assert of_month(text).predicate({"day": column_type}).startswith("`day` IN (")


@for_each("hour, fold", [(0, 0), (1, 0), (1, 1)])
def test_an_hour_that_clocks_went_through_twice_is_refused_where_nothing_tells_which(hour: int, fold: int):
    begin = datetime(2024, 11, 3, hour, fold=fold, tzinfo=ZoneInfo("America/New_York"))
    end = (begin.astimezone(UTC) + timedelta(hours=1)).astimezone(begin.tzinfo)
    windows = Slice((PartitionKey("x", {"at": "x"}, {"at": Window(begin, end)}),))
    assert windows.predicate({"at": "timestamp"})
    with pytest.raises(WriteError, match="went through twice"):
        windows.predicate({"at": "timestamp_ntz"})


@for_each("day", [date(2024, 11, 3), date(2024, 3, 10), date(2024, 7, 1)])
def test_days_on_which_clocks_are_set_are_like_others(day: date):
    zone = ZoneInfo("America/New_York")
    begin, end = (datetime(d.year, d.month, d.day, tzinfo=zone) for d in (day, day + timedelta(days=1)))
    windows = Slice((PartitionKey("x", {"at": "x"}, {"at": Window(begin, end)}),))
    assert windows.predicate({"at": "timestamp_ntz"}).count("TIMESTAMP_NTZ") == 2


def test_a_char_column_holds_no_partition_s_key_because_spark_pads_its_texts():
    fields = [StructField("shop", StringType(), metadata={CHAR: "char(4)"}), StructField("day", StringType())]
    types = partition_types(StructType(fields))
    assert types == {"shop": "char(4)", "day": "string"}
    with pytest.raises(WriteError, match=r"'a' is not a value of column shop, which is a char\(4\)"):
        Slice((PartitionKey("a", {"shop": "a"}, {}),)).predicate(types)

"""Which part of a table a partition key selects, for every kind of partition definition in Dagster."""

from datetime import UTC, datetime

import dagster as dg
import pytest

from lakehouse.dagster.slices import slice_of
from lakehouse.delta.table import Table
from lakehouse.errors import WriteError
from tests.support.for_each import for_each
from tests.support.raises import raises_code

TYPES = {"day": "date", "week": "date", "at": "timestamp", "region": "string"}
REGIONS = dg.StaticPartitionsDefinition(["east", "west"])
DAYS = dg.DailyPartitionsDefinition("2013-01-01")
WEEKS = dg.WeeklyPartitionsDefinition("2013-01-01", end_date="2014-01-01")
HOURS = dg.HourlyPartitionsDefinition("2013-01-01-00:00", end_date="2014-01-01-00:00", timezone="Europe/Berlin")
DAYS_OF_REGIONS = dg.MultiPartitionsDefinition({"region": REGIONS, "day": DAYS})


def test_the_dimensions_of_a_partition_are_the_columns_of_their_names() -> None:
    """Whatever their order in the table: Dagster sorts the dimensions of a key by their names."""
    for columns in (("region", "day"), ("day", "region")):
        slice_ = slice_of("a", Table(partition_by=columns), DAYS_OF_REGIONS, ["2013-01-02|west"])
        assert slice_.keys == ("2013-01-02|west",)
        assert slice_.predicate(TYPES) == (
            "(`day` >= DATE'2013-01-02' AND `day` < DATE'2013-01-03' AND `region` = 'west')"
        )


def test_names_of_partitions_are_values_of_the_first_column() -> None:
    slice_ = slice_of("a", Table(partition_by=("region", "day")), REGIONS, ["west", "east"])
    assert slice_.predicate(TYPES) == "`region` IN ('east', 'west')"


def test_a_week_is_seven_days_from_its_key_on() -> None:
    """Dagster's weeks begin on Sundays, whatever day the definition begins with."""
    slice_ = slice_of("a", Table(partition_by="week"), WEEKS, WEEKS.get_partition_keys()[:1])
    assert slice_.predicate(TYPES) == "(`week` >= DATE'2013-01-06' AND `week` < DATE'2013-01-13')"


@for_each(
    "key, start, end",
    [
        ("2013-07-01-05:00", "2013-07-01 05:00:00+02:00", "2013-07-01 06:00:00+02:00"),
        ("2013-10-27-02:00", "2013-10-27 02:00:00+02:00", "2013-10-27 02:00:00+01:00"),
        ("2013-10-27-02:00+0100", "2013-10-27 02:00:00+01:00", "2013-10-27 03:00:00+01:00"),
    ],
)
def test_an_hour_is_one_hour_of_the_definitions_zone(key: str, start: str, end: str) -> None:
    slice_ = slice_of("a", Table(partition_by="at"), HOURS, [key])
    assert slice_.predicate(TYPES) == f"(`at` >= TIMESTAMP'{start}' AND `at` < TIMESTAMP'{end}')"


def test_a_dimension_without_a_column_of_its_name_is_refused() -> None:
    with raises_code("PARTITION_COLUMN", match=r"named like its dimension day\..*must name them: day, region"):
        slice_of("a", Table(partition_by=("region", "month")), DAYS_OF_REGIONS, ["2013-01-02|west"])


@for_each(
    "definition, refused",
    [
        (dg.DailyPartitionsDefinition("2013-01-01", hour_offset=6), None),
        (dg.WeeklyPartitionsDefinition("2013-01-06"), "2013-01-07"),
        (dg.WeeklyPartitionsDefinition("06.01.2013", fmt="%d.%m.%Y"), "07.01.2013"),
        (dg.WeeklyPartitionsDefinition("13006", fmt="%y%j"), "13007"),
        (dg.WeeklyPartitionsDefinition("2013-01", fmt="%Y-%U"), None),
        (dg.MonthlyPartitionsDefinition("2013-01", fmt="%Y-%m"), None),
        (dg.MonthlyPartitionsDefinition("01/2013", fmt="%m/%Y"), None),
        (dg.MonthlyPartitionsDefinition("1 Jan 2013", fmt="%d %b %Y"), "02 Jan 2013"),
    ],
)
def test_a_text_column_is_refused_if_a_day_inside_a_partition_is_the_key_of_none(
    definition: dg.TimeWindowPartitionsDefinition, refused: str | None
) -> None:
    """Rows of that day would be in no partition, whatever the format of the keys."""
    key = definition.get_partition_keys(current_time=datetime(2013, 6, 1, tzinfo=UTC))[0]
    slice_ = slice_of("a", Table(partition_by="day"), definition, [key])
    if refused is None:
        assert slice_.predicate({"day": "string"}) == f"`day` IN ('{key}')"
        return
    with pytest.raises(WriteError, match=f"such as '{refused}', would be left out"):
        slice_.predicate({"day": "string"})

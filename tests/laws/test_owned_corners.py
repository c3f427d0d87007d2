"""Where owned rows meet sessions of other time zones, CHARs, quarantines, and the run that begins a table."""

from datetime import UTC, date, datetime, timedelta

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse import Changes, Expect, Merge, Overwrite, Table, View
from lakehouse.spark.progress import listening
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code

ZONE = "spark.sql.session.timeZone"


def day(number: int) -> date:
    return date(2026, 1, 1) + timedelta(days=number)


def noon(number: int) -> datetime:
    return datetime(2026, 1, 1, 12, tzinfo=UTC) + timedelta(days=number)


def by_id(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def by_day(src: Changes) -> Merge:
    touched = src.touched("id", "day")
    return Merge(touched.rows, touched)


def amounts(src: Changes) -> Merge:
    touched = src.touched("day")
    return Merge(touched.rows.select("day", "amount"), touched)


def viewed(src: Changes) -> View:
    return View("SELECT * FROM src")


def kept(src: DataFrame) -> Overwrite:
    return Overwrite(src)


def reader(kept: Changes) -> Merge:
    touched = kept.touched("id")
    return Merge(touched.rows, touched)


@pytest.mark.parametrize("owns", ["date(at) >= DATE'2026-01-10'", "from_unixtime(n) >= '2026-01-10'"])
def test_a_reader_in_another_zone_misses_no_change_of_owned_rows(lake: Lake, spark: SparkSession, owns: str) -> None:
    ats = [datetime(2026, 1, number, 3, tzinfo=UTC) for number in (10, 12, 1)]
    rows = [(number, at, int(at.timestamp()), 10 * number) for number, at in enumerate(ats, 1)]
    lake.create("src", rows, "id INT, at TIMESTAMP, n BIGINT, v INT")
    zone = spark.conf.get(ZONE)
    try:
        for statement in (None, "UPDATE {src} SET v = v + 1000"):
            if statement is not None:
                lake.sql(statement)
            spark.conf.set(ZONE, "UTC")
            lake.materialize(kept, Table(owns=owns))
            spark.conf.set(ZONE, "America/New_York")
            lake.materialize(reader, Table(key="id"))
    finally:
        spark.conf.set(ZONE, str(zone))
    assert lake.rows("reader") == lake.rows("kept")


@pytest.mark.parametrize("partition_by", [None, "region"])
def test_the_rows_of_a_char_are_found_by_it_also_where_it_is_a_partition(lake: Lake, partition_by: str | None) -> None:
    of_feed = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
    lake.sql(f"CREATE TABLE {lake.ref('src').identifier} (id INT, region CHAR(4), v INT) USING delta {of_feed}")
    lake.sql("INSERT INTO {src} VALUES (1, 'EU', 1), (2, 'US', 2)")
    expect = Expect("region IN ('EU', 'US')", "drop")
    lake.materialize(viewed, Table(key="id", partition_by=partition_by, expect=expect))
    assert [row[0] for row in lake.rows("viewed")] == [1, 2]
    owned = Table(key="id", partition_by=partition_by, owns="region = 'EU'")
    with raises_code("CONDITION", match=r"region is a char\(4\)"):
        lake.materialize(by_id, owned)


def test_a_thaw_does_not_part_the_rows_of_a_key_between_a_table_and_its_quarantine(lake: Lake) -> None:
    lake.create("src", [(day(number), number) for number in range(20)], "day DATE, amount INT")
    expect = Expect("amount <> 3", "quarantine")
    table = Table(key="day", owns="day >= date_sub(:today, 10)", expect=expect)
    lake.materialize(amounts, table, moment=noon(20))
    lake.sql("UPDATE {src} SET amount = 300 WHERE amount = 3")
    lake.materialize(amounts, table, moment=noon(20))
    with raises_code("CONDITION", match="goes by keys"):
        lake.materialize(amounts, table, moment=noon(20), thaw="amount >= 200")
    lake.materialize(amounts, table, moment=noon(20), thaw="day < DATE'2026-01-05'")
    assert (day(3), 300) in lake.rows("amounts") and lake.rows("amounts_quarantine") == []


def test_what_freezes_unread_after_the_first_run_is_told_and_can_be_read(lake: Lake) -> None:
    now = datetime.now(UTC)
    rows = [(number, (now - timedelta(days=number)).date(), number) for number in range(20)]
    lake.create("src", rows, "id INT, day DATE, amount INT")
    table = Table(key=("id", "day"), owns="day >= date_sub(:today, 10)")
    lake.materialize(by_day, table)
    lake.sql("UPDATE {src} SET amount = 777 WHERE id IN (7, 8)")
    lake.materialize(by_day, table, moment=now + timedelta(days=2), thaw="unread")
    assert [row[2] for row in lake.rows("by_day") if row[0] in (7, 8)] == [777, 777]
    lake.sql("UPDATE {src} SET amount = 888 WHERE id IN (4, 5)")
    lake.told.clear()
    lake.materialize(by_day, table, moment=now + timedelta(days=6))
    assert [row[2] for row in lake.rows("by_day") if row[0] in (4, 5)] == [888, 5]
    assert any("froze with changes that no run has read" in line for line in lake.told)


def test_what_an_edit_of_the_condition_froze_unread_can_be_read(lake: Lake) -> None:
    lake.create("src", [(number, day(number), number) for number in range(20)], "id INT, day DATE, amount INT")
    lake.materialize(by_day, Table(key=("id", "day"), owns="day >= date_sub(:today, 10)"), moment=noon(20))
    lake.sql("UPDATE {src} SET amount = 777 WHERE id = 11")
    lake.materialize(by_day, Table(key=("id", "day"), owns="day >= date_sub(:today, 10)"), moment=noon(20))
    lake.sql("UPDATE {src} SET amount = 888 WHERE id IN (9, 12)")
    edited = Table(key=("id", "day"), owns="day >= date_sub(:today, 5)")
    lake.materialize(by_day, edited, moment=noon(20), thaw="unread")
    kept = {row[0]: row[2] for row in lake.rows("by_day")}
    assert (kept[9], kept[11], kept[12]) == (9, 777, 888)


def test_a_run_that_was_to_read_what_froze_says_that_another_run_was_first(lake: Lake) -> None:
    lake.create("src", [(number, day(number), number) for number in range(20)], "id INT, day DATE, amount INT")
    table = Table(key=("id", "day"), owns="day >= date_sub(:today, 10)")
    lake.materialize(by_day, table, moment=noon(20))
    lake.insert("src", [(100, day(19), 1)])
    lake.materialize(by_day, table, moment=noon(20))
    lake.sql("UPDATE {src} SET amount = 777 WHERE id = 11")
    step = lake.begin(by_day, table, moment=noon(25), thaw="unread")
    write = by_day(**lake.read(step, by_day))  # pyright: ignore[reportArgumentType]
    lake.materialize(by_day, table, moment=noon(25))
    lake.told.clear()
    with listening(lake.hear):
        step.commit(write, lake.retry, NO_WAIT)
    assert any("by_day thawed nothing: run" in line for line in lake.told)

"""Which files can hold keys, by their statistics: never fewer than do hold them."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.delta.file_log import FileLog
from lakehouse.delta.file_ranges import FileRanges, FileShare
from lakehouse.delta.location import Location
from tests.support.for_each import for_each

COLUMNS = ("id", "text", "day", "at", "part", "nothing")


def row(random: Random, number: int) -> dict[str, Any]:
    moment = datetime(2026, 1, 1, tzinfo=UTC) + timedelta(microseconds=random.randrange(10**9))
    return {
        "id": number,
        "text": random.choice([None, "", "a", "ä", "z" * 40 + str(number), "\U0001f600"]),
        "day": date(2026, 1, 1 + random.randrange(28)),
        "at": random.choice([None, moment]),
        "part": number // 10,
        "nothing": None if number < 20 else number,
    }


@pytest.fixture
def files(tmp_path: Path) -> tuple[FileRanges, list[list[dict[str, Any]]]]:
    """A table of five files in five commits, and their rows."""
    random = Random(45)
    rows = [[row(random, 10 * k + i) for i in range(10)] for k in range(5)]
    kinds = [pa.int64(), pa.string(), pa.date32(), pa.timestamp("us", "UTC"), pa.int32(), pa.int64()]
    schema = pa.schema([*zip(COLUMNS, kinds, strict=True)])
    for some in rows:
        write_deltalake(tmp_path, pa.Table.from_pylist(some, schema), mode="append", partition_by=["part"])
    ranges = FileLog(Location(str(tmp_path)), "t").file_ranges(4, COLUMNS)
    assert ranges is not None and ranges.files == 5
    return ranges, rows


@pytest.mark.parametrize("column", COLUMNS)
def test_no_file_that_holds_a_value_is_left_out(
    files: tuple[FileRanges, list[list[dict[str, Any]]]], column: str
) -> None:
    ranges, rows = files
    for value in {each[column] for some in rows for each in some}:
        holding = ranges.holding(column, [value])
        assert holding is not None
        assert len(holding) >= sum(any(each[column] == value for each in some) for some in rows)


def test_files_whose_range_has_no_key_are_left_out(files: tuple[FileRanges, list[list[dict[str, Any]]]]) -> None:
    ranges, _ = files

    def number(column: str, *values: Any) -> int:
        holding = ranges.holding(column, values)
        assert holding is not None
        return len(holding)

    assert [number("ID", 3), number("id", 3, 4, 27), number("id", 1000), number("id")] == [1, 2, 0, 0]
    assert [number("part", 0), number("part", 1, 3), number("part", None)] == [1, 2, 0]
    assert [number("nothing", None), number("nothing", 25)] == [2, 1]
    assert ranges.holding("other", [1]) is None
    assert not ranges.is_scattered("id", [1, 25, 49])
    assert ranges.is_scattered("text", ["a", "b"])


@for_each(
    "share, words",
    [
        (FileShare(120, 4), "3 % of 120 files"),
        (FileShare(1000, 1), "1 % of 1,000 files"),
        (FileShare(1000, 999, ("cust",)), "99 % of 1,000 files: not laid out by cust"),
        (FileShare(32, 32), "100 % of 32 files"),
        (FileShare(5, 0), "0 % of 5 files"),
        (FileShare(1, 1), "1 of 1 file"),
    ],
)
def test_a_share_is_said_in_words(share: FileShare, words: str) -> None:
    assert str(share) == words

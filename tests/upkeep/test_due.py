"""When work is due: tables of cases, without Spark."""

from datetime import timedelta

import pytest

from lakehouse.upkeep.due import LiveFile, Rules, UpkeepWork, tasks
from lakehouse.upkeep.past_files import PastFile

RULES = Rules()
DAY = 86_400_000
NOW = 100 * DAY
SMALL, LARGE = LiveFile(1_000, 10), LiveFile(100_000_000, 1_000_000)


def due(live: list[LiveFile], rows: int | None = None, past: list[PastFile] | None = None) -> list[UpkeepWork]:
    return [task.work for task in tasks(live, rows, past or [], NOW, RULES)]


@pytest.mark.parametrize(
    ("live", "work"),
    [
        ([], []),
        ([LARGE] * 100, []),
        ([SMALL] * 15, []),
        ([SMALL] * 16, [UpkeepWork.COMPACT]),
        ([SMALL] * 16 + [LARGE] * 17, []),
        ([LiveFile(1_000, 10, f"day={day}") for day in range(100)], []),
        ([LiveFile(1_000, 10, f"day={n // 2}") for n in range(100)], [UpkeepWork.COMPACT]),
    ],
)
def test_many_small_files_of_one_partition_are_merged(live: list[LiveFile], work: list[UpkeepWork]) -> None:
    assert due(live) == work


@pytest.mark.parametrize(("rows", "work"), [(None, []), (1_000_000, []), (900_001, []), (900_000, [UpkeepWork.PURGE])])
def test_a_tenth_of_deleted_rows_is_rewritten(rows: int | None, work: list[UpkeepWork]) -> None:
    assert due([LARGE], rows) == work


@pytest.mark.parametrize(
    ("past", "work"),
    [
        ([], []),
        ([PastFile("a", 9_999_999, 3, NOW - 8 * DAY)], []),
        ([PastFile("a", 10_000_000, 3, NOW - 8 * DAY)], [UpkeepWork.FREE]),
        ([PastFile("a", 1, 3, NOW - 14 * DAY)], [UpkeepWork.FREE]),
    ],
)
def test_what_nobody_needs_goes_once_it_is_much_or_old(past: list[PastFile], work: list[UpkeepWork]) -> None:
    assert due([LARGE], None, past) == work


def test_a_task_says_why() -> None:
    (task,) = tasks([SMALL] * 20, 200, [], NOW, Rules(freed_age=timedelta(days=1)))
    assert task.why == "20 of 20 files are small"

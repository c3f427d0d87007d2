"""When work is due: tables of cases, without Spark."""

from dataclasses import replace
from datetime import timedelta

from lakehouse.delta.growth import LiveFile
from lakehouse.upkeep.due import DuePart, Rules, UpkeepWork, tasks
from lakehouse.upkeep.readers import PastFile
from tests.support.for_each import for_each

RULES = Rules()
DAY = 86_400_000
NOW = 100 * DAY
SMALL, LARGE = LiveFile(1_000, 10), LiveFile(100_000_000, 1_000_000)


def small(day: int) -> LiveFile:
    return replace(SMALL, partition=f"day = {day}")


def due(live: list[LiveFile], past: list[PastFile] | None = None) -> list[UpkeepWork]:
    return [task.work for task in tasks(live, past or [], NOW, RULES)]


@for_each(
    "live, work",
    [
        ([], []),
        ([LARGE] * 100, []),
        ([SMALL] * 15, []),
        ([SMALL] * 16, [UpkeepWork.COMPACT]),
        ([SMALL] * 16 + [LARGE] * 17, []),
        ([small(day) for day in range(100)], []),
        ([small(n // 3) for n in range(99)], []),
        ([small(n // 4) for n in range(12)], []),
        ([small(n // 4) for n in range(100)], [UpkeepWork.COMPACT]),
    ],
)
def test_many_small_files_of_one_partition_are_merged(live: list[LiveFile], work: list[UpkeepWork]) -> None:
    assert due(live) == work


@for_each("deleted, work", [(None, []), (0, []), (99_999, []), (100_000, [UpkeepWork.PURGE])])
def test_a_tenth_of_deleted_rows_is_rewritten(deleted: int | None, work: list[UpkeepWork]) -> None:
    assert due([replace(LARGE, deleted=deleted)]) == work


def test_a_file_that_costs_nothing_to_read_is_left_with_its_deleted_rows() -> None:
    """Otherwise a table of a hundred rows would need upkeep after every tenth deletion."""
    assert due([LiveFile(999_999, 100, deleted=99)]) == []
    assert due([LiveFile(1_000_000, 100, deleted=99)]) == [UpkeepWork.PURGE]


@for_each(
    "past, work",
    [
        ([], []),
        ([PastFile("a", 9_999_999, 3, NOW - 8 * DAY)], []),
        ([PastFile("a", 10_000_000, 3, NOW - 8 * DAY)], [UpkeepWork.FREE]),
        ([PastFile("a", 1, 3, NOW - 14 * DAY)], [UpkeepWork.FREE]),
    ],
)
def test_what_nobody_needs_goes_once_it_is_much_or_old(past: list[PastFile], work: list[UpkeepWork]) -> None:
    assert due([LARGE], past) == work


def test_a_task_says_why() -> None:
    (task,) = tasks([SMALL] * 20, [], NOW, Rules(freed_age=timedelta(days=1)))
    assert task.why == "20 of 20 files are small"


def test_only_the_partitions_that_need_it_are_rewritten() -> None:
    """REORG need not rewrite what OPTIMIZE rewrites; files that OPTIMIZE leaves alone cost nothing."""
    huge = LiveFile(2 << 30, 1_000_000, 200_000, "day = 2")
    live = [small(1)] * 16 + [replace(LARGE, partition="day = 1", deleted=500_000)] + [small(2), huge, small(3)]
    compact, purge = tasks(live, [], NOW, RULES)
    assert (compact.work, compact.parts) == (UpkeepWork.COMPACT, (DuePart("day = 1", 100_016_000),))
    assert compact.why == "16 of 20 files are small in 1 of 3 partitions"
    assert (purge.work, purge.parts) == (UpkeepWork.PURGE, (DuePart("day = 2", 2 << 30),))

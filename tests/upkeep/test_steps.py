"""Within limits: what one run does of the work that is due, and what it leaves; without Spark."""

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.upkeep.due import DuePart, Task, UpkeepStep, UpkeepWork, steps_of, what_is_left

GB = 1_000_000_000


def compact(*gigabytes: int) -> Task:
    return Task(UpkeepWork.COMPACT, "", tuple(DuePart(f"day = {day}", size * GB) for day, size in enumerate(gigabytes)))


def test_a_limit_takes_the_smallest_partitions_first_and_says_what_it_leaves() -> None:
    steps = steps_of([Task(UpkeepWork.MARK, ""), compact(3, 1, 2), Task(UpkeepWork.FREE, "")], 3 * GB)
    rewritten = UpkeepStep(UpkeepWork.COMPACT, "(day = 1) OR (day = 2)", 2, 3 * GB)
    assert steps.now == (UpkeepStep(UpkeepWork.MARK), rewritten)
    assert steps.rest == (UpkeepStep(UpkeepWork.COMPACT, "day = 0", 1, 3 * GB), UpkeepStep(UpkeepWork.FREE))
    assert what_is_left(steps.rest) == "OPTIMIZE of 1 partition (3,000.0 MB), VACUUM"


def test_vacuum_waits_for_a_rewrite_that_waits_so_that_a_large_table_is_the_first_of_a_later_night() -> None:
    """Tables come in the order of their newest upkeep, and what is larger than the limit is rewritten first or never."""
    table, free = Task(UpkeepWork.COMPACT, "", (DuePart("", 9 * GB),)), Task(UpkeepWork.FREE, "")
    assert steps_of([table, free], GB, rewritten=GB).now == ()
    assert UpkeepStep(UpkeepWork.FREE) in steps_of([table, free], GB).now


def test_what_is_larger_than_the_limit_by_itself_is_rewritten_alone() -> None:
    table = Task(UpkeepWork.COMPACT, "", (DuePart("", 9 * GB),))
    assert steps_of([table], GB).now == (UpkeepStep(UpkeepWork.COMPACT, "", 0, 9 * GB),)
    assert steps_of([compact(9, 9)], GB) == steps_of([compact(9, 9)], 9 * GB)
    purge = Task(UpkeepWork.PURGE, "", (DuePart("", GB),))
    assert steps_of([table, purge], GB).rest == (UpkeepStep(UpkeepWork.PURGE, "", 0, GB),), "and the rest waits"


def test_a_statement_has_no_more_than_it_can_do_in_some_minutes() -> None:
    """So that a time limit is checked in between, and a run that is killed has done most of its work."""
    assert [step.parts for step in steps_of([compact(*[0] * 250)]).now] == [100, 100, 50]
    assert [step.bytes for step in steps_of([compact(4, 4, 4, 9)]).now] == [8 * GB, 4 * GB, 9 * GB]


@given(st.lists(st.integers(0, 12), max_size=30), st.integers(1, 40) | st.none())
def test_every_partition_is_done_or_left_and_a_run_keeps_its_limit(sizes: list[int], limit: int | None) -> None:
    steps = steps_of([compact(*sizes)], None if limit is None else limit * GB)
    assert sum(step.parts for step in (*steps.now, *steps.rest)) == len(sizes)
    done = [step.bytes // GB for step in steps.now]
    assert limit is None or sum(done) <= limit or sum(step.parts for step in steps.now if step.bytes) == 1
    assert not sizes or done, "each run does something, so that a backlog ends"

"""How much of the work that is due one run does: steps, each a statement; and what is left for the next run."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from lakehouse.delta.commit_info import count_of
from lakehouse.upkeep.due import DuePart, Task, UpkeepWork

_PARTS, _BYTES = 100, 8_000_000_000
"""The most partitions that one statement rewrites, and the most bytes if it has more than one partition; the time is
checked between statements."""


@dataclass(frozen=True, slots=True)
class UpkeepStep:
    """One statement.

    Args:
        work: What it does.
        where: The condition that selects its partitions; empty for the table.
        parts: How many partitions these are; 0 for the table.
        bytes: How much it rewrites.
    """

    work: UpkeepWork
    where: str = ""
    parts: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class Steps:
    """The steps of one run, and those for which its limit leaves no room."""

    now: tuple[UpkeepStep, ...]
    rest: tuple[UpkeepStep, ...] = ()


def steps_of(tasks: Sequence[Task], max_bytes: int | None = None, rewritten: int = 0) -> Steps:
    """The steps of the work that is due: the smallest partitions first, as far as a limit allows.

    VACUUM waits for a rewrite that waits: so the table counts as one whose upkeep is long ago, and is the first of a
    night, when the largest part fits.

    Args:
        tasks: The work.
        max_bytes: How much one run rewrites; None for everything. What is larger by itself, such as a table without
            partitions, is rewritten if nothing else is in the same run.
        rewritten: How much the run has rewritten of other tables.
    """
    now, later = list[UpkeepStep](), list[UpkeepStep]()
    for task in tasks:
        if not task.parts:
            waits = task.work is UpkeepWork.FREE and later
            (later if waits else now).append(UpkeepStep(task.work))
            continue
        fitting, rest = list[DuePart](), list[DuePart]()
        for part in sorted(task.parts, key=lambda part: (part.bytes, part.where)):
            fits = not rest and (max_bytes is None or rewritten == 0 or rewritten + part.bytes <= max_bytes)
            (fitting if fits else rest).append(part)
            rewritten += part.bytes if fits else 0
        now.extend(_steps(task.work, fitting))
        later.extend(_steps(task.work, rest))
    return Steps(tuple(now), tuple(later))


def _steps(work: UpkeepWork, parts: Sequence[DuePart]) -> Iterator[UpkeepStep]:
    batch = list[DuePart]()
    for part in parts:
        if batch and (len(batch) == _PARTS or sum(each.bytes for each in batch) + part.bytes > _BYTES):
            yield _step(work, batch)
            batch = []
        batch.append(part)
    if batch:
        yield _step(work, batch)


def _step(work: UpkeepWork, parts: Sequence[DuePart]) -> UpkeepStep:
    conditions = [part.where for part in parts if part.where]
    where = " OR ".join(f"({condition})" for condition in conditions) if len(conditions) > 1 else "".join(conditions)
    return UpkeepStep(work, where, len(conditions), sum(part.bytes for part in parts))


def what_is_left(steps: Sequence[UpkeepStep]) -> str:
    """What is left for the next run, as the end of a sentence."""
    works = dict.fromkeys(step.work for step in steps)
    return ", ".join(_in_short(work, [step for step in steps if step.work is work]) for work in works)


def _in_short(work: UpkeepWork, steps: Sequence[UpkeepStep]) -> str:
    parts, written = sum(step.parts for step in steps), sum(step.bytes for step in steps)
    of = f" of {count_of(parts, 'partition')}" if parts else ""
    return f"{work.value}{of} ({written / 1e6:,.1f} MB)" if written else f"{work.value}{of}"

"""The crash cases: where a run stops, what is killed, and when it is run again."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from tests.reliability.victim import PHASES, Point

Kill: TypeAlias = Literal["Python", "Python, then its JVM", "JVM", "both"]
"""Python: the shared JVM lives on and finishes the statement. Python, then its JVM: its own JVM ends by itself."""
Again: TypeAlias = Literal["at once", "before the zombie", "after the zombie", "beside the zombie"]
Rival: TypeAlias = Literal["OPTIMIZE first", "zombie first", "rerun first"]


@dataclass(frozen=True, slots=True)
class Case:
    """One crash.

    Args:
        step: The asset whose run is killed.
        point: Where the run is killed.
        kill: What is killed.
        again: When the run is repeated.
        rival: The order of a rival's OPTIMIZE under way, the zombie and the rerun; None if there is no rival.
        of_quarantine: Whether the point is in the commit of the quarantine, before that of the table.
        only_writes: Whether the platform refuses `MERGE` and `DELETE`, so that rows are replaced by a write.
    """

    step: str
    point: Point
    kill: Kill
    again: Again
    rival: Rival | None = None
    of_quarantine: bool = False
    only_writes: bool = False

    def __str__(self) -> str:
        rival = f", {self.rival}" if self.rival else ""
        step = f"{self.step}'s quarantine" if self.of_quarantine else self.step
        walls = ", over walls" if self.only_writes else ""
        return f"{step}, {self.point}, {self.kill} killed, again {self.again}{rival}{walls}"


STEPS = ("current", "archive", "totals")
IN_PYTHON: tuple[Point, ...] = ("before the cursor is read", "range pinned", "comparison computed", "answered")
IN_DELTA: tuple[Point, ...] = tuple(point for point in get_args(Point) if point in PHASES and point != "back-off")


def all_cases() -> Iterator[Case]:
    """Every case; cases that need a JVM of their own are spread out, so that it can start during other cases."""
    shared, own = list(_in_the_shared_jvm()), list(_in_a_jvm_of_its_own())
    every = max(1, len(shared) // len(own))
    for index, case in enumerate(shared):
        yield case
        if index % every == every - 1 and own:
            yield own.pop(0)
    yield from own


def _in_the_shared_jvm() -> Iterator[Case]:
    for step in STEPS:
        for point in IN_PYTHON:
            yield Case(step, point, "Python", "at once")
        for point in IN_DELTA:
            yield Case(step, point, "Python", "after the zombie")
            yield Case(step, point, "Python", "before the zombie")
        yield Case(step, "before the log entry", "Python", "beside the zombie")
    for again in ("after the zombie", "before the zombie"):
        yield Case("archive", "data partly written", "Python", again)
    for step in ("current", "totals"):
        yield Case(step, "back-off", "Python", "at once")
    yield from _of_kept_pasts()
    yield from _of_two_commits()
    yield from _over_walls()
    for step in ("current", "archive"):
        yield Case(step, "before the log entry", "Python", "after the zombie", "OPTIMIZE first")
        yield Case(step, "before the log entry", "Python", "after the zombie", "zombie first")
        yield Case(step, "before the log entry", "Python", "before the zombie", "rerun first")


def _of_kept_pasts() -> Iterator[Case]:
    """A history, an extract and the history of extracts: at the points where a commit is lost, doubled or overtaken.

    With a durable entry the rerun comes after the zombie: a run that compares an extract in the JVM of a zombie that
    is held there was observed to wait for the zombie.
    """
    for step in ("past", "kept"):
        for point in ("comparison computed", "answered"):
            yield Case(step, point, "Python", "at once")
        for again in ("after the zombie", "before the zombie", "beside the zombie"):
            yield Case(step, "before the log entry", "Python", again)
        yield Case(step, "entry durable", "Python", "after the zombie")
        yield Case(step, "back-off", "Python", "at once")
    yield Case("kept_past", "data written", "Python", "before the zombie")
    yield Case("kept_past", "before the log entry", "Python", "beside the zombie")
    yield Case("kept_past", "before the log entry", "Python", "after the zombie")
    yield Case("kept_past", "entry durable", "Python", "after the zombie")


def _of_two_commits() -> Iterator[Case]:
    """A table and its quarantine: at the points of both commits."""
    for of_quarantine in (True, False):
        for point in ("comparison computed", "answered"):
            yield Case("judged", point, "Python", "at once", of_quarantine=of_quarantine)
        for again in ("after the zombie", "before the zombie", "beside the zombie"):
            yield Case("judged", "before the log entry", "Python", again, of_quarantine=of_quarantine)
        for point in ("data written", "entry durable", "before the hooks"):
            yield Case("judged", point, "Python", "after the zombie", of_quarantine=of_quarantine)


def _over_walls() -> Iterator[Case]:
    """A write of rows in place of a `MERGE`, at the points where its commit is lost, doubled or overtaken."""
    for step in ("current", "totals", "kept"):
        yield Case(step, "answered", "Python", "at once", only_writes=True)
        yield Case(step, "back-off", "Python", "at once", only_writes=True)
        for again in ("after the zombie", "before the zombie", "beside the zombie"):
            yield Case(step, "before the log entry", "Python", again, only_writes=True)
        for point in ("data written", "entry durable"):
            yield Case(step, point, "Python", "after the zombie", only_writes=True)
    for rival in ("OPTIMIZE first", "zombie first"):
        yield Case("current", "before the log entry", "Python", "after the zombie", rival, only_writes=True)


def _in_a_jvm_of_its_own() -> Iterator[Case]:
    for index, point in enumerate(IN_DELTA):
        yield Case(STEPS[index % 3], point, "JVM", "at once")
        yield Case(STEPS[(index + 1) % 3], point, "both", "at once")
    yield Case("archive", "data partly written", "JVM", "at once")
    yield Case("archive", "data partly written", "both", "at once")
    yield Case("current", "range pinned", "JVM", "at once")
    yield Case("totals", "comparison computed", "both", "at once")
    yield Case("past", "before the log entry", "JVM", "at once")
    yield Case("kept", "entry durable", "both", "at once")
    yield Case("kept_past", "data written", "JVM", "at once")
    yield Case("judged", "before the log entry", "JVM", "at once", of_quarantine=True)
    yield Case("judged", "entry durable", "both", "at once", of_quarantine=True)
    yield Case("judged", "before the log entry", "both", "at once")
    yield Case("archive", "before the log entry", "Python, then its JVM", "at once")
    yield Case("current", "entry durable", "Python, then its JVM", "at once")


TELLING = (
    Case("archive", "entry durable", "Python", "before the zombie"),
    Case("current", "before the log entry", "Python", "beside the zombie"),
    Case("archive", "before the log entry", "Python", "after the zombie", "OPTIMIZE first"),
    Case("past", "before the log entry", "Python", "beside the zombie"),
    Case("kept", "before the log entry", "Python", "beside the zombie"),
    Case("judged", "before the log entry", "Python", "before the zombie", of_quarantine=True),
    Case("archive", "before the log entry", "both", "at once"),
)
"""The cases that run unless LAKEHOUSE_CRASHES=all asks for all of them."""

"""What a step tells those who listen: its phases, what it computes, and its messages.

Whoever listens stands in one list, which is that of the thread: a step and its queries are of one thread.
"""

import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from logging import WARNING
from typing import Literal, TypeAlias

from lakehouse.delta.commit_info import Rows
from lakehouse.delta.expect import Evaluation

Phase: TypeAlias = Literal["read", "look at the cursor", "plan", "execute", "find in the log"]


@dataclass(frozen=True, slots=True)
class PhaseBegan:
    """A phase of the step begins, inside the function whose work the phase is."""

    phase: Phase


@dataclass(frozen=True, slots=True)
class PhaseEnded:
    """A phase of the step ended, with a result or with an error."""

    phase: Phase
    seconds: float


@dataclass(frozen=True, slots=True)
class Doing:
    """What the step computes from now on, for example "comparing orders"."""

    what: str


@dataclass(frozen=True, slots=True)
class Message:
    """A sentence for the log of the run: `WARNING` of a lost attempt or unexpected work, `INFO` of a long query."""

    text: str
    level: int = WARNING


@dataclass(frozen=True, slots=True)
class Evaluated:
    """A plan has evaluated what its table expects of the rows; a later plan of the same step takes its place."""

    evaluations: tuple[Evaluation, ...]


@dataclass(frozen=True, slots=True)
class AllOutside:
    """A plan leaves out each row of the result, because none lies in a partition of the run."""


@dataclass(frozen=True, slots=True)
class QuarantineWritten:
    """The quarantine of the table has a new version, and these are the rows that it changed."""

    version: int
    rows: Rows


Notice: TypeAlias = PhaseBegan | PhaseEnded | Doing | Message | Evaluated | AllOutside | QuarantineWritten
Listener: TypeAlias = Callable[[Notice], None]


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told each notice, in order. What a listener raises is raised where the notice happened.

    Args:
        each: The listeners.
        pause: Seconds without a word of a query's progress: at its beginning, and between two sentences.
        interval: Seconds between two questions about the jobs of classic Spark.
    """

    each: tuple[Listener, ...] = ()
    pause: float = 10.0
    interval: float = 1.0


_LISTENERS: ContextVar[Listeners] = ContextVar("listeners", default=Listeners())  # noqa: B039  (it is frozen)


def listeners() -> Listeners:
    """Who listens to this thread."""
    return _LISTENERS.get()


def tell(notice: Notice) -> None:
    """Tells a notice to those who listen to this thread."""
    for listener in listeners().each:
        listener(notice)


@contextmanager
def listening(*more: Listener, **pace: float) -> Generator[None]:
    """While it is open, the notices of this thread are told to more listeners."""
    before = listeners()
    token = _LISTENERS.set(replace(before, each=(*before.each, *more), **pace))
    try:
        yield
    finally:
        _LISTENERS.reset(token)


@contextmanager
def phase(name: Phase) -> Generator[None]:
    """A phase of the step; as a decorator, a call of the function is one."""
    began = time.monotonic()
    tell(PhaseBegan(name))
    try:
        yield
    finally:
        tell(PhaseEnded(name, time.monotonic() - began))

"""The phases of a step, for whoever measures them: what is shown with a materialization, and benchmarks."""

import time
from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import TypeAlias

Lap: TypeAlias = Callable[[str], AbstractContextManager[object]]
"""Opened around a phase, by its name."""
_LAP: ContextVar[Lap | None] = ContextVar("lap", default=None)


@contextmanager
def measured_by(lap: Lap) -> Generator[None]:
    """While it is open, `lap` is opened around each phase of this context."""
    token = _LAP.set(lap)
    try:
        yield
    finally:
        _LAP.reset(token)


@contextmanager
def phase(name: str) -> Generator[None]:
    """A phase of the step; as a decorator, a call of the function is one."""
    lap = _LAP.get()
    if lap is None:
        yield
        return
    with lap(name):
        yield


def adding_to(seconds: dict[str, float]) -> Lap:
    """A lap that adds what each phase takes to its seconds."""

    @contextmanager
    def lap(name: str) -> Generator[None]:
        began = time.monotonic()
        try:
            yield
        finally:
            seconds[name] = seconds.get(name, 0.0) + time.monotonic() - began

    return lap

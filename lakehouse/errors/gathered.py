"""Errors of definitions: the first one is raised, or all of them are gathered for `lakehouse check`."""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from lakehouse.errors.base import LakehouseError


@dataclass
class Gathered:
    """What was refused of definitions, in spite of which the rest of them is looked at.

    Args:
        errors: The errors, each with the asset that it is about, if one is known.
        unread: The asset keys whose definitions could not be read.
        hides_more: Whether there may be others of these, whose keys are not known.
    """

    errors: list[tuple[str | None, Exception]] = field(default_factory=list[tuple[str | None, Exception]])
    unread: set[str] = field(default_factory=set[str])
    hides_more: bool = False

    def hides(self, asset: str) -> bool:
        """Whether something that could not be read may define an asset."""
        return self.hides_more or asset in self.unread


_GATHERED: ContextVar[Gathered | None] = ContextVar("gathered", default=None)


def gathering() -> Gathered | None:
    """What has been gathered so far; None where the first error is raised."""
    return _GATHERED.get()


@contextmanager
def gather() -> Generator[Gathered]:
    """Gathers what is refused within, instead of raising it."""
    gathered = Gathered()
    token = _GATHERED.set(gathered)
    try:
        yield gathered
    finally:
        _GATHERED.reset(token)


@contextmanager
def raise_first() -> Generator[None]:
    """Raises what is refused within, although it is asked for within `gather`."""
    token = _GATHERED.set(None)
    try:
        yield
    finally:
        _GATHERED.reset(token)


@contextmanager
def apart(asset: str | None = None) -> Generator[None]:
    """Within stands what can be refused without a word about what follows.

    Args:
        asset: The asset that it is about.
    """
    try:
        yield
    except LakehouseError as error:
        gathered = gathering()
        if gathered is None:
            raise
        gathered.errors.append((asset, error))

"""The root of the tree of errors, what its constructors give an error, and the run tags that sentences name."""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import wraps
from inspect import signature
from typing import Literal, ParamSpec, TypeAlias, TypeVar

FULL_REFRESH = "lakehouse/full_refresh"
"""Run tag: "true", or asset keys separated by commas. These tables are reconciled with their whole sources."""


GO_ON_FROM = "lakehouse/go_on_from/"
"""Run tag, with the asset key after it: the version of the source that an `Append` continues from, or "now"."""


RESTATE_FROM = "lakehouse/restate_from/"
"""Run tag, with the asset key after it: from when a `History` is restated, a time or the version of an extract."""


THAW = "lakehouse/thaw/"
"""Run tag, with the asset key after it: the condition of frozen rows that this run may rewrite too, or `unread`."""


ALLOW = "lakehouse/allow/"
"""Run tag, with the asset key after it: what this run lets through, one word or several."""


Allowed: TypeAlias = Literal["max_deleted", "version", "max_changed"]
"""A word of that tag. It lets through an extract with more deletions than `max_deleted`, an extract whose order is not
known (`version`), or, for any table, more changes than `max_changed`."""


class LakehouseError(Exception):
    """Every failure of this package.

    Args:
        happened: What happened, to which table, at which versions: a whole sentence.
        then: The sentences after that: what is true now, and what to do.
    """

    code: str = "LAKEHOUSE"
    """The name for documents and searches, as `lakehouse.<code>`: it stays the same when the sentences change."""
    is_temporary: bool = False
    """Whether another try may succeed: with another session, other rivals, other executors."""

    def __init__(self, happened: str, *then: str) -> None:
        self.happened = happened
        super().__init__(" ".join((happened, *then)))

    def add(self, sentence: str) -> None:
        """Adds a sentence about what is true now."""
        self.args = (f"{self} {sentence}",)


_P = ParamSpec("_P")
_E = TypeVar("_E", bound=LakehouseError)


def with_code(code: str, *, is_temporary: bool = False) -> Callable[[Callable[_P, _E]], Callable[_P, _E]]:
    """Gives the error that a constructor builds its code, and each argument of the constructor as an attribute."""

    def decorate(build: Callable[_P, _E]) -> Callable[_P, _E]:
        @wraps(build)
        def build_and_keep(*args: _P.args, **kwargs: _P.kwargs) -> _E:
            error, bound = build(*args, **kwargs), signature(build).bind(*args, **kwargs)
            bound.apply_defaults()
            _, *facts = bound.arguments.items()
            vars(error).update(facts, code=code, is_temporary=is_temporary)
            return error

        return build_and_keep

    return decorate


def in_short(error: Exception) -> str:
    """An error in one line: what happened, if it is of this package; of any other, its class and its first line."""
    if isinstance(error, LakehouseError):
        return error.happened.partition("\n")[0]
    return ": ".join([type(error).__name__, *str(error).splitlines()[:1]])


def clause(text: str) -> str:
    """A text for use inside a sentence of a message: without a full stop of its own."""
    return text.strip().rstrip(".")


@dataclass
class Gathered:
    """The definitions that were refused, while the other definitions are still looked at."""

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
    """Raises what is refused within, even if this is inside `gather`."""
    token = _GATHERED.set(None)
    try:
        yield
    finally:
        _GATHERED.reset(token)


@contextmanager
def apart(asset: str | None = None) -> Generator[None]:
    """Gathers an error raised inside it, if this is inside `gather`, so that what follows is still looked at."""
    try:
        yield
    except LakehouseError as error:
        gathered = gathering()
        if gathered is None:
            raise
        gathered.errors.append((asset, error))

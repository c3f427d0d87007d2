"""What a user asks of a run by its tags."""

from dataclasses import dataclass
from typing import Literal, TypeAlias

Allowed: TypeAlias = Literal["max_deleted", "version"]
"""What a run tag lets through: more deletions than `max_deleted`; an extract of which nobody can tell its order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserRequest:
    """What a user asks of a run, about one of its assets; by default nothing.

    Args:
        compare: Why a user asked to compare everything; None if no one did.
        go_on_from: The version of the source from which a refused `Append` continues, or "now"; of a `History` only
            "now".
        allowed: What is let through that would be refused.
        restate_from: From when a history is to be told again: a time, or the version of an extract.
    """

    compare: str | None = None
    go_on_from: int | Literal["now"] | None = None
    allowed: frozenset[Allowed] = frozenset()
    restate_from: str | None = None

    @property
    def overrides_mark(self) -> bool:
        """Whether the user has said what to do, so that a damaged mark is no reason to refuse the run."""
        return self.compare is not None or self.go_on_from is not None or "version" in self.allowed

    @property
    def decisions(self) -> tuple[str, ...]:
        """What the mark of the run's commit keeps of the request."""
        restated = () if self.restate_from is None else (f"restated from {self.restate_from}"[:200],)
        return *restated, *(f"allowed {each}" for each in sorted(self.allowed))

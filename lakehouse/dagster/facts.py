"""What a step tells of a table after its commit: each fact is fetched in a way that cannot fail the step."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from lakehouse.spark.evidence import first_line

_Fact = TypeVar("_Fact")
_PANIC = "PanicException"
"""What `deltalake` raises where its own code gives up. It is no Exception, and cannot be imported."""


@dataclass(frozen=True, slots=True)
class KnownFacts:
    """Fetches facts about a table that already holds the result.

    Args:
        asset: The name of the table in messages.
        tell: Receives a line about each fact that is left out.
    """

    asset: str
    tell: Callable[[str], None]

    def fetch(self, fact: str, ask: Callable[[], _Fact], otherwise: _Fact) -> _Fact:
        """The fact; `otherwise` if nobody can fetch the fact, whatever the reason."""
        try:
            return ask()
        except BaseException as error:
            if not isinstance(error, Exception) and type(error).__name__ != _PANIC:
                raise
            self.tell(f"The table of {self.asset} holds the result, and {fact} cannot be shown: {first_line(error)}")
            return otherwise

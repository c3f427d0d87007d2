"""Which rows of a table its runs may rewrite, by `Table(owns=...)`; all other rows are frozen."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime

from lakehouse.delta.text import fold


@dataclass(frozen=True, slots=True)
class RowCondition:
    """A condition on the columns of one row, as lakehouse/views/sql/owned_text.py reads it for one moment.

    Args:
        text: The condition as it is declared.
        pieces: The condition with the values of its edges, cut before each column.
        columns: The columns that it names, in lower case.
        moving: The columns that it compares with `:now` or `:today`, each with that parameter's name.
    """

    text: str
    pieces: tuple[str, ...]
    columns: frozenset[str]
    moving: frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Owned:
    """The rows that one run may rewrite: those for which the condition is true, and not NULL.

    Args:
        condition: What the table declares.
        moment: When the run began, in UTC; never before the moment of the last commit, so that no row thaws unasked.
        thaw: The condition of the rows that this run may rewrite too.
        before: The condition at the moment of the last commit, if rows may have frozen since; None if none can have.
    """

    condition: RowCondition
    moment: datetime
    thaw: RowCondition | None = None
    before: RowCondition | None = None

    def predicate(self, prefix: str = "") -> str:
        """The condition as SQL, each column after `prefix`."""
        own = prefix.join(self.condition.pieces)
        return own if self.thaw is None else f"({own}) OR ({prefix.join(self.thaw.pieces)})"

    @property
    def columns(self) -> frozenset[str]:
        """The columns that decide whether a row is owned, in lower case."""
        own = self.condition.columns
        return own if self.thaw is None else own | self.thaw.columns

    def follows_from(self, columns: Collection[str]) -> bool:
        """Whether the values of some columns, of a key for example, decide whether a row is owned."""
        return self.columns <= fold(columns)

    @property
    def texts(self) -> dict[str, str]:
        """What a mark keeps: the conditions as they are declared, and the moment."""
        thaw = {} if self.thaw is None else {"thaw": self.thaw.text}
        return {"where": self.condition.text, "moment": self.moment.isoformat(), **thaw}

    def __str__(self) -> str:
        return self.predicate()


def moment_of(seconds: float) -> datetime:
    """A time in seconds since the epoch, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)

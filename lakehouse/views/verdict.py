"""Why no keys follow the changes of a text: a value, found while the text is read or planned."""

from dataclasses import dataclass

from lakehouse.errors.views import TextPlace


@dataclass(frozen=True, slots=True)
class Reason:
    """Why all rows of a text are computed if one of its tables moved.

    Args:
        clause: What the text says, as a clause.
        place: Where it says it; None if that is no place in the text.
    """

    clause: str
    place: TextPlace | None = None


class NotFollowedError(Exception):
    """No keys follow the changes of a text. It ends the reading of the text, and reaches no user."""

    def __init__(self, clause: str, place: TextPlace | None = None) -> None:
        self.reason = Reason(clause, place)
        super().__init__(clause)

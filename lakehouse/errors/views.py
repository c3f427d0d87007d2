"""The text of a view that cannot be kept, or not be read: what stands where in it, and the way out."""

from dataclasses import dataclass

from lakehouse.errors.base import clause
from lakehouse.errors.setup import DefinitionError

WORDS = 60
"""So many characters of the text an error shows."""


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A place in the text of a view.

    Args:
        line: Its line; the first one is 1.
        column: The column of its first character; the first one is 1.
        words: The text there.
    """

    line: int
    column: int
    words: str

    @classmethod
    def of(cls, text: str, start: int, end: int) -> "TextPlace":
        """The place of some characters of a text, `end` excluded."""
        words = " ".join(text[start:end].split())
        shown = words if len(words) <= WORDS else f"{words[: WORDS - 4]} ..."
        return cls(text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start), shown)

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}: {self.words}"


class ViewError(DefinitionError):
    """The text of a view that says what cannot be kept.

    Args:
        code: A stable word for what is refused.
        what: What the text says, and why that cannot be kept: a sentence.
        place: Where the text says it; None if that is no place in the text.
        remedy: What to write instead, as sentences.
    """

    def __init__(self, code: str, what: str, place: TextPlace | None, remedy: str) -> None:
        self.what, self.place, self.remedy = what, place, remedy
        vars(self)["code"] = code
        where = "" if place is None else f" ({place})"
        super().__init__(f"{clause(what)}{where}.", remedy)

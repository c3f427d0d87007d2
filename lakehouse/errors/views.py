"""The text of a view that cannot be kept, or cannot be read: what is wrong, where, and what to write instead."""

from dataclasses import dataclass
from pathlib import Path

from lakehouse.errors.base import clause
from lakehouse.errors.setup import DefinitionError

WORDS = 60
"""How many characters of the text an error shows at most."""


@dataclass(frozen=True, slots=True)
class TextPlace:
    """A place in the text of a view."""

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
    """A view whose text asks for something that cannot be kept.

    Args:
        code: A stable word for what is refused.
        what: What the text says, and why that cannot be kept: a sentence.
        place: Where the text asks for it; None if it has no place in the text.
        remedy: What to write instead, as sentences.
        asset: The asset whose view the text is, if that is known.
        file: The file that holds the text, if that is known.
        line: The line of the file where the text begins.
    """

    def __init__(
        self,
        code: str,
        what: str,
        place: TextPlace | None,
        remedy: str,
        *,
        asset: str | None = None,
        file: str | None = None,
        line: int = 1,
    ) -> None:
        self.what, self.place, self.remedy, self.asset, self.file, self.line = what, place, remedy, asset, file, line
        vars(self)["code"] = code
        view = None if asset is None else f"View '{asset}'"
        within = " in ".join(part for part in (view, None if file is None else shown(file)) if part is not None)
        where = "" if place is None else f" ({place})"
        super().__init__(f"{within}{': ' if within else ''}{clause(what)}{where}.", remedy)


def shown(file: str) -> str:
    """The path of a file as messages show it: from the current directory, if the file is below that."""
    path, here = Path(file), Path.cwd()
    return str(path.relative_to(here)) if path.is_relative_to(here) else file

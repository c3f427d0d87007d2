"""What is wrong with the text of a view."""

from dataclasses import dataclass

from lakehouse.errors.base import DefinitionError


@dataclass(frozen=True, slots=True)
class PlaceInText:
    line: int
    column: int
    words: str
    file: str | None = None


class ViewError(DefinitionError):
    """The text of a view that could never be followed."""

    code = "VIEW"

    def __init__(self, reason: str, what: str, place: PlaceInText | None, remedy: str) -> None:
        self.reason, self.what, self.place, self.remedy = reason, what, place, remedy
        at = "" if place is None else f"{place.file or 'the text'}, line {place.line}, column {place.column}: "
        super().__init__(f"[{reason}] {at}{what}.", remedy)

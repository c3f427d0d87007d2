"""The text of a view as its author wrote it, its place in a file, for messages, and why no keys follow it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from lakehouse.errors.views import TextPlace, ViewError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a text begins.

    Args:
        file: The path of the file; None if no file is known that the text came from.
        line: The line of its first character in the file, from 1.
        column: The column of its first character in that line, from 1.
        is_verbatim: Whether the file has the text letter by letter; if not, every place in the text is where it begins.
    """

    file: str | None = None
    line: int = 1
    column: int = 1
    is_verbatim: bool = True

    def after(self, text: str, offset: int) -> "Origin":
        """Where the rest of a text begins, from an offset on, if the text begins here."""
        lines, column = text.count("\n", 0, offset), offset - text.rfind("\n", 0, offset)
        return Origin(self.file, self.line + lines, column if lines else self.column + column - 1)

    def place(self, at: TextPlace | None) -> TextPlace | None:
        """A place in the text, as a place in its file."""
        if at is None or not self.is_verbatim:
            return at and replace(at, line=self.line, column=self.column)
        column = at.column if at.line > 1 else self.column + at.column - 1
        return replace(at, line=self.line + at.line - 1, column=column)


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column that the head of a statement declares.

    Args:
        name: Its name, which the column of the query at the same position gets.
        type: Its type as SQL, to which values are cast as INSERT casts them; None leaves the query's type.
    """

    name: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Reason:
    """Why all rows of a text are computed if one of its tables changed.

    Args:
        clause: The reason, as a clause.
        place: Where the text shows it; None if it is at no single place in the text.
    """

    clause: str
    place: TextPlace | None = None


class NotFollowedError(Exception):
    """No keys follow the changes of a text. It ends the reading of the text, and reaches no user."""

    def __init__(self, clause: str, place: TextPlace | None = None) -> None:
        self.reason = Reason(clause, place)
        super().__init__(clause)


@dataclass(frozen=True, slots=True)
class ViewText:
    """A query, its arguments, and what its file declares.

    Args:
        text: The query, letter by letter as its author wrote it.
        args: The values of Spark's named parameters.
        origin: Where the query begins.
        inputs: The input behind each table that the text names, by the table's name in lower case. A table that is not
            in it is the input of the same name.
        columns: The columns that a head declares, in order; empty if the query alone decides.
        required: The columns of the result, in lower case, in which NULL is refused.
        touch: The columns of the result by which changes are followed; empty if they are chosen by the text.
    """

    text: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    origin: Origin = Origin()
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    columns: tuple[OutputColumn, ...] = ()
    required: frozenset[str] = frozenset()
    touch: tuple[str, ...] = ()

    def input_of(self, table: str) -> str:
        """The name of the input behind a table of the text."""
        return self.inputs.get(table.lower(), table)


def view_error(code: str, what: str, remedy: str, text: str, offset: int, origin: Origin) -> ViewError:
    """The refusal of a text at one of its characters."""
    end = text.find("\n", offset)
    place = TextPlace.of(text, offset, len(text) if end < 0 else end)
    return with_place(ViewError(code, what, place, remedy), origin)


def with_place(error: ViewError, origin: Origin, asset: str | None = None) -> ViewError:
    """The refusal of a text, with the place in its file, and the asset that the text makes."""
    place = origin.place(error.place)
    return ViewError(error.code, error.what, place, error.remedy, asset=asset, file=origin.file, line=origin.line)

"""The text of a view as its author wrote it, and where it stands, so that a message can point into a file."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from lakehouse.errors.views import PlaceInText, ViewError


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a text begins.

    Args:
        file: The file; None if the text came from no file that is known.
        line: The line of its first character in the file, from 1.
        column: The column of its first character in that line, from 1.
    """

    file: str | None = None
    line: int = 1
    column: int = 1

    def line_and_column(self, text: str, offset: int) -> tuple[int, int]:
        """The line and the column of a character of the text, counted in the file."""
        before = text[:offset]
        lines = before.count("\n")
        column = len(before) - before.rfind("\n")
        return self.line + lines, column if lines else self.column + column - 1


@dataclass(frozen=True, slots=True)
class OutputColumn:
    """A column that the head of a statement declares.

    Args:
        name: Its name, which the column of the query at the same position gets.
        type: Its type as SQL, to which values are cast as INSERT casts them; None leaves the query's type.
        required: Whether NULL is refused.
    """

    name: str
    type: str | None = None
    required: bool = False


@dataclass(frozen=True, slots=True)
class ViewText:
    """A query, its arguments, and what its file says of it.

    Args:
        text: The query, letter by letter as its author wrote it.
        args: The values of Spark's named parameters.
        origin: Where the query begins.
        inputs: The input behind each table that the text names, by the name in lower case. A table that is not in it is
            the input of the same name.
        columns: The columns that a head declares, in order; empty if the query alone decides.
    """

    text: str
    args: Mapping[str, Any] = field(default_factory=dict[str, Any])
    origin: Origin = Origin()
    inputs: Mapping[str, str] = field(default_factory=dict[str, str])
    columns: tuple[OutputColumn, ...] = ()

    def input_of(self, table: str) -> str:
        """The name of the input that is a table of the text."""
        return self.inputs.get(table.lower(), table)


def view_error(code: str, what: str, remedy: str, text: str, offset: int, origin: Origin) -> ViewError:
    """The refusal of a text at a place of its own."""
    line, column = origin.line_and_column(text, offset)
    words = text[offset:].split("\n", maxsplit=1)[0][:40]
    return ViewError(code, what, PlaceInText(line, column, words, origin.file), remedy)

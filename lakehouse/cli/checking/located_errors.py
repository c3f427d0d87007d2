"""An error of definitions as a line: where it is, its code, what is wrong."""

import re
import traceback
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

from lakehouse.cli.loading import in_our_words
from lakehouse.dagster.code.project import innermost_of
from lakehouse.dagster.code_location import AssetTable, function_of, is_function
from lakehouse.errors import LakehouseError
from lakehouse.errors.base import clause
from lakehouse.errors.views import TextPlace, ViewError, shown


@dataclass(frozen=True, slots=True, order=True)
class LocatedError:
    """What is refused, and where.

    Args:
        file: The file, as a path from the current directory if it is below that; empty if no file is known.
        line: The line, from 1.
        column: The column, from 1.
        code: The code of the error; of an error that is not the library's, its class.
        sentence: What is wrong, and what to do, in one line.
    """

    file: str
    line: int
    column: int
    code: str
    sentence: str

    @classmethod
    def of(cls, error: BaseException, table: AssetTable | None = None) -> "LocatedError":
        """The refusal that an error is.

        Args:
            error: The error.
            table: The table that it is about.
        """
        while not isinstance(error, LakehouseError) and error.__cause__ is not None:
            error = error.__cause__
        error = in_our_words(error)
        file, line, column = _place_of(error, table)
        if isinstance(error, ViewError):
            code, sentence = error.code, f"{clause(error.what)}. {error.remedy}"
        elif isinstance(error, LakehouseError):
            code, sentence = error.code, str(error)
        else:
            code, sentence = type(error).__name__, _sentence_of(error)
        return cls(shown(file), line, column, code, " ".join(sentence.split()))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.code} {self.sentence}"


_WRONG_IN_YAML = re.compile(
    r"`(?P<key>[^`\n]+?) at (?P<file>[^`\n]+):(?P<line>\d+)`\n *(?P<what>[^\n]+?)(?: \[type=|\n|$)"
)
"""What Dagster says of a value in YAML that a component does not take, the first of several."""


def _sentence_of(error: BaseException) -> str:
    """What an error says that is not the library's."""
    wrong = _WRONG_IN_YAML.search(str(error))
    if wrong is not None:
        return f"{wrong['key']}: {wrong['what']}"
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _place_of(error: BaseException, table: AssetTable | None) -> tuple[str, int, int]:
    """The file, the line and the column that an error is about."""
    match error:
        case ViewError(file=str(file), place=TextPlace(line=line, column=column)):
            return file, line, column
        case ViewError(file=str(file), line=line):
            return file, line, 1
        case SyntaxError(filename=str(file), lineno=int(line)):
            return file, line, error.offset or 1
        case _ if (wrong := _WRONG_IN_YAML.search(str(error))) is not None:
            return wrong["file"], int(wrong["line"]), 1
        case _:
            return (table and _place_of_table(table)) or _place_in_project(error)


def _place_of_table(table: AssetTable) -> tuple[str, int, int] | None:
    """Where a table is defined: the file that its asset refers to, else its function."""
    spec = None if table.asset is None else table.asset.specs_by_key[table.key]
    references: Any = None if spec is None else spec.metadata.get("dagster/code_references")
    for reference in () if references is None else references.code_references:
        if isinstance(reference, dg.LocalFileCodeReference):
            return reference.file_path, reference.line_number or 1, 1
    function = innermost_of(function_of(table.asset)) if is_function(table.asset) else None
    code = getattr(function, "__code__", None)
    return None if code is None else (code.co_filename, code.co_firstlineno, 1)


def _place_in_project(error: BaseException) -> tuple[str, int, int]:
    """The innermost line of the current directory's own code that an error has passed."""
    here = Path.cwd()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(here) and "site-packages" not in path.parts and frame.lineno is not None:
            return frame.filename, frame.lineno, (frame.colno or 0) + 1
    return "", 1, 1

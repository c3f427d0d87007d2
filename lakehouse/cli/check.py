"""`lakehouse check`: what can be found wrong in definitions without reading rows, one line for each finding."""

import re
import sys
import traceback
from argparse import ArgumentParser, Namespace
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING, Any
from warnings import catch_warnings

import dagster as dg
from yaml import Mark, MarkedYAMLError

from lakehouse.cli.command import (
    Answer,
    Command,
    UsageError,
    add_json,
    add_target,
    definitions,
    has_project,
    in_our_words,
    target,
)
from lakehouse.dagster.code.source import innermost_of
from lakehouse.dagster.code_location import AssetTable, function_of, is_function
from lakehouse.delta.commit_info import count_of
from lakehouse.errors import LakehouseError
from lakehouse.errors.base import Gathered, clause, gather, raise_first
from lakehouse.errors.views import TextPlace, ViewError, shown

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.code_location import CodeLocation


@dataclass(frozen=True, slots=True, order=True)
class LocatedError:
    """What is refused, and where."""

    file: str
    line: int
    column: int
    code: str
    sentence: str

    @classmethod
    def of(cls, error: BaseException, table: AssetTable | None = None) -> "LocatedError":
        """What an error refuses, and where; the table is the one that the error is about, if that is known."""
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
"""Dagster's message about a value in YAML that a component does not accept; the first, if there are several."""


def _sentence_of(error: BaseException) -> str:
    """The message of an error that is not the library's own."""
    wrong = _WRONG_IN_YAML.search(str(error))
    if wrong is not None:
        return f"{wrong['key']}: {wrong['what']}"
    if isinstance(error, MarkedYAMLError):
        return f"{error.problem}. Dagster reads no other file of the folder before this one can be read."
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
        case MarkedYAMLError(problem_mark=Mark() as mark):
            return mark.name, mark.line + 1, mark.column + 1
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
    """The innermost line in an error's traceback that is code of the current directory; no file if there is none."""
    here = Path.cwd()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(here) and "site-packages" not in path.parts and frame.lineno is not None:
            return frame.filename, frame.lineno, (frame.colno or 0) + 1
    return "", 1, 1


_COMPONENTS = ("defs.yaml", "component.yaml")


def _add_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    add_json(parser)


def _run(given: Namespace) -> Answer:
    from lakehouse.dagster.code_location import CodeLocation
    from lakehouse.dagster.io_manager import code_location_of

    code_location = CodeLocation({}, lambda _: None)
    with gather() as gathered:
        defs = _load(given, gathered)
        with _keep_errors(gathered):
            code_location = code_location_of(defs)
            _refuse_all(defs, code_location)
    tables = code_location.by_name
    lines = sorted({LocatedError.of(error, tables.get(asset or "")) for asset, error in gathered.errors})
    text = [*map(str, lines), _summary(len(lines), code_location, gathered)]
    return Answer({"findings": [asdict(each) for each in lines]}, "\n".join(text), code=int(bool(lines)))


def _refuse_all(defs: "dg.Definitions", code_location: "CodeLocation") -> None:
    """Refuses what `validate` refuses, and columns that do not exist."""
    from lakehouse.cli.column_refusals import refuse_unknown_columns
    from lakehouse.cli.tables import readable_logs
    from lakehouse.dagster.definitions.validation import validate_location

    validate_location(defs, code_location)
    refuse_unknown_columns(code_location, readable_logs(code_location).logs)


def _summary(refused: int, code_location: "CodeLocation", gathered: Gathered) -> str:
    if not refused:
        return f"Nothing is refused. Tables: {len(code_location.tables)}."
    more = " Tables that nothing defines are named once all files can be read." if gathered.hides_more else ""
    return f"{count_of(refused, 'finding')}.{more}"


@contextmanager
def _keep_errors(gathered: Gathered) -> Generator[None]:
    """Keeps whatever the user's code raises in the block; what that code would have defined is then unknown."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        gathered.errors.append((None, error))
        gathered.hides_more = True


def _load(given: Namespace, gathered: Gathered) -> "dg.Definitions":
    """The definitions, as Dagster loads them; if that fails, the definitions of those parts that load."""
    import dagster as dg

    from lakehouse.dagster.remake import with_each_once

    whole = Gathered()
    with _keep_errors(whole), raise_first():
        defs = definitions(given)
        dg.Definitions.validate_loadable(defs)
        return with_each_once(defs)
    parts = list[dg.Definitions]()
    with _keep_errors(gathered):
        try:
            parts = [definitions(given)]
        except Exception:
            if target(given).is_named or not has_project():
                raise
            parts = _parts_of_project(gathered)
            gathered.hides_more = True
    merged = dg.Definitions()
    for part in parts:
        with _keep_errors(gathered):
            merged = dg.Definitions.merge(merged, part)
    if not gathered.errors:
        gathered.errors += whole.errors
    return with_each_once(merged)


def _parts_of_project(gathered: Gathered) -> "list[dg.Definitions]":
    """The definitions of each part of a project's folder that loads: a module, or a folder with a component."""
    import dagster as dg

    parts = list[dg.Definitions]()
    with _keep_errors(gathered), catch_warnings(action="ignore"):
        tree = dg.ComponentTree.for_project(Path.cwd())
        folder = tree.defs_module_path
        components = sorted({path.parent for name in _COMPONENTS for path in folder.rglob(name)})
        modules = [path for path in sorted(folder.rglob("*.py")) if not any(map(path.is_relative_to, components))]
        for path in modules:
            _stand_in_if_broken(_module_name(tree.defs_module_name, path.relative_to(folder)), gathered)
        for path in [*components, *(path for path in modules if path.name != "__init__.py")]:
            with _keep_errors(gathered):
                parts.append(tree.build_defs_at_path(path))
    return parts


def _module_name(package: str, path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join((package, *(parts[:-1] if parts[-1] == "__init__" else parts)))


def _stand_in_if_broken(name: str, gathered: Gathered) -> None:
    """Replaces a module that cannot be imported by an empty one, so that Dagster reads the other modules."""
    with _keep_errors(gathered):
        resolve_name(f"{name}:")
        return
    sys.modules[name] = ModuleType(name)


CHECK = Command(_add_arguments, _run)

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
from typing import Any, Self
from warnings import catch_warnings

import dagster as dg
from dagster_shared.yaml_utils import parse_yamls_with_source_position
from yaml import Mark, MarkedYAMLError

from lakehouse.cli.column_refusals import refuse_unknown_columns
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
from lakehouse.cli.tables import readable_logs
from lakehouse.dagster.code.source import innermost_of
from lakehouse.dagster.code.view_texts import texts_of
from lakehouse.dagster.code_location import AssetTable, CodeLocation, function_of, is_function
from lakehouse.dagster.definitions.validation import validate_location
from lakehouse.dagster.io_manager import code_location_of
from lakehouse.dagster.remake import with_each_once
from lakehouse.delta.commit_info import count_of
from lakehouse.errors import DefinitionError, LakehouseError
from lakehouse.errors.base import Gathered, apart, clause, gather, raise_first
from lakehouse.errors.views import TextPlace, ViewError, shown

_COMPONENTS = ("defs.yaml", "component.yaml")
"""The files that hold components."""
_TREE = re.compile(r"Error while [a-z ]+ (?P<folder>[^\s\[]+)(?:\[(?P<index>\d+)\])?:\n")
"""How Dagster says which component of the folder `defs` failed; after that it draws the whole folder."""
_AT_LOAD = re.compile(
    r"`(?P<key>[^`\n]+?)(?:\.constrained-\w+)? at (?P<file>[^`\n]+):(?P<line>\d+)`\n"
    r" *(?P<what>[^\n]+?)(?: \[type=|\n|$)"
)
"""A value that a component does not take; the first, if there are several. pydantic adds a word for a range."""
_AT_RESOLVE = re.compile(r"(?P<file>[^\n]+):(?P<line>\d+) - (?P<key>[^\n]+)\n")
"""A value that became wrong as its templates were filled in; after that stand lines of YAML, and a traceback."""
_FIELD = re.compile(r"validation errors? for \w+\n(?P<key>\S+)\n  (?:Value error, )?(?P<what>[^\n]+?)(?: \[type=|\n|$)")
"""The field that pydantic refuses; the first, if there are several."""


class _ComponentError(Exception):
    """A component that cannot be loaded; the cause says why.

    Args:
        file: Its file.
        index: Which of the file's documents it is.
    """

    def __init__(self, file: Path, index: int) -> None:
        super().__init__(f"{file}, document {index}")
        self.file, self.index = file, index

    @classmethod
    def of(cls, error: Exception, folder: Path) -> Self | None:
        """The component whose failure Dagster reports; None if the error is not such a report.

        Args:
            error: The error.
            folder: The folder `defs`.
        """
        failed = _TREE.match(str(error))
        if failed is None:
            return None
        path = folder / failed["folder"]
        file = next((path / name for name in _COMPONENTS if (path / name).is_file()), path)
        return cls(file, int(failed["index"] or 0)) if file.is_file() else None

    def line_of(self, key: str) -> int:
        """The line of a value, or of what would hold it; without a key, that of the component."""
        if self.file.name not in _COMPONENTS:
            return 1
        documents = parse_yamls_with_source_position(self.file.read_text(encoding="utf-8"), str(self.file))
        positions = documents[self.index].source_position_tree
        position, _ = positions.lookup_closest_and_path(key.split("."), None)
        return position.start.line


@dataclass(frozen=True, slots=True)
class _YamlMistake:
    """A value in YAML that a component does not accept."""

    file: str
    line: int
    key: str
    what: str

    @classmethod
    def of(cls, error: BaseException, component: _ComponentError | None) -> Self | None:
        """What an error says about a value; None if it is about something else.

        Args:
            error: The error.
            component: The component that the error is about, if that is known.
        """
        text = str(error)
        if (value := _AT_LOAD.search(text)) is not None:
            return cls(value["file"], int(value["line"]), value["key"], value["what"])
        field = _FIELD.search(text)
        if (at := _AT_RESOLVE.match(text)) is not None:
            key = at["key"] if field is None else f"{at['key']}.{field['key']}"
            return cls(at["file"], int(at["line"]), key, _last_sentence(text) if field is None else field["what"])
        if field is None or component is None:
            return None
        key = f"attributes.{field['key']}"
        return cls(str(component.file), component.line_of(key), key, field["what"])


def _last_sentence(text: str) -> str:
    """The last line of a traceback, without the class of the error."""
    *_, last = text.strip().splitlines()
    return re.sub(r"^[\w.]+: ", "", last)


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
        component = error if isinstance(error, _ComponentError) else None
        while not isinstance(error, LakehouseError) and error.__cause__ is not None:
            error = error.__cause__
        error = in_our_words(error)
        mistake = _YamlMistake.of(error, component)
        file, line, column = _place_of(error, mistake, table) or _place_of_component(component)
        if isinstance(error, ViewError):
            code, sentence = error.code, f"{clause(error.what)}. {error.remedy}"
        elif isinstance(error, LakehouseError):
            code, sentence = error.code, str(error)
        else:
            code, sentence = type(error).__name__, _sentence_of(error, mistake)
        return cls(shown(file), line, column, code, " ".join(sentence.split()))

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column} {self.code} {self.sentence}"


def _sentence_of(error: BaseException, mistake: _YamlMistake | None) -> str:
    """The message of an error that is not the library's own."""
    if mistake is not None:
        return f"{mistake.key}: {mistake.what}"
    if isinstance(error, MarkedYAMLError):
        return f"{error.problem}. Dagster reads no other file of the folder before this one can be read."
    return error.msg if isinstance(error, SyntaxError) else str(error)


def _place_of(
    error: BaseException, mistake: _YamlMistake | None, table: AssetTable | None
) -> tuple[str, int, int] | None:
    """The file, the line and the column that an error is about; None if it names none."""
    match error:
        case ViewError(file=str(file), place=TextPlace(line=line, column=column)):
            return file, line, column
        case ViewError(file=str(file), line=line):
            return file, line, 1
        case SyntaxError(filename=str(file), lineno=int(line)):
            return file, line, error.offset or 1
        case MarkedYAMLError(problem_mark=Mark() as mark):
            return mark.name, mark.line + 1, mark.column + 1
        case _ if mistake is not None:
            return mistake.file, mistake.line, 1
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


def _place_of_component(component: _ComponentError | None) -> tuple[str, int, int]:
    """Where a component is; no file if there is none."""
    return ("", 1, 1) if component is None else (str(component.file), component.line_of(""), 1)


def _place_in_project(error: BaseException) -> tuple[str, int, int] | None:
    """The innermost line in an error's traceback that is code of the current directory; None if there is none."""
    here = Path.cwd()
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        path = Path(frame.filename)
        if path.is_relative_to(here) and "site-packages" not in path.parts and frame.lineno is not None:
            return frame.filename, frame.lineno, (frame.colno or 0) + 1
    return None


def _add_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    add_json(parser)


def _run(given: Namespace) -> Answer:
    code_location = CodeLocation({}, lambda _: None)
    with gather() as gathered:
        defs = _load(given, gathered)
        with _keep_errors(gathered):
            code_location = code_location_of(defs)
            validate_location(defs, code_location)
            refuse_unknown_columns(code_location, readable_logs(code_location).logs)
    tables = code_location.by_name
    lines = sorted({LocatedError.of(error, tables.get(asset or "")) for asset, error in gathered.errors})
    text = [*map(str, lines), _summary(len(lines), code_location, gathered)]
    return Answer({"findings": [asdict(each) for each in lines]}, "\n".join(text), code=int(bool(lines)))


def _summary(refused: int, code_location: CodeLocation, gathered: Gathered) -> str:
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


def _load(given: Namespace, gathered: Gathered) -> dg.Definitions:
    """The definitions, as Dagster loads them; if that fails, the definitions of those parts that load."""
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
    merged = with_each_once(merged)
    with _keep_errors(gathered):
        _refuse_undefined_sources(merged, gathered)
    if not gathered.errors:
        gathered.errors += whole.errors
    return merged


def _refuse_undefined_sources(defs: dg.Definitions, gathered: Gathered) -> None:
    """Refuses an asset that reads what nothing defines, as Dagster does without a place; `validate` refuses views."""
    tables = code_location_of(defs).tables
    for table in tables.values():
        for key in () if is_function(table.asset) and texts_of(function_of(table.asset)) else table.values:
            if key not in tables and not gathered.hides(source := key.to_user_string()):
                with apart(table.name):
                    raise DefinitionError(
                        f"Asset '{table.name}' reads '{source}', and nothing in this code location defines it.",
                        f"Correct the name, or add a dg.AssetSpec({key.path!r}) if another code location makes the "
                        f"table (in YAML: a component DeltaSources).",
                    )


def _parts_of_project(gathered: Gathered) -> list[dg.Definitions]:
    """The definitions of each part of a project's folder that loads: a module, or a folder with a component."""
    parts = list[dg.Definitions]()
    with _keep_errors(gathered), catch_warnings(action="ignore"):
        tree = dg.ComponentTree.for_project(Path.cwd())
        folder = tree.defs_module_path
        components = sorted({path.parent for name in _COMPONENTS for path in folder.rglob(name)})
        modules = [path for path in sorted(folder.rglob("*.py")) if not any(map(path.is_relative_to, components))]
        for path in modules:
            _stand_in_if_broken(_module_name(tree.defs_module_name, path.relative_to(folder)), gathered)
        for path in [*components, *(path for path in modules if path.name != "__init__.py")]:
            with _keep_errors(gathered), _name_component(folder):
                parts.append(tree.build_defs_at_path(path))
    return parts


@contextmanager
def _name_component(folder: Path) -> Generator[None]:
    """Says of an error raised in the block which component of the folder `defs` it is about."""
    try:
        yield
    except Exception as error:
        component = _ComponentError.of(error, folder)
        if component is None:
            raise
        raise component from error


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

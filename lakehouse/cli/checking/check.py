"""`lakehouse check`: everything that can be known of definitions without rows, one line for each finding."""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from pkgutil import resolve_name
from types import ModuleType
from typing import TYPE_CHECKING
from warnings import catch_warnings

from lakehouse.cli.command import Answer, Command, UsageError, add_json, add_target
from lakehouse.cli.loading import definitions, has_project, target
from lakehouse.delta.commit_info import count_of
from lakehouse.errors.gathered import Gathered, gather, raise_first

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.code_location import CodeLocation

_COMPONENTS = ("defs.yaml", "component.yaml")


def _add_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    add_json(parser)


def _run(given: Namespace) -> Answer:
    from lakehouse.cli.checking.located_errors import LocatedError
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
    """Refuses what `validate` refuses, and columns that are not there."""
    from lakehouse.cli.checking.column_refusals import refuse_unknown_columns
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
    """Keeps whatever the user's code raises within: what it would have defined is not known."""
    try:
        yield
    except UsageError:
        raise
    except Exception as error:
        gathered.errors.append((None, error))
        gathered.hides_more = True


def _load(given: Namespace, gathered: Gathered) -> "dg.Definitions":
    """The definitions, as Dagster loads them; if that fails, those of the parts that load."""
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
    """Puts an empty module in the place of one that cannot be imported, so that Dagster reads the others."""
    with _keep_errors(gathered):
        resolve_name(f"{name}:")
        return
    sys.modules[name] = ModuleType(name)


CHECK = Command(_add_arguments, _run)

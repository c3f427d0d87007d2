"""A project in an empty folder, with components in it, made as Dagster's own tests of components make one."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent

import dagster as dg
from dagster.components.testing import create_defs_folder_sandbox

from lakehouse import incremental

LAKE = "type: dagster_delta_lakehouse.Lakehouse\nattributes: {root: lake}\n"
UNSTABLE = ("ignore:.* is currently in (beta|preview)", "ignore:.parse_obj_as. is deprecated")
"""Warnings of Dagster and pydantic about the code of Dagster's components."""


@contextmanager
def definitions_of(files: dict[str, str]) -> Iterator[dg.Definitions]:
    """The definitions of a project whose folder `defs` has these files."""
    with create_defs_folder_sandbox() as sandbox:
        for name, text in files.items():
            path = sandbox.defs_folder_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(dedent(text))
        with sandbox.build_all_defs() as definitions:
            yield definitions


@contextmanager
def lakehouse_of(files: dict[str, str]) -> Iterator[dg.Definitions]:
    """The same with a `Lakehouse`, and complete: as `definitions.py` gives them to Dagster."""
    with definitions_of({"lake/defs.yaml": LAKE, **files}) as definitions:
        complete = incremental(definitions)
        complete.get_repository_def()
        yield complete


def assets_of(definitions: dg.Definitions) -> dict[str, dg.AssetSpec]:
    """The spec of each asset of the definitions, by its key."""
    return {spec.key.to_user_string(): spec for spec in definitions.resolve_all_asset_specs()}


def root_of(definitions: dg.Definitions) -> Path:
    """The directory in which the IO manager keeps its tables."""
    return Path((definitions.resources or {})["io_manager"].location.path)

"""What the page of an asset shows before its first run: where its table is, its columns, its code, its kinds.

In Dagster's own keys, so that the catalog, the lineage and other tools read them.
"""

import inspect
import warnings
from pathlib import Path
from typing import Any

import dagster as dg

from lakehouse.dagster.code_location import AssetTable, function_of, is_function
from lakehouse.dagster.table_facts import STORAGE_KIND, column_schema, table_metadata
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Storage
from lakehouse.errors import LakehouseError
from lakehouse.spark.table_version import TableRef
from lakehouse.spark.types import as_struct

DEFAULT_KINDS = {STORAGE_KIND, "spark"}
"""The kinds of an asset that names none."""
_SCHEMA, _CODE = "dagster/column_schema", "dagster/code_references"


def with_page(definition: Any, table: AssetTable) -> Any:
    """The asset, or the spec of a table, with what its page shows; what the user gave stays."""
    ref = table.ref
    if ref is None:
        return definition
    facts: dict[str, Any] = {**table_metadata(ref), **_columns(ref), **_code(definition)}

    def shown(spec: dg.AssetSpec) -> dg.AssetSpec:
        missing = {name: value for name, value in facts.items() if name not in spec.metadata}
        kinds = set[str]() if spec.kinds or table.is_spec else DEFAULT_KINDS
        return spec.merge_attributes(metadata=missing, kinds=kinds)

    if isinstance(definition, dg.AssetSpec):
        return shown(definition)
    return definition.map_asset_specs(shown)


def _columns(ref: TableRef) -> dict[str, Any]:
    """The columns of a table of this machine, by its log; nothing of a table that is elsewhere or is not there yet."""
    if ref.files is None or ref.files.storage is not Storage.FILES or ref.why_only_spark() is not None:
        return {}
    log = FileLog(ref.files, ref.name)
    try:
        head = log.head()
        schema = None if head is None else log.file_schema(head.version)
    except LakehouseError:  # a run says so; the code location loads all the same
        return {}
    return {} if schema is None else {_SCHEMA: column_schema(as_struct(schema))}


def _code(definition: Any) -> dict[str, Any]:
    """Where the user's function is, whatever is wrapped around it later."""
    function = function_of(definition) if is_function(definition) else None
    if function is None:
        return {}
    inner = inspect.unwrap(function)
    try:
        file, line = inspect.getsourcefile(inner), inspect.getsourcelines(inner)[1]
    except (OSError, TypeError):  # it was made at a prompt
        return {}
    if file is None:
        return {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", dg.BetaWarning)
        reference = dg.LocalFileCodeReference(file_path=str(Path(file).absolute()), line_number=line)
        return {_CODE: dg.CodeReferencesMetadataValue(code_references=[reference])}

"""The quarantine of a table as Dagster has it: an asset beside that of the table, which the same runs materialize."""

from collections.abc import Callable
from typing import Any, cast

import dagster as dg
from pyspark.sql import SparkSession

from lakehouse.dagster.code_location import AssetTable, CodeLocation
from lakehouse.dagster.remake import with_parts
from lakehouse.dagster.table_facts import (
    DATA_VERSION,
    STORAGE_KIND,
    content_version,
    row_counts,
    size_of,
    table_metadata,
)
from lakehouse.delta.expect import SUFFIX
from lakehouse.errors import DefinitionError
from lakehouse.materialization import Materialization

QUARANTINE_OF = "lakehouse/quarantine_of"
"""Metadata of the asset of a quarantine: the name of its table."""


def quarantine_key(key: dg.AssetKey) -> dg.AssetKey:
    """The asset key of the quarantine of a table."""
    return dg.AssetKey([*key.path[:-1], key.path[-1] + SUFFIX])


def with_quarantines(definitions: dg.Definitions, code_location: CodeLocation) -> dg.Definitions:
    """The same definitions with an external asset for each quarantine, so that others can depend on it.

    Raises:
        DefinitionError: An asset has the key of a quarantine.
    """
    written = [table for table in code_location.tables.values() if table.is_written and table.root is not None]
    specs = [_spec_of(table) for table in written if table.declared.quarantines]
    for spec in specs:
        _refuse_taken_key(spec, code_location)
    return with_parts(definitions, assets=[*(definitions.assets or ()), *specs]) if specs else definitions


def is_quarantine(table: AssetTable) -> bool:
    """Whether a table is the quarantine of another one, by its spec."""
    return _table_behind(table) is not None


def _table_behind(table: AssetTable) -> str | None:
    """The name of the table whose quarantine a table is; None if the table is no quarantine."""
    return None if table.definition is None else table.definition.metadata_by_key[table.key].get(QUARANTINE_OF)


def writer_of_table(table: AssetTable, code_location: CodeLocation) -> AssetTable | None:
    """The table of the asset whose runs write a table, a quarantine with its table; None if no asset writes it here."""
    behind = _table_behind(table)
    writer = table if behind is None else code_location[dg.AssetKey.from_user_string(behind)]
    return writer if writer.is_written and writer.root is not None else None


def _spec_of(table: AssetTable) -> dg.AssetSpec:
    assert table.asset is not None, f"an asset makes {table.name}"
    spec, quarantining = table.asset.specs_by_key[table.key], [e for e in table.declared.expectations if e.quarantines]
    listed = "; ".join(f"{each.check_name} ({each.meaning})" for each in quarantining)
    return dg.AssetSpec(
        quarantine_key(table.key),
        deps=[table.key],
        description=f"Rows of {table.name} that break an expectation, until they are corrected upstream: {listed}.",
        metadata={
            **table.declared.quarantine,
            "dagster/io_manager_key": table.manager,
            QUARANTINE_OF: table.name,
        },
        group_name=spec.group_name,
        owners=spec.owners,
        kinds={STORAGE_KIND},
    )


def _refuse_taken_key(spec: dg.AssetSpec, code_location: CodeLocation) -> None:
    if spec.key in code_location.tables:
        raise DefinitionError(
            f"The quarantine of '{spec.metadata[QUARANTINE_OF]}' has the asset key '{spec.key.to_user_string()}', and "
            f"another asset of these definitions has it too. Rename one of the two. A spec of the quarantine itself is "
            f"not needed: incremental adds it."
        )


def report_quarantine(
    context: dg.OutputContext,
    execution: dg.AssetExecutionContext,
    step: Materialization,
    spark: Callable[[], SparkSession],
) -> None:
    """Tells how many rows the quarantine of the table has, and logs a materialization if these are news to Dagster.

    The rows are news if this run has written the quarantine, or if an earlier run that failed afterwards has.
    """
    if not step.asset.table.quarantines:
        return
    ref, key = step.asset.ref.beside(SUFFIX), quarantine_key(execution.asset_key)
    log = ref.log(spark)
    head = log.head()
    if head is None:
        return
    rows, version = log.live_rows(head.version), content_version(log, head)
    if rows is not None:
        context.add_output_metadata({"quarantine": rows})
    if not step.quarantine and _version_told(execution.instance, key) == version:
        return
    metadata: dict[str, Any] = {"version": head.version, **size_of(log, head), **table_metadata(ref)}
    if step.quarantine:
        written = step.quarantine[-1].rows
        context.log.info(f"Its quarantine {ref.name} is at version {head.version}. {written.sentence.capitalize()}.")
        metadata = {**row_counts(written), **metadata}
    event = dg.AssetMaterialization(key, metadata=metadata, tags={DATA_VERSION: version})
    execution.op_execution_context.log_event(cast("Any", event))


def _version_told(instance: dg.DagsterInstance, key: dg.AssetKey) -> str | None:
    """The data version of the newest materialization of an asset; None if there is none."""
    event = instance.get_latest_materialization_event(key)
    newest = None if event is None else event.asset_materialization
    return None if newest is None or newest.tags is None else newest.tags.get(DATA_VERSION)

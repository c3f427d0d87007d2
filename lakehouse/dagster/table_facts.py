"""Facts about a table in Dagster's own keys: where it is, its columns, how much it holds."""

from collections.abc import Mapping
from typing import Any, cast

import dagster as dg
from pyspark.sql.types import StructType

from lakehouse.delta.commit_info import Rows
from lakehouse.delta.log import Head, Log
from lakehouse.spark.table_version import TableRef

STORAGE_KIND = "deltalake"
"""The kind of Delta tables on Dagster's pages, which have an icon for it."""
DATA_VERSION = "dagster/data_version"
"""Dagster's tag of an event: the data version."""
LOCATIONS = "lakehouse/locations"
"""Metadata of a materialization: where each table is that is written or read by a catalog name."""


def noted_locations(instance: dg.DagsterInstance, key: dg.AssetKey) -> Mapping[str, str]:
    """Where the last run of an asset found the tables with a catalog name, by the names of their assets."""
    event = instance.get_latest_materialization_event(key)
    noted = None if event is None else cast("Any", event).asset_materialization.metadata.get(LOCATIONS)
    return {} if noted is None else cast("Mapping[str, str]", noted.value)


def table_metadata(ref: TableRef) -> dict[str, str]:
    """Where a table is, in Dagster's own keys; without a catalog name, the table is named by its asset key."""
    name = ref.name.replace("/", ".") if ref.files is not None else ref.identifier.replace("`", "")
    return {"dagster/table_name": name, "dagster/storage_kind": STORAGE_KIND, "dagster/uri": ref.location}


def content_version(log: Log, head: Head) -> str:
    """The id of a table and its last version that may have changed a row: the data version where no asset makes it."""
    changing = (commit.version for commit in log.commits(head.version) if commit.is_first or not commit.is_quiet)
    return f"{head.table_id}@{next(changing, head.version)}"


def version_reports(instance: dg.DagsterInstance, versions: Mapping[dg.AssetKey, str]) -> list[dg.AssetMaterialization]:
    """A materialization without a run for each table that no asset makes, if Dagster does not know its data version.

    It is not an observation, because Dagster ignores observations when it decides whether a downstream table is stale.
    A table that runs materialize, in another code location or as a quarantine, is left to its runs.
    """
    records = {
        record.asset_entry.asset_key: record.asset_entry.last_materialization_record
        for record in instance.get_asset_records([*versions])
    }
    return [
        dg.AssetMaterialization(key, tags={DATA_VERSION: version})
        for key, version in sorted(versions.items())
        if (last := records.get(key)) is None
        or (not last.run_id and (last.event_log_entry.tags or {}).get(DATA_VERSION) != version)
    ]


def row_counts(rows: Rows) -> dict[str, int]:
    """How many rows were inserted, updated and deleted, without the counts that are not known."""
    counts = {"inserted": rows.inserted, "updated": rows.updated, "deleted": rows.deleted}
    return {name: count for name, count in counts.items() if count is not None}


def size_of(log: Log, head: Head | None) -> dict[str, Any]:
    """How many bytes and rows the table holds, without deleted rows."""
    size, rows = log.size(), None if head is None else log.live_rows(head.version)
    if size is None:
        return {}
    count = {"dagster/row_count": rows} if rows is not None else {"rows": f"at most {size.rows:,}"}
    return {"dagster/size_bytes": size.bytes} | count


def column_schema(schema: StructType) -> dg.TableSchema:
    """A Spark schema as Dagster shows one, with the column comments as descriptions."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(column.name, column.dataType.simpleString(), column.metadata.get("comment"))
            for column in schema.fields
        ]
    )

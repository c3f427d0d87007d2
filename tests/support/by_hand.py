"""Commits of another writer, written by hand: the changes that they tell need not match their data files."""

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.reliability.delta_files import History

Image = tuple[str, tuple[Any, ...]]
"""A type of change, and the row."""


def rewritten(
    path: Path,
    rows: Sequence[tuple[Any, ...]],
    told: Sequence[Image],
    *,
    operation: str = "MERGE",
    counted: bool = True,
) -> int:
    """Writes one commit that replaces all files by one file of these rows, and tells these changes; its version.

    Args:
        path: The directory of a table without partitions and without deletion vectors.
        rows: Its rows afterwards.
        told: The changes that the commit tells; empty for a commit without change data.
        operation: The operation that its `commitInfo` names.
        counted: Whether its file has a row count in its statistics.
    """
    history = History(path)
    newest = history.entries[history.newest]
    schema = pa.schema(DeltaTable(str(path)).schema().to_arrow())
    actions: list[dict[str, Any]] = [
        {
            "commitInfo": {
                "timestamp": int(time.time() * 1000),
                "operation": operation,
                "operationParameters": {"predicate": '["(id = 2)"]'},
                "operationMetrics": {},
            }
        }
    ]
    for file, _ in newest.files:
        actions.append({"remove": {"path": file, "deletionTimestamp": 0, "dataChange": True, "partitionValues": {}}})
    name, size = _parquet(path, "", _table(rows, schema))
    statistics = {"stats": json.dumps({"numRecords": len(rows)})} if counted else {}
    add = {"path": name, "size": size, "modificationTime": 0, "dataChange": True, "partitionValues": {}}
    actions.append({"add": add | statistics})
    if told:
        changes = _table([row for _, row in told], schema)
        changes = changes.append_column("_change_type", pa.array([change for change, _ in told]))
        name, size = _parquet(path, "_change_data/", changes)
        actions.append({"cdc": {"path": name, "size": size, "dataChange": False, "partitionValues": {}}})
    version = history.newest + 1
    (path / "_delta_log" / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return version


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> Any:
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table([pa.array(column, kind.type) for column, kind in zip(columns, schema, strict=True)], schema.names)


def _parquet(path: Path, folder: str, table: Any) -> tuple[str, int]:
    (path / folder).mkdir(exist_ok=True)
    name = f"{folder}part-00000-{uuid4()}.c000.snappy.parquet"
    pq.write_table(table, path / name)
    return name, (path / name).stat().st_size

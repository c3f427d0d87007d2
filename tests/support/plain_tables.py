"""Tables of plain columns, written and read without Spark: in milliseconds, and without the library's code.

To create the first rows of a test and to read its result is not its subject, but takes most of its time through Spark.
"""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from pyspark.sql.types import StructType

from tests.reliability.delta_files import History, log_files

KINDS = {
    "integer": pa.int32(),
    "long": pa.int64(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "string": pa.string(),
    "date": pa.date32(),
}
FEED = {"delta.enableChangeDataFeed": "true"}


def create(path: Path, rows: Iterable[tuple[Any, ...]], schema: StructType) -> bool:
    """Creates a table with a change data feed; False, and nothing is done, where its columns are not plain."""
    found, listed = _plain(json.loads(schema.json())), list(rows)
    if found is not None and not listed:  # a write without rows does not record a row count
        DeltaTable.create(str(path), pa.schema(list(found.items())), configuration=FEED)
        return True
    return found is not None and _write(path, listed, found, configuration=FEED)


def insert(path: Path, rows: Iterable[tuple[Any, ...]]) -> bool:
    """Appends the rows in one commit; False, and nothing is done, where the table is not plain."""
    found = _described(path)
    return found is not None and _write(path, rows, found, mode="append")


def rows(path: Path) -> list[tuple[Any, ...]] | None:
    """The table's rows; None if the table is not plain."""
    found = _described(path)
    if found is None:
        return None
    history = History(path)
    try:
        return [tuple(row[name] for name in found) for row in history.rows(history.newest)]
    except UnicodeDecodeError:
        return None


def _write(path: Path, rows: Iterable[tuple[Any, ...]], columns: Mapping[str, pa.DataType], **options: Any) -> bool:
    values = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [pa.array(column, kind) for column, kind in zip(values, columns.values(), strict=True)]
    write_deltalake(str(path), pa.table(arrays, names=list(columns)), **options)
    return True


def _described(path: Path) -> dict[str, pa.DataType] | None:
    """The columns of a plain table; None if the table is not plain or a part of its log is gone."""
    files = log_files(path)
    if [int(file.stem) for file in files] != list(range(len(files))):
        return None
    metadata: dict[str, Any] = {}
    features: set[str] = set()
    for file in files:
        for line in file.read_text().splitlines():
            action = json.loads(line)
            metadata = action.get("metaData", metadata)
            features |= set(action.get("protocol", {}).get("writerFeatures") or ())
    if not metadata or metadata["partitionColumns"] or features & {"columnMapping", "typeWidening"}:
        return None
    return _plain(json.loads(metadata["schemaString"]))


def _plain(schema: Mapping[str, Any]) -> dict[str, pa.DataType] | None:
    kinds = {field["name"]: field["type"] for field in schema["fields"]}
    if not all(isinstance(kind, str) and kind in KINDS for kind in kinds.values()):
        return None
    return {name: KINDS[kind] for name, kind in kinds.items()}

"""A Delta table read without Spark, deltalake or the library: from the JSON of its log and its Parquet files."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow.parquet as pq

from tests.reliability.deletion_vectors import deleted_rows

Row = dict[str, Any]
EPOCH = datetime(1970, 1, 1)  # noqa: DTZ001  (Spark writes moments in UTC, without a zone)
_MOVES_NO_ROW = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "ADD COLUMNS"})


@dataclass(frozen=True, slots=True)
class Entry:
    """One `_delta_log/N.json`.

    Args:
        version: N.
        info: Its `commitInfo`.
        txns: Its transaction identifiers: application id and version.
        table_id: The table's id as of this version.
        columns: The table's columns as of this version.
        files: The data files as of this version: their `add` actions by path and deletion vector.
    """

    version: int
    info: Mapping[str, Any]
    txns: tuple[tuple[str, int], ...]
    table_id: str
    columns: tuple[str, ...]
    files: Mapping[tuple[str, str | None], Mapping[str, Any]]

    @property
    def operation(self) -> str:
        return str(self.info.get("operation"))

    @property
    def keeps_rows(self) -> bool:
        return self.operation in _MOVES_NO_ROW

    @property
    def restored(self) -> int | None:
        version = self.info.get("operationParameters", {}).get("version")
        return None if self.operation != "RESTORE" or version is None else int(version)


@dataclass
class History:
    """A table at every version that its log has.

    Args:
        path: The table's directory.
    """

    path: Path
    entries: dict[int, Entry] = field(init=False, default_factory=dict[int, Entry])
    _rows: dict[int, list[Row]] = field(init=False, default_factory=dict[int, list[Row]])

    def __post_init__(self) -> None:
        before: Entry | None = None
        for file in log_files(self.path):
            before = _entry(file, before)
            self.entries[before.version] = before

    @property
    def newest(self) -> int:
        return max(self.entries)

    def moments(self, upto: int) -> dict[int, datetime]:
        """When the versions up to `upto` were committed; each at least a millisecond after the version before it."""
        moments: dict[int, datetime] = {}
        earliest = 0
        for version, entry in self.entries.items():
            if version <= upto:
                earliest = max(earliest, int(entry.info["timestamp"]))
                moments[version] = EPOCH + timedelta(milliseconds=earliest)
                earliest += 1
        return moments

    def rows(self, version: int) -> list[Row]:
        """The table's rows at a version."""
        if version not in self._rows:
            entry = self.entries[version]
            self._rows[version] = [row for add in entry.files.values() for row in self._of(add, entry.columns)]
        return self._rows[version]

    def brought(self, version: int) -> list[Row]:
        """The rows of the files that a version added; without change files the feed shows all of them as new."""
        entry, before = self.entries[version], self.entries[version - 1].files
        brought = [add for file, add in entry.files.items() if file not in before]
        return [row for add in brought for row in self._of(add, entry.columns)]

    def _of(self, add: Mapping[str, Any], columns: tuple[str, ...]) -> list[Row]:
        gone = deleted_rows(self.path, add.get("deletionVector"))
        held = _parquet(self.path / unquote(add["path"]).removeprefix("file:"))  # a shallow clone has absolute paths
        fixed = add.get("partitionValues") or {}
        return [
            {column: fixed[column] if column in fixed else row.get(column) for column in columns}
            for index, row in enumerate(held)
            if index not in gone
        ]


def log_files(table: Path) -> list[Path]:
    """The log's entries, oldest first."""
    return sorted(file for file in (table / "_delta_log").glob("*.json") if file.stem.isdecimal())


@dataclass
class Ledger:
    """Remembers each log entry as it was first seen: an entry that changes later was written twice."""

    seen: dict[Path, str] = field(default_factory=dict[Path, str])

    def observe(self, *tables: Path) -> list[tuple[Path, str]]:
        """Remembers new entries; the known entries that have changed or are gone, and which of the two."""
        found = {file: sha256(file.read_bytes()).hexdigest() for table in tables for file in log_files(table)}
        changed = [(file, "has changed") for file, now in found.items() if self.seen.setdefault(file, now) != now]
        of_tables = {table / "_delta_log" for table in tables}
        gone = [(file, "is gone") for file in self.seen if file.parent in of_tables and file not in found]
        return changed + gone


def _entry(file: Path, before: Entry | None) -> Entry:
    actions: list[dict[str, Any]] = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    files = dict(before.files) if before else {}
    columns, table_id = (before.columns, before.table_id) if before else ((), "")
    info: Mapping[str, Any] = {}
    txns: list[tuple[str, int]] = []
    for action in actions:
        match action:
            case {"metaData": metadata}:
                table_id = metadata["id"]
                columns = tuple(column["name"] for column in json.loads(metadata["schemaString"])["fields"])
            case {"remove": remove}:
                files.pop(_identity(remove), None)
            case {"txn": txn}:
                txns.append((txn["appId"], int(txn["version"])))
            case {"commitInfo": found}:
                info = found
            case _:
                pass
    for action in actions:  # a commit may remove a file and add it again with another vector, in either order
        if add := action.get("add"):
            files[_identity(add)] = add
    return Entry(int(file.stem), info, tuple(txns), table_id, columns, files)


def _identity(action: Mapping[str, Any]) -> tuple[str, str | None]:
    vector = action.get("deletionVector")
    return action["path"], None if vector is None else f"{vector['pathOrInlineDv']}@{vector.get('offset')}"


@lru_cache(maxsize=4096)
def _parquet(path: Path) -> list[Row]:
    return pq.ParquetFile(path, coerce_int96_timestamp_unit="us").read().to_pylist()

"""The log of a table whose files this process can read itself: milliseconds, no Spark job, no JVM.

Reads metadata only, where the table stands through the `deltalake` package; rows always go through Spark (deltalake
misreads some table features' rows, never their log: ADR 3). What a commit says of itself is read from its own file:
deltalake's history lists the log's directory first, so it costs the more the longer the history is.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakehouse.errors import UnreadableLogError
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import BRING_IT_BACK, READ_IT_LATER, FileSchema, Head
from lakehouse.log.size import Size, total


class FileLog:
    """The log of the Delta table in a local directory.

    Args:
        path: The table's directory.
        table: The table's name in messages.
    """

    def __init__(self, path: str, table: str) -> None:
        self._path = path.removeprefix("file:")
        self._table = table
        self._newest: DeltaTable | None = None

    def head(self) -> Head | None:
        self._newest = delta = self._open()
        if delta is None:
            return None
        metadata = delta.metadata()
        return Head(
            version=delta.version(),
            table_id=str(metadata.id),
            properties={str(key): str(value) for key, value in metadata.configuration.items()},
            partition_columns=tuple(metadata.partition_columns),
        )

    def size(self) -> Size | None:
        delta = self._open()
        if delta is None:
            return Size(0, 0)
        files = pa.table(delta.get_add_actions())
        counts, sizes = (files.column(name).to_pylist() for name in ("num_records", "size_bytes"))
        each = (None if rows is None else Size(rows, size or 0, 1) for rows, size in zip(counts, sizes, strict=True))
        return total([Size(0, 0), *each])

    def file_schema(self, version: int) -> FileSchema | None:
        try:
            delta = DeltaTable(self._path, version=version)
            fields: list[dict[str, Any]] = json.loads(delta.schema().to_json())["fields"]
            partition_columns = tuple(delta.metadata().partition_columns)
        except (DeltaError, OSError, ValueError):
            return None
        return FileSchema(partition_columns, {field["name"].lower(): json.dumps(field["type"]) for field in fields})

    def commits(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        for version in range(newest, oldest - 1, -1):
            commit = self._commit(version)
            if commit is None:
                # The oldest were cleaned up, or one is missing: the reader sees which by what else is there.
                yield from (found for v in self._present(oldest, version) if (found := self._commit(v)) is not None)
                return
            yield commit

    def epoch(self, application_id: str, version: int) -> int | None:
        # As of the version whose marks the cursor reads: a twin may have committed since.
        if self._newest is None or self._newest.version() != version:
            self._newest = self._open(version)
        return 0 if self._newest is None else self._newest.transaction_version(application_id) or 0

    def _commit(self, version: int) -> Commit | None:
        """A commit by its own file; None where there is none."""
        file = Path(self._path) / "_delta_log" / f"{version:020}.json"
        try:
            with file.open(encoding="utf-8") as lines:
                actions: Iterator[dict[str, Any]] = (json.loads(line) for line in lines if "commitInfo" in line)
                info = next((action["commitInfo"] for action in actions if "commitInfo" in action), dict[str, Any]())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error
        return _described(version, info)

    def _present(self, oldest: int, below: int) -> list[int]:
        """The versions in `[oldest, below)` that have a file, newest first."""
        names = (file.stem for file in (Path(self._path) / "_delta_log").glob("*.json"))
        return sorted((v for name in names if name.isdecimal() and oldest <= (v := int(name)) < below), reverse=True)

    def _open(self, version: int | None = None) -> DeltaTable | None:
        try:
            if not (Path(self._path) / "_delta_log").is_dir():
                return None
            return DeltaTable(self._path, version=version)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise self._unreadable(error) from error

    def _unreadable(self, error: Exception) -> UnreadableLogError:
        if "gap" in str(error) or "contiguous" in str(error):
            return UnreadableLogError(self._table, "a commit file is missing in its middle", BRING_IT_BACK)
        return UnreadableLogError(self._table, str(error).splitlines()[0][:300], READ_IT_LATER)


def _described(version: int, info: dict[str, Any]) -> Commit:
    return Commit.of(version, int(info.get("inCommitTimestamp") or info.get("timestamp") or 0), info)

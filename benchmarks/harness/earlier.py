"""Makes tables look older: the times in the log and those of the files are set back; nothing else is changed."""

import os
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_TIMES = re.compile(r'("(?:timestamp|inCommitTimestamp|deletionTimestamp|modificationTime)":\s*)(\d{13})')
_OF_FILES = {"add": "modificationTime", "remove": "deletionTimestamp"}
"""The field in a checkpoint with the time of an action on a file."""


def set_back(table: Path, days: float) -> None:
    """Sets all times of a table back by some days: those in its commits and checkpoints, and those of its files."""
    millis = int(days * 86_400_000)
    times = {file: (file.stat().st_atime, file.stat().st_mtime) for file in table.rglob("*")}
    for file in (table / "_delta_log").glob("*.json"):
        text = file.read_text("utf-8")
        file.write_text(_TIMES.sub(lambda match: f"{match[1]}{int(match[2]) - millis}", text), "utf-8")
    for file in (table / "_delta_log").glob("*.checkpoint.parquet"):
        _set_back_checkpoint(file, millis)
    for file in (table / "_delta_log").glob(".*.crc"):
        file.unlink()
    for file, (read, written) in times.items():
        if file.exists():
            os.utime(file, (read - millis / 1000, written - millis / 1000))


def _set_back_checkpoint(file: Path, millis: int) -> None:
    actions: Any = pq.ParquetFile(file).read()
    for place, name in enumerate(actions.schema.names):
        if name in _OF_FILES:
            column = actions.column(name).combine_chunks()
            fields = [*column.type]
            children = [
                pc.subtract(column.field(i), millis) if field.name == _OF_FILES[name] else column.field(i)
                for i, field in enumerate(fields)
            ]
            earlier = pa.StructArray.from_arrays(children, fields=fields, mask=column.is_null())
            actions = actions.set_column(place, actions.schema.field(name), earlier)
    pq.write_table(actions, file)

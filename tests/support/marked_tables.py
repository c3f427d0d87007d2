"""Tables and what runs leave in them, as real Delta commits with marks, written without Spark."""

import json
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, write_deltalake

from lakehouse.cursor.digests import Code, QueryDigest
from lakehouse.cursor.mark import Mark, Position

FEED = {"delta.enableChangeDataFeed": "true"}


def append(root: Path, name: str, *ids: int, **options: Any) -> int:
    """A commit with a row for each id; its version."""
    rows = pa.table({"id": pa.array(ids, pa.int32()), "day": [f"2013-01-0{i % 4 + 1}" for i in ids]})
    path = root / name
    if path.exists():
        write_deltalake(str(path), rows, mode="append", **options)
    else:
        write_deltalake(str(path), rows, configuration=FEED, **options)
    return DeltaTable(str(path)).version()


def run(
    root: Path,
    name: str,
    source: str,
    *,
    rows: bool = True,
    code: Code | None = None,
    asset: str | None = None,
    lost_to: tuple[int, ...] = (),
    log_after: int | None = None,
    planned_at: int | None = None,
    compared: bool = True,
    lookups: tuple[str, ...] = (),
    also: tuple[str, ...] = (),
    query: QueryDigest | None = None,
    **definition: str,
) -> None:
    """Writes what a run of an asset leaves in its table: a commit with its mark, with rows or without.

    Its inputs have the names of their sources; `lookups` are its snapshot inputs, `also` are further sources whose
    changes it reads, and `definition` are the parts of its definition.
    """
    handed = {f"input {each}": each for each in (source, *lookups)}
    tables, path = {each: DeltaTable(str(root / each)) for each in (source, *also)}, root / name
    base = DeltaTable(str(path)).version() if path.exists() else -1
    positions = {each: Position(str(table.metadata().id), table.version()) for each, table in tables.items()}
    mark = Mark(
        asset or name,
        (),
        "0",
        base + 2,
        "run",
        f"attempt {base}",
        base if planned_at is None else planned_at,
        reads=positions,
        compared=compared,
        definition={**definition, **handed} if definition else None,
        code=code,
        lost_to=lost_to,
        log_after=log_after,
        query=query,
    )
    properties = CommitProperties(custom_metadata={"userMetadata": mark.to_json()})
    if rows or base < 0:
        append(root, name, base + 10, commit_properties=properties)
    else:
        longer = {"delta.logRetentionDuration": f"interval {base + 30} days"}
        DeltaTable(str(path)).alter.set_table_properties(longer, commit_properties=properties)


def committed(table: Path, days_ago: int) -> None:
    """Moves the newest commit of a table into the past."""
    path = table / "_delta_log" / f"{DeltaTable(str(table)).version():020}.json"
    moment = int((time.time() - days_ago * 86_400) * 1000)
    entries = [json.loads(line) for line in path.read_text().splitlines()]
    for entry in entries:
        if "commitInfo" in entry:
            entry["commitInfo"]["timestamp"] = moment
    path.write_text("".join(json.dumps(entry) + "\n" for entry in entries))

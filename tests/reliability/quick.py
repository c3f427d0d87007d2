"""Edits of a source by another writer of Delta (delta-rs), for many histories: milliseconds instead of seconds."""

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from lakehouse.delta.text import literal
from tests.support.model import Row

SCHEMA = pa.schema({"id": pa.int32(), "k": pa.string(), "v": pa.int32()})
COLUMNS = {name: f"s.{name}" for name in SCHEMA.names}
# Without the parentheses delta-rs reads the OR as a part of the comparison.
CHANGED = "(t.k IS DISTINCT FROM s.k) OR (t.v IS DISTINCT FROM s.v)"
Rows = Mapping[int | None, Row]


def overwritten(path: Path, rows: Rows) -> None:
    write_deltalake(str(path), _arrow(rows), mode="overwrite", schema_mode="merge")


def become(path: Path, before: Rows, after: Rows) -> None:
    """Turns the rows of the table into other rows in one commit, by the plainest statement that can."""
    gone, new = before.keys() - after.keys(), after.keys() - before.keys()
    differ = {key for key in before.keys() & after.keys() if before[key] != after[key]}
    match bool(gone), bool(new), bool(differ):
        case False, False, False:
            return
        case False, True, False:
            write_deltalake(str(path), _arrow({key: after[key] for key in new}), mode="append", schema_mode="merge")
        case True, False, False:
            DeltaTable(str(path)).delete(" OR ".join(_is(key) for key in gone))
        case False, False, True if len(differ) == 1:
            (key,) = differ
            values = {name: literal(value) for name, value in zip(SCHEMA.names[1:], after[key][1:], strict=True)}
            DeltaTable(str(path)).update(updates=values, predicate=_is(key))
        case _:
            (
                DeltaTable(str(path))
                .merge(_arrow(after), "t.id IS NOT DISTINCT FROM s.id", source_alias="s", target_alias="t")
                .when_matched_update(COLUMNS, predicate=CHANGED)
                .when_not_matched_insert(COLUMNS)
                .when_not_matched_by_source_delete()
                .execute()
            )


def compacted(path: Path) -> None:
    DeltaTable(str(path)).optimize.compact()


def vacuumed(path: Path) -> None:
    """Removes every past file, and the change files, which Delta's own VACUUM removes but delta-rs leaves."""
    DeltaTable(str(path)).vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    for file in path.glob("_change_data/*"):
        file.unlink()


def _is(key: int | None) -> str:
    return "id IS NULL" if key is None else f"id = {key}"


def _arrow(rows: Rows) -> pa.Table:
    columns = list(zip(*rows.values(), strict=True)) or [()] * len(SCHEMA.names)
    return pa.table([pa.array(column, kind) for column, kind in zip(columns, SCHEMA.types, strict=True)], schema=SCHEMA)

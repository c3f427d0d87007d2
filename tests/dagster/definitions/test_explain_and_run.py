"""How `explain` says an input would be read, and why, is how the run then reads it: on real tables, gap by gap."""

import shutil
from collections.abc import Callable
from typing import Any, TypeAlias

import dagster as dg
import pytest

from lakehouse import Append, Changes, DeltaIOManager, Merge, Read, Table, explain
from lakehouse.errors import GapError
from lakehouse.read.content import Everything, Feed, Nothing
from lakehouse.read.forecast import InputForecast, Reading
from tests.support import assets
from tests.support.house import Running
from tests.support.lake import Lake, cleaned
from tests.support.model import SRC
from tests.support.slow import slow

ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]
COPY = Table(key="id")
Act: TypeAlias = Callable[[Lake], None]


def laid_out_anew(lake: Lake) -> None:
    frame = lake.frame("src").where("id <> 2")
    frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true").partitionBy("k").save(
        str(lake.root / "src")
    )


def retyped(lake: Lake) -> None:
    """No commit changes a row, and a result may depend on the type all the same."""
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    lake.sql("ALTER TABLE {src} ALTER COLUMN v TYPE bigint")


def exchanged(lake: Lake) -> None:
    lake.sql(
        "ALTER TABLE {src} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name', 'delta.minReaderVersion' = '2', "
        "'delta.minWriterVersion' = '5')"
    )
    lake.sql("ALTER TABLE {src} RENAME COLUMN k TO old")
    lake.sql("ALTER TABLE {src} ADD COLUMN k string")


def widened_by_a_column(lake: Lake) -> None:
    lake.sql("ALTER TABLE {src} ADD COLUMN more string")
    updated(lake)


def updated(lake: Lake) -> None:
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")


def switched_off(lake: Lake) -> None:
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    updated(lake)


def switched_off_and_on(lake: Lake) -> None:
    switched_off(lake)
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    lake.insert("src", [(4, "c", 4)])


def switched_off_between_changes(lake: Lake) -> None:
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    updated(lake)


def switched_off_behind_a_change(lake: Lake) -> None:
    updated(lake)
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")


def replaced(lake: Lake) -> None:
    lake.sql(
        "CREATE OR REPLACE TABLE {src} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') "
        "AS SELECT 1 AS id, 'a' AS k, 1 AS v UNION ALL SELECT 9, 'z', 9"
    )


def recreated(lake: Lake) -> None:
    shutil.rmtree(lake.root / "src")
    lake.create("src", [(1, "a", 1), (9, "z", 9)], SRC)


def restored_from_a_backup(lake: Lake) -> None:
    shutil.rmtree(lake.root / "src")
    shutil.move(lake.root / "backup", lake.root / "src")
    lake.insert("src", [(4, "c", 4)])
    lake.insert("src", [(5, "c", 4)])


def log_cleaned(lake: Lake) -> None:
    cleaned(lake, "src")
    lake.insert("src", [(200, "a", 0)])


def compacted(lake: Lake) -> None:
    lake.sql("OPTIMIZE {src}")


def reading(lake: Lake, name: str, result: type, table: Table, read: Read) -> InputForecast:
    """What `explain` says of the one input of an asset."""

    def asset(src: Changes) -> Any: ...

    asset.__annotations__["return"] = result
    defined = dg.asset(name=name, metadata=table, ins={"src": dg.AssetIn(metadata=read)})(asset)
    manager = DeltaIOManager(spark=Running(lake.spark), root=str(lake.root))
    defs = dg.Definitions([dg.AssetSpec("src"), defined], resources={"io_manager": manager})
    (forecast,) = explain(defs, name).inputs
    return forecast


def done(lake: Lake, asset: Callable[..., Any], table: Table, read: Read) -> tuple[Reading, str | None]:
    """How a run of the asset reads its input, and why not by the changes."""
    step = lake.begin(asset, table, reads={"src": read})
    try:
        changes = step.changes(lake.source("src"), read, lake.ref)
    except GapError as error:
        return Reading.REFUSED, f"{error.reason}. {error.remedy}"
    match changes.content:
        case Everything(reason=reason):
            return (Reading.FIRST if reason is None else Reading.EVERYTHING), reason
        case Nothing():
            return Reading.NOTHING, None
        case Feed(archived=archived):
            return (Reading.ARCHIVE if archived else Reading.CHANGES), None


ACTS: dict[str, tuple[Act, str | None]] = {
    "laid out anew": (laid_out_anew, "version 2 (WRITE) may have changed its partitioning or its columns' types"),
    "retyped": (retyped, "the type of v was changed"),
    "exchanged": (exchanged, "what was k was dropped or renamed, and another column may have the name"),
    "a new column": (widened_by_a_column, None),
    "updated": (updated, None),
    "compacted": (compacted, None),
    "switched off": (switched_off, "its change data feed was switched off"),
    "switched off and on": (switched_off_and_on, "its change data feed was switched off"),
    "switched off between changes": (switched_off_between_changes, None),
    "switched off behind a change": (switched_off_behind_a_change, None),
    "replaced": (replaced, "another table"),
    "recreated": (recreated, "another table"),
    "restored from a backup": (restored_from_a_backup, "version 1 is another commit than the one that was read"),
    "log cleaned": (log_cleaned, "the log after version 1 was cleaned up"),
}
QUICK = ("laid out anew", "retyped", "switched off and on", "restored from a backup")
CASES = [(slow(*case, id=name), pytest.param(*case, id=name))[name in QUICK] for name, case in ACTS.items()]


def read_once(lake: Lake, **archive: Callable[..., Any]) -> None:
    """A source at version 1 that `copy`, `log` and the archive have read, and a backup of its version 0."""
    lake.create("src", ROWS, SRC)
    shutil.copytree(lake.root / "src", lake.root / "backup")
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 3")
    lake.materialize(assets.copy, COPY)
    lake.materialize(assets.log)


@pytest.mark.parametrize(("act", "why"), CASES)
def test_a_merge_is_read_as_it_was_explained(lake: Lake, act: Act, why: str | None) -> None:
    read_once(lake)
    act(lake)
    forecast = reading(lake, "copy", Merge, COPY, Read())
    how, reason = done(lake, assets.copy, COPY, Read())
    assert forecast.reading is how is (Reading.EVERYTHING if why is not None else forecast.reading)
    if why is not None:
        assert forecast.why == reason and why in str(reason)


@pytest.mark.parametrize(("act", "why"), CASES)
def test_an_append_is_read_or_refused_as_it_was_explained(lake: Lake, act: Act, why: str | None) -> None:
    read_once(lake)
    act(lake)
    forecast = reading(lake, "log", Append, Table(), Read())
    how, reason = done(lake, assets.log, Table(), Read())
    assert forecast.reading is how
    if how is Reading.REFUSED:
        assert forecast.why == reason and (why is None or why in str(reason))


@pytest.mark.parametrize(("act", "why"), CASES)
def test_an_archive_is_read_where_it_was_explained(lake: Lake, act: Act, why: str | None) -> None:
    """It is not asked where its own feed was not to be believed, or where the source is another one."""
    read_once(lake)
    act(lake)
    if act is not restored_from_a_backup and act is not replaced and act is not recreated:
        lake.materialize(assets.log, **({"go_on_from": 1} if act is log_cleaned else {})) if act is updated else None
    read = Read(archive="log")
    forecast = reading(lake, "copy", Merge, COPY, read)
    how, reason = done(lake, assets.copy, COPY, read)
    assert forecast.reading is how
    if how is Reading.EVERYTHING:
        assert forecast.why == reason and why in str(reason)

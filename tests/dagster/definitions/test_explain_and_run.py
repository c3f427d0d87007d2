"""How `explain` says an input would be read, and why, is how the run then reads it: on real tables, gap by gap."""

import os
import shutil
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeAlias

import dagster as dg
import pytest

from lakehouse import Append, Changes, DeltaIOManager, Merge, Read, Table, explain
from lakehouse.errors import ReadError
from lakehouse.read.archive import ask_archive
from lakehouse.read.changes import read_of
from lakehouse.read.content import Everything, Feed, Nothing, SourceRead
from lakehouse.read.forecast import InputForecast, Reading, forecast_input
from lakehouse.read.read_plan import ReadFeed, read_plan
from tests.support import assets
from tests.support.dagster_house import Running
from tests.support.lake import Lake, cleaned
from tests.support.model import SRC
from tests.support.raises import raises_code
from tests.support.slow import slow

ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]
COPY = Table(key="id")
Act: TypeAlias = Callable[[Lake], None]


def narrow(src: Changes) -> Merge:
    """Rows that fit the table whatever the types of its source."""
    touched = src.touched("id")
    return Merge(touched.rows.selectExpr("id", "k", "CAST(v AS INT) AS v"), touched)


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


def switched_off_and_restored(lake: Lake) -> None:
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')")
    lake.sql("RESTORE TABLE {src} TO VERSION AS OF 1")
    updated(lake)


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
    lake.insert("src", [(200 + lake.version("src"), "a", 0)])


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
        changes = read_of(step.changes(lake.source("src"), read, lake.ref))
    except ReadError as error:
        if error.code != "GAP":
            raise
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
    "exchanged": (exchanged, "the name of k was dropped or renamed, and another column may have it now"),
    "a new column": (widened_by_a_column, None),
    "updated": (updated, None),
    "compacted": (compacted, None),
    "switched off": (switched_off, "its change data feed was off at version 3 (UPDATE)"),
    "switched off and on": (switched_off_and_on, "its change data feed was off at version 3 (UPDATE)"),
    "switched off between changes": (switched_off_between_changes, None),
    "switched off behind a change": (switched_off_behind_a_change, None),
    "switched off and restored": (switched_off_and_restored, None),
    "replaced": (replaced, "another table"),
    "recreated": (recreated, "another table"),
    "restored from a backup": (restored_from_a_backup, "version 1 is not the commit that was read"),
    "log cleaned": (log_cleaned, "the log after version 1 was cleaned up"),
}
QUICK = {"switched off and on", "retyped"}
CASES = [(slow(*case, id=name), pytest.param(*case, id=name))[name in QUICK] for name, case in ACTS.items()]


def read_once(lake: Lake) -> None:
    """A source at version 1 that `copy` and `log` have read, and a backup of its version 0."""
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


@pytest.mark.slow
def test_a_feed_that_was_off_before_the_position_is_explained(lake: Lake) -> None:
    """No commit after the position says that it was."""
    read_once(lake)
    switched_off(lake)
    lake.materialize(assets.copy, COPY)
    updated(lake)
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
    forecast = reading(lake, "copy", Merge, COPY, Read())
    assert done(lake, assets.copy, COPY, Read()) == (forecast.reading, forecast.why)
    assert forecast.why == "its change data feed was off at version 4 (UPDATE)"


@pytest.mark.slow
@pytest.mark.parametrize(("act", "why"), CASES)
def test_an_append_is_read_or_refused_as_it_was_explained(lake: Lake, act: Act, why: str | None) -> None:
    read_once(lake)
    act(lake)
    forecast = reading(lake, "log", Append, Table(), Read())
    how, reason = done(lake, assets.log, Table(), Read())
    assert forecast.reading is how
    if how is Reading.REFUSED:
        assert forecast.why == reason and (why is None or why in str(reason))


ARCHIVED = Read(archive="log")


@pytest.mark.slow
def test_an_archive_is_read_as_far_as_it_was_explained(lake: Lake) -> None:
    read_once(lake)
    for _ in range(9):
        updated(lake)
    lake.materialize(assets.log)  # to the version of a checkpoint, which log cleanup leaves
    log_cleaned(lake)
    forecast = reading(lake, "copy", Merge, COPY, ARCHIVED)
    changes = read_of(lake.begin(assets.copy, COPY).changes(lake.source("src"), ARCHIVED, lake.ref))
    assert isinstance(changes.content, Feed) and changes.content.archived and forecast.reading is Reading.ARCHIVE
    assert (forecast.after, forecast.upto, forecast.behind) == (*_ends(changes), changes.behind)
    assert changes.behind > 0


def _ends(changes: SourceRead) -> tuple[int, int]:
    return changes.range.after, changes.range.upto


@pytest.mark.parametrize(
    ("act", "why"),
    [
        pytest.param(restored_from_a_backup, "it has kept what was there before", id="restored from a backup"),
        slow(laid_out_anew, "it has kept what the feed said", id="laid out anew"),
    ],
)
def test_an_archive_that_would_mislead_is_not_read(lake: Lake, act: Act, why: str) -> None:
    read_once(lake)
    act(lake)
    forecast = reading(lake, "copy", Merge, COPY, ARCHIVED)
    assert done(lake, assets.copy, COPY, ARCHIVED) == (Reading.EVERYTHING, forecast.why)
    assert forecast.reading is Reading.EVERYTHING and str(forecast.why).endswith(f"'log' is not read because {why}")


@pytest.mark.slow
@pytest.mark.parametrize("read", [slow(Read()), ARCHIVED], ids=["compared", "archived"])
def test_what_only_a_read_shows_makes_the_plan_without_the_feed(lake: Lake, read: Read) -> None:
    read_once(lake)
    updated(lake)
    lake.materialize(assets.log)
    shutil.rmtree(lake.root / "src" / "_change_data")
    assert reading(lake, "copy", Merge, COPY, read).reading is Reading.CHANGES
    step, source = lake.begin(assets.copy, COPY), lake.source("src")
    archive = None if read.archive is None else partial(ask_archive, lake.ref(read.archive), source)
    plan = read_plan(step.facts(source, read, archive))
    assert isinstance(plan, ReadFeed)
    how, reason = done(lake, assets.copy, COPY, read)
    instead = plan.without_feed(reason or "")
    assert forecast_input(instead, source, 0).reading is how is (Reading.ARCHIVE if archive else Reading.EVERYTHING)


HISTORIES = int(os.environ.get("LAKEHOUSE_HISTORIES", "1"))
RANDOM: dict[str, Act] = {
    "recreate": recreated,
    "empty the table": lambda lake: lake.sql("DELETE FROM {narrow}"),
    "update": updated,
    "insert": lambda lake: lake.insert("src", [(100 + lake.version("src"), "n", 1)]),
    "compact": compacted,
    "lay out": laid_out_anew,
    "retype": retyped,
    "off": switched_off,
    "on": lambda lake: lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"),
    "restore": lambda lake: lake.sql(f"RESTORE TABLE {{src}} TO VERSION AS OF {lake.version('src') - 1}"),
    "replace": replaced,
    "clean": log_cleaned,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3 * HISTORIES))
def test_whatever_happens_to_a_source_is_read_as_explained_and_the_table_is_the_source(lake: Lake, seed: int) -> None:
    random = Random(seed)
    read_once(lake)
    lake.materialize(narrow, COPY)
    for _ in range(4):
        for name in random.sample(sorted(RANDOM), random.randint(1, 3)):
            RANDOM[name](lake)
        read = random.choice([Read(), Read(max_versions=1), ARCHIVED])
        for name, asset, result, table in (("narrow", narrow, Merge, COPY), ("log", assets.log, Append, Table())):
            options = Read() if name == "log" else read
            forecast = reading(lake, name, result, table, options)
            how, reason = done(lake, asset, table, options)
            assert forecast.reading is how, (name, forecast, reason)
            if reason is not None:
                assert forecast.why == reason
        if how is Reading.REFUSED:
            kept = lake.rows("log")
            with raises_code("GAP", match="An Append cannot take rows back"):
                lake.materialize(assets.log)
            assert lake.rows("log") == kept
        lake.materialize(narrow, COPY, reads={"src": read})
    lake.materialize(narrow, COPY)
    source = lake.frame("src").selectExpr("id", "k", "CAST(v AS INT)").collect()
    assert lake.rows("narrow") == sorted(map(tuple, source), key=repr)

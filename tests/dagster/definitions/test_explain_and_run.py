"""Whatever happens to a source, each input is read as `explain` shows, for the same reason; and the tables are right.

Histories are fixed where an act needs a certain past, and random elsewhere. The tables are compared with the same
queries over all rows of the source.
"""

import datetime as dt
import json
import os
import shutil
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any, TypeAlias

import dagster as dg
import pytest
from deltalake import write_deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

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
from tests.support.raises import raises_code
from tests.support.slow import all_but, slow

SRC = "id int, k string, v int, w int"
ROWS = [(1, "a", 10, 100), (2, "b", 20, 200), (3, "a", 30, 300)]
BY_ID, BY_K = Table(key="id"), Table(key="k")
Act: TypeAlias = Callable[[Lake], Any]


def query(rows: DataFrame) -> DataFrame:
    """Columns that depend on names, types and fields of the source's columns, and that fit the table in any case."""
    fields = ["s.b AS b"] if "s" in rows.columns else []
    return rows.selectExpr("id", "k", "CAST(v AS STRING) AS v", *fields)


def groups(rows: DataFrame) -> DataFrame:
    return rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").cast("string").alias("v"))


def taken(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(query(touched.rows), touched)


def counted(src: Changes) -> Merge:
    touched = src.touched("k")
    return Merge(groups(touched.rows), touched)


def read_once(lake: Lake, *, mapped: bool = False) -> None:
    """A source at a version that `taken`, `counted` and `log` have read, and a backup of its version 0."""
    lake.create("src", ROWS, SRC, **({"delta__columnMapping__mode": "name"} if mapped else {}))
    shutil.copytree(lake.root / "src", lake.root / "backup")
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 3")
    if mapped:
        lake.sql("ALTER TABLE {src} ADD COLUMN s STRUCT<a: INT, b: INT>")
        lake.sql("UPDATE {src} SET s = named_struct('a', id, 'b', 9)")
    for asset, table in ((taken, BY_ID), (counted, BY_K)):
        lake.materialize(asset, table)
    lake.materialize(assets.log)


def follow(lake: Lake, is_said: object) -> None:
    """Runs each table; it must then equal its query over all rows of the source."""
    for asset, table, compute in ((taken, BY_ID, query), (counted, BY_K, groups)):
        lake.materialize(asset, table)
        due = sorted(map(tuple, compute(lake.frame("src")).collect()), key=repr)
        assert lake.rows(asset.__name__) == due, (asset.__name__, is_said)


def explained(lake: Lake, name: str, result: type, table: Table, read: Read) -> InputForecast:
    """What `explain` shows of the only input of an asset."""

    def asset(src: Changes) -> Any: ...

    asset.__annotations__["return"] = result
    defined = dg.asset(name=name, metadata=table, ins={"src": dg.AssetIn(metadata=read)})(asset)
    manager = DeltaIOManager(spark=Running(lake.spark), root=str(lake.root))
    defs = dg.Definitions([dg.AssetSpec("src"), defined], resources={"io_manager": manager})
    (forecast,) = explain(defs, name).inputs
    return forecast


def done(lake: Lake, asset: Callable[..., Any], table: Table, read: Read) -> tuple[Reading, str | None]:
    """How a run of the asset reads its input, and why it does not read the changes."""
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


def read_as_explained(lake: Lake, read: Read = Read()) -> tuple[Reading, str]:
    """How `taken` reads the source and why; `explain` and a run must agree about `taken` and about `log`."""
    found = dict[str, tuple[Reading, str]]()
    for asset, result, table, options in ((taken, Merge, BY_ID, read), (assets.log, Append, Table(), Read())):
        name = asset.__name__
        forecast = explained(lake, name, result, table, options)
        how, reason = done(lake, asset, table, options)
        assert forecast.reading is how, (name, forecast, reason)
        assert reason is None or forecast.why == reason, name
        found[name] = how, reason or ""
    return found["taken"]


def sql(*statements: str) -> Act:
    def act(lake: Lake) -> None:
        for statement in statements:
            lake.sql(statement)

    return act


def alter(*changes: str) -> Act:
    return sql(*(f"ALTER TABLE {{src}} {change}" for change in changes))


def put(*by: str, rows: str = "*") -> Act:
    """Overwrites the source with some of its rows, with a schema and a layout of their own."""

    def act(lake: Lake) -> None:
        frame = lake.frame("src").where("id <> 2").selectExpr(*rows.split(", "))
        writer = frame.write.format("delta").mode("overwrite").option("overwriteSchema", "true")
        (writer.partitionBy(*by) if by else writer).save(str(lake.root / "src"))

    return act


def laid_out_in_silence(lake: Lake) -> None:
    """A writer changes the layout, and its commit does not show it."""
    rows = lake.frame("src").where("id <> 3").toArrow()
    write_deltalake(str(lake.root / "src"), rows, mode="overwrite", schema_mode="overwrite", partition_by=["w"])


def widened(write: Callable[[Lake, DataFrame], Any]) -> Act:
    """A write that widens the type of a column."""

    def act(lake: Lake) -> None:
        write(lake, lake.spark.sql("SELECT CAST(count(*) + 50 AS INT) AS id, 'c' AS k, 2.5D AS v FROM range(7)"))

    return act


def append_wider(lake: Lake, rows: DataFrame) -> None:
    rows.write.format("delta").mode("append").option("mergeSchema", "true").save(str(lake.root / "src"))


def merge_wider(lake: Lake, rows: DataFrame) -> None:
    rows.createOrReplaceTempView("new_rows")
    into = "MERGE WITH SCHEMA EVOLUTION INTO {src} t USING new_rows s ON t.id = s.id"
    lake.sql(f"{into} WHEN NOT MATCHED THEN INSERT *")


def untold(lake: Lake) -> None:
    """A column takes the name of another; the commits name no columns."""
    lake.sql("ALTER TABLE {src} DROP COLUMN v")
    lake.sql("ALTER TABLE {src} RENAME COLUMN w TO v")
    for path in sorted((lake.root / "src" / "_delta_log").glob("*.json"))[-2:]:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line.get("commitInfo", {}).pop("operationParameters", None)
        path.write_text("\n".join(map(json.dumps, lines)))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def back(commits: int, *, to_time: bool = False) -> Act:
    """A RESTORE that goes back by this many commits."""

    def act(lake: Lake) -> None:
        version = lake.version("src") - commits
        at = dt.datetime.fromtimestamp(lake.commits("src")[version].timestamp / 1000, dt.UTC)
        when = f"TIMESTAMP AS OF '{at:%Y-%m-%d %H:%M:%S.%f}'" if to_time else f"VERSION AS OF {version}"
        lake.sql(f"RESTORE TABLE {{src}} TO {when}")

    return act


def recreated(lake: Lake) -> None:
    shutil.rmtree(lake.root / "src")
    lake.create("src", [(1, "a", 1, 1), (9, "z", 9, 9)], SRC)


def restored_from_a_backup(lake: Lake) -> None:
    """It has as many commits as were read, with as many rows, but other ones."""
    shutil.rmtree(lake.root / "src")
    shutil.move(lake.root / "backup", lake.root / "src")
    lake.sql("UPDATE {src} SET v = v + 2 WHERE id = 3")
    lake.insert("src", [(5, "c", 4, 4)])


def log_cleaned(lake: Lake) -> None:
    cleaned(lake, "src")
    insert(lake)


def insert(lake: Lake) -> None:
    lake.insert("src", [(200 + lake.version("src"), "a", 0, 0)])


UPDATE = "UPDATE {src} SET v = v + 1 WHERE id = 1"
updated = sql(UPDATE)
off, on = (alter(f"SET TBLPROPERTIES ('delta.enableChangeDataFeed' = '{to}')") for to in ("false", "true"))
replaced = sql(
    "CREATE OR REPLACE TABLE {src} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') "
    "AS SELECT 1 AS id, 'a' AS k, 1 AS v, 1 AS w UNION ALL SELECT 9, 'z', 9, 9"
)
WIDENS = "SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')"
BIGINT = "ALTER COLUMN v TYPE bigint"
swapped = alter("RENAME COLUMN v TO x", "RENAME COLUMN w TO v", "RENAME COLUMN x TO w")
LAYOUT, TYPE, NAME = "may have changed its partitioning", "the type of v was changed", "the name of"
TAKEN, OFF = "another table", "its change data feed was off at version"
History: TypeAlias = list[tuple[Act, str | None]]
"""What happens to a source, step by step, and why all of its rows are then read; None if they are not."""
HISTORIES: dict[str, History] = {
    "layouts": [(put("k"), LAYOUT), (put("v"), LAYOUT), (put(), LAYOUT), (back(1), LAYOUT)],
    "a silent layout": [(laid_out_in_silence, LAYOUT)],
    "overwrites": [(put(), None), (back(1), None), (put(rows="id, k, v, 'x' AS w"), LAYOUT)],
    "types": [(alter(WIDENS, BIGINT), TYPE), (back(1), LAYOUT)],
    "a type that an append widened": [(alter(WIDENS), None), (widened(append_wider), TYPE)],
    "a type that a MERGE widened": [(alter(WIDENS), None), (widened(merge_wider), TYPE)],
    "changes and upkeep": [(updated, None), (sql("OPTIMIZE {src}"), None), (sql(UPDATE, UPDATE), None)],
    "a new column": [(alter("ADD COLUMN more string"), None), (updated, None)],
    "a comment": [(alter("ALTER COLUMN v COMMENT 'a number'"), None), (updated, None)],
    "a feed that was off": [
        (lambda lake: [act(lake) for act in (off, updated, on, insert)], OFF),
        (lambda lake: [act(lake) for act in (off, on, updated)], None),
        (lambda lake: [act(lake) for act in (updated, off)], None),
    ],
    "off, and restored": [(lambda lake: [act(lake) for act in (off, back(1), updated)], None)],
    "replaced": [(replaced, TAKEN), (recreated, TAKEN)],
    "restored from a backup": [(restored_from_a_backup, "version 1 is not the commit that was read")],
    "log cleaned": [(log_cleaned, "the log after version 1 was cleaned up")],
}
OF_COLUMNS: dict[str, History] = {
    "swapped": [(swapped, NAME), (updated, None), (back(5), LAYOUT), (sql(UPDATE), None)],
    "swapped between changes": [(lambda lake: [act(lake) for act in (updated, swapped, updated)], NAME)],
    "dropped and added": [(alter("DROP COLUMN v", "ADD COLUMN v INT"), NAME), (back(2, to_time=True), LAYOUT)],
    "renamed and added": [(alter("RENAME COLUMN v TO old", "ADD COLUMN v INT"), NAME)],
    "dropped and renamed": [(alter("DROP COLUMN v", "RENAME COLUMN w TO v"), NAME)],
    "replaced columns": [
        (alter("REPLACE COLUMNS (id INT, k STRING, w INT, s STRUCT<a: INT, b: INT>)", "ADD COLUMN v INT"), NAME)
    ],
    "untold": [(untold, NAME)],
    "rows alone": [(alter("RENAME COLUMN w TO y"), None), (updated, None), (back(1), None)],
    "a field takes a name": [
        (alter("RENAME COLUMN s.a TO c", "RENAME COLUMN s.b TO a", "RENAME COLUMN s.c TO b"), NAME)
    ],
}
QUICK = ("a feed that was off",)


@pytest.mark.parametrize("history", all_but(QUICK, {name: name for name in (*HISTORIES, *OF_COLUMNS)}))
def test_after_each_act_a_source_is_read_as_explained_and_the_tables_are_right(lake: Lake, history: str) -> None:
    read_once(lake, mapped=history in OF_COLUMNS)
    for act, why in (HISTORIES | OF_COLUMNS)[history]:
        act(lake)
        how, reason = read_as_explained(lake)
        assert (how is Reading.EVERYTHING) == (why is not None), (how, reason)
        assert (why or "") in reason
        follow(lake, (history, why))


@pytest.mark.slow
def test_a_feed_that_was_off_before_the_position_is_explained(lake: Lake) -> None:
    """No commit after the position shows that it was."""
    read_once(lake)
    for act in (off, updated):
        act(lake)
    lake.materialize(taken, BY_ID)
    for act in (updated, on):
        act(lake)
    assert read_as_explained(lake) == (Reading.EVERYTHING, f"{OFF} 4 (UPDATE)")


ARCHIVED = Read(archive="log")


@pytest.mark.slow
def test_an_archive_is_read_as_far_as_it_was_explained(lake: Lake) -> None:
    read_once(lake)
    for _ in range(9):
        updated(lake)
    lake.materialize(assets.log)  # up to the version of a checkpoint, which log cleanup keeps
    log_cleaned(lake)
    forecast = explained(lake, "taken", Merge, BY_ID, ARCHIVED)
    changes = read_of(lake.begin(taken, BY_ID).changes(lake.source("src"), ARCHIVED, lake.ref))
    assert isinstance(changes.content, Feed) and changes.content.archived and forecast.reading is Reading.ARCHIVE
    assert (forecast.after, forecast.upto, forecast.behind) == (*_ends(changes), changes.behind)
    assert changes.behind > 0


def _ends(changes: SourceRead) -> tuple[int, int]:
    return changes.range.after, changes.range.upto


@pytest.mark.parametrize(
    ("act", "why"),
    [
        pytest.param(restored_from_a_backup, "it has kept what was there before", id="restored from a backup"),
        slow(put("k"), "it has kept what the feed said", id="laid out anew"),
        slow(swapped, "it has kept what the feed said", id="swapped"),
    ],
)
def test_an_archive_that_would_mislead_is_not_read(lake: Lake, act: Act, why: str) -> None:
    read_once(lake, mapped=act is swapped)
    act(lake)
    how, reason = read_as_explained(lake, ARCHIVED)
    assert how is Reading.EVERYTHING and reason.endswith(f"'log' is not read because {why}")


@pytest.mark.slow
@pytest.mark.parametrize("read", [slow(Read()), ARCHIVED], ids=["compared", "archived"])
def test_what_only_a_read_shows_makes_the_plan_without_the_feed(lake: Lake, read: Read) -> None:
    read_once(lake)
    updated(lake)
    lake.materialize(assets.log)
    shutil.rmtree(lake.root / "src" / "_change_data")
    assert explained(lake, "taken", Merge, BY_ID, read).reading is Reading.CHANGES
    step, source = lake.begin(taken, BY_ID), lake.source("src")
    archive = None if read.archive is None else partial(ask_archive, lake.ref(read.archive), source)
    plan = read_plan(step.facts(source, read, archive))
    assert isinstance(plan, ReadFeed)
    how, reason = done(lake, taken, BY_ID, read)
    instead = plan.without_feed(reason or "")
    assert forecast_input(instead, source, 0).reading is how is (Reading.ARCHIVE if archive else Reading.EVERYTHING)


SEEDS = int(os.environ.get("LAKEHOUSE_HISTORIES", "1"))
RANDOM: dict[str, Act] = {
    "recreate": recreated,
    "empty the table": sql("DELETE FROM {taken}"),
    "update": updated,
    "insert": insert,
    "compact": sql("OPTIMIZE {src}"),
    "lay out": put("k"),
    "retype": alter(WIDENS, BIGINT),
    "off": off,
    "on": on,
    "restore": back(1),
    "replace": replaced,
    "clean": log_cleaned,
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3 * SEEDS))
def test_whatever_happens_to_a_source_is_read_as_explained_and_the_tables_are_right(lake: Lake, seed: int) -> None:
    random = Random(seed)
    read_once(lake)
    for _ in range(4):
        for name in random.sample(sorted(RANDOM), random.randint(1, 3)):
            RANDOM[name](lake)
        read = random.choice([Read(), Read(max_versions=1), ARCHIVED])
        read_as_explained(lake, read)
        if done(lake, assets.log, Table(), Read())[0] is Reading.REFUSED:
            kept = lake.rows("log")
            with raises_code("GAP", match="An Append cannot take rows back"):
                lake.materialize(assets.log)
            assert lake.rows("log") == kept
        lake.materialize(taken, BY_ID, reads={"src": read})
    follow(lake, seed)

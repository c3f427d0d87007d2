"""Whatever is done to a source's columns, a table is what the asset makes of all rows that the source has now."""

import datetime as dt
import os
import re
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, example, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import Aggregate, Changes, History, Merge, Policy, Read, Snapshot, Table
from lakehouse.cursor.unread import TableState
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.errors import WriteError
from lakehouse.status.table_status import table_status
from tests.support.lake import Lake, cleaned
from tests.support.slow import slow

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "0"))
SRC = "id INT, g STRING, v INT, s STRUCT<a: INT>"
MAPPED = {"delta.columnMapping.mode": "name"}
Row = dict[str, Any]


def copy(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def doubled(src: Changes) -> Merge:
    """NULL is replaced in all whole numbers, and one more column has their sum."""
    touched = src.touched("id")
    rows = touched.rows.fillna(7)
    numbers = [name for name, kind in rows.dtypes if kind == "int"]
    return Merge(rows.withColumn("all", sum((F.col(name) for name in numbers), F.lit(0))), touched)


def counted(src: Changes) -> Aggregate:
    known = set(src.source.columns)
    return Aggregate(src, "g", "n", {name: name for name in sorted(known - {"id", "g", "s"})})


def latest(src: DataFrame) -> Snapshot:
    return Snapshot(src, version=dt.datetime.now(tz=dt.UTC))


def past(src: Changes) -> History:
    return History(src)


def _copied(rows: list[Row]) -> list[Row]:
    return rows


def _doubled(rows: list[Row]) -> list[Row]:
    filled = [
        {name: 7 if value is None and name not in ("g", "s") else value for name, value in row.items()} for row in rows
    ]
    return [{**row, "all": sum(value for name, value in row.items() if name not in ("g", "s"))} for row in filled]


def _counted(rows: list[Row]) -> list[Row]:
    groups: dict[Any, Row] = {}
    for row in rows:
        group = groups.setdefault(row["g"], {"g": row["g"], "n": 0})
        group["n"] += 1
        for name in row.keys() - {"id", "g", "s"}:
            group[name] = group.get(name, 0) + (row[name] or 0)
    return list(groups.values())


@dataclass(frozen=True)
class Case:
    """An asset, the key of its table, and its result in plain Python."""

    asset: Callable[..., Any]
    key: str
    oracle: Callable[[list[Row]], list[Row]]

    def __repr__(self) -> str:
        return self.asset.__name__


CASES = [
    Case(copy, "id", _copied),
    Case(past, "id", _copied),
    Case(doubled, "id", _doubled),
    Case(counted, "g", _counted),
    Case(latest, "id", _copied),
]

UPDATE, INSERT, DELETE = (
    "UPDATE {src} SET g = 'z' WHERE id % 2 = 1",
    "INSERT INTO {src} (id, g) SELECT max(id) + 1, 'a' FROM {src}",
    "DELETE FROM {src} WHERE id = 2",
)
ADD, ADD_FIELD, DEFAULT, DROP, RENAME = (
    "ALTER TABLE {src} ADD COLUMN w INT",
    "ALTER TABLE {src} ADD COLUMN s.b INT",
    "ALTER TABLE {src} ALTER COLUMN w SET DEFAULT 5",
    "ALTER TABLE {src} DROP COLUMN v",
    "ALTER TABLE {src} RENAME COLUMN v TO u",
)
AGAIN, FILL, COMMENT, LOOSEN = (
    "ALTER TABLE {src} ADD COLUMN v INT",
    "UPDATE {src} SET w = id + 10 WHERE id <> 3",
    "ALTER TABLE {src} ALTER COLUMN g COMMENT 'a group'",
    "ALTER TABLE {src} ADD COLUMN w INT AFTER id",
)
EVOLVE = (
    "MERGE WITH SCHEMA EVOLUTION INTO {src} t USING (SELECT id, id * 3 AS e FROM {src} WHERE id <> 4) s ON t.id = s.id "
    "WHEN MATCHED THEN UPDATE SET e = s.e"
)
OF_TARGETS = ("RENAME COLUMN", "DROP COLUMN", "ADD COLUMN s.b")
"""Acts that each table has to follow by the same statement; for a struct, by the one that the refusal names."""


def act(lake: Lake, statement: str) -> bool:
    """Applies a statement to the source, if its present columns allow that; returns whether it did."""
    columns = set(lake.frame("src").columns)
    fields = lake.frame("src").schema["s"].dataType.fieldNames()  # pyright: ignore[reportAttributeAccessIssue]
    possible = {
        ADD: "w" not in columns,
        LOOSEN: "w" not in columns,
        ADD_FIELD: "b" not in fields,
        DEFAULT: "w" in columns,
        FILL: "w" in columns,
        DROP: "v" in columns,
        RENAME: "v" in columns and "u" not in columns,
        AGAIN: "v" not in columns,
    }
    if not possible.get(statement, True):
        return False
    lake.sql(statement)
    return True


def follow(lake: Lake, case: Case, table: Table, acts: Sequence[str]) -> None:
    """Runs the asset, and does what its refusals ask for."""
    pending = [each for each in acts if any(words in each for words in OF_TARGETS[:2])]
    options: dict[str, Any] = {}
    for _ in range(6):
        try:
            lake.materialize(case.asset, table, **options)
            return
        except WriteError as error:
            if error.code != "SCHEMA":
                raise
            said, name = str(error), repr(case)
        if pending and "is missing from" in said:
            lake.sql(pending.pop(0).replace("{src}", f"{{{name}}}"))
        elif (added := re.search(r"ALTER TABLE \S+ ADD COLUMNS \(.*?\)(?=\.)", said)) is not None:
            lake.sql(added.group().replace("{", "{{"))
        else:
            assert f"go_on_from/{name}=now" in said, said
            options = {"go_on_from": "now"}
    raise AssertionError(f"{case} has no way on")


def held(lake: Lake, case: Case) -> list[Row]:
    rows = lake.frame(repr(case))
    if case.asset is past:
        rows = rows.where("__END_AT IS NULL").drop(*(name for name in rows.columns if name.startswith("__")))
    return [row.asDict(recursive=True) for row in rows.collect()]


def assert_recomputed(lake: Lake, case: Case, policy: str, first: set[str]) -> None:
    source = [row.asDict(recursive=True) for row in lake.frame("src").collect()]
    expected, found = case.oracle(source), held(lake, case)
    if policy == "ignore":
        known = set(lake.frame(repr(case)).columns)
        assert {name for name in known - first if not name.startswith("__")} <= {"u"}
        expected = [{name: value for name, value in row.items() if name in known} for row in expected]
    if case.asset in (past, latest):  # these keep columns that the source no longer has
        columns = set(lake.frame("src").columns)
        found = [{name: value for name, value in row.items() if name in columns} for row in found]
    assert sorted(map(_ordered, found), key=repr) == sorted(map(_ordered, expected), key=repr), repr(case)


def _ordered(row: Row) -> list[tuple[str, Any]]:
    return sorted(row.items())


acts = st.lists(
    st.sampled_from([ADD, ADD, LOOSEN, ADD_FIELD, DEFAULT, DROP, RENAME, AGAIN, FILL, COMMENT, EVOLVE, UPDATE, INSERT]),
    min_size=1,
    max_size=4,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("policy", "cases"),
    [("add", CASES[:2]), *(slow(policy, CASES) for policy in ("add", "ignore", "fail"))],
    ids=["add, a copy and a history", "add", "ignore", "fail"],
)
@settings(
    max_examples=max(1, EXAMPLES),
    phases=list(Phase) if EXAMPLES else [Phase.explicit],
    deadline=None,
    derandomize="LAKEHOUSE_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(history=st.lists(acts, min_size=1, max_size=3))
@example(history=[[ADD, FILL, DEFAULT, INSERT], [RENAME, EVOLVE]])
def test_a_table_is_what_the_asset_makes_of_the_source_as_its_columns_are_now(
    spark: SparkSession, tmp_path: Path, policy: Any, cases: list[Case], history: list[list[str]]
) -> None:
    lake = Lake(spark, tmp_path / uuid4().hex)
    lake.root.mkdir()
    properties = {"delta__columnMapping__mode": "name", "delta__feature__allowColumnDefaults": "supported"}
    lake.create("src", [], SRC, **properties)
    lake.sql(
        "INSERT INTO {src} SELECT id, g, v, named_struct('a', v) FROM VALUES (1, 'a', 1), (2, 'b', 2), (3, 'a', NULL), "
        "(4, 'b', 4) AS t(id, g, v)"
    )
    tables = {
        repr(case): Table(key=case.key, properties=MAPPED, policy=Policy(on_new_columns=policy)) for case in cases
    }
    first: dict[str, set[str]] = {}
    for case in cases:
        lake.materialize(case.asset, tables[repr(case)])
        first[repr(case)] = set(lake.frame(repr(case)).columns)
    for number, step in enumerate(history):
        done = [statement for statement in step if act(lake, statement)]
        lake.sql(DELETE if number % 2 else UPDATE)  # runs see a new column with changed rows
        for case in cases:
            note(f"{done} -> {case}")
            follow(lake, case, tables[repr(case)], done)
            assert_recomputed(lake, case, policy, first[repr(case)])
    shutil.rmtree(lake.root)


def test_a_column_may_have_a_name_that_a_restore_took_from_another(lake: Lake) -> None:
    def taken(src: Changes) -> Merge:
        touched = src.touched("id")
        return Merge(touched.rows.select("id", "u"), touched)

    lake.create("src", [(1, 1), (2, 2)], "id INT, v INT", delta__columnMapping__mode="name")
    version = lake.version("src")
    lake.sql("ALTER TABLE {src} RENAME COLUMN v TO u")
    lake.materialize(taken, table := Table(key="id"))
    lake.sql(f"RESTORE TABLE {{src}} TO VERSION AS OF {version}")
    lake.sql("ALTER TABLE {src} RENAME COLUMN v TO w")
    lake.sql("ALTER TABLE {src} ADD COLUMN u INT")
    lake.sql("UPDATE {src} SET w = 5 WHERE id = 1")
    lake.materialize(taken, table)
    assert lake.rows("taken") == [(1, None), (2, None)]


@pytest.mark.deep
@pytest.mark.parametrize(
    ("mode", "acts"),
    [
        (
            "none",
            [
                "ALTER TABLE {src} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')",
                "ALTER TABLE {src} RENAME COLUMN v TO w",
                "ALTER TABLE {src} ADD COLUMN v INT",
            ],
        ),
        (
            "name",
            [
                "ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'false')",
                "SELECT 1 AS id",
                "ALTER TABLE {src} ADD COLUMN v INT",
                "ALTER TABLE {src} SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
            ],
        ),
    ],
    ids=["out of column mapping", "over an overwrite that dropped a column"],
)
def test_a_restore_may_read_its_removed_files_by_other_names(lake: Lake, mode: str, acts: Sequence[str]) -> None:
    def counted_by_v(src: Changes) -> Merge:
        touched = src.touched("v")
        return Merge(touched.rows.groupBy("v").agg(F.count("*").alias("n")), touched)

    lake.create("src", [(1, 1), (2, 2)], "id INT, v INT", delta__columnMapping__mode=mode)
    version, table = lake.version("src"), Table(key="v")
    for each in acts:
        if each.startswith("SELECT"):
            overwrite(lake, each)
        else:
            lake.sql(each)
    lake.sql("INSERT INTO {src} (id, v) VALUES (9, 7)")
    lake.materialize(counted_by_v, table)
    lake.sql(f"RESTORE TABLE {{src}} TO VERSION AS OF {version}")
    lake.materialize(counted_by_v, table)
    assert lake.rows("counted_by_v") == [(1, 1), (2, 1)]


def overwrite(lake: Lake, query: str) -> None:
    """Replaces the source and its columns."""
    writer = lake.spark.sql(query).write.format("delta").mode("overwrite").option("overwriteSchema", "true")
    writer.save(str(lake.root / "src"))


def append(lake: Lake, query: str) -> None:
    """Adds rows to the source by a writer that evolves its columns."""
    writer = lake.spark.sql(query).write.format("delta").mode("append").option("mergeSchema", "true")
    writer.save(str(lake.root / "src"))


def typed(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.selectExpr("id", "typeof(v) AS kind", "length(v) AS long"), touched)


def test_an_append_may_widen_a_type_without_a_feature(lake: Lake) -> None:
    lake.create("src", [(1, 1)], "id INT, v SMALLINT")
    lake.materialize(typed, table := Table(key="id"))
    append(lake, "SELECT 2 AS id, 70000 AS v")
    lake.materialize(typed, table)
    assert lake.rows("typed") == [(1, "int", 1), (2, "int", 5)]


@pytest.mark.deep
def test_a_type_may_be_widened_in_a_batch_before_widening_is_switched_off(lake: Lake) -> None:
    lake.create("src", [(1, 1)], "id INT, v INT", delta__enableTypeWidening="true")
    lake.materialize(typed, table := Table(key="id"))
    append(lake, "SELECT 2 AS id, 70000000000 AS v")
    lake.sql("ALTER TABLE {src} UNSET TBLPROPERTIES ('delta.enableTypeWidening')")
    for _ in range(2):
        lake.materialize(typed, table, reads={"src": Read(max_versions=1)})
    assert lake.rows("typed") == [(1, "bigint", 1), (2, "bigint", 11)]


def test_a_char_may_become_a_text(lake: Lake) -> None:
    feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    lake.spark.sql(f"CREATE TABLE {lake.ref('src').identifier} (id INT, v CHAR(5)) USING delta {feed}")
    append(lake, "SELECT 1 AS id, 'a' AS v")
    lake.materialize(typed, table := Table(key="id"))
    assert lake.rows("typed") == [(1, "string", 5)]
    lake.sql("ALTER TABLE {src} ALTER COLUMN v TYPE STRING")
    lake.insert("src", [(3, "c")])
    lake.materialize(typed, table)
    assert lake.rows("typed") == [(1, "string", 1), (3, "string", 1)]


def as_json(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.selectExpr("id", "to_json(struct(*)) AS row"), touched)


@pytest.mark.parametrize("follows", [True, slow(False)], ids=["a table", "a new history"])
def test_a_restore_to_before_column_mapping_undoes_a_rename(lake: Lake, *, follows: bool) -> None:
    """The source has no mapping any more, so its log is the only place where the former names stand."""
    lake.create("src", [(1, "a", 10)], "id INT, g STRING, v INT")
    lake.insert("src", [(2, "b", 20)])
    before = lake.version("src")
    lake.sql("ALTER TABLE {src} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    lake.sql("ALTER TABLE {src} RENAME COLUMN g TO h")
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
    if follows:
        lake.materialize(as_json, Table(key="id"))
    while not follows and not list((lake.root / "src/_delta_log").glob("*.checkpoint*.parquet")):
        lake.sql("UPDATE {src} SET v = v + 1 WHERE id = 1")
    lake.sql(f"RESTORE TABLE {{src}} TO VERSION AS OF {before}")
    if follows:
        lake.materialize(as_json, Table(key="id"))
        assert lake.rows("as_json") == [
            tuple(row) for row in lake.sql("SELECT id, to_json(struct(*)) FROM {src} ORDER BY id")
        ]
        return
    lake.sql("UPDATE {src} SET v = 77 WHERE id = 1")
    cleaned(lake, "src")
    lake.materialize(past, Table(key="id", properties=MAPPED))
    now = lake.sql("SELECT id, g, v FROM {past} WHERE __END_AT IS NULL ORDER BY id")
    assert list(map(tuple, now)) == lake.rows("src")


def picked(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.select("id", "v"), touched)


def test_a_table_is_behind_once_the_columns_of_its_source_have_changed(lake: Lake) -> None:
    """The commits have no rows, and what the table holds of the column is no longer what the source has."""
    lake.create("src", [(1, "a", 10)], "id INT, g STRING, v INT", delta__columnMapping__mode="name")
    lake.materialize(picked, Table(key="id"))
    for acts in (("DROP COLUMN v", "ADD COLUMN v INT"), ("RENAME COLUMN g TO h",)):
        for act in acts:
            lake.sql(f"ALTER TABLE {{src}} {act}")
        assert _state(lake, "picked") is TableState.BEHIND
        lake.materialize(picked, Table(key="id"))
        assert _state(lake, "picked") is TableState.UP_TO_DATE, "the run has recorded how far it has looked"
        assert lake.rows("picked") == [(1, None)]


def _state(lake: Lake, name: str) -> TableState | None:
    logs = {each.name: FileLog(Location(str(each)), each.name) for each in lake.root.iterdir() if each.is_dir()}
    status = table_status(name, logs)
    return None if status is None else status.state

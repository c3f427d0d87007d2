"""Inputs and moments at which a table could silently stop being what a full recompute gives."""

import shutil
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Append, Changes, Merge, Overwrite, Policy, Read, Table
from lakehouse.commit.outcome import Committed, Unchanged
from lakehouse.delta.commit_info import Rows
from lakehouse.delta.limits import MEASURED
from lakehouse.delta.partition_keys import PartitionKey
from lakehouse.difference.statements import Insert, MergeRows, ReplaceMatched
from lakehouse.errors import StaleInputsError
from lakehouse.spark.session import FACTORY_MODE
from tests.support.lake import NO_WAIT, Lake
from tests.support.ready_runs import KEYED, SRC, committed, copy, ready

pytestmark = pytest.mark.slow
ROWS = [(1, "p", 10), (2, "q", 20)]
BY_GROUP = Table(key="id", partition_by="g")
P, Q = PartitionKey("p", {"g": "p"}, {}), PartitionKey("q", {"g": "q"}, {})


def negated(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.withColumn("v", -F.col("v")), touched)


def test_a_text_key_that_is_no_utf8_is_a_key_like_any_other(lake: Lake) -> None:
    lake.create("src", [("ab", 1)], "id string, v int")
    lake.materialize(copy, KEYED)
    lake.sql("INSERT INTO {src} SELECT CAST(X'FF41' AS STRING), 2")
    lake.materialize(copy, KEYED)
    shown = "hex(CAST(id AS BINARY)) AS id", "v"
    assert lake.frame("copy").selectExpr(*shown).where("v = 2").collect()[0].id == "FF41"
    lake.sql("INSERT INTO {src} SELECT CAST(X'FE41' AS STRING), 3")
    lake.sql("UPDATE {src} SET v = 4 WHERE v = 2")
    lake.materialize(copy, KEYED)
    assert {(row.id, row.v) for row in lake.frame("copy").selectExpr(*shown).where("v > 1").collect()} == {
        ("FF41", 4),
        ("FE41", 3),
    }
    lake.sql("DELETE FROM {src} WHERE v > 1")
    lake.materialize(copy, KEYED)
    assert lake.rows("copy") == [("ab", 1)]


def test_a_date_that_python_has_not_is_a_key_like_any_other(lake: Lake) -> None:
    lake.create("src", [], "id date, v int")
    lake.sql("INSERT INTO {src} VALUES (DATE'2020-01-01', 1)")
    lake.materialize(copy, KEYED)
    lake.sql("INSERT INTO {src} VALUES (DATE'0000-12-30', 2), (DATE'+12345-01-01', 3)")
    lake.materialize(copy, KEYED)
    assert sorted(row.v for row in lake.frame("copy").select("v").collect()) == [1, 2, 3]


MERGED = Table(key="id", policy=Policy(statement="merge"))


@pytest.mark.parametrize("count", [50, 200], ids=["few keys", "more keys"])
def test_wide_rows_stay_where_they_are(lake: Lake, count: int) -> None:
    lake.create("src", ROWS, SRC)

    def wide(src: Changes) -> Merge:
        touched = src.touched("id")
        text = F.when(F.col("v") > 50, F.repeat(F.lit("x"), F.lit(MEASURED.driver_row_bytes + 1))).otherwise("short")
        return Merge(touched.rows.withColumn("text", text), touched)

    lake.materialize(wide, MERGED)
    lake.spark.range(100, 100 + count).selectExpr("int(id) AS id", "'p' AS g", "int(id) AS v").write.format(
        "delta"
    ).mode("append").save(str(lake.root / "src"))
    new = lake.materialize(wide, MERGED)
    assert isinstance(new, Committed)
    assert isinstance(new.statement, Insert)
    assert lake.frame("wide").where(F.length("text") > MEASURED.driver_row_bytes).count() == count
    lake.sql("UPDATE {src} SET v = 51 WHERE id = 100")
    lake.sql("UPDATE {src} SET g = 'new' WHERE id > 100")
    changed = lake.materialize(wide, MERGED)
    assert isinstance(changed, Committed)
    assert isinstance(changed.statement, MergeRows)
    assert not changed.statement.few
    assert lake.frame("wide").where("g = 'new'").count() == lake.frame("src").where("g = 'new'").count()


def test_a_commit_is_looked_for_also_where_the_session_is_lost_right_behind_it(
    lake: Lake, classic: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: Any) -> None:
        raise ConnectionError("gone")

    lake.create("src", ROWS, SRC)
    lake.materialize(copy, KEYED)
    lake.sql("UPDATE {src} SET v = 0 WHERE id = 1")
    step, write = ready(lake, copy, KEYED)
    factory = lake.spark.conf.get(FACTORY_MODE, None)
    lake.spark.conf.unset(FACTORY_MODE)
    with monkeypatch.context() as patched:
        # The session of the tests must outlive the one that is lost.
        patched.setattr(type(lake.spark.conf), "unset", lost)
        outcome = step.commit(write, lake.retry, NO_WAIT)
    if factory is None:
        lake.spark.conf.unset(FACTORY_MODE)
    else:
        lake.spark.conf.set(FACTORY_MODE, factory)
    assert isinstance(outcome, Committed)


INSIDE = {
    "microseconds": (
        "map<string,timestamp>",
        "map('a', TIMESTAMP'2020-01-01 00:00:00.123999')",
        "map('a', TIMESTAMP'2020-01-01 00:00:00.123001')",
    ),
    "binary keys": ("map<binary,int>", "map(X'00', 1)", "map(X'01', 1)"),
    "maps in an array": (
        "array<map<int,struct<d:double>>>",
        "array(map(1, struct(1.5D)))",
        "array(map(1, struct(2.5D)))",
    ),
    "a map in a struct": ("struct<m:map<string,int>>", "struct(map('a', 1))", "struct(CAST(NULL AS map<string,int>))"),
    "a variant's types": ("variant", "parse_json(concat('[', '1]'))", "parse_json(concat('[\"', '1\"]'))"),
}
"""What changes inside a value: its type, the value before and the value after."""


def test_a_change_inside_a_map_is_one_and_no_change_is_none(lake: Lake) -> None:
    """One row for each value; in each row only that value changes."""
    columns = [f"m{index}" for index in range(len(INSIDE))]
    kinds = dict(zip(columns, (kind for kind, _, _ in INSIDE.values()), strict=True))
    lake.create("src", [], f"id int, v int, {', '.join(f'{name} {kind}' for name, kind in kinds.items())}")
    before = ", ".join(
        f"CAST({old} AS {kind})"
        for kind, old in zip(kinds.values(), (old for _, old, _ in INSIDE.values()), strict=True)
    )
    lake.sql(f"INSERT INTO {{src}} SELECT id, 1, {before} FROM VALUES (0), (1), (2), (3), (4), (5) AS ids(id)")
    lake.materialize(copy, KEYED)
    lake.sql("UPDATE {src} SET v = 2")
    lake.sql("UPDATE {src} SET v = 1")
    assert committed(lake.materialize(copy, KEYED)).commit.is_quiet
    changed = ", ".join(
        f"{name} = CASE WHEN id = {index} THEN CAST({new} AS {kind}) ELSE {name} END"
        for index, (name, (kind, _, new)) in enumerate(zip(columns, INSIDE.values(), strict=True))
    )
    lake.sql(f"UPDATE {{src}} SET {changed}")
    outcome = committed(lake.materialize(copy, KEYED))
    assert isinstance(outcome.statement, ReplaceMatched)
    assert outcome.statement.counts == Rows(0, len(INSIDE), 0)
    assert sorted(map(str, lake.frame("copy").collect())) == sorted(map(str, lake.frame("src").collect()))


def test_a_full_refresh_is_not_done_by_a_run_that_read_on(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, KEYED)
    lake.sql("UPDATE {copy} SET v = 666 WHERE id = 2")
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    full, write = ready(lake, copy, KEYED, compare="a full refresh was asked for")
    lake.materialize(copy, KEYED)
    with pytest.raises(StaleInputsError):
        full.commit(write, lake.retry, NO_WAIT)
    lake.materialize(copy, KEYED, compare="a full refresh was asked for")
    assert lake.rows("copy") == lake.rows("src")


def test_changed_code_is_not_done_by_the_code_before_it(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, KEYED, code_version="1")
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    new, write = ready(lake, negated, KEYED, name="copy", code_version="2")
    lake.materialize(copy, KEYED, code_version="1")
    with pytest.raises(StaleInputsError):
        new.commit(write, lake.retry, NO_WAIT)


def test_an_archive_does_not_answer_for_a_source_whose_log_went_back(lake: Lake, classic: None) -> None:
    def archived(src: Changes) -> Append:
        return Append(src.log())

    lake.create("src", ROWS, SRC)
    lake.materialize(archived)
    shutil.copytree(lake.root / "src", lake.root.parent / "backup")
    lake.insert("src", [(3, "p", 30)])
    lake.materialize(copy, KEYED)
    lake.materialize(archived)
    shutil.rmtree(lake.root / "src")
    shutil.copytree(lake.root.parent / "backup", lake.root / "src")
    spark: Any = lake.spark
    spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    lake.materialize(copy, KEYED, reads={"src": Read(archive="archived")})
    assert lake.rows("copy") == ROWS


def test_a_new_column_without_a_value_is_added_all_the_same(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(copy, KEYED, code_version="1")

    def wider(src: Changes) -> Merge:
        touched = src.touched("id")
        return Merge(touched.rows.withColumn("w", F.when(F.col("v") > 100, F.lit("big"))), touched)

    outcome = lake.materialize(wider, KEYED, name="copy", code_version="2")
    assert isinstance(outcome, Committed)
    assert isinstance(outcome.statement, Insert)
    lake.sql("UPDATE {src} SET v = 200 WHERE id = 1")
    lake.materialize(wider, KEYED, name="copy", code_version="2")
    assert lake.rows("copy") == [(1, "p", 200, "big"), (2, "q", 20, None)]


def test_an_overwrite_follows_what_it_looks_up_even_where_its_changes_are_none(lake: Lake) -> None:
    def enriched(src: Changes, dim: DataFrame) -> Overwrite:
        return Overwrite(src.source.join(dim, "g"))

    lake.create("src", ROWS, SRC)
    lake.create("dim", [("p", 1), ("q", 2)], "g string, w int")
    lake.materialize(enriched, KEYED)

    def unasked(src: Changes, dim: DataFrame) -> Overwrite:
        return Overwrite(
            src.source.join(dim, "g").where("raise_error('nothing moved, so nothing is computed') IS NULL")
        )

    assert isinstance(lake.materialize(unasked, KEYED, name="enriched"), Unchanged)
    lake.sql("UPDATE {dim} SET w = 3 WHERE g = 'q'")
    lake.materialize(enriched, KEYED)
    assert {row.id: row.w for row in lake.frame("enriched").collect()} == {1: 1, 2: 3}
    lake.insert("dim", [("r", 4)])
    lake.materialize(enriched, KEYED)  # this changes no row, but the position is recorded all the same
    assert isinstance(lake.materialize(unasked, KEYED, name="enriched"), Unchanged)


def test_a_repeated_run_whose_snapshot_input_has_moved_is_not_done_yet(lake: Lake) -> None:
    def whole(src: DataFrame) -> Overwrite:
        return Overwrite(src)

    lake.create("src", ROWS, SRC)
    lake.materialize(whole, KEYED, run="one")
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    lake.materialize(whole, KEYED, run="two", aliases=frozenset({"one"}))
    assert lake.rows("whole") == lake.rows("src")


@pytest.mark.parametrize("again", ["one", "two"])
def test_a_repeated_run_writes_what_its_code_gives_now(lake: Lake, again: str) -> None:
    factor = [100]

    def times() -> Overwrite:
        return Overwrite(lake.frame("src").selectExpr("id", f"v * {factor[0]} AS v"))

    lake.create("src", [(1, 10), (2, 20)], "id INT, v INT")
    lake.materialize(times, KEYED, run="one")
    assert isinstance(lake.materialize(times, KEYED, run=again, aliases=frozenset({"one"})), Unchanged)
    factor[0] = 3
    lake.materialize(times, KEYED, run=again, aliases=frozenset({"one"}))
    assert lake.rows("times") == [(1, 30), (2, 60)]

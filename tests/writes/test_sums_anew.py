"""All sums are computed again where the table may not hold them as of its position."""

import shutil
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Aggregate, Append, Changes, Merge, Read
from lakehouse.commit.outcome import Unchanged
from lakehouse.cursor.cursor import Known
from lakehouse.difference.statements import MarkOnly
from lakehouse.read.changes import read_of
from lakehouse.writes.sums import why_recomputed
from tests.support.aggregated_source import BY_G, MEDDLED, ROWS, due, recomputes, rows, sums
from tests.support.lake import Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import SRC, committed, ready
from tests.support.slow import slow

pytestmark = pytest.mark.anywhere

__all__ = ["recomputes", "rows"]  # fixtures


@pytest.mark.slow
@pytest.mark.parametrize("meddle", MEDDLED)
@pytest.mark.parametrize("moved", [slow(True, id="source moved"), pytest.param(False, id="source stands")])
def test_all_sums_are_computed_anew_where_somebody_else_wrote_to_the_table(
    rows: Lake, recomputes: list[str], meddle: str, *, moved: bool
) -> None:
    rows.sql(meddle)
    if moved:
        rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    (sentence,) = recomputes
    assert sentence.startswith("sums recomputes all its sums: version 1 (")
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert len(recomputes) == 1


@pytest.mark.slow
@pytest.mark.parametrize("between", [False, True])
def test_a_restored_table_is_computed_anew(rows: Lake, recomputes: list[str], *, between: bool) -> None:
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    if between:
        rows.sql("UPDATE {sums} SET total = 7")
        rows.sql("UPDATE {src} SET v = v + 1")
        rows.materialize(sums, BY_G)
    rows.sql("RESTORE TABLE {sums} TO VERSION AS OF " + str(rows.version("sums") - 1))
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert recomputes
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


@pytest.mark.slow
def test_upkeep_is_not_taken_for_somebody_elses_rows(rows: Lake, recomputes: list[str]) -> None:
    rows.insert("src", [(4, "c", 40)])
    rows.materialize(sums, BY_G)
    for upkeep in ("OPTIMIZE {sums}", "ALTER TABLE {sums} SET TBLPROPERTIES ('a' = 'b')", "VACUUM {sums}"):
        rows.sql(upkeep)
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert not recomputes


@pytest.mark.slow
def test_a_source_that_went_back_is_followed(rows: Lake, recomputes: list[str]) -> None:
    rows.sql("UPDATE {src} SET v = v + 1, g = 'z'")
    rows.materialize(sums, BY_G)
    rows.sql("RESTORE TABLE {src} TO VERSION AS OF 0")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert not recomputes


@pytest.mark.slow
@pytest.mark.parametrize(
    ("meddle", "change"),
    [
        ("INSERT INTO {sums} VALUES ('a', 2, 40)", "UPDATE {src} SET v = v + 1"),
        slow("DELETE FROM {sums} WHERE g = 'a'", "DELETE FROM {src} WHERE id = 1"),
        ("UPDATE {sums} SET total = NULL WHERE g = 'a'", "UPDATE {src} SET v = v + 1"),
        slow("UPDATE {sums} SET total = 50 WHERE g = 'b'", "DELETE FROM {src} WHERE g = 'b'"),
        slow("UPDATE {sums} SET n = NULL WHERE g = 'a'", "UPDATE {src} SET v = v + 1"),
    ],
    ids=["twice", "below zero", "no sum", "a sum of nothing", "no count"],
)
def test_what_does_not_fit_together_is_computed_anew_whatever_the_log_says(
    rows: Lake, monkeypatch: pytest.MonkeyPatch, recomputes: list[str], meddle: str, change: str
) -> None:
    # The log shows each of these statements, so it is ignored here: what the rows show is the second defence.
    monkeypatch.setattr("lakehouse.writes.sums.why_recomputed", lambda *_: None)
    rows.sql(meddle)
    rows.sql(change)
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert len(recomputes) == 1


def test_changes_are_added_to_the_position_that_the_last_commit_has_and_to_no_other(rows: Lake) -> None:
    rows.sql("UPDATE {src} SET v = v + 1")
    step, write = ready(rows, sums, BY_G)
    known, log = step.run.cursor, rows.ref("sums").log(lambda: rows.spark)
    head = log.head()
    assert isinstance(known, Known) and isinstance(write, Aggregate) and head is not None
    assert why_recomputed(log, head, step.run, write.computation) is None
    read_on = replace(known.mark, reads={"src": replace(known.mark.reads["src"], version=1)})
    assert (
        why_recomputed(log, head, replace(step.run, cursor=replace(known, mark=read_on)), write.computation) is not None
    )


@pytest.mark.slow
def test_a_few_versions_at_a_time_and_a_full_refresh(rows: Lake, recomputes: list[str]) -> None:
    for _ in range(3):
        rows.sql("UPDATE {src} SET v = v + 1")
    for _ in range(3):
        rows.materialize(sums, BY_G, reads={"src": Read(max_versions=1)})
    assert rows.rows("sums") == due(rows)
    assert not recomputes
    rows.materialize(sums, BY_G, compare="a full refresh was asked for")
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert not recomputes


@pytest.mark.slow
def test_other_sums_are_computed_anew_whatever_the_code_version_says(rows: Lake) -> None:
    def others(src: Changes) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v * 2"})

    rows.materialize(others, BY_G, name="sums")
    assert rows.rows("sums") == [(g, n, 2 * total) for g, n, total in due(rows)]

    def fewer(src: Changes) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v * 2"}, where="id < 3")

    rows.materialize(fewer, BY_G, name="sums")
    assert rows.rows("sums") == [("a", 1, 20), ("b", 1, 40)]

    def wider(src: Changes) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v", "ids": "id"})

    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    rows.materialize(wider, BY_G, name="sums")
    assert rows.rows("sums") == [("a", 2, 42, 4), ("b", 1, 20, 2)]

    def mean(src: Changes) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v", "ids": "id", "mean": "v / 2"})

    with raises_code("SCHEMA", match="CAST"):
        rows.materialize(mean, BY_G, name="sums")
    assert len(rows.frame("sums").columns) == 4


def test_sums_in_another_zone_or_of_other_partitions_of_the_source_are_other_sums(rows: Lake) -> None:
    def digest(**at: Any) -> str:
        src = rows.read(rows.begin(sums, BY_G), sums)["src"]
        assert isinstance(src, Changes)
        read = read_of(src)
        return sums(Changes(replace(read, source_at=replace(read.source_at, **at)))).computation.digest

    plain = digest()
    assert digest() == plain
    assert digest(where="g = 'a'") != plain
    zone = rows.spark.conf.get("spark.sql.session.timeZone")
    try:
        rows.spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
        assert digest() != plain
    finally:
        rows.spark.conf.set("spark.sql.session.timeZone", zone or "UTC")


@pytest.mark.slow
def test_sums_of_another_input_are_computed_anew(rows: Lake) -> None:
    def ours(src: Changes, other: DataFrame) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v"})

    def theirs(src: DataFrame, other: Changes) -> Aggregate:
        return Aggregate(other, by="g", count="n", sums={"total": "v"})

    rows.create("other", [(1, "z", 5)], SRC)
    rows.materialize(ours, BY_G, name="both")
    rows.insert("other", [(2, "z", 5)])
    rows.materialize(theirs, BY_G, name="both")
    assert rows.rows("both") == [("z", 2, 10)]


@pytest.mark.slow
def test_a_source_whose_column_has_another_type_is_summed_anew(lake: Lake, recomputes: list[str]) -> None:
    def texts(src: Changes) -> Aggregate:
        return Aggregate(src, {"g": "CAST(v AS STRING)"}, "n")

    lake.create("src", [(1, "a", 0.1)], "id int, g string, v float", delta__enableTypeWidening="true")
    lake.materialize(texts, BY_G)
    lake.sql("ALTER TABLE {src} ALTER COLUMN v TYPE double")
    lake.sql("INSERT INTO {src} VALUES (2, 'a', 0.5)")
    lake.materialize(texts, BY_G)
    expected = lake.sql("SELECT CAST(v AS STRING) AS g, count(*) FROM {src} GROUP BY 1")
    assert lake.rows("texts") == sorted(map(tuple, expected), key=repr)
    assert recomputes == [], "another type has everything compared, before anybody asks for sums"


@pytest.mark.slow
def test_columns_of_the_table_that_changed_places_are_computed_anew(lake: Lake) -> None:
    def two(src: Changes) -> Aggregate:
        return Aggregate(src, "g", "n", {"a": "v", "b": "id"})

    lake.create("src", ROWS, SRC)
    lake.materialize(two, BY_G)
    lake.sql("ALTER TABLE {two} SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')")
    for old, new in (("a", "x"), ("b", "a"), ("x", "b")):
        lake.sql(f"ALTER TABLE {{two}} RENAME COLUMN {old} TO {new}")
    lake.insert("src", [(4, "c", 40)])
    lake.materialize(two, BY_G)
    held = lake.sql("SELECT g, n, a, b FROM {two}")
    expected = lake.sql("SELECT g, count(*), sum(v), sum(id) FROM {src} GROUP BY g")
    assert sorted(map(tuple, held)) == sorted(map(tuple, expected))


@pytest.mark.slow
def test_a_merge_becomes_an_aggregate_and_goes_back(rows: Lake) -> None:
    def merged(src: Changes) -> Merge:
        touched = src.touched("g")
        return Merge(touched.rows.groupBy("g").agg(F.count("*").alias("n"), F.sum("v").alias("total")), touched)

    for asset in (merged, sums, sums, merged, sums):
        rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
        rows.materialize(asset, BY_G, name="sums")
        assert rows.rows("sums") == due(rows)


@pytest.mark.slow
@pytest.mark.parametrize("archive", [slow("log"), None])
def test_a_gap_presents_everything_if_the_archive_is_not_the_whole_log(
    rows: Lake, recomputes: list[str], archive: str | None
) -> None:
    def log(src: Changes) -> Append:
        return Append(src.log().distinct())

    rows.materialize(log)
    rows.sql("UPDATE {src} SET v = 0, id = 0 WHERE g = 'a'")
    rows.materialize(log)
    shutil.rmtree(rows.root / "src" / "_change_data")
    rows.materialize(sums, BY_G, reads={"src": Read(archive=archive)})
    assert rows.rows("sums") == due(rows)
    assert not recomputes, "everything is read, so nothing has to be computed anew"


@pytest.mark.slow
def test_a_look_up_does_not_matter_to_the_sums(rows: Lake) -> None:
    def beside(src: Changes, look: DataFrame) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v"})

    rows.create("look", [(1,)], "w int")
    rows.materialize(beside, BY_G)
    for name in ("src", "look"):
        rows.sql(f"INSERT INTO {{{name}}} SELECT * FROM {{{name}}} LIMIT 1")
        rows.materialize(beside, BY_G)
    assert rows.rows("beside") == due(rows)


@pytest.mark.slow
def test_a_table_that_was_touched_in_vain_is_compared_once(rows: Lake, recomputes: list[str]) -> None:
    rows.sql("UPDATE {sums} SET total = total")
    assert committed(rows.materialize(sums, BY_G)).statement == MarkOnly()
    assert isinstance(rows.materialize(sums, BY_G), Unchanged)
    assert len(recomputes) == 1

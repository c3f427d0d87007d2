"""An `Aggregate` adds what changed to its sums, and computes them anew where they may not be its own."""

import shutil
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

import lakehouse.commit as module
import lakehouse.plan
from lakehouse import Aggregate, Append, Changes, Merge, Read, Table
from lakehouse.commit import AlreadyApplied, Committed, Outcome, Unchanged
from lakehouse.errors import MissingKeyError, PlanError, SchemaError, StaleInputsError, WriteError
from lakehouse.statement import Touch
from tests.delta.contended import SRC, committed, ready
from tests.delta.test_settled import of
from tests.lake import NO_WAIT, Lake

BY_G, IN_G = Table(key="g"), Table(key="g", partition_by="g")
ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


def sums(src: Changes) -> Aggregate:
    return Aggregate(src, by="g", count="n", sums={"total": "v"})


def due(lake: Lake) -> list[tuple[Any, ...]]:
    """What `sums` is to hold, recomputed."""
    rows = lake.sql("SELECT g, count(*), coalesce(sum(v), 0) FROM {src} GROUP BY g")
    return sorted(map(tuple, rows), key=repr)


@pytest.fixture
def rows(lake: Lake) -> Lake:
    lake.create("src", ROWS, SRC)
    lake.materialize(sums, BY_G)
    return lake


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """One entry for each time that all sums were computed anew and compared."""
    found: list[object] = []
    keyed = lakehouse.plan.keyed

    def watched(*args: Any) -> Any:
        found.append(args)
        return keyed(*args)

    monkeypatch.setattr("lakehouse.plan.keyed", watched)
    return found


CHANGES = {
    "insert": "INSERT INTO {src} VALUES (4, 'c', 40), (5, 'a', NULL), (6, NULL, 60)",
    "update": "UPDATE {src} SET v = v + 1",
    "move": "UPDATE {src} SET g = 'b' WHERE id = 1",
    "last row": "DELETE FROM {src} WHERE g = 'b'",
    "to nothing": "UPDATE {src} SET v = NULL WHERE g = 'b'",
    "no sum differs": "UPDATE {src} SET id = 9 WHERE id = 1",
    "all rows": "DELETE FROM {src}",
}


@pytest.mark.parametrize("few", [True, False], ids=["at the driver", "where it is"])
def test_changes_are_added_to_the_sums_and_no_other_group_is_read(
    rows: Lake, anew: list[object], monkeypatch: pytest.MonkeyPatch, *, few: bool
) -> None:
    if not few:
        for name in ("feeds", "touched", "sums"):
            monkeypatch.setattr(f"lakehouse.{name}.small", lambda _: None)
    for change in CHANGES.values():
        rows.sql(change)
        rows.materialize(sums, BY_G)
        assert rows.rows("sums") == due(rows), change
    rows.insert("src", [(1, None, 1)])
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows) == [(None, 1, 1)]
    assert not anew


def test_several_versions_of_a_row_are_one_change(rows: Lake, anew: list[object]) -> None:
    for change in ("SET v = 5 WHERE id = 1", "SET g = 'b' WHERE id = 1", "SET g = 'a', v = 10 WHERE id = 1"):
        rows.sql(f"UPDATE {{src}} {change}")
    outcome = committed(rows.materialize(sums, BY_G))
    assert outcome.statement == Touch()
    assert rows.rows("sums") == due(rows)
    assert not anew


def test_columns_of_any_case_and_expressions(lake: Lake, anew: list[object]) -> None:
    lake.create("src", [(1, "a", date(2024, 1, 31), Decimal("1.50"))], "id int, G string, day date, p decimal(10,2)")

    def monthly(src: Changes) -> Aggregate:
        by = {"Month": "trunc(DAY, 'month')", "Kind": "upper(g)"}
        return Aggregate(src, by, "Lines", {"revenue": "p * 2", "dear": "CAST(p > 2 AS INT)"}, where="id <> 2")

    table = Table(key=["month", "kind"])
    lake.materialize(monthly, table)
    assert lake.rows("monthly") == [(date(2024, 1, 1), "A", 1, Decimal("3.00"), 0)]
    lake.sql("INSERT INTO {src} VALUES (2, 'a', DATE'2024-01-01', 7), (3, 'A', DATE'2024-01-01', 8)")
    lake.materialize(monthly, table)
    assert lake.rows("monthly") == [(date(2024, 1, 1), "A", 2, Decimal("19.00"), 1)]
    lake.sql("UPDATE {src} SET id = 2 WHERE id = 1")
    lake.sql("UPDATE {src} SET id = 4, day = DATE'2024-03-03' WHERE p = 7")
    lake.materialize(monthly, table)
    expected = [(date(2024, 1, 1), "A", 1, Decimal("16.00"), 1), (date(2024, 3, 1), "A", 1, Decimal("14.00"), 1)]
    assert lake.rows("monthly") == expected
    assert not anew


# What somebody else did to the table.

MEDDLED = [
    pytest.param(
        statement, id=name, marks=() if name in ("a group that does not", "a group twice") else pytest.mark.slow
    )
    for name, statement in {
        "a group that changes": "UPDATE {sums} SET total = 7 WHERE g = 'a'",
        "a group that does not": "UPDATE {sums} SET total = 7 WHERE g = 'b'",
        "a group deleted": "DELETE FROM {sums} WHERE g = 'a'",
        "a group invented": "INSERT INTO {sums} VALUES ('z', 1, 1)",
        "a group twice": "INSERT INTO {sums} VALUES ('a', 2, 40)",
    }.items()
]


@pytest.mark.parametrize("meddle", MEDDLED)
def test_all_sums_are_computed_anew_where_somebody_else_wrote_to_the_table(
    rows: Lake, anew: list[object], meddle: str
) -> None:
    rows.sql(meddle)
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert len(anew) == 1
    assert rows.told[-1].startswith("sums computes all its sums anew: version 1 (")
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert len(anew) == 1


@pytest.mark.parametrize("between", [False, True])
def test_a_restored_table_is_computed_anew(rows: Lake, *, between: bool) -> None:
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    if between:
        rows.sql("UPDATE {sums} SET total = 7")
        rows.sql("UPDATE {src} SET v = v + 1")
        rows.materialize(sums, BY_G)
    rows.sql("RESTORE TABLE {sums} TO VERSION AS OF " + str(rows.version("sums") - 1))
    rows.materialize(sums, BY_G)
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


def test_upkeep_is_not_taken_for_somebody_elses_rows(rows: Lake, anew: list[object]) -> None:
    for upkeep in ("OPTIMIZE {sums}", "ALTER TABLE {sums} SET TBLPROPERTIES ('a' = 'b')", "VACUUM {sums}"):
        rows.sql(upkeep)
        rows.sql("UPDATE {src} SET v = v + 1")
        rows.materialize(sums, BY_G)
        assert rows.rows("sums") == due(rows)
    assert not anew


def test_a_source_that_went_back_is_followed(rows: Lake, anew: list[object]) -> None:
    rows.sql("UPDATE {src} SET v = v + 1, g = 'z'")
    rows.materialize(sums, BY_G)
    rows.sql("RESTORE TABLE {src} TO VERSION AS OF 0")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert not anew


# Races.


def _at(monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], object]) -> None:
    """Something that happens once, just before a step of the next commit."""
    step, waiting = getattr(module, name), [act]

    def watched(*args: Any) -> Any:
        if waiting:
            waiting.pop()()
        return step(*args)

    monkeypatch.setattr(module, name, watched)


@pytest.mark.parametrize("meddle", MEDDLED)
def test_rows_that_slip_in_between_the_comparison_and_the_commit_do_not_stay_in_a_sum(
    rows: Lake, monkeypatch: pytest.MonkeyPatch, meddle: str
) -> None:
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    step, write = ready(rows, sums, BY_G)
    _at(monkeypatch, "execute", lambda: rows.sql(meddle))
    assert isinstance(step.commit(write, rows.retry, NO_WAIT), Committed)
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


@pytest.mark.parametrize("meddle", MEDDLED)
def test_a_commit_that_died_behind_rows_that_slipped_in_is_mended_by_the_next_run(
    rows: Lake, monkeypatch: pytest.MonkeyPatch, meddle: str
) -> None:
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    step, write = ready(rows, sums, BY_G)

    def die() -> None:
        raise KeyboardInterrupt

    _at(monkeypatch, "execute", lambda: rows.sql(meddle))
    _at(monkeypatch, "_find_attempt", die)
    with pytest.raises(KeyboardInterrupt):
        step.commit(write, rows.retry, NO_WAIT)
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


@pytest.mark.parametrize("meddle", MEDDLED)
def test_an_attempt_lost_to_a_rival_is_not_added_to_the_rivals_rows(rows: Lake, meddle: str) -> None:
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    step, write = ready(rows, sums, BY_G)
    attempts = list[int]()

    def rival(*_: Any) -> None:
        attempts.append(1)

    rows.sql(meddle)
    assert isinstance(step.commit(write, rows.retry, NO_WAIT, rival), Committed)
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'b'")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


def test_a_twin_that_read_less_does_not_make_the_other_add_twice(rows: Lake) -> None:
    rows.sql("UPDATE {src} SET v = v + 1")
    shorter, less = ready(rows, sums, BY_G)
    rows.sql("UPDATE {src} SET v = v + 1")
    longer, more = ready(rows, sums, BY_G)
    assert isinstance(shorter.commit(less, rows.retry, NO_WAIT), Committed)
    with pytest.raises(StaleInputsError):
        longer.commit(more, rows.retry, NO_WAIT)
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


def test_a_run_that_is_repeated_adds_nothing(rows: Lake) -> None:
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G, run="one")
    assert isinstance(rows.materialize(sums, BY_G, run="one"), Unchanged)
    step, write = ready(rows, sums, BY_G)
    rows.insert("src", [(7, "b", 70)])
    other = rows.materialize(sums, BY_G)
    assert isinstance(other, Committed)
    assert isinstance(step.commit(write, rows.retry, NO_WAIT), Unchanged | AlreadyApplied)
    assert rows.rows("sums") == due(rows)


# Partitions.


def test_partitions_have_sums_of_their_own_and_a_run_of_several_computes_them_anew(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    for partitions in (("a",), ("b",)):
        lake.materialize(sums, IN_G, slice=of(*partitions))
    for turn, partitions in enumerate([("a",), ("a", "b"), ("b",), ("a",), ("a", "b"), ("a",)]):
        lake.sql("UPDATE {src} SET v = v + 1")
        lake.insert("src", [(10 + turn, "b", turn)])
        lake.materialize(sums, IN_G, slice=of(*partitions))
        held = {g: row for g, *row in lake.rows("sums")}
        assert all(held[g] == row for g, *row in due(lake) if g in partitions)
    lake.materialize(sums, IN_G, slice=of("b"))
    assert lake.rows("sums") == due(lake)


def test_a_run_that_another_set_of_partitions_overtook_adds_nothing_twice(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(sums, IN_G, slice=of("a", "b"))
    lake.sql("UPDATE {src} SET v = v + 1")
    other, less = ready(lake, sums, IN_G, slice=of("a", "b"))
    lake.sql("UPDATE {src} SET v = v + 1")
    step, write = ready(lake, sums, IN_G, slice=of("a"))
    other.commit(less, lake.retry, NO_WAIT)
    step.commit(write, lake.retry, NO_WAIT)
    lake.materialize(sums, IN_G, slice=of("b"))
    assert lake.rows("sums") == due(lake)


@pytest.mark.parametrize("first", ["", None, "a"])
def test_an_empty_text_and_null_are_one_partition(lake: Lake, first: str | None) -> None:
    lake.create("src", [(1, first, 10)], SRC)
    lake.materialize(sums, IN_G)
    lake.insert("src", [(2, first, 20)])
    lake.materialize(sums, IN_G)
    assert lake.rows("sums") == [(first or None, 2, 30)]
    lake.insert("src", [(3, "", 20), (4, None, 20)])
    with pytest.raises(WriteError):  # as a first run says it: two rows would have one key
        lake.materialize(sums, IN_G)


def test_a_table_that_is_partitioned_by_its_groups_is_added_to(lake: Lake, anew: list[object]) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(sums, IN_G)
    for change in ("UPDATE {src} SET v = v + 1 WHERE g = 'a'", "DELETE FROM {src} WHERE g = 'b'", CHANGES["move"]):
        lake.sql(change)
        lake.materialize(sums, IN_G)
        assert lake.rows("sums") == due(lake)
    assert not anew


# Values that a feed cannot tell, and sums that do not fit.


def test_a_text_that_is_no_utf8_is_not_added_from_the_feed(lake: Lake) -> None:
    lake.create("src", [(1, "a", 10)], SRC)
    lake.materialize(sums, BY_G)
    for change in (
        "INSERT INTO {src} SELECT 2, CAST(X'61FF' AS STRING), 20",
        "INSERT INTO {src} SELECT 3, CAST(X'61FE' AS STRING), 30",
        "UPDATE {src} SET v = v + 1",
        "DELETE FROM {src} WHERE id = 2",
    ):
        lake.sql(change)
        lake.materialize(sums, BY_G)
        held = lake.sql("SELECT hex(CAST(g AS BINARY)), n, total FROM {sums} ORDER BY 1")
        expected = lake.sql("SELECT hex(CAST(g AS BINARY)), count(*), sum(v) FROM {src} GROUP BY g ORDER BY 1")
        assert list(map(tuple, held)) == list(map(tuple, expected))


@pytest.mark.parametrize(("kind", "value"), [("date", date(900, 1, 1)), ("timestamp", "1850-01-01 00:00:00")])
def test_a_day_of_another_calendar_is_not_added_from_the_feed(lake: Lake, kind: str, value: object) -> None:
    lake.create("src", [(1, None, 10)], f"id int, g {kind}, v int")
    lake.materialize(sums, BY_G)
    lake.sql(f"INSERT INTO {{src}} VALUES (2, {kind}'{value}', 20), (3, {kind}'2020-01-01', 30)")
    lake.materialize(sums, BY_G)
    assert lake.rows("sums") == due(lake)
    lake.sql("UPDATE {src} SET v = v + 1")
    lake.materialize(sums, BY_G)
    assert lake.rows("sums") == due(lake)


def test_a_struct_is_summed_by_its_fields(lake: Lake, anew: list[object]) -> None:
    lake.create("src", [], "id int, g string, item struct<v: bigint, tags: map<string, int>, of: array<int>>")

    def fields(src: Changes) -> Aggregate:
        return Aggregate(src, "g", "n", {"total": "item.v"})

    lake.materialize(fields, BY_G)
    lake.sql("INSERT INTO {src} SELECT 1, 'a', named_struct('v', 5L, 'tags', map('a', 1), 'of', array(1))")
    lake.materialize(fields, BY_G)
    assert lake.rows("fields") == [("a", 1, 5)]
    assert anew, "a map is not told exactly, and the struct has one"


@pytest.mark.parametrize("kind", ["bigint", "decimal(38,0)", "decimal(38,10)", "decimal(30,10)"])
def test_large_values_are_summed_exactly(lake: Lake, anew: list[object], kind: str) -> None:
    large = 9_000_000_000_000_000_000
    lake.create("src", [(1, "a", large), (2, "a", 1), (3, "b", -large)], f"id int, g string, v {kind}")
    lake.materialize(sums, BY_G)
    for change in ("UPDATE {src} SET v = v - 1 WHERE id = 1", "INSERT INTO {src} VALUES (4, 'a', 7), (5, 'b', 8)"):
        lake.sql(change)
        lake.materialize(sums, BY_G)
        assert lake.rows("sums") == due(lake)
    lake.sql(f"UPDATE {{src}} SET v = -{large}")  # by way of a sum that no BIGINT holds
    if kind != "bigint":
        lake.materialize(sums, BY_G)
        assert lake.rows("sums") == due(lake)
        assert not anew
        return
    with pytest.raises(PlanError):
        lake.materialize(sums, BY_G)
    lake.sql("UPDATE {src} SET v = 1")
    lake.materialize(sums, BY_G)
    assert lake.rows("sums") == due(lake)


# What is refused, and what is not added up.


@pytest.mark.parametrize("kind", ["double", "string", "boolean", "date"])
def test_what_has_no_exact_sum_is_refused(lake: Lake, kind: str) -> None:
    lake.create("src", [], f"id int, g string, v {kind}")
    with pytest.raises(SchemaError, match="CAST"):
        lake.materialize(sums, BY_G)
    assert not (lake.root / "sums").exists()


@pytest.mark.parametrize("table", [Table(key="v"), Table(key=["g", "n"]), Table(key="g", partition_by="n"), Table()])
def test_the_groups_are_the_key_and_the_partitions_are_groups(lake: Lake, table: Table) -> None:
    lake.create("src", ROWS, SRC)
    with pytest.raises((WriteError, MissingKeyError)):
        lake.materialize(sums, table)
    assert not (lake.root / "sums").exists()


@pytest.mark.parametrize("read", [Read(start=0), Read(exclude="DELETE")])
def test_sums_of_some_of_the_changes_are_refused(lake: Lake, read: Read) -> None:
    lake.create("src", ROWS, SRC)
    with pytest.raises(WriteError, match="where"):
        lake.materialize(sums, BY_G, reads={"src": read})


def test_names_that_clash_cannot_be_built(rows: Lake) -> None:
    step = rows.begin(sums, BY_G)
    src = rows.read(step, sums)["src"]
    assert isinstance(src, Changes)
    for by, count, listed in (((), "n", {}), ("g", "G", {}), ("g", "n", {"N": "v"})):
        with pytest.raises(ValueError, match="each name once"):
            Aggregate(src, by, count, listed)


def test_a_few_versions_at_a_time_and_a_full_refresh(rows: Lake, anew: list[object]) -> None:
    for _ in range(3):
        rows.sql("UPDATE {src} SET v = v + 1")
    for _ in range(3):
        rows.materialize(sums, BY_G, reads={"src": Read(max_versions=1)})
    assert rows.rows("sums") == due(rows)
    assert not anew
    rows.materialize(sums, BY_G, compare="a full refresh was asked for")
    assert len(anew) == 1
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert len(anew) == 1


def test_other_sums_are_computed_anew_whatever_the_code_version_says(rows: Lake) -> None:
    def others(src: Changes) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v * 2"})

    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    rows.materialize(others, BY_G, name="sums")
    assert rows.rows("sums") == [(g, n, 2 * total) for g, n, total in due(rows)]

    def wider(src: Changes) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v", "ids": "id"})

    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    rows.materialize(wider, BY_G, name="sums")
    assert rows.rows("sums") == [("a", 2, 44, 4), ("b", 1, 20, 2)]


def test_a_merge_becomes_an_aggregate_and_goes_back(rows: Lake) -> None:
    def merged(src: Changes) -> Merge:
        touched = src.touched("g")
        return Merge(touched.rows.groupBy("g").agg(F.count("*").alias("n"), F.sum("v").alias("total")), touched)

    for asset in (merged, sums, sums, merged, sums):
        rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
        rows.materialize(asset, BY_G, name="sums")
        assert rows.rows("sums") == due(rows)


def test_a_gap_is_computed_anew_or_read_from_the_archive(rows: Lake, anew: list[object]) -> None:
    def log(src: Changes) -> Append:
        return Append(src.log())

    rows.materialize(log)
    for archive in ("log", None):
        rows.sql("UPDATE {src} SET v = v + 1")
        rows.materialize(log)
        shutil.rmtree(rows.root / "src" / "_change_data")
        rows.materialize(sums, BY_G, reads={"src": Read(archive=archive)})
        assert rows.rows("sums") == due(rows)
    assert len(anew) == 1


def test_a_look_up_and_other_changes_do_not_matter_to_the_sums(rows: Lake) -> None:
    rows.create("other", [(1,)], "w int")

    def both(src: Changes, other: Changes, look: DataFrame) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v"})

    rows.create("look", [(1,)], "w int")
    rows.materialize(both, BY_G)
    for name in ("src", "other", "look"):
        rows.sql(f"INSERT INTO {{{name}}} SELECT * FROM {{{name}}} LIMIT 1")
        rows.materialize(both, BY_G)
    assert rows.rows("both") == due(rows)


def test_outcome_is_told_like_any_other(rows: Lake) -> None:
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    outcome: Outcome = rows.materialize(sums, BY_G)
    assert committed(outcome).commit.version == 1
    assert isinstance(rows.materialize(sums, BY_G), Unchanged)

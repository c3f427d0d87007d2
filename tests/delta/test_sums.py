"""An `Aggregate` adds what changed to its sums, and computes them anew where they may not be its own."""

import shutil
from collections.abc import Callable
from dataclasses import replace
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
from lakehouse.cursor import Known
from lakehouse.errors import MissingKeyError, PlanError, SchemaError, StaleInputsError, WriteError
from lakehouse.statement import Touch
from lakehouse.sums import Anew, _why_anew
from tests.delta.contended import SRC, committed, ready
from tests.delta.test_settled import of
from tests.interleave import rivals
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
def anew(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Why all sums were computed anew and compared, for each time; None where everything was read anyway."""
    found: list[str | None] = []
    add = lakehouse.plan.added

    def watched(*args: Any) -> Any:
        told = add(*args)
        found.extend([told.reason] if isinstance(told, Anew) else [])
        return told

    monkeypatch.setattr("lakehouse.plan.added", watched)
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
    rows: Lake, anew: list[str | None], monkeypatch: pytest.MonkeyPatch, *, few: bool
) -> None:
    if not few:
        for name in ("feeds", "touched", "sums"):
            monkeypatch.setattr(f"lakehouse.{name}.small", lambda _: None)
    for name, change in CHANGES.items():
        rows.sql(change)
        if few or name in ("move", "to nothing", "all rows"):
            rows.materialize(sums, BY_G)
            assert rows.rows("sums") == due(rows), name
    rows.insert("src", [(1, None, 1)])
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows) == [(None, 1, 1)]
    assert not anew


def test_several_versions_of_a_row_are_one_change(rows: Lake, anew: list[str | None]) -> None:
    for change in ("SET v = 5 WHERE id = 1", "SET g = 'b' WHERE id = 1", "SET g = 'a', v = 10 WHERE id = 1"):
        rows.sql(f"UPDATE {{src}} {change}")
    outcome = committed(rows.materialize(sums, BY_G))
    assert outcome.statement == Touch()
    assert rows.rows("sums") == due(rows)
    assert not anew


def test_columns_of_any_case_and_expressions(lake: Lake, anew: list[str | None]) -> None:
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
@pytest.mark.parametrize("moved", [True, False], ids=["source moved", "source stands"])
def test_all_sums_are_computed_anew_where_somebody_else_wrote_to_the_table(
    rows: Lake, anew: list[str | None], meddle: str, *, moved: bool
) -> None:
    rows.sql(meddle)
    if moved:
        rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert len(anew) == 1
    assert rows.told[-1].startswith("sums computes all its sums anew: version 1 (")
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert len(anew) == 1


@pytest.mark.parametrize("between", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_restored_table_is_computed_anew(rows: Lake, anew: list[str | None], *, between: bool) -> None:
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    if between:
        rows.sql("UPDATE {sums} SET total = 7")
        rows.sql("UPDATE {src} SET v = v + 1")
        rows.materialize(sums, BY_G)
    rows.sql("RESTORE TABLE {sums} TO VERSION AS OF " + str(rows.version("sums") - 1))
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert anew[-1] is not None
    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)


def test_upkeep_is_not_taken_for_somebody_elses_rows(rows: Lake, anew: list[str | None]) -> None:
    rows.insert("src", [(4, "c", 40)])
    rows.materialize(sums, BY_G)
    for upkeep in ("OPTIMIZE {sums}", "ALTER TABLE {sums} SET TBLPROPERTIES ('a' = 'b')", "VACUUM {sums}"):
        rows.sql(upkeep)
    rows.sql("UPDATE {src} SET v = v + 1")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert not anew


def test_a_source_that_went_back_is_followed(rows: Lake, anew: list[str | None]) -> None:
    rows.sql("UPDATE {src} SET v = v + 1, g = 'z'")
    rows.materialize(sums, BY_G)
    rows.sql("RESTORE TABLE {src} TO VERSION AS OF 0")
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert not anew


@pytest.mark.parametrize(
    ("meddle", "change"),
    [
        ("INSERT INTO {sums} VALUES ('a', 2, 40)", "UPDATE {src} SET v = v + 1"),
        ("DELETE FROM {sums} WHERE g = 'a'", "DELETE FROM {src} WHERE id = 1"),
        ("UPDATE {sums} SET total = NULL WHERE g = 'a'", "UPDATE {src} SET v = v + 1"),
        ("UPDATE {sums} SET total = 50 WHERE g = 'b'", "DELETE FROM {src} WHERE g = 'b'"),
        ("UPDATE {sums} SET n = NULL WHERE g = 'a'", "UPDATE {src} SET v = v + 1"),
    ],
    ids=["twice", "below zero", "no sum", "a sum of nothing", "no count"],
)
def test_what_does_not_fit_together_is_computed_anew_whatever_the_log_says(
    rows: Lake, monkeypatch: pytest.MonkeyPatch, anew: list[str | None], meddle: str, change: str
) -> None:
    monkeypatch.setattr("lakehouse.sums._why_anew", lambda *_: None)
    rows.sql(meddle)
    rows.sql(change)
    rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows)
    assert len(anew) == 1


def test_changes_are_added_to_the_position_that_the_last_commit_has_and_to_no_other(rows: Lake) -> None:
    rows.sql("UPDATE {src} SET v = v + 1")
    step, write = ready(rows, sums, BY_G)
    known, log = step.cursor, rows.ref("sums").log(lambda: rows.spark)
    head = log.head()
    assert isinstance(known, Known) and isinstance(write, Aggregate) and head is not None
    assert _why_anew(log, head, step.planned(), write) is None
    read_on = replace(known.mark, reads={"src": replace(known.mark.reads["src"], version=1)})
    assert _why_anew(log, head, replace(step.planned(), cursor=replace(known, mark=read_on)), write) is not None


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
    held = {row[0]: row for row in rows.rows("sums")}
    assert held["a"] == ("a", 2, 42)
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
    with rivals(rows.spark, lambda: rows.sql(meddle)):
        outcome = committed(step.commit(write, rows.retry, NO_WAIT))
    assert outcome.lost
    assert rows.rows("sums") == due(rows)
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
    rows.insert("src", [(8, "b", 80)])
    rows.materialize(sums, BY_G, run="two", aliases=frozenset({"one"}))
    assert rows.rows("sums") == due(rows)
    step, write = ready(rows, sums, BY_G)
    rows.insert("src", [(7, "b", 70)])
    other = rows.materialize(sums, BY_G)
    assert isinstance(other, Committed)
    assert isinstance(step.commit(write, rows.retry, NO_WAIT), Unchanged | AlreadyApplied)
    assert rows.rows("sums") == due(rows)


# Partitions.


def test_partitions_have_sums_of_their_own_and_a_run_of_several_computes_them_anew(
    lake: Lake, anew: list[str | None]
) -> None:
    lake.create("src", ROWS, SRC)
    for partitions in (("a",), ("b",)):
        lake.materialize(sums, IN_G, slice=of(*partitions))
    anew.clear()
    for turn, partitions in enumerate([("a",), ("a", "b"), ("b",), ("a",), ("a", "b"), ("a",)]):
        lake.sql("UPDATE {src} SET v = v + 1")
        lake.insert("src", [(10 + turn, "b", turn)])
        lake.materialize(sums, IN_G, slice=of(*partitions))
        held = {g: row for g, *row in lake.rows("sums")}
        assert all(held[g] == row for g, *row in due(lake) if g in partitions)
        assert (len(anew) > 0) == (len(partitions) > 1)
        anew.clear()
    lake.materialize(sums, IN_G, slice=of("b"))
    assert lake.rows("sums") == due(lake)


def test_a_run_of_several_partitions_goes_by_the_history_of_each(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(sums, IN_G, slice=of("a"))
    lake.sql("UPDATE {sums} SET total = 7 WHERE g = 'a'")
    lake.materialize(sums, IN_G, slice=of("b"))
    lake.sql("UPDATE {src} SET v = v + 1")
    lake.materialize(sums, IN_G, slice=of("b", "a"))
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


def test_a_table_that_is_partitioned_by_its_groups_is_added_to(lake: Lake, anew: list[str | None]) -> None:
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


@pytest.mark.parametrize(("more", "exact"), [("of: array<string>", True), ("tags: map<string, int>", False)])
def test_a_struct_is_summed_by_its_fields(lake: Lake, anew: list[str | None], more: str, *, exact: bool) -> None:
    lake.create("src", [], f"id int, g string, item struct<v: bigint, {more}>, vid map<string, string>")

    def fields(src: Changes) -> Aggregate:
        return Aggregate(src, "g", "n", {"total": "item.v"})

    lake.materialize(fields, BY_G)
    for n in (1, 2):
        inner = "array('x')" if exact else "map('a', 1)"
        name = more.partition(":")[0]
        lake.sql(f"INSERT INTO {{src}} SELECT {n}, 'a', named_struct('v', 5L, '{name}', {inner}), map('id', 'g')")
        lake.materialize(fields, BY_G)
        assert lake.rows("fields") == [("a", n, 5 * n)]
    assert len(anew) == (0 if exact else 2)


def test_a_count_needs_no_sums(lake: Lake, anew: list[str | None]) -> None:
    def counted(src: Changes) -> Aggregate:
        return Aggregate(src, ("g", "id"), "n", where="v > 10")

    table = Table(key=["id", "g"], statement="merge")
    lake.create("src", ROWS, SRC)
    lake.materialize(counted, table)
    for change in ("UPDATE {src} SET v = 5 WHERE id = 2", "INSERT INTO {src} VALUES (3, 'a', 11), (2, 'b', 99)"):
        lake.sql(change)
        lake.materialize(counted, table)
        expected = lake.sql("SELECT g, id, count(*) FROM {src} WHERE v > 10 GROUP BY ALL")
        assert lake.rows("counted") == sorted(map(tuple, expected), key=repr)
    assert not anew


def test_what_the_feed_tells_wrong_counts_where_the_source_says_so(lake: Lake) -> None:
    def broken(src: Changes) -> Aggregate:
        return Aggregate(src, "id", "n", {"bytes": "octet_length(g)"}, where="NOT is_valid_utf8(g)")

    lake.create("src", [(1, "a", 10)], SRC)
    lake.materialize(broken, Table(key="id"))
    lake.sql("INSERT INTO {src} SELECT 2, CAST(X'61FF' AS STRING), 20")
    lake.materialize(broken, Table(key="id"))
    assert lake.rows("broken") == [(2, 1, 2)]


def test_an_image_before_that_fails_does_not_block_the_table(lake: Lake, anew: list[str | None]) -> None:
    def numbers(src: Changes) -> Aggregate:
        return Aggregate(src, "g", "n", {"total": "CAST(v AS INT)"})

    lake.create("src", [(1, "a", "1")], "id int, g string, v string")
    lake.materialize(numbers, BY_G)
    lake.insert("src", [(2, "a", "one")])
    with pytest.raises(PlanError):
        lake.materialize(numbers, BY_G)
    lake.sql("UPDATE {src} SET v = '2' WHERE id = 2")
    anew.clear()
    lake.materialize(numbers, BY_G)
    assert lake.rows("numbers") == [("a", 2, 3)]
    assert len(anew) == 1


@pytest.mark.parametrize("kind", ["bigint", "decimal(38,10)", pytest.param("decimal(30,10)", marks=pytest.mark.slow)])
def test_large_values_are_summed_exactly(lake: Lake, anew: list[str | None], kind: str) -> None:
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


@pytest.mark.parametrize(
    "value",
    ["row_number() OVER (ORDER BY id)", "max(v)", "explode(array(v))", "nothing", "rand()", "n + 1", "others * 2"],
)
def test_what_is_not_of_the_row_alone_is_refused(lake: Lake, value: str) -> None:
    def ranked(src: Changes) -> Aggregate:
        return Aggregate(src, "g", "n", {"others": "v", "total": value})

    def grouped(src: Changes) -> Aggregate:
        return Aggregate(src, {"g": value}, "n", {"others": "v"})

    def chosen(src: Changes) -> Aggregate:
        return Aggregate(src, "g", "n", {"others": "v"}, where=f"{value} > 1")

    lake.create("src", ROWS, SRC)
    for asset in (ranked, grouped, chosen):
        with pytest.raises(PlanError):
            lake.materialize(asset, BY_G)
        assert not (lake.root / asset.__name__).exists()


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
    for sql in ("xxhash64(*)", "struct(src.*)", "(SELECT 1)", "v * current_date()", "id > unix_timestamp( )", "now()"):
        with pytest.raises(ValueError, match="one row"):
            Aggregate(src, "g", "n", {"total": sql})
    for sql in (
        "v*2",
        "(v) * 2",
        "1.*v",
        "v * current_price",
        "IF(g = '.*(*select now()', 1, 0)",
        "unix_timestamp(at)",
    ):
        Aggregate(src, "g", "n", {"total": sql}, where=sql)
    with pytest.raises(TypeError):
        Aggregate(src, "g", "n", {"total": F.col("v")})  # type: ignore[dict-item]


def test_a_few_versions_at_a_time_and_a_full_refresh(rows: Lake, anew: list[str | None]) -> None:
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

    rows.materialize(others, BY_G, name="sums")
    assert rows.rows("sums") == [(g, n, 2 * total) for g, n, total in due(rows)]

    def wider(src: Changes) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v", "ids": "id"})

    rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
    rows.materialize(wider, BY_G, name="sums")
    assert rows.rows("sums") == [("a", 2, 42, 4), ("b", 1, 20, 2)]

    def mean(src: Changes) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v", "ids": "id", "mean": "v / 2"})

    with pytest.raises(SchemaError, match="CAST"):
        rows.materialize(mean, BY_G, name="sums")
    assert len(rows.frame("sums").columns) == 4


def test_sums_of_another_input_are_computed_anew(rows: Lake) -> None:
    def ours(src: Changes, other: Changes) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"total": "v"})

    def theirs(src: Changes, other: Changes) -> Aggregate:
        return Aggregate(other, by="g", count="n", sums={"total": "v"})

    rows.create("other", [(1, "z", 5)], SRC)
    rows.materialize(ours, BY_G, name="both")
    rows.insert("other", [(2, "z", 5)])
    rows.materialize(theirs, BY_G, name="both")
    assert rows.rows("both") == [("z", 2, 10)]


def test_a_source_whose_column_has_another_type_is_summed_anew(lake: Lake, anew: list[str | None]) -> None:
    def texts(src: Changes) -> Aggregate:
        return Aggregate(src, {"g": "CAST(v AS STRING)"}, "n")

    lake.create("src", [(1, "a", 0.1)], "id int, g string, v float", delta__enableTypeWidening="true")
    lake.materialize(texts, BY_G)
    lake.sql("ALTER TABLE {src} ALTER COLUMN v TYPE double")
    lake.sql("INSERT INTO {src} VALUES (2, 'a', 0.5)")
    lake.materialize(texts, BY_G)
    expected = lake.sql("SELECT CAST(v AS STRING) AS g, count(*) FROM {src} GROUP BY 1")
    assert lake.rows("texts") == sorted(map(tuple, expected), key=repr)
    assert len(anew) == 1


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


def test_a_merge_becomes_an_aggregate_and_goes_back(rows: Lake) -> None:
    def merged(src: Changes) -> Merge:
        touched = src.touched("g")
        return Merge(touched.rows.groupBy("g").agg(F.count("*").alias("n"), F.sum("v").alias("total")), touched)

    for asset in (merged, sums, sums, merged, sums):
        rows.sql("UPDATE {src} SET v = v + 1 WHERE g = 'a'")
        rows.materialize(asset, BY_G, name="sums")
        assert rows.rows("sums") == due(rows)


@pytest.mark.parametrize("archive", ["log", None])
def test_a_gap_is_computed_anew_whatever_the_archive_holds(
    rows: Lake, anew: list[str | None], archive: str | None
) -> None:
    def log(src: Changes) -> Append:
        return Append(src.log().distinct())

    rows.materialize(log)
    rows.sql("UPDATE {src} SET v = 0, id = 0 WHERE g = 'a'")
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

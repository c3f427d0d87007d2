"""An `Aggregate` adds what changed to its sums, and to no others."""

import shutil
from datetime import date
from decimal import Decimal

import pytest

from lakehouse import Aggregate, Changes, Policy, Table
from lakehouse.delta.limits import MEASURED, Limits, in_force
from lakehouse.difference.statements import MarkOnly
from lakehouse.errors import LateGapError
from tests.commit.test_superseded import of
from tests.support.aggregated_source import BY_G, IN_G, ROWS, due, recomputes, rows, sums
from tests.support.lake import NO_WAIT, Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import SRC, committed, ready
from tests.support.slow import slow

pytestmark = pytest.mark.anywhere

__all__ = ["recomputes", "rows"]  # fixtures

AT_THE_DRIVER, WHERE_THEY_ARE = MEASURED, Limits(driver_rows=0)
WAYS = [pytest.param(AT_THE_DRIVER, id="at the driver"), slow(WHERE_THEY_ARE, id="where they are")]
CHANGES = {
    "insert": "INSERT INTO {src} VALUES (4, 'c', 40), (5, 'a', NULL), (6, NULL, 60)",
    "update": "UPDATE {src} SET v = v + 1",
    "move": "UPDATE {src} SET g = 'b' WHERE id = 1",
    "last row": "DELETE FROM {src} WHERE g = 'b'",
    "to nothing": "UPDATE {src} SET v = NULL WHERE g = 'b'",
    "no sum differs": "UPDATE {src} SET id = 9 WHERE id = 1",
    "all rows": "DELETE FROM {src}",
}


@pytest.mark.parametrize("way", WAYS)
def test_changes_are_added_to_the_sums_and_no_other_group_is_read(
    rows: Lake, recomputes: list[str], way: Limits
) -> None:
    with in_force(way):
        for name, change in CHANGES.items():
            rows.sql(change)
            if way == AT_THE_DRIVER or name in ("move", "to nothing", "all rows"):
                rows.materialize(sums, BY_G)
                assert rows.rows("sums") == due(rows), name
        rows.insert("src", [(1, None, 1)])
        rows.materialize(sums, BY_G)
    assert rows.rows("sums") == due(rows) == [(None, 1, 1)]
    assert not recomputes


@pytest.mark.slow
def test_several_versions_of_a_row_are_one_change(rows: Lake, recomputes: list[str]) -> None:
    for change in ("SET v = 5 WHERE id = 1", "SET g = 'b' WHERE id = 1", "SET g = 'a', v = 10 WHERE id = 1"):
        rows.sql(f"UPDATE {{src}} {change}")
    outcome = committed(rows.materialize(sums, BY_G))
    assert outcome.statement == MarkOnly()
    assert rows.rows("sums") == due(rows)
    assert not recomputes


@pytest.mark.slow
def test_columns_of_any_case_and_expressions(lake: Lake, recomputes: list[str]) -> None:
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
    assert not recomputes


@pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "value"), [("date", "1582-10-10"), ("timestamp", "1582-10-10 00:00:00")])
def test_a_day_of_another_calendar_is_not_added_from_the_feed(
    lake: Lake, recomputes: list[str], kind: str, value: str
) -> None:
    def old(src: Changes) -> Aggregate:
        return Aggregate(src, "g", "n", where=f"at < {kind}'1582-10-12'")

    lake.create("src", [(1, "a", None)], f"id int, g string, at {kind}")
    lake.materialize(old, BY_G)
    lake.sql(f"INSERT INTO {{src}} VALUES (2, 'a', {kind}'{value}'), (3, 'a', {kind}'2020-01-01')")
    lake.materialize(old, BY_G)
    assert lake.rows("old") == [("a", 1)]
    assert len(recomputes) == 1


@pytest.mark.parametrize(("more", "exact"), [slow("of: array<string>", True), slow("tags: map<string, int>", False)])
def test_a_struct_is_summed_by_its_fields(lake: Lake, recomputes: list[str], more: str, *, exact: bool) -> None:
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
    assert len(recomputes) == (0 if exact else 2)


@pytest.mark.slow
def test_a_count_needs_no_sums(lake: Lake, recomputes: list[str]) -> None:
    def counted(src: Changes) -> Aggregate:
        return Aggregate(src, ("g", "id"), "n", where="v > 10")

    table = Table(key=["id", "g"], policy=Policy(statement="merge"))
    lake.create("src", ROWS, SRC)
    lake.materialize(counted, table)
    for change in ("UPDATE {src} SET v = 5 WHERE id = 2", "INSERT INTO {src} VALUES (3, 'a', 11), (2, 'b', 99)"):
        lake.sql(change)
        lake.materialize(counted, table)
        expected = lake.sql("SELECT g, id, count(*) FROM {src} WHERE v > 10 GROUP BY ALL")
        assert lake.rows("counted") == sorted(map(tuple, expected), key=repr)
    assert not recomputes


@pytest.mark.slow
def test_what_the_feed_tells_wrong_counts_where_the_source_says_so(lake: Lake) -> None:
    def broken(src: Changes) -> Aggregate:
        return Aggregate(src, "id", "n", {"bytes": "octet_length(g)"}, where="NOT is_valid_utf8(g)")

    lake.create("src", [(1, "a", 10)], SRC)
    lake.materialize(broken, Table(key="id"))
    lake.sql("INSERT INTO {src} SELECT 2, CAST(X'61FF' AS STRING), 20")
    lake.materialize(broken, Table(key="id"))
    assert lake.rows("broken") == [(2, 1, 2)]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_what_the_feed_tells_wrong_may_belong_to_the_runs_partition(lake: Lake, way: Limits) -> None:
    def judged(src: Changes) -> Aggregate:
        return Aggregate(src, {"g": "IF(exists(gs, g -> NOT is_valid_utf8(g)), 'a', 'b')"}, "n")

    lake.create("src", [], "id int, gs array<string>")
    with in_force(way):
        for row in ("1, array('x')", "2, array(CAST(X'61FF' AS STRING))"):
            lake.sql(f"INSERT INTO {{src}} SELECT {row}")
            for partition in ("a", "b"):
                lake.materialize(judged, IN_G, slice=of(partition))
    assert lake.rows("judged") == [("a", 1), ("b", 1)]


@pytest.mark.slow
def test_changes_that_are_gone_while_they_are_added_are_a_late_gap(rows: Lake, recomputes: list[str]) -> None:
    rows.sql("UPDATE {src} SET v = v + 1")
    with in_force(WHERE_THEY_ARE):
        step, write = ready(rows, sums, BY_G)
    shutil.rmtree(rows.root / "src" / "_change_data")
    with pytest.raises(LateGapError):
        step.commit(write, rows.retry, NO_WAIT)
    assert not recomputes


@pytest.mark.slow
def test_an_image_before_that_fails_does_not_block_the_table(lake: Lake, recomputes: list[str]) -> None:
    def numbers(src: Changes) -> Aggregate:
        return Aggregate(src, "g", "n", {"total": "CAST(v AS INT)"})

    lake.create("src", [(1, "a", "1")], "id int, g string, v string")
    lake.materialize(numbers, BY_G)
    lake.insert("src", [(2, "a", "one")])
    with raises_code("PLAN"):
        lake.materialize(numbers, BY_G)
    lake.sql("UPDATE {src} SET v = '2' WHERE id = 2")
    recomputes.clear()
    lake.materialize(numbers, BY_G)
    assert lake.rows("numbers") == [("a", 2, 3)]
    assert len(recomputes) == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["bigint", slow("decimal(38,10)"), slow("decimal(30,10)")])
def test_large_values_are_summed_exactly(lake: Lake, recomputes: list[str], kind: str) -> None:
    large = 9_000_000_000_000_000_000
    lake.create("src", [(1, "a", large), (2, "a", 1), (3, "b", -large)], f"id int, g string, v {kind}")
    lake.materialize(sums, BY_G)
    for change in ("UPDATE {src} SET v = v - 1 WHERE id = 1", "INSERT INTO {src} VALUES (4, 'a', 7), (5, 'b', 8)"):
        lake.sql(change)
        lake.materialize(sums, BY_G)
        assert lake.rows("sums") == due(lake)
    lake.sql(f"UPDATE {{src}} SET v = -{large}")  # their sum does not fit into a BIGINT
    if kind != "bigint":
        lake.materialize(sums, BY_G)
        assert lake.rows("sums") == due(lake)
        assert not recomputes
        return
    with raises_code("PLAN"):
        lake.materialize(sums, BY_G)
    lake.sql("UPDATE {src} SET v = 1")
    lake.materialize(sums, BY_G)
    assert lake.rows("sums") == due(lake)


@pytest.mark.parametrize(
    ("kind", "held", "more"),
    [
        slow(
            "decimal(38,33)",
            "0.123456789012345678901234567890123",
            "1.000000000000000000000000000000001",
            id="many digits",
        ),
        slow("decimal(38,0)", f"-6{'0' * 37}", f"6{'0' * 37}", id="an overflow among the changes"),
    ],
)
def test_a_sum_is_as_exact_as_its_column(lake: Lake, kind: str, held: str, more: str) -> None:
    lake.create("src", [(1, "a", Decimal(held))], f"id int, g string, v {kind}")
    lake.materialize(sums, BY_G)
    lake.sql(f"INSERT INTO {{src}} VALUES (2, 'a', {more}BD), (3, 'a', {more}BD)")
    lake.materialize(sums, BY_G)
    assert lake.rows("sums") == [("a", 3, lake.sql("SELECT sum(v) FROM {src}")[0][0])]

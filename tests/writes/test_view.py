"""A `View` in a run: what is computed and why, what is refused, and what its inputs mean."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse import Changes, Policy, Read, Table, View
from lakehouse.commit.outcome import Committed, Unchanged
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors import StaleInputsError, WriteError
from lakehouse.errors.views import ViewError
from lakehouse.read.changes import read_of
from lakehouse.spark.driver_rows import bag_difference, is_empty
from lakehouse.views.files.statement import query_of, read_statement
from lakehouse.views.view_text import OutputColumn, ViewText
from tests.support.interleave import before, rivals
from tests.support.lake import NO_WAIT, Lake
from tests.support.model import DIM, SRC
from tests.support.ready_runs import committed, ready
from tests.support.views import Kept, Shop, asset_of

pytestmark = pytest.mark.anywhere
BY_K, BY_ID = Table(key="k"), Table(key="id")
TOTALS = "SELECT k, count(*) AS n, sum(v) AS v FROM src GROUP BY k"


SHIFTED = "SELECT timestampadd(DAY, v, DATE'2020-01-01') AS id, count(*) AS n FROM src GROUP BY 1"
"""The queries of steps cannot contain timestampadd()."""


def totals(src: Changes) -> View:
    return View(TOTALS)


def fill(lake: Lake, groups: int = 8) -> None:
    """Groups of three rows each; one of the groups has the key NULL."""
    lake.create("src", [(i, None if i % groups == 0 else f"g{i % groups}", i) for i in range(3 * groups)], SRC)


def computed(lake: Lake) -> list[str]:
    """What runs reported that they computed; on a slow machine they also report Spark's progress."""
    return [said for said in lake.said if " computes " in said]


def sums(lake: Lake) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in lake.sql(TOTALS.replace("src", "{src}"))), key=repr)


@pytest.mark.slow
def test_null_is_a_key_and_a_key_that_follows_from_the_text_need_not_be_declared(lake: Lake) -> None:
    fill(lake)
    lake.materialize(totals)
    lake.sql("UPDATE {src} SET v = 100 WHERE id = 0")
    lake.sql("UPDATE {src} SET k = NULL WHERE id = 1")
    outcome = lake.materialize(totals)
    assert lake.rows("totals") == sums(lake)
    assert computed(lake)[-1] == "totals computes the rows of touched keys (k)."
    assert isinstance(outcome, Committed) and outcome.commit.rows.images == 4
    lake.sql("DELETE FROM {src} WHERE k IS NULL")
    lake.materialize(totals)
    assert lake.rows("totals") == sums(lake)


@pytest.mark.slow
def test_everything_is_computed_at_first_under_new_code_and_where_most_keys_are_touched(lake: Lake) -> None:
    fill(lake)
    lake.materialize(totals, code_version="1")
    lake.insert("src", [(99, "g1", 1)])
    lake.materialize(totals, code_version="2")
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id < 6")
    lake.materialize(totals, code_version="2")
    first, new_code, most = computed(lake)
    assert first == "totals computes all rows, because there is no table yet."
    assert new_code.startswith("totals computes all rows, because the asset's code version is now 2")
    assert most == "totals computes all rows, because 6 keys of 8 rows are touched."
    assert lake.rows("totals") == sums(lake)


BY_LOGS = Limits(changes_to_count=0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sizes", "why"),
    [
        (Limits(), "6 keys of 8 rows are touched"),
        (BY_LOGS, "the log of 'src' tells 12 images of changed rows, and all 24 rows take less work"),
    ],
    ids=["by keys", "by logs"],
)
def test_only_auto_computes_all_rows_because_most_keys_are_touched(lake: Lake, sizes: Limits, why: str) -> None:
    fill(lake)
    words = ("auto", "incremental", "strict")
    tables: dict[str, Table] = {word: Table(key="k", policy=Policy(refresh=word)) for word in words}
    for name, table in tables.items():
        lake.materialize(totals, table, name=name)
    lake.said.clear()
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id < 6")
    with in_force(sizes):
        for name, table in tables.items():
            lake.materialize(totals, table, name=name)
            assert lake.rows(name) == sums(lake)
    by_keys = "computes the rows of touched keys (k)."
    assert computed(lake) == [f"auto computes all rows, because {why}.", f"incremental {by_keys}", f"strict {by_keys}"]
    assert lake.told == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "large", [Limits(vector_rows=0), Limits(vector_rows=0, driver_rows=3, touched_share=1)], ids=["large", "many keys"]
)
def test_a_table_is_weighed_whose_rows_are_too_many_to_be_counted_exactly(lake: Lake, large: Limits) -> None:
    fill(lake)
    lake.materialize(totals)
    lake.sql("UPDATE {src} SET v = v + 1 WHERE id < 6")
    with in_force(large):
        lake.materialize(totals)
    assert computed(lake)[-1] == "totals computes all rows, because 6 keys of 8 rows are touched."
    assert lake.rows("totals") == sums(lake)


ONE_ROW = "SELECT count(*) AS n, max(v) FILTER (WHERE TRUE) AS top FROM src WHERE k IS NOT NULL"


def one_row(src: Changes) -> View:
    return View(ONE_ROW)


@pytest.mark.slow
def test_a_run_that_needs_all_rows_is_refused_by_strict_and_warned_of_by_incremental(lake: Lake) -> None:
    fill(lake)
    strict, incremental = (Table(policy=Policy(refresh=word)) for word in ("strict", "incremental"))
    lake.materialize(one_row, strict)
    assert lake.told[0].startswith(
        "one_row is refused as soon as changes reach it: its result is one row of all rows, and"
    )
    lake.insert("src", [(1000, None, 5000)])
    assert lake.materialize(one_row, strict).commit.is_quiet  # type: ignore[union-attr]
    version = lake.version("one_row")
    lake.insert("src", [(1001, "x", 5000)])
    with pytest.raises(ViewError, match="because its result is one row of all rows") as raised:
        lake.materialize(one_row, strict)
    assert raised.value.code == "VIEW_NOT_INCREMENTAL" and "lakehouse/full_refresh=true" in str(raised.value)
    assert lake.version("one_row") == version and lake.rows("one_row") == [(21, 23)]
    lake.materialize(one_row, strict, compare="a full refresh was asked for")
    assert lake.rows("one_row") == [(22, 5000)]
    lake.told.clear()
    lake.insert("src", [(1002, "x", 5001)])
    lake.materialize(one_row, incremental)
    why = "its result is one row of all rows, and top is not a plain count, sum of exact numbers, minimum or maximum"
    assert lake.told == [f"one_row computes all rows, because {why}."]
    assert lake.rows("one_row") == [(23, 5001)]


@pytest.mark.slow
def test_all_rows_of_an_empty_table_are_computed_under_strict(lake: Lake) -> None:
    def no_key(src: Changes) -> View:
        return View("SELECT k, v FROM src WHERE v >= 100")

    fill(lake)
    strict = Table(policy=Policy(refresh="strict"))
    lake.materialize(no_key, strict)
    lake.insert("src", [(100, "a", 100)])
    lake.materialize(no_key, strict)
    assert lake.rows("no_key") == [("a", 100)]
    assert lake.said[-1] == "no_key computes all rows, because its table is empty."
    lake.insert("src", [(101, "b", 101)])
    with pytest.raises(ViewError, match="because its table has no key"):
        lake.materialize(no_key, strict)


@pytest.mark.slow
def test_a_source_that_every_change_reads_whole_is_refused_by_strict_and_warned_of_by_incremental(lake: Lake) -> None:
    def ranges(src: Changes, dim: Changes) -> View:
        return View("SELECT s.id, d.k FROM src s JOIN dim d ON s.v > d.w")

    fill(lake)
    lake.create("dim", [("a", "A", 5), ("b", "B", 500)], DIM)
    lake.materialize(ranges, Table(key="id"))
    lake.said.clear()
    lake.sql("UPDATE {dim} SET w = 20 WHERE k = 'a'")
    with in_force(Limits(whole_rows=0)):
        with pytest.raises(
            ViewError, match=r"because all of src is read to find the keys, because no equality"
        ) as raised:
            lake.materialize(ranges, Table(key="id", policy=Policy(refresh="strict")))
        assert raised.value.code == "VIEW_NOT_INCREMENTAL"
        lake.materialize(ranges, Table(key="id", policy=Policy(refresh="incremental")))
    assert lake.said == []
    (warning,) = lake.told
    assert warning.startswith("ranges computes the rows of touched keys (id); all of src is read to find the keys, ")
    assert warning.endswith(" and all of dim is read for the rows of the keys, because no equality links it.")
    assert lake.rows("ranges") == [(i, "a") for i in range(21, 24)]


@pytest.mark.slow
def test_a_run_reports_how_it_followed_its_tables_and_the_lineage(lake: Lake) -> None:
    def named(src: Changes, dim: Changes) -> View:
        return View("SELECT s.id, d.name FROM src s JOIN dim d ON s.k = d.k")

    lake.create("dim", [("a", "A", 1), ("b", "B", 1)], DIM)
    lake.create("src", [(0, "a", 0), (1, "b", 0)], SRC)
    lake.materialize(named, BY_ID)
    lake.sql("UPDATE {dim} SET name = 'new' WHERE k = 'a'")
    step, write = ready(lake, named, BY_ID)
    with in_force(Limits(whole_rows=0)):
        committed(step.commit(write, lake.retry, NO_WAIT))
    report = step.run.facts.view
    assert report is not None
    assert report.computed == "the rows of touched keys (id)"
    _, src, dim, rows, sums = report.followed
    assert dim == "Changes of dim reach the keys over src by k."
    assert src == "Changes of src have the keys."
    assert rows.startswith("The rows of the keys are computed from src by id")
    assert sums.endswith("not kept by sums, because the query has no GROUP BY.")
    assert lake.rows("named")[0] == (0, "new")
    assert report.lineage == {"id": (("src", "id"),), "name": (("dim", "name"),)}


def test_changes_that_reach_no_row_move_the_position_alone(lake: Lake) -> None:
    def filtered(src: Changes) -> View:
        return View("SELECT id, v FROM src WHERE v < 1000")

    fill(lake)
    lake.materialize(filtered, Table(key="id"))
    lake.sql("UPDATE {src} SET k = 'other' WHERE id = 3")
    lake.insert("src", [(1000, "g1", 5000)])
    outcome = lake.materialize(filtered, Table(key="id"))
    assert isinstance(outcome, Committed) and outcome.commit.is_quiet
    assert isinstance(lake.materialize(filtered, Table(key="id")), Unchanged)


def test_a_step_without_changes_starts_no_spark(lake: Lake) -> None:
    fill(lake)
    lake.materialize(totals, Table(key="k"))
    without = replace(lake, spark=object())  # not a session: any use of it fails
    step = without.begin(totals, Table(key="k"))
    without.read(step, totals)
    assert step.nothing_to_do() is not None
    assert step.nothing_to_write(View(TOTALS)) is not None


@pytest.mark.slow
def test_a_snapshot_is_read_as_of_the_run_and_not_followed(lake: Lake) -> None:
    def named(src: Changes, dim: DataFrame) -> View:
        return View("SELECT s.id, d.name FROM src s JOIN dim d ON s.k = d.k")

    lake.create("src", [(i, "ab"[i % 2], i) for i in range(6)], SRC)
    lake.create("dim", [("a", "A", 1), ("b", "B", 1)], DIM)
    lake.materialize(named, Table(key="id"))
    lake.sql("UPDATE {dim} SET name = 'new'")
    assert isinstance(lake.materialize(named, Table(key="id")), Unchanged)
    lake.sql("UPDATE {src} SET k = 'b' WHERE id = 0")
    lake.materialize(named, Table(key="id"))
    assert lake.rows("named") == [(0, "new"), (1, "B"), (2, "A"), (3, "B"), (4, "A"), (5, "B")]


@pytest.mark.slow
def test_only_snapshots_are_computed_whole_in_each_run(lake: Lake) -> None:
    def copied(src: DataFrame) -> View:
        return View("SELECT id, v FROM src WHERE v >= :least", args={"least": 2})

    fill(lake, 2)
    lake.materialize(copied, Table(key="id"))
    lake.sql("UPDATE {src} SET v = 7 WHERE id = 5")
    lake.materialize(copied, Table(key="id"))
    assert lake.rows("copied") == [(2, 2), (3, 3), (4, 4), (5, 7)]


def test_a_text_that_cannot_be_kept_is_refused_before_anything_is_written(lake: Lake) -> None:
    fill(lake, 1)
    for sql, code, words in (
        ("SELECT id FROM src JOIN other USING (id)", "VIEW_UNKNOWN_TABLE", "other is not an input"),
        ("SELECT id, rand() AS r FROM src", "VIEW_NOT_DETERMINISTIC", "rand"),
        ("SELECT nothing AS id FROM src", "VIEW_UNKNOWN_COLUMN", "nothing"),
        ("SELECT id FROM src WHERE", "VIEW_SYNTAX", "Spark cannot read the text"),
    ):
        with pytest.raises(ViewError, match=words) as raised:
            lake.materialize(asset_of("kept", sql, ["src"]), Table(key="id"))
        assert raised.value.code == code
    with pytest.raises(ViewError, match="View 'totals': The query is over all rows of 'src'") as raised:
        lake.materialize(totals, reads={"src": Read(exclude_operations=("DELETE",))})
    assert raised.value.code == "VIEW_PARTIAL_INPUT"
    assert not lake.exists("kept") and not lake.exists("totals")


@pytest.mark.slow
def test_what_no_keys_follow_is_computed_whole_and_says_where(lake: Lake) -> None:
    fill(lake)
    kept = asset_of("kept", SHIFTED, ["src"])
    for v in (100, 101):
        lake.materialize(kept, Table(key="id"))
        lake.insert("src", [(v, "x", v)])
    assert len(lake.rows("kept")) == 25
    (said,) = {line for line in lake.said if line.startswith("kept computes all rows, because id decides")}
    assert said.endswith("(line 1, column 8: timestampadd).")
    with pytest.raises(ViewError, match="Keys alone are not enough, because id decides"):
        lake.materialize(kept, Table(key="id", policy=Policy(refresh="strict")))


def test_a_key_refuses_null_whether_or_not_the_head_lists_columns(lake: Lake) -> None:
    lake.create("src", [(1, "g1", 1), (None, "g2", 2)], SRC)
    head = "CREATE MATERIALIZED VIEW v ({}PRIMARY KEY (Id)) AS SELECT id, k, v FROM src"
    for nth, columns in enumerate(("", "id, k, v, ")):
        statement = head.format(columns)
        text = query_of(statement, read_statement(statement))
        with pytest.raises(WriteError, match=r"NULL in column (?i:id)"):
            lake.materialize(asset_of(f"keyed_{nth}", text, ["src"]), Table(key="id"))


@pytest.mark.slow
def test_declared_columns_name_by_position_cast_and_refuse_null(lake: Lake) -> None:
    columns = (
        OutputColumn("Group"),
        OutputColumn("rows", "INT"),
        OutputColumn("total", "DECIMAL(9,1)"),
    )

    def declared(src: Changes) -> View:
        return View(ViewText(TOTALS, columns=columns, required=frozenset({"group"})))

    lake.create("src", [(i, f"g{i % 8}", i) for i in range(24)], SRC)
    lake.materialize(declared, Table(key="Group"))
    assert dict(lake.frame("declared").dtypes) == {"Group": "string", "rows": "int", "total": "decimal(9,1)"}
    lake.sql("UPDATE {src} SET v = 1000 WHERE id = 3")
    lake.materialize(declared, Table(key="Group"))
    assert "touched keys (Group)" in lake.said[-1]
    assert [(*row[:2], int(row[2])) for row in lake.rows("declared")] == sums(lake)
    lake.insert("src", [(100, None, 1)])
    with pytest.raises(WriteError, match="NULL in column Group"):
        lake.materialize(declared, Table(key="Group"))


@pytest.mark.slow
def test_a_map_is_a_value_like_any_other_unless_keys_are_computed_of_it(lake: Lake) -> None:
    def plain(src: Changes) -> View:
        return View("SELECT id, m FROM src")

    def computed(src: Changes) -> View:
        return View("SELECT id, m['a'] AS a FROM src WHERE m['a'] > 0")

    lake.spark.sql(
        f"CREATE TABLE {lake.ref('src').identifier} USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true') "
        f"AS SELECT id, map('a', id) AS m FROM VALUES (1), (2), (3), (4), (5), (6) AS t (id)"
    )
    for asset in (plain, computed):
        lake.materialize(asset, Table(key="id"))
    lake.said.clear()
    lake.sql("UPDATE {src} SET m = map('a', -1) WHERE id = 2")
    for asset in (plain, computed):
        lake.materialize(asset, Table(key="id"))
    assert lake.said[0] == "plain computes the rows of touched keys (id)."
    assert "keys are computed from the column m of 'src', and no feed tells a map<string,int>" in lake.said[1]
    assert {row[0]: row[1]["a"] for row in lake.rows("plain")} == {1: 1, 2: -1, 3: 3, 4: 4, 5: 5, 6: 6}
    assert lake.rows("computed") == [(i, i) for i in (1, 3, 4, 5, 6)]


@pytest.mark.slow
def test_a_recompute_compares_the_query_over_what_was_read(lake: Lake) -> None:
    fill(lake)
    lake.materialize(totals, Table(key="k"))
    step = lake.begin(totals, Table(key="k"), compare="asked")
    inputs = {
        name: read_of(changes) for name, changes in lake.read(step, totals).items() if isinstance(changes, Changes)
    }
    rows, table = View(TOTALS).rows_to_compare(lake.frame("totals"), inputs)
    assert is_empty(bag_difference(rows, table))
    lake.sql("UPDATE {totals} SET n = 9 WHERE k = 'g1'")
    assert not is_empty(bag_difference(*View(TOTALS).rows_to_compare(lake.frame("totals"), inputs)))


@pytest.mark.slow
def test_rows_that_a_rival_writes_after_the_comparison_do_not_stay(lake: Lake) -> None:
    fill(lake)
    lake.materialize(totals, BY_K)
    lake.sql("UPDATE {src} SET v = 100 WHERE id = 3")
    step, write = ready(lake, totals, BY_K)
    with before("execute", lambda: lake.sql("UPDATE {totals} SET n = 9 WHERE k = 'g3'")):
        committed(step.commit(write, lake.retry, NO_WAIT))
    assert lake.rows("totals") == sums(lake)


@pytest.mark.slow
def test_changes_of_a_source_between_comparison_and_commit_are_those_of_the_next_run(lake: Lake) -> None:
    fill(lake)
    lake.materialize(totals, BY_K)
    lake.sql("UPDATE {src} SET v = 100 WHERE id = 3")
    planned = sums(lake)
    step, write = ready(lake, totals, BY_K)
    with before("execute", lambda: lake.sql("UPDATE {src} SET k = 'g4' WHERE id = 3")):
        committed(step.commit(write, lake.retry, NO_WAIT))
    assert lake.rows("totals") == planned
    lake.materialize(totals, BY_K)
    assert computed(lake)[-1] == "totals computes the rows of touched keys (k)."
    assert lake.rows("totals") == sums(lake) != planned


@pytest.mark.race
def test_a_commit_that_a_rival_wins_is_computed_over_the_rows_of_the_rival(lake: Lake) -> None:
    fill(lake)
    lake.materialize(totals, BY_K)
    lake.sql("UPDATE {src} SET v = 100 WHERE id = 3")
    step, write = ready(lake, totals, BY_K)
    with rivals(lake.spark, lambda: lake.sql("UPDATE {totals} SET n = 9 WHERE k = 'g3'")):
        assert committed(step.commit(write, lake.retry, NO_WAIT)).lost
    assert lake.rows("totals") == sums(lake)


@pytest.mark.race
def test_a_run_whose_rival_read_less_is_refused_and_the_next_run_reads_the_rest(lake: Lake) -> None:
    fill(lake)
    lake.materialize(totals, BY_K)
    lake.sql("UPDATE {src} SET v = 100 WHERE id = 3")
    shorter, less = ready(lake, totals, BY_K)
    lake.sql("UPDATE {src} SET k = 'g4' WHERE id = 3")
    longer, more = ready(lake, totals, BY_K)
    with (
        rivals(lake.spark, lambda: shorter.commit(less, lake.retry, NO_WAIT)),
        pytest.raises(StaleInputsError),
    ):
        longer.commit(more, lake.retry, NO_WAIT)
    lake.materialize(totals, BY_K)
    assert lake.rows("totals") == sums(lake)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ranges_cut_at_random_come_to_the_same(lake: Lake, seed: int) -> None:
    random = Random(seed)
    shop = Shop(lake, random)
    shop.open()
    view = Kept(
        "totals_by_city",
        "SELECT c.city, count(*) AS n, max(o.amount) AS top FROM orders o LEFT JOIN customers c ON o.customer = c.id "
        "GROUP BY c.city",
        ("city",),
    )
    lake.materialize(view.asset, view.table)
    for _ in range(5):
        shop.edit()
    for _ in range(30):
        reads = {name: Read(max_versions=random.randint(1, 3)) for name in view.tables}
        with in_force(Limits(whole_rows=0)):
            if isinstance(lake.materialize(view.asset, view.table, reads=reads), Unchanged):
                break
    assert lake.rows(view.name) == shop.expected(view.sql)

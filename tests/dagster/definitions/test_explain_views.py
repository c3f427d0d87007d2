"""`explain` shows how a view follows its sources, by its text and their logs. Real tables and marks, without Spark."""

import json
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field, write_deltalake
from deltalake.schema import PrimitiveType

from lakehouse import Changes, DeltaIOManager, Policy, Table, View, explain
from lakehouse.cursor.definition import digest
from lakehouse.cursor.digests import QueryDigest
from lakehouse.dagster.code.digest import code_of
from lakehouse.delta.limits import Limits, in_force
from lakehouse.read.forecast import Forecast, Reading, RunEffect
from lakehouse.views.sql.tokens import digest_of_view
from lakehouse.views.view_text import ViewText
from tests.support.for_each import for_each
from tests.support.marked_tables import FEED, append, run
from tests.support.tables import orders

customers = dg.AssetSpec("customers", metadata=Table(key="id"))


@dg.asset(metadata=Table(key="day"))
def latest(orders: Changes, customers: Changes) -> View:
    return View("SELECT c.day, max(o.id) AS latest FROM orders o JOIN customers c ON o.id = c.id GROUP BY c.day")


@dg.asset
def counted(orders: Changes) -> View:
    return View(
        "SELECT day, count(*) AS n, coalesce(sum(id), 0) AS total FROM orders WHERE id > :least GROUP BY day",
        {"least": 1},
    )


@dg.asset(metadata=Table(key="id"))
def paired(orders: Changes, customers: Changes) -> View:
    return View("SELECT o.id, o.day FROM orders o JOIN customers c ON o.id > c.id", touch="day")


@dg.asset(metadata=Table(key="id"))
def made(orders: Changes) -> View:
    column = "id"
    return View(f"SELECT {column} FROM orders")


@dg.asset(metadata=Table(key="id"))
def wrong(orders: Changes) -> View:
    return View("SELECT id, town FROM orders")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    append(tmp_path, "orders", 1, 2)
    append(tmp_path, "customers", 1, 2)
    return tmp_path


def forecast(root: Path, asset: dg.AssetsDefinition, **options: Any) -> Forecast:
    """A forecast for which no table is small, and without a session: any use of Spark would raise."""
    writer = DeltaIOManager(spark=object(), root=str(root), **options)
    with in_force(Limits(whole_rows=0)):
        return explain(dg.Definitions([orders, customers, asset], resources={"io_manager": writer}), asset)


def followed(root: Path, asset: dg.AssetsDefinition, **options: Any) -> list[str]:
    write = forecast(root, asset, **options).write
    assert write is not None
    return list(write.followed)


def test_the_changes_of_each_source_have_a_path_and_a_reason_tells_why_sums_do_not_do(root: Path) -> None:
    said = [
        "Changes are followed by the keys (day).",
        "Changes of orders reach the keys over customers by id.",
        "Changes of customers have the keys.",
        "The rows of the keys are computed from orders by id, customers by day.",
        "The table is not kept by sums, because the rows that are grouped are not those of one table.",
    ]
    assert followed(root, latest) == said
    of = forecast(root, latest)
    assert str(of).endswith("\n    ".join(["the table is created with the rows in one commit.", *said]))
    assert of.as_document()["write"]["followed"] == tuple(said)


def test_counts_and_sums_are_added_to_and_the_key_follows_from_the_text(root: Path) -> None:
    write = forecast(root, counted).write
    assert write is not None and write.key == ("day",)
    assert write.followed == (
        "The table is kept by sums: what changes of orders bring and take away is added to them.",
    )


def test_a_table_whose_mark_says_nothing_of_sums_is_not_kept_by_them(root: Path) -> None:
    run(root, "counted", "orders", code=code_of(counted.op.compute_fn.decorated_fn), key="day")
    append(root, "orders", 3)
    *_, last = followed(root, counted)
    assert last == (
        "The table is not kept by sums, because its log does not say that it holds them. After the next run that "
        "computes all rows it is."
    )


def test_a_query_that_is_another_than_at_the_last_commit_is_computed_for_all_rows(root: Path) -> None:
    run(
        root,
        "counted",
        "orders",
        code=code_of(counted.op.compute_fn.decorated_fn),
        query=QueryDigest("#another"),
    )
    of = forecast(root, counted)
    (source,) = of.inputs
    assert (of.verdict, source.reading, source.rows_read) == (RunEffect.WRITES, Reading.EVERYTHING, 2)
    assert source.why == "its query, or a value in it, is another than at its last commit"
    strict = forecast(root, counted, policy=Policy(refresh="strict"))
    assert (strict.verdict, strict.inputs[0].reading) == (RunEffect.REFUSED, Reading.REFUSED)


VIEW = """
from lakehouse import Changes, View

def edited(orders: Changes) -> View:
    return View({text!r})
"""
QUERY = "SELECT o.day, max(o.id) AS latest FROM orders o WHERE o.id > 0 GROUP BY o.day"
SAME = (
    QUERY.replace("FROM", "-- the newest of each day\n FROM"),
    QUERY.replace("max", "/* of all */ max"),
    QUERY.replace(" ", "\n    "),
    QUERY.replace("SELECT", "select").replace("GROUP BY o", "group by O").replace("max", "MAX"),
)


def edited(folder: Path, text: str) -> Any:
    """The asset, with this text as its query."""
    file = folder / "edited.py"
    file.write_text(VIEW.format(text=text))
    names: dict[str, Any] = {"__name__": "edited", "__file__": str(file)}
    exec(compile(file.read_text(), str(file), "exec", dont_inherit=True), names)
    return dg.asset(metadata=Table(key="day"))(names["edited"])


@for_each("text", SAME)
def test_an_edit_that_leaves_the_words_of_a_query_costs_nothing(text: str, tmp_path: Path) -> None:
    """There is no session, so any use of Spark would raise."""
    append(tmp_path, "orders", 1, 2)
    fields = DeltaTable(str(tmp_path / "orders")).schema().fields
    columns = digest({"orders": [(field.name, json.dumps(field.type.type)) for field in fields]})
    query = QueryDigest(digest_of_view(ViewText(QUERY)), columns=columns)
    code = code_of(edited(tmp_path, QUERY).op.compute_fn.decorated_fn)
    run(tmp_path, "edited", "orders", code=code, query=query, key="day")
    version = DeltaTable(str(tmp_path / "edited")).version()
    asset = edited(tmp_path, text)
    assert forecast(tmp_path, asset).verdict is RunEffect.NOTHING
    manager = DeltaIOManager(spark=object(), root=str(tmp_path))
    assert dg.materialize([orders, asset], resources={"io_manager": manager}).success
    assert DeltaTable(str(tmp_path / "edited")).version() == version


def test_a_query_that_no_key_follows_reads_all_rows_as_soon_as_a_source_changes(root: Path) -> None:
    @dg.asset(metadata=Table(key="id"))
    def numbered(orders: Changes) -> View:
        return View("SELECT id, row_number() OVER (ORDER BY id) AS n FROM orders")

    run(root, "numbered", "orders", code=code_of(numbered.op.compute_fn.decorated_fn), key="id")
    assert forecast(root, numbered).verdict is RunEffect.NOTHING
    append(root, "orders", 3)
    (source,) = forecast(root, numbered).inputs
    assert (source.reading, source.rows_read) == (Reading.EVERYTHING, 3)
    assert source.why is not None and source.why.startswith("a window without PARTITION BY")


@for_each("ids, effect", [([1], RunEffect.REFUSED), ([], RunEffect.WRITES)])
def test_an_empty_table_is_computed_under_a_strict_policy_too(ids: list[int], effect: RunEffect, root: Path) -> None:
    @dg.asset(name=f"numbered{len(ids)}", metadata=Table(key="id"))
    def numbered(orders: Changes) -> View:
        return View("SELECT id, row_number() OVER (ORDER BY id) AS n FROM orders")

    (name,) = numbered.key.path
    write_deltalake(str(root / name), pa.table({"id": pa.array(ids, pa.int32())}), configuration=FEED)
    run(root, name, "orders", rows=False, code=code_of(numbered.op.compute_fn.decorated_fn), key="id")
    append(root, "orders", 3)
    of = forecast(root, numbered, policy=Policy(refresh="strict"))
    assert of.verdict is effect
    assert (of.inputs[0].why == "its table is empty") == (ids == [])


@pytest.mark.filterwarnings("ignore:Parameter `resource_defs`")  # beta in Dagster, and people use it
def test_a_resource_of_the_asset_itself_hinders_no_forecast(root: Path) -> None:
    @dg.asset(resource_defs={"rules": dg.ResourceDefinition.hardcoded_resource(1)}, required_resource_keys={"rules"})
    def own(orders: Changes) -> View:
        return View("SELECT id, day FROM orders")

    assert followed(root, own)


def test_other_columns_of_a_source_are_looked_at(root: Path) -> None:
    fields = DeltaTable(str(root / "orders")).schema().fields
    columns = digest({"orders": [(field.name, json.dumps(field.type.type)) for field in fields]})
    code = code_of(made.op.compute_fn.decorated_fn)
    run(root, "made", "orders", code=code, query=QueryDigest("#of the text", columns=columns), key="id")
    assert forecast(root, made).verdict is RunEffect.NOTHING
    DeltaTable(str(root / "orders")).alter.add_columns(Field("town", PrimitiveType("string")))
    of = forecast(root, made)
    assert of.verdict is RunEffect.WRITES
    assert of.why.startswith("The columns of a source changed, for which names of its query may stand.")


def test_an_aggregate_that_is_no_sum_is_named(root: Path) -> None:
    @dg.asset
    def largest(orders: Changes) -> View:
        return View("SELECT day, count(*) AS n, max(id) AS largest FROM orders GROUP BY day")

    assert followed(root, largest)[-1] == (
        "The table is not kept by sums, because MAX(id) is neither a plain count nor a plain sum."
    )


def test_touch_and_what_the_policy_says_of_whole_reads_are_said(root: Path) -> None:
    first, *_, sums, policy = followed(root, paired, policy=Policy(refresh="strict"))
    assert first == "Changes are followed by the keys (day)."
    assert sums == "The table is not kept by sums, because `touch` names the columns by which changes are followed."
    assert policy.startswith("Keys alone are not enough")


def test_a_text_that_only_a_call_shows_is_said_to_need_one(root: Path) -> None:
    (said,) = followed(root, made)
    assert said.startswith("Only a call of its function shows its query: --call (call=True)")


def test_a_text_that_a_run_would_refuse_is_refused(root: Path) -> None:
    of = forecast(root, wrong)
    assert of.verdict is RunEffect.REFUSED
    assert "View 'wrong'" in of.why and "town" in of.why


def test_a_table_that_holds_everything_says_what_changes_will_meet(root: Path) -> None:
    run(root, "wrong", "orders", code=code_of(wrong.op.compute_fn.decorated_fn), key="id")
    of = forecast(root, wrong)
    assert of.verdict is RunEffect.NOTHING and of.write is not None
    assert of.write.followed[0].startswith("A run that changes reach will be refused. View 'wrong'")

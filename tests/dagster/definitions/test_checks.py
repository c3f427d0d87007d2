"""The checks of a table: a full recompute of what it has read, its key, and what its logs show."""

import re
import shutil
from datetime import timedelta
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import functions as F

from lakehouse import Changes, Expect, History, Merge, Table, checks, incremental
from lakehouse.dagster.definitions.past_checks import CHECK
from lakehouse.dagster.run_tags import CHECKS
from lakehouse.errors import DefinitionError
from lakehouse.spark.progress import listening
from tests.support.dagster_house import House
from tests.support.lake import aged
from tests.support.tables import ASSETS, DAY_1, EVENTS, carried, copies, orders, slow

pytestmark = pytest.mark.served


@pytest.mark.slow
def test_a_check_reads_through_the_io_manager_of_its_asset(house: House) -> None:
    elsewhere = dg.asset(name="elsewhere", metadata=Table(key="id"), io_manager_key="delta")(carried)

    source = dg.AssetSpec("orders", metadata={**Table(key="id"), "dagster/io_manager_key": "delta"})
    found = checks([source, elsewhere])
    result = dg.materialize(
        [source, elsewhere, *found],
        resources={"delta": house.io_manager},
        instance=house.instance,
        tags={CHECKS: "true"},
    )
    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.passed


def test_what_was_written_beside_a_table_fails_its_check_and_what_became_of_its_source_warns(house: House) -> None:
    house.run("copies")
    house.assets = [orders, copies, *checks([orders, copies], "recompute", "schema")]
    house.lake.sql("UPDATE {copies} SET v = 1000 WHERE id = 2")
    house.lake.sql("ALTER TABLE {orders} ADD COLUMNS (w int)")
    told = evaluations(house)
    compared, drift = told["copies", CHECK], told["copies", "schema"]
    assert not compared.passed and compared.severity is dg.AssetCheckSeverity.ERROR
    assert str(compared.description).startswith(
        "3 rows against a full recompute of orders at 0: 1 key differs. Something "
    )
    assert compared.metadata["differing"].value == 1
    assert details(compared) == [{"id": "2", "what": "other values"}], "the key, and no other column"
    assert not drift.passed and drift.severity is dg.AssetCheckSeverity.WARN
    assert details(drift) == [{"table": "orders", "column": "w", "what": "added since version 0"}]
    shutil.rmtree(house.root / "orders")
    house.lake.create("orders", [(7, DAY_1, 70)], EVENTS)
    replaced = evaluations(house)["copies", CHECK]
    assert not replaced.passed and replaced.severity is dg.AssetCheckSeverity.WARN
    assert replaced.description == (
        "There is nothing to compare with any more: another table has replaced 'orders' since 'copies' read it."
    )


def test_a_table_that_has_not_read_all_its_inputs_does_not_fail_the_check_but_warns(house: House) -> None:
    """Before its first run it has read none of them; later it has not read one that was added since."""

    @dg.asset(name="copies", metadata=Table(key="id"))
    def widened(orders: Changes, others: Changes) -> Merge: ...

    def told(asset: dg.AssetsDefinition) -> dg.AssetCheckEvaluation:
        assets = [orders, dg.AssetSpec("others"), asset, *checks([orders, asset])]
        return evaluations(House(house.lake, assets, house.instance))["copies", CHECK]

    first = told(copies)
    house.run("copies")
    for evaluation in (first, told(widened)):
        assert not evaluation.passed and evaluation.severity is dg.AssetCheckSeverity.WARN
        assert evaluation.description == "'copies' has not read all its inputs yet."


@pytest.mark.slow
def test_a_source_that_nobody_changed_for_long_is_compared_at_its_newest_version(house: House) -> None:
    """The position lags behind commits that changed no row, and soon Delta can read only the newest version."""
    house.assets = [*ASSETS, *checks(ASSETS)]
    house.lake.insert("orders", [(4, DAY_1, 40)])
    house.run("copies")
    aged(house.lake, "orders")
    house.lake.sql("OPTIMIZE {orders}")
    assert evaluations(house)["copies", CHECK].passed
    aged(house.lake, "orders")
    house.lake.sql("UPDATE {orders} SET v = 41 WHERE id = 4")
    told = evaluations(house)["copies", CHECK]
    assert not told.passed and told.severity is dg.AssetCheckSeverity.WARN
    assert "There is nothing to compare with any more: not all of orders at" in str(told.description)


@pytest.mark.slow
def test_a_long_check_says_what_it_is_at(house: House) -> None:
    house.assets = [orders, slow, *checks([orders, slow])]
    house.lake.sql("INSERT INTO {orders} SELECT id + 10, * EXCEPT (id) FROM {orders}")  # a server reports every 2 s
    house.run("slow")
    with listening(pause=1.5, interval=0.2):
        assert evaluations(house)["slow", CHECK].passed
    (run,) = house.instance.get_runs(limit=1)
    told = [entry.user_message for entry in house.instance.all_logs(run.run_id)]
    assert any("Spark has been comparing slow with a full recompute for" in message for message in told)


@pytest.mark.slow
def test_a_run_that_materializes_leaves_the_expensive_checks_to_a_run_of_their_own(house: House) -> None:
    """Dagster selects the checks of what it materializes, but no user asked for a full recompute after each step."""
    found = list(checks([orders, copies], "recompute", "keys", "up_to_date"))
    assets = [orders, copies, *found]

    def made(**options: Any) -> dict[str, bool]:
        result = dg.materialize(assets, resources={"io_manager": house.io_manager}, instance=house.instance, **options)
        assert result.success
        return {
            f"{e.asset_key.to_user_string()} {e.check_name}": e.passed for e in result.get_asset_check_evaluations()
        }

    alone: dict[str, Any] = {"selection": dg.AssetSelection.checks(*found)}
    right = {"copies up_to_date": True, "copies keys": True, f"copies {CHECK}": True}
    assert made() == {"copies up_to_date": True, "copies keys": False, f"copies {CHECK}": False}, (
        "never made, which is told"
    )
    assert made(tags={CHECKS: "true"}) == right
    assert made() == {"copies up_to_date": True}, "and in this run Dagster shows the others as skipped"
    house.lake.sql("UPDATE {copies} SET v = 1000 WHERE id = 2")
    assert made(**alone) == right | {"orders keys": True, f"copies {CHECK}": False}
    assert made() == {"copies up_to_date": True, f"copies {CHECK}": False}, (
        "what failed does not look as if it were skipped"
    )


def test_no_check_that_waits_for_its_night_looks_wrong(house: House) -> None:
    """The same holds for an expectation, which the asset's own step has evaluated."""
    judged = dg.asset(name="judged", metadata=Table(key="id", expect=[Expect("v < 25")]))(carried)
    resources = {"io_manager": house.io_manager}
    defs = incremental(dg.Definitions([orders, copies, judged], resources=resources), nightly_checks="0 3 * * *")
    result = defs.resolve_implicit_global_asset_job_def().execute_in_process(instance=house.instance)
    ended = {f"{e.asset_key.to_user_string()} {e.check_name}": e.passed for e in result.get_asset_check_evaluations()}
    right = [f"{asset} {check}" for asset in ("copies", "judged") for check in ("up_to_date", "schema")]
    assert ended == dict.fromkeys(["orders keys", *right], True) | {"judged v_lt_25": False}
    told = [entry.user_message for entry in house.instance.all_logs(result.run_id)]
    assert not [message for message in told if "did not yield" in message]


@pytest.mark.slow
def test_each_check_is_made_of_one_word(house: House) -> None:
    found = list(checks(ASSETS, "recompute", "up_to_date", "schema", "keys"))
    assert {str(key.asset_key.to_user_string()): 0 for check in found for key in check.check_keys}.keys() == {
        "orders",
        "copies",
        "gold/totals",
        "by_day",
        "landed",
        "daily_copies",
    }
    house.run("copies")
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")
    house.assets = [orders, copies, *checks([orders, copies], "up_to_date", "schema", "keys")]
    results = evaluations(house)
    age = re.compile(r"\d+ seconds?")
    assert {n: (e.passed, age.sub("…", str(e.description))) for (of, n), e in results.items() if of == "copies"} == {
        "up_to_date": (True, "'copies' has not read 1 version of 'orders' (oldest … ago)."),
        "schema": (True, "'copies' and its sources have the columns they had."),
        "keys": (True, "The key (id) identifies every row: 3 rows."),
    }


def test_a_key_that_stands_twice_or_not_at_all_fails_the_check(house: House) -> None:
    house.assets = [orders, *checks([orders], "keys")]
    house.lake.insert("orders", [(1, DAY_1, 5), (None, DAY_1, 6)])
    told = evaluations(house)["orders", "keys"]
    assert not told.passed and told.severity is dg.AssetCheckSeverity.ERROR
    assert (told.metadata["keys repeated"].value, told.metadata["keys with NULL"].value) == (1, 1)
    assert details(told) == [{"id": "1", "rows": 2}, {"id": "NULL", "rows": 1}]


@pytest.mark.slow
def test_the_current_rows_of_a_history_are_those_of_its_source_and_a_row_is_found_by_its_start(house: House) -> None:
    @dg.asset(metadata=Table(key="id"))
    def past(orders: Changes) -> History:
        return History(orders)

    house.assets = [orders, past, *checks([orders, past], "recompute", "keys")]
    house.run("past")
    house.lake.sql("UPDATE {orders} SET v = 1000 WHERE id = 2")
    house.run("past")
    house.lake.sql("DELETE FROM {orders} WHERE id = 1")  # not read yet: the check compares what has been read
    told = evaluations(house)
    assert told["past", CHECK].passed and told["past", CHECK].metadata["rows"].value == 3
    assert told["past", "keys"].description == "The key (id, __START_AT) identifies every row: 4 rows."
    house.lake.sql("UPDATE {past} SET v = 0 WHERE id = 2 AND __END_AT IS NULL")
    told = evaluations(house)["past", CHECK]
    assert not told.passed and details(told) == [{"id": "2", "what": "other values"}]


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ("UPDATE {copies} SET v = 1000 WHERE id = 2", "other values"),
        pytest.param("DELETE FROM {copies} WHERE id = 2", "missing from the table", marks=pytest.mark.slow),
        pytest.param("INSERT INTO {copies} VALUES (9, NULL, 9)", "not in the recompute", marks=pytest.mark.slow),
    ],
)
def test_a_sample_that_draws_a_wrong_key_finds_it(house: House, wrong: str, what: str) -> None:
    """The keys of a sample come from the table and from its sources, so a missing row is found as well."""
    house.run("copies")
    house.assets = [orders, copies, *checks([orders, copies], sample=10)]
    assert evaluations(house)["copies", CHECK].passed
    house.lake.sql(wrong)
    told = evaluations(house)["copies", CHECK]
    assert not told.passed and [record["what"] for record in details(told)] == [what]


@dg.asset(metadata=Table(key="kind"))
def kinds(orders: Changes) -> Merge:
    """The key is computed, so that no source has its column."""
    touched = orders.touched(kind="v % 3")
    return Merge(touched.rows.groupBy("kind").agg(F.max("v").alias("v")), touched)


@pytest.mark.slow
def test_a_sample_finds_a_row_that_the_table_lacks_although_no_source_has_the_columns_of_its_key(house: House) -> None:
    house.assets = [orders, kinds, *checks([orders, kinds], sample=10)]
    house.lake.insert("orders", [(4, DAY_1, 41), (5, DAY_1, 51)])
    house.run("kinds")
    house.lake.sql("DELETE FROM {kinds} WHERE kind = 2")
    told = evaluations(house)["kinds", CHECK]
    assert not told.passed and details(told) == [{"kind": "2", "what": "missing from the table"}]


@pytest.mark.slow
def test_as_many_checks_as_there_are_parts_compare_each_key_once(house: House) -> None:
    house.run("copies")
    house.assets = [orders, copies, *checks([orders, copies], sample=1)]
    told = [evaluations(house)["copies", CHECK] for _ in range(4)]
    assert {check.metadata["part of the keys"].value for check in told} == {f"{part} of 4" for part in range(1, 5)}
    assert sum(int(str(check.metadata["rows"].value)) for check in told) == 3
    assert all(check.passed for check in told)


def test_a_check_that_is_none_and_a_limit_that_limits_nothing_are_refused_at_load() -> None:
    with pytest.raises(DefinitionError, match="There is no check 'freshness'"):
        checks([copies], "freshness")  # pyright: ignore[reportArgumentType]
    for limits in (
        {"sample": 0},
        {"sample": 0.0},
        {"sample": -1},
        {"max_lag": timedelta()},
        {"margin": -timedelta(days=1)},
    ):
        with pytest.raises(DefinitionError, match="are positive"):
            checks([copies], **limits)
    with pytest.raises(DefinitionError, match=r"sample=10\.0 of checks\(\.\.\.\) is a share, so at most 1\.0"):
        checks([copies], sample=10.0)


def details(evaluation: dg.AssetCheckEvaluation) -> list[dict[str, Any]]:
    value = evaluation.metadata["details"]
    assert isinstance(value, dg.TableMetadataValue)
    return [dict(record.data) for record in value.records]


def evaluations(house: House) -> dict[tuple[str, str], dg.AssetCheckEvaluation]:
    found = [asset for asset in house.assets if isinstance(asset, dg.AssetChecksDefinition)]
    result = dg.materialize(
        house.assets,
        selection=dg.AssetSelection.checks(*found),
        resources={"io_manager": house.io_manager},
        instance=house.instance,
    )
    return {(e.asset_key.to_user_string(), e.check_name): e for e in result.get_asset_check_evaluations()}

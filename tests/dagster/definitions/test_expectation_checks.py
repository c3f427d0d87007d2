"""Each expectation of a table is an asset check, evaluated by the run that materializes the asset."""

import re

import dagster as dg
import pytest

from lakehouse import DeltaIOManager, Expect, Policy, Table, checks, explain, incremental
from lakehouse.errors import DefinitionError
from tests.support.dagster_house import House, failure
from tests.support.tables import DAY_1, carried, orders

pytestmark = pytest.mark.served
EXPECTED = [Expect("v < 1000", "fail", "small"), Expect("v >= 10", "drop"), Expect("day IS NOT NULL")]


def asset_of(table: Table) -> dg.AssetsDefinition:
    return dg.asset(name="copies", metadata=table)(carried)


def complete(manager: DeltaIOManager, asset: dg.AssetsDefinition) -> dg.Definitions:
    return incremental(dg.Definitions(assets=[orders, asset], resources={"io_manager": manager}))


def statuses(house: House, *names: str) -> list[tuple[str, str]]:
    """The newest evaluation of each check, as Dagster stores it for its pages."""
    storage = house.instance.event_log_storage
    newest = [
        storage.get_asset_check_execution_history(dg.AssetCheckKey(dg.AssetKey("copies"), name), limit=1)
        for name in names
    ]
    return [
        (record[0].status.value, record[0].event.dagster_event.event_specific_data.severity.value) for record in newest
    ]


NAMES = ("small", "v_ge_10", "day_is_not_null")


NO_SPARK = DeltaIOManager(spark=object(), root="/lake")


def test_the_page_of_an_asset_has_a_check_of_each_expectation_before_the_first_run() -> None:
    graph = complete(NO_SPARK, asset_of(Table(key="id", expect=EXPECTED))).resolve_asset_graph()
    keys = {key.name for key in graph.asset_check_keys if key.asset_key == dg.AssetKey("copies")}
    assert keys >= set(NAMES)
    assert graph.get_check_spec(dg.AssetCheckKey(dg.AssetKey("copies"), "v_ge_10")).description == (
        "Each row that a run writes has v >= 10. Rows that break it are left out of the table."
    )


def test_a_run_evaluates_what_it_writes_and_says_so_where_people_look(house: House) -> None:
    house.assets = [orders, asset_of(Table(key="id", expect=EXPECTED))]
    house.lake.sql("UPDATE {orders} SET v = 5 WHERE id = 1")
    result = house.run("copies")
    evaluations = {each.check_name: each for each in result.get_asset_check_evaluations()}
    dropped = evaluations["v_ge_10"]
    assert not dropped.passed and dropped.severity is dg.AssetCheckSeverity.WARN
    assert dropped.description == "Of the result, 1 of 3 rows breaks the expectation v_ge_10 (v >= 10) [id=1]."
    assert {name: dropped.metadata[name].value for name in ("broken", "rows")} == {"broken": 1, "rows": 3}
    assert dropped.metadata["share"].value == pytest.approx(1 / 3)
    assert [record.data for record in dropped.metadata["keys"].records] == [{"id": "1"}]
    assert evaluations["small"].passed and evaluations["day_is_not_null"].passed
    assert [evaluations[name].metadata["broken"].value for name in NAMES] == [0, 1, 0]
    assert [row[0] for row in house.lake.rows("copies")] == [2, 3]
    assert statuses(house, *NAMES) == [("SUCCEEDED", "ERROR"), ("FAILED", "WARN"), ("SUCCEEDED", "WARN")]


def test_a_run_that_an_expectation_fails_shows_its_evaluations_too(house: House) -> None:
    house.assets = [orders, asset_of(Table(key="id", expect=EXPECTED))]
    house.lake.sql("UPDATE {orders} SET v = 1000 WHERE id = 3")
    result = house.run("copies", raise_on_error=False)
    assert not result.success
    assert failure(result).startswith(
        "In the result of 'copies' 1 of 3 rows breaks the expectation small (v < 1000) [id=3]"
    )
    assert failure(result).endswith("[lakehouse.EXPECTATION]")
    assert not house.lake.exists("copies")
    assert statuses(house, *NAMES) == [("FAILED", "ERROR"), ("SUCCEEDED", "WARN"), ("SUCCEEDED", "WARN")]


@pytest.mark.slow
def test_a_run_of_the_check_alone_looks_at_the_whole_table(house: House) -> None:
    house.assets = [orders, asset_of(Table(key="id"))]
    house.run("copies")
    house.lake.sql("UPDATE {copies} SET v = 5 WHERE id = 1")
    asset = asset_of(Table(key="id", expect=EXPECTED))
    defs = complete(house.io_manager, asset)
    job = defs.resolve_implicit_global_asset_job_def()
    keys = [dg.AssetCheckKey(dg.AssetKey("copies"), name) for name in NAMES]
    alone = job.get_subset(asset_selection=set(), asset_check_selection=set(keys))
    result = alone.execute_in_process(instance=house.instance)
    evaluations = {each.check_name: each for each in result.get_asset_check_evaluations()}
    assert (
        evaluations["v_ge_10"].description
        == "Of the table, 1 of 3 rows breaks the expectation v_ge_10 (v >= 10) [id=1]."
    )
    assert evaluations["small"].description == "3 rows of the table: each has v < 1000."


def test_the_comparison_with_a_recompute_leaves_the_same_rows_out(house: House) -> None:
    asset = asset_of(Table(key="id", expect=EXPECTED))
    house.lake.sql("UPDATE {orders} SET v = 5 WHERE id = 1")
    house.assets = [orders, asset]
    house.run("copies")
    (check,) = checks([asset, orders])

    def compared() -> bool:
        result = dg.materialize(
            [orders, asset, check],
            selection=dg.AssetSelection.checks(check),
            resources={"io_manager": house.io_manager},
            instance=house.instance,
        )
        (evaluation,) = result.get_asset_check_evaluations()
        return evaluation.passed

    assert compared()
    house.lake.insert("copies", [(1, DAY_1, 5)])
    assert not compared()


@pytest.mark.slow
def test_a_forecast_that_calls_the_function_says_which_rows_break_what(house: House) -> None:
    asset = asset_of(Table(key="id", expect=EXPECTED))
    defs = dg.Definitions(assets=[orders, asset], resources={"io_manager": house.io_manager})
    house.lake.sql("UPDATE {orders} SET v = 5 WHERE id = 1")
    write = explain(defs, "copies", call=True).write
    assert write is not None
    assert write.broken == ("In the result 1 of 3 rows breaks the expectation v_ge_10 (v >= 10) [id=1].",)
    house.lake.sql("UPDATE {orders} SET v = 1000 WHERE id = 2")
    assert "1 of 3 rows breaks the expectation small" in explain(defs, "copies", call=True).why


def test_what_is_no_condition_of_a_row_or_has_the_name_of_another_check_is_refused_when_the_location_loads() -> None:
    for expect, said in (
        (
            Expect("v > (SELECT max(v) FROM orders)"),
            (
                "Asset 'copies' has the condition (v > (SELECT max(v) FROM orders)) on rows of its table, but it has a subquery, "
                "and only the columns of one row count here. Write a condition that is true or false of one row, and "
                "compute what it needs as a column of the result."
            ),
        ),
        (Expect("v > 1", name="keys"), "The expectation keys of 'copies' has the name of another check"),
    ):
        with pytest.raises(DefinitionError, match=re.escape(said)):
            complete(NO_SPARK, asset_of(Table(key="id", expect=expect)))


def test_a_component_and_a_policy_say_it_in_yaml() -> None:
    from dagster_delta_lakehouse.attributes import ExpectAttributes, PolicyAttributes, TableAttributes

    said = TableAttributes(
        key="id",
        expect=[ExpectAttributes(condition="v > 0", on_failure="drop")],
        policy=PolicyAttributes(outside="fail"),
    )
    assert said.value == Table(key="id", expect=Expect("v > 0", "drop"), policy=Policy(outside="fail"))


def test_a_row_in_the_quarantine_breaks_what_put_it_there_also_in_a_run_of_the_checks(house: House) -> None:
    """The run that makes both says so once: the step of the checks leaves it to the step of the table."""
    asset = asset_of(Table(key="id", expect=Expect("v > 15", "quarantine")))
    project = complete(house.io_manager, asset)
    both = dg.AssetSelection.assets(asset.key) | dg.AssetSelection.checks_for_assets(asset.key)
    alone = dg.AssetSelection.checks(dg.AssetCheckKey(asset.key, "v_gt_15"))
    check, storage = dg.AssetCheckKey(asset.key, "v_gt_15"), house.instance.event_log_storage
    for number, (selection, tags) in enumerate([(both, {"lakehouse/checks": "true"}), (alone, {})], 1):
        job = dg.define_asset_job(f"job_{number}", selection=selection)
        with_job = dg.Definitions.merge(project, dg.Definitions(jobs=[job]))
        assert with_job.resolve_job_def(job.name).execute_in_process(instance=house.instance, tags=tags).success
        records = storage.get_asset_check_execution_history(check, limit=9)
        assert len(records) == number
        metadata = records[0].evaluation.metadata
        assert not records[0].evaluation.passed
        assert [metadata[name].value for name in ("broken", "quarantined", "rows")] == [1, 1, 3]

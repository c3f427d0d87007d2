"""The quarantine of a table is an asset of its own, which the runs of the table materialize."""

from pathlib import Path

import dagster as dg
import pytest

from lakehouse import Changes, DeltaIOManager, Expect, Merge, Table, View, checks, explain, incremental
from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.definitions.checks import checkable_tables
from lakehouse.dagster.follow.watch import Behind, Watch
from lakehouse.dagster.io_manager import code_location_of, roots_of
from lakehouse.errors import DefinitionError
from tests.support.dagster_house import House, metadata
from tests.support.tables import DAY_1, DAY_2, DAYS, EVENTS, carried, orders

pytestmark = pytest.mark.served
TABLE = Table(key="id", expect=Expect("v >= 15", "quarantine"))
KEY = dg.AssetKey("copies_quarantine")
copies = dg.asset(name="copies", metadata=TABLE, group_name="shop", owners=["team:sales"])(carried)


@dg.asset(metadata=Table(key="id"), deps=["copies"])
def alerts(copies_quarantine: Changes) -> Merge:
    touched = copies_quarantine.touched("id")
    return Merge(touched.rows.select("id", "v"), touched)


def complete(house: House, *more: object) -> dg.Definitions:
    return complete_with(house.io_manager, copies, *more)


def complete_with(manager: DeltaIOManager, *assets: object) -> dg.Definitions:
    return incremental(dg.Definitions(assets=[orders, *assets], resources={"io_manager": manager}))  # type: ignore[list-item]


def test_incremental_adds_the_quarantine_as_an_asset_that_depends_on_its_table(tmp_path: Path) -> None:
    manager = DeltaIOManager(spark=object(), root=str(tmp_path))
    defs = complete_with(manager, copies, alerts)
    graph = defs.resolve_asset_graph()
    quarantine = graph.get(KEY)
    assert quarantine.parent_keys == {dg.AssetKey("copies")} and quarantine.child_keys == {dg.AssetKey("alerts")}
    assert quarantine.is_external and quarantine.group_name == "shop" and quarantine.kinds == {"deltalake"}
    assert quarantine.owners == ["team:sales"]
    assert quarantine.metadata["lakehouse/key"] == ["id", "__n"]
    assert quarantine.metadata["dagster/uri"] == str(tmp_path / "copies_quarantine")
    assert quarantine.description == (
        "Rows of copies that break an expectation, until they are corrected upstream: v_ge_15 (v >= 15)."
    )
    assert KEY not in checkable_tables(code_location_of(defs)), "the check of its table compares both"
    assert complete_with(manager).resolve_asset_graph().get_all_asset_keys() == {dg.AssetKey("orders")}
    with pytest.raises(DefinitionError, match="The quarantine of 'copies' has the asset key 'copies_quarantine'"):
        complete_with(manager, copies, dg.AssetSpec("copies_quarantine"))

    @dg.asset(metadata=Table(expect=Expect("n > 1", "quarantine")))
    def counted(orders: Changes) -> View:
        return View("SELECT day, count(*) AS n FROM orders GROUP BY day")

    with pytest.raises(DefinitionError, match="its table declares no key"):
        complete_with(manager, counted)


def test_a_run_materializes_the_quarantine_and_others_read_it(house: House) -> None:
    house.assets = list(complete(house, alerts).assets or ())
    result = house.run("copies", "alerts")
    events = {str(event.asset_key): event for event in result.get_asset_materialization_events()}
    quarantine = events[str(KEY)].materialization
    table_id = house.lake.source("copies_quarantine").head.table_id
    assert quarantine.tags is not None and quarantine.tags["dagster/data_version"] == f"{table_id}@0"
    assert quarantine.metadata["dagster/row_count"].value == 1
    assert metadata(result, "copies")["quarantine"] == 1
    (evaluation,) = result.get_asset_check_evaluations()
    assert {name: evaluation.metadata[name].value for name in ("broken", "quarantined")} == {
        "broken": 1,
        "quarantined": 1,
    }
    assert evaluation.severity is dg.AssetCheckSeverity.WARN and not evaluation.passed
    assert house.lake.rows("alerts") == [(1, 10)]
    house.lake.sql("UPDATE {orders} SET v = 16 WHERE id = 1")
    result = house.run("copies", "alerts")
    assert (house.lake.rows("alerts"), metadata(result, "copies")["quarantine"]) == ([], 0)


def test_a_quarantine_is_materialized_if_its_rows_are_news(house: House) -> None:
    """Even rows of a run that failed after it had committed the quarantine, and so reported nothing to Dagster."""

    def told(result: dg.ExecuteInProcessResult) -> list[str]:
        events = [
            event.materialization for event in result.get_asset_materialization_events() if event.asset_key == KEY
        ]
        return [str((event.tags or {})["dagster/data_version"]).split("@")[1] for event in events]

    house.assets = [orders, copies]
    assert told(house.run("copies")) == ["0"]
    house.lake.sql("UPDATE {orders} SET v = 21 WHERE id = 2")
    assert told(house.run("copies")) == []
    house.lake.sql("UPDATE {orders} SET v = 9 WHERE id = 1")
    house.lake.materialize(carried, TABLE, name="copies")
    assert told(house.run("copies")) == ["1"]


@pytest.mark.slow
def test_the_comparison_with_a_recompute_knows_the_quarantine(house: House) -> None:
    house.assets = [orders, copies]
    house.run("copies")
    (check,) = checks([copies, orders])

    def compared() -> dg.AssetCheckEvaluation:
        result = dg.materialize(
            [orders, copies, check],
            selection=dg.AssetSelection.checks(check),
            resources={"io_manager": house.io_manager},
            instance=house.instance,
        )
        (evaluation,) = result.get_asset_check_evaluations()
        return evaluation

    assert compared().passed
    assert "of the table and of its quarantine against a full recompute" in str(compared().description)
    house.lake.sql("UPDATE {copies_quarantine} SET v = 11")
    assert not compared().passed
    house.lake.sql("UPDATE {copies_quarantine} SET v = 10")
    house.lake.insert("copies", [(1, DAY_1, 10)])
    assert not compared().passed


@pytest.mark.slow
def test_a_forecast_says_what_becomes_of_the_quarantine(house: House) -> None:
    defs = complete(house)
    write = explain(defs, "copies", call=True).write
    assert write is not None and write.planned == "create; in its quarantine, first: create"
    house.assets = [orders, copies]
    house.run("copies")
    house.lake.sql("UPDATE {orders} SET v = 16 WHERE id = 1")
    write = explain(defs, "copies", call=True).write
    assert write is not None and "; in its quarantine, first: replace of the 1 row that differs" in str(write.planned)


by_day = dg.AssetSpec("events", metadata=Table(key="id", partition_by="day"), partitions_def=DAYS)


@dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day", expect=Expect("v >= 15", "quarantine")))
def judged(events: Changes) -> Merge:
    touched = events.touched("id")
    return Merge(touched.rows, touched)


def test_a_partition_that_only_the_quarantine_has_rows_of_is_run_when_its_source_loses_it(house: House) -> None:
    rows = house.lake.values([(1, DAY_1, 10), (2, DAY_2, 20)], EVENTS)
    feed = rows.write.format("delta").partitionBy("day").option("delta.enableChangeDataFeed", "true")
    feed.save(str(house.root / "events"))
    house.assets = [by_day, judged]
    for day in (DAY_1, DAY_2):
        house.run("judged", partition_key=str(day))
    house.lake.sql(f"UPDATE {{events}} SET day = DATE'{DAY_2}', v = 99 WHERE id = 1")
    watch = Watch(CodeLocation.of(house.assets, roots_of({"io_manager": house.io_manager})))
    look = watch.look(house.instance).tables[judged.key]
    assert isinstance(look, Behind) and set(look.states) == {str(DAY_1), str(DAY_2)}
    for day in look.states:
        house.run("judged", partition_key=day)
    assert house.lake.rows("judged_quarantine") == []
    assert house.lake.rows("judged") == house.lake.rows("events")

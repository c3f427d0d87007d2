"""A table against a full recompute of what it has read."""

import dagster as dg
import pytest

from lakehouse import Changes, Merge, Table, checks
from tests.support.house import House
from tests.support.lake import aged
from tests.support.tables import ASSETS, DAY_1, copies, orders, slow

pytestmark = pytest.mark.served


def test_a_check_reads_through_the_io_manager_of_its_asset(house: House) -> None:
    @dg.asset(metadata=Table(key="id"), io_manager_key="delta")
    def elsewhere(orders: Changes) -> Merge:
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    source = dg.AssetSpec("orders", metadata={**Table(key="id"), "dagster/io_manager_key": "delta"})
    found = checks([source, elsewhere])
    result = dg.materialize([source, elsewhere, *found], resources={"delta": house.io_manager}, instance=house.instance)
    (evaluation,) = result.get_asset_check_evaluations()
    assert evaluation.passed


def test_rows_that_a_recompute_would_not_give_fail_the_check(house: House) -> None:
    house.run("copies")
    found = list(checks([orders, copies]))
    house.assets = [orders, copies, *found]
    house.lake.sql("UPDATE {copies} SET v = 1000 WHERE id = 2")
    told = evaluated(house, found)["copies"]
    assert not told.passed and told.severity is dg.AssetCheckSeverity.ERROR
    assert told.description == "3 rows against a full recompute of orders at 0"
    differing = told.metadata["differing"].value
    assert isinstance(differing, list) and len(differing) == 2, "the row that is there, and the one that is due"


def test_a_table_that_has_not_read_all_its_inputs_does_not_fail_the_check_but_warns(house: House) -> None:
    """None of them before its first run, and not the one that was added to it since."""

    @dg.asset(name="copies", metadata=Table(key="id"))
    def widened(orders: Changes, others: Changes) -> Merge: ...

    def told(asset: dg.AssetsDefinition) -> dg.AssetCheckEvaluation:
        found = list(checks([orders, asset]))
        return evaluated(House(house.lake, [orders, dg.AssetSpec("others"), asset, *found], house.instance), found)[
            "copies"
        ]

    first = told(copies)
    house.run("copies")
    for evaluation in (first, told(widened)):
        assert not evaluation.passed and evaluation.severity is dg.AssetCheckSeverity.WARN
        assert evaluation.description == "'copies' has not read all its inputs yet."


def test_a_source_that_nobody_changed_for_long_is_compared_at_its_newest_version(house: House) -> None:
    """The position lags behind commits that changed no row, and Delta soon reads no version but the newest."""
    found = list(checks(ASSETS))
    house.assets = [*ASSETS, *found]
    house.lake.insert("orders", [(4, DAY_1, 40)])
    house.run("copies")
    aged(house.lake, "orders")
    house.lake.sql("OPTIMIZE {orders}")
    assert evaluated(house, found)["copies"].passed
    aged(house.lake, "orders")
    house.lake.sql("UPDATE {orders} SET v = 41 WHERE id = 4")
    told = evaluated(house, found)["copies"]
    assert not told.passed and told.severity is dg.AssetCheckSeverity.WARN
    assert "There is nothing to compare with any more: not all of orders at" in str(told.description)


@pytest.mark.slow
def test_a_long_check_says_what_it_is_at(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    found = list(checks([orders, slow]))
    house.assets = [orders, slow, *found]
    house.lake.sql("INSERT INTO {orders} SELECT id + 10, * EXCEPT (id) FROM {orders}")  # a server reports every 2 s
    house.run("slow")
    monkeypatch.setattr("lakehouse.spark.progress.PAUSE", 1.5)
    monkeypatch.setattr("lakehouse.spark.classic_progress.INTERVAL", 0.2)
    assert evaluated(house, found)["slow"].passed
    (run,) = house.instance.get_runs(limit=1)
    told = [entry.user_message for entry in house.instance.all_logs(run.run_id)]
    assert any("Spark has been comparing slow with a full recompute for" in message for message in told)


def evaluated(house: House, found: list[dg.AssetChecksDefinition]) -> dict[str, dg.AssetCheckEvaluation]:
    result = dg.materialize(
        house.assets,
        selection=dg.AssetSelection.checks(*found),
        resources={"io_manager": house.io_manager},
        instance=house.instance,
    )
    return {e.asset_key.to_user_string(): e for e in result.get_asset_check_evaluations()}


@pytest.mark.slow
def test_the_check_holds_a_table_against_a_full_recompute(house: House) -> None:
    found = list(checks(ASSETS))
    assert {key.asset_key.to_user_string() for check in found for key in check.check_keys} == {"copies", "gold/totals"}
    house.assets = [*ASSETS, *found]
    house.run("copies", "gold/totals")
    house.lake.sql("UPDATE {orders} SET v = 12 WHERE id = 1")  # not read yet: the check is about what has been read

    assert {name: told.passed for name, told in evaluated(house, found).items()} == {
        "copies": True,
        "gold/totals": True,
    }

"""A table that owns some rows, in Dagster: which definitions are refused; what is thawed, shown and compared."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import (
    Aggregate,
    Append,
    Changes,
    DeltaIOManager,
    Expect,
    History,
    Merge,
    Overwrite,
    Snapshot,
    Table,
    View,
    checks,
    explain,
    validate,
    views_from,
)
from lakehouse.cli.command import UsageError
from lakehouse.cli.runs.launch import refuse_rebuild
from lakehouse.dagster.io_manager import code_location_of
from lakehouse.errors import DefinitionError
from tests.support.dagster_house import House, failure, metadata
from tests.support.tables import DAYS

OWNS = "day >= date_sub(:today, 90)"
orders = dg.AssetSpec("orders")


def appended(orders: Changes) -> Append: ...
def past(orders: Changes) -> History: ...
def delivered(orders: DataFrame) -> Snapshot: ...
def merged(orders: Changes) -> Merge: ...
def written(orders: DataFrame) -> Overwrite: ...
def summed(orders: Changes) -> Aggregate: ...
def viewed(orders: Changes) -> View: ...


def refusal(tmp_path: Path, function: Any, table: Table, **options: Any) -> str | None:
    """Why a definition is refused; None if it is not."""
    manager = DeltaIOManager(spark=object(), root=str(tmp_path))
    decorate: Any = dg.asset
    asset: Any = decorate(metadata=table, **options)(function)
    try:
        validate(dg.Definitions(assets=[orders, asset], resources={"io_manager": manager}))
    except DefinitionError as error:
        return str(error)
    return None


def test_only_what_can_leave_rows_alone_owns_some_of_them(tmp_path: Path) -> None:
    table = Table(key="day", owns=OWNS)
    told = {
        each: refusal(tmp_path, each, table) for each in (appended, past, delivered, merged, written, summed, viewed)
    }
    assert [each.__name__ for each, why in told.items() if why is not None] == ["appended", "past", "delivered"]
    assert all(remedy in str(told[each]) for each, remedy in (
        (appended, "Leave owns out"), (past, "Leave owns out"), (delivered, "Snapshot(scope=...)"),
    ))  # fmt: skip
    by_id, of_days = Table(key="id", owns=OWNS), Table(key="id", partition_by="day", owns=OWNS)
    for function, declared, options, why in (
        (summed, by_id, {}, "could not be added to later"),
        (merged, of_days, {"partitions_def": DAYS}, "its own partitions alone"),
        (merged, Table(key="id", owns=OWNS, expect=Expect("v > 0", "quarantine")), {}, "goes by keys"),
        (merged, Table(key="id", owns=OWNS, expect=Expect.unique_key()), {}, "goes by keys"),
        (merged, Table(key="id", owns="day <= :today"), {}, "take rows out"),
    ):
        assert why in str(refusal(tmp_path, function, declared, **options)), why
    assert refusal(tmp_path, merged, Table(key="day", owns=OWNS, expect=Expect("v > 0", "quarantine"))) is None


def per_day(sales: Changes) -> Merge:
    touched = sales.touched("day")
    return Merge(touched.rows.groupBy("day").agg(F.sum("v").alias("v")), touched)


SQL = """CREATE MATERIALIZED VIEW shown (day DATE, v BIGINT) TBLPROPERTIES ('lakehouse.key' = 'day', 'lakehouse.owns' = '{}')
AS SELECT day, sum(v) FROM sales GROUP BY day"""


@pytest.mark.served
def test_runs_leave_the_past_alone_thaw_it_by_a_tag_and_show_both(house: House, tmp_path: Path) -> None:
    today = datetime.now(UTC).date()
    old, new = today - timedelta(days=400), today - timedelta(days=3)
    house.lake.create("sales", [(1, old, 10), (2, new, 20)], "id int, day date, v int")
    (tmp_path / "sql").mkdir()
    (tmp_path / "sql" / "shown.sql").write_text(SQL.format(OWNS))
    owned = dg.asset(metadata=Table(key="day", owns=OWNS))(per_day)
    free = dg.asset(name="free", metadata=Table(key="day"))(per_day)
    house.assets = [dg.AssetSpec("sales"), owned, free, *views_from(tmp_path / "sql")]
    defs = dg.Definitions(assets=house.assets, resources={"io_manager": house.io_manager})
    assert "owned" not in metadata(house.run("per_day", "shown"), "per_day")
    house.lake.sql("DELETE FROM {sales} WHERE id = 1")
    house.lake.insert("sales", [(3, new, 5)])
    edge = f"day >= DATE'{today - timedelta(days=90)}'"
    assert f"It may rewrite the rows with {edge}; all others are frozen." in str(explain(defs, "per_day"))
    said = metadata(house.run("per_day", "shown"), "per_day")
    assert (said["owned"], said["keys_left_alone"], said["dagster/row_count"]) == (edge, 1, 2)
    for name in ("per_day", "shown"):
        assert house.lake.rows(name) == sorted([(old, 10), (new, 25)]), name
        assert finding(house, name).passed
    house.lake.sql(f"UPDATE {{per_day}} SET v = 26 WHERE day = '{new}'")
    assert not finding(house, "per_day").passed
    with pytest.raises(UsageError, match="its sources cannot give again"):
        refuse_rebuild(code_location_of(defs)[dg.AssetKey("per_day")])
    refused = house.run("free", raise_on_error=False, tags={"lakehouse/thaw/free": "day < '2020-01-01'"})
    assert "owns all of its rows" in failure(refused)
    thaw = f"day = '{old}'"
    foreseen = str(explain(defs, "per_day", call=True, thaw=thaw))
    assert "of the 2 rows that differ" in foreseen and thaw in foreseen, foreseen
    assert "owns all of its rows" in str(explain(defs, "free", thaw=thaw))
    said = metadata(house.run("per_day", tags={"lakehouse/thaw/per_day": thaw}), "per_day")
    assert said["owned"] == f"({edge}) OR ({thaw})" and house.lake.rows("per_day") == [(new, 25)]
    assert finding(house, "per_day").passed


@pytest.mark.served
def test_the_check_says_whether_frozen_rows_stayed_since_it_was_made(house: House) -> None:
    today = datetime.now(UTC).date()
    old, new = today - timedelta(days=400), today - timedelta(days=3)
    house.lake.create("sales", [(1, old, 10), (2, new, 20), (3, None, 1)], "id int, day date, v int")
    house.assets = [dg.AssetSpec("sales"), dg.asset(metadata=Table(key="day", owns=OWNS))(per_day)]
    house.run("per_day")
    house.lake.insert("sales", [(4, new, 5), (5, old, 5)])
    house.run("per_day")
    said: list[str] = []

    def made(*, passed: bool, changed: int) -> str:
        found = finding(house, "per_day")
        assert (found.passed, found.metadata["frozen rows changed"].value) == (passed, changed), found.description
        said.append(str(found.description))
        return said[-1]

    assert "frozen rows are compared from version 1 on" in made(passed=True, changed=0)
    house.lake.insert("sales", [(6, new, 7)])
    house.run("per_day", tags={"lakehouse/thaw/per_day": f"day = '{old}'"})
    assert "frozen rows stayed as they were at version 1" in made(passed=True, changed=0)
    house.lake.sql(f"UPDATE {{per_day}} SET v = 9 WHERE day = '{old}' OR day IS NULL")
    wrong = made(passed=False, changed=2)
    assert "Between versions 2 and 3 of 'per_day' frozen rows changed (2 updated)" in wrong
    house.lake.insert("sales", [(7, new, 7)])
    house.run("per_day")
    assert "Between versions 2 and 4" in made(passed=False, changed=2), "none hides what was found"
    house.lake.sql("RESTORE TABLE {per_day} TO VERSION AS OF 2")
    house.run("per_day")
    assert "stayed as they were at version 5" in made(passed=True, changed=0)


def finding(house: House, name: str) -> dg.AssetCheckEvaluation:
    """What the check against a recompute finds."""
    listed = checks(house.assets, "recompute")
    result = dg.materialize(
        [*house.assets, *listed],
        selection=dg.AssetSelection.checks(*listed),
        resources={"io_manager": house.io_manager},
        instance=house.instance,
    )
    return next(each for each in result.get_asset_check_evaluations() if each.asset_key == dg.AssetKey(name))

"""A table that owns some rows, in Dagster: what is refused, thawed, shown and compared."""

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
    said = metadata(house.run("per_day", tags={"lakehouse/thaw/per_day": thaw}), "per_day")
    assert said["owned"] == f"({edge}) OR ({thaw})" and house.lake.rows("per_day") == [(new, 25)]
    assert finding(house, "per_day").passed


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

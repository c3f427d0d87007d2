"""The recipes on full extracts in docs/how-to/slowly-changing-dimensions.md, run as they are written."""

import datetime as dt
from types import SimpleNamespace
from typing import Any

import dagster as dg
import pytest

from tests.entry.test_readme import code, manager_of
from tests.support.lake import Lake

HEADER = "supplier_id,name,city,country\n"
FIRST, SECOND, THIRD = (dt.date(2026, 1, day) for day in (1, 2, 3))


@pytest.mark.slow
def test_the_recipes_take_extracts_hold_some_back_and_restate_a_day(lake: Lake, instance: dg.DagsterInstance) -> None:
    page = code("docs/how-to/slowly-changing-dimensions.md", lake.root / "definitions.py")
    resources: Any = {"spark": SimpleNamespace(spark_session=lake.spark), "io_manager": manager_of(lake)}

    def run(day: dt.date, *assets: str, tags: dict[str, str] | None = None) -> dg.ExecuteInProcessResult:
        config = page["one_day"](day.isoformat())
        chosen = {name: step for name, step in config.ops.items() if name in assets}
        return dg.materialize(
            [page[name] for name in assets],
            resources=resources,
            run_config=dg.RunConfig(ops=chosen),
            tags=tags,
            instance=instance,
            raise_on_error=False,
        )

    def deliver(day: dt.date, *rows: str) -> None:
        (lake.root / f"suppliers-{day}.csv").write_text(HEADER + "\n".join(rows))

    deliver(FIRST, "1,ann,Bonn,DE", "2,bob,Lyon,FR")
    deliver(SECOND, "1,ann,Bonn,DE", "2,bob,Nice,FR")
    deliver(THIRD, "1,Ann,Bonn,DE", "3,cat,Ulm,DE")
    for day in (FIRST, SECOND, THIRD):
        assert run(day, "suppliers", "suppliers_past").success
    assert lake.rows("suppliers") == [(1, "Ann", "Bonn", "DE"), (3, "cat", "Ulm", "DE")]
    assert not run(SECOND, "suppliers").success
    deliver(SECOND, "1,ann,Bonn,DE", "2,bob,Paris,FR")
    assert run(SECOND, "suppliers_past", tags={"lakehouse/restate_from/suppliers_past": str(SECOND)}).success
    assert run(THIRD, "suppliers_past").success
    past = lake.frame("suppliers_past").select("supplier_id", "city", "__START_AT", "__END_AT").collect()
    assert sorted(map(tuple, past), key=repr) == [
        (1, "Bonn", FIRST, None),
        (2, "Lyon", FIRST, SECOND),
        (2, "Paris", SECOND, THIRD),
        (3, "Ulm", THIRD, None),
    ]
    deliver(FIRST + dt.timedelta(days=9), "4,dan,Rome,IT")
    assert not run(FIRST + dt.timedelta(days=9), "suppliers").success
    assert run(FIRST + dt.timedelta(days=9), "suppliers", tags={"lakehouse/allow/suppliers": "max_deleted"}).success
    assert lake.rows("suppliers") == [(4, "dan", "Rome", "IT")]

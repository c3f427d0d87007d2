"""The function of a table is edited: the table becomes what the new code gives, or the run's log has the reason."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse import Policy, Read, Table
from tests.support.dagster_house import House, metadata
from tests.support.lake import Lake
from tests.support.slow import slow
from tests.support.tables import DAY_1, DAY_2, DAYS, EVENTS, orders

pytestmark = pytest.mark.served
KEYED = Table(key="id")
MERGE = """
from lakehouse import Changes, Merge

def bonus(rows):
    return rows.selectExpr("id", "day", "{bonus} AS v")

def copies(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(bonus(touched.rows), touched)
"""
FACTORY = """
from dataclasses import dataclass
from lakehouse import Changes, Merge

@dataclass(frozen=True)
class Spec:
    bonus: str

def make(spec):
    def copies(orders: Changes) -> Merge:
        touched = orders.touched("id")
        return Merge(touched.rows.selectExpr("id", "day", spec.bonus + " AS v"), touched)
    return copies

copies = make(Spec("{bonus}"))
"""
APPEND = """
from lakehouse import Append, Changes

def copies(orders: Changes) -> Append:
    return Append(orders.appended().selectExpr("id", "day", "{bonus} AS v"))
"""
HISTORY = """
from lakehouse import Changes, History

def copies(orders: Changes) -> History:
    return History(orders, track=({track}))
"""
DOUBLE, NEW = "v * 2", "CASE WHEN v >= 30 THEN v * 3 ELSE v * 2 END"


@pytest.fixture
def house(lake: Lake, instance: dg.DagsterInstance) -> House:
    lake.create("orders", [(1, DAY_1, 10), (2, DAY_2, 20), (3, DAY_2, 30)], EVENTS)
    return House(lake, [orders], instance)


@pytest.fixture
def edit(house: House, tmp_path: Path) -> Callable[..., None]:
    """Puts an asset `copies` with edited code into the house."""

    def edited(text: str, table: Table = KEYED, ins: Any = None, folder: str = ".", **given: Any) -> None:
        file = tmp_path / folder / "shop.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        names = {"__name__": "shop", "__file__": str(file)}
        exec(compile(text, str(file), "exec", dont_inherit=True), names)
        house.assets = [orders, dg.asset(metadata=table, ins=ins, **given)(names["copies"])]

    return edited


def warnings(house: House, result: dg.ExecuteInProcessResult) -> str:
    entries = house.instance.all_logs(result.run_id)
    return "\n".join(entry.user_message for entry in entries if entry.level == 30)


def test_after_an_edit_the_table_is_what_the_new_code_makes_of_all_rows(
    house: House, edit: Callable[..., None]
) -> None:
    edit(MERGE.format(bonus=DOUBLE))
    house.run("copies")
    edit(
        '"""Reformatted."""\n'
        + MERGE.format(bonus=DOUBLE).replace("(orders: Changes)", "(\n    orders: Changes,  # all\n)")
    )
    house.run("copies")
    assert house.lake.version("copies") == 0, "a reformatted function makes the same table"
    edit(MERGE.format(bonus=NEW))
    house.lake.insert("orders", [(4, DAY_1, 40)])
    result = house.run("copies")
    assert house.lake.rows("copies") == [(1, DAY_1, 20), (2, DAY_2, 40), (3, DAY_2, 90), (4, DAY_1, 120)]
    written = metadata(result, "copies")
    assert (written["inserted"], written["updated"], written.get("deleted", 0)) == (1, 1, 0), "only rows that differ"
    assert "copies compares all of orders: the code that copies names changed: bonus" in warnings(house, result)
    house.run("copies")
    assert house.lake.version("copies") == 1, "the code is compared once"
    edit(MERGE.format(bonus=DOUBLE))
    house.run("copies")
    assert house.lake.rows("copies")[2:] == [(3, DAY_2, 60), (4, DAY_1, 80)], "without a change of a source, too"


@pytest.mark.parametrize(
    ("text", "folder"), [(MERGE, "site-packages/shop"), slow(FACTORY, ".")], ids=["installed", "given to a factory"]
)
def test_an_edit_is_noticed_wherever_the_code_is_and_whatever_holds_its_values(
    house: House, edit: Callable[..., None], text: str, folder: str
) -> None:
    edit(text.format(bonus=DOUBLE), folder=folder)
    house.run("copies")
    edit(text.format(bonus=NEW), folder=folder)
    house.run("copies")
    assert house.lake.rows("copies") == [(1, DAY_1, 20), (2, DAY_2, 40), (3, DAY_2, 90)]


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["warn", "ignore"])
def test_a_policy_leaves_the_rows_of_the_former_code(house: House, edit: Callable[..., None], policy: Any) -> None:
    table = Table(key="id", policy=Policy(on_new_code=policy))
    edit(MERGE.format(bonus=DOUBLE), table)
    house.run("copies")
    edit(MERGE.format(bonus=NEW), table)
    results = [house.run("copies"), house.run("copies")]
    assert house.lake.rows("copies")[2] == (3, DAY_2, 60)
    warned = ["the code that copies names changed: bonus" in warnings(house, result) for result in results]
    assert warned == [policy == "warn", False], "once"
    assert house.lake.version("copies") == (1 if policy == "warn" else 0), "what was warned of is put down"


@pytest.mark.slow
def test_a_code_version_decides_alone(house: House, edit: Callable[..., None]) -> None:
    edit(MERGE.format(bonus=DOUBLE), code_version="1")
    house.run("copies")
    edit(MERGE.format(bonus=NEW), code_version="1")
    house.run("copies")
    assert house.lake.version("copies") == 0
    edit(MERGE.format(bonus=NEW), code_version="2")
    house.run("copies")
    assert house.lake.rows("copies")[2] == (3, DAY_2, 90)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "before", "after", "rows"),
    [
        (APPEND, {"bonus": "v"}, {"bonus": "v + 1"}, [10, 20, 30, 41]),
        (HISTORY, {"track": "'v', 'day'"}, {"track": "'day', 'v'"}, [10, 20, 30, 40]),
    ],
    ids=["Append", "History"],
)
def test_what_keeps_its_rows_goes_on_and_warns_once(
    house: House, edit: Callable[..., None], text: str, before: dict[str, str], after: dict[str, str], rows: Any
) -> None:
    edit(text.format(**before), KEYED if text is HISTORY else Table())
    house.run("copies")
    edit(text.format(**after), KEYED if text is HISTORY else Table())
    house.lake.insert("orders", [(4, DAY_1, 40)])
    results = [house.run("copies"), house.run("copies")]
    assert sorted(row["v"] for row in house.lake.frame("copies").collect()) == rows
    warned = ["the code of copies changed" in warnings(house, result) for result in results]
    assert warned == [True, False]
    version = house.lake.version("copies")
    house.run("copies")
    assert house.lake.version("copies") == version


@pytest.mark.slow
def test_a_partial_input_goes_on_and_warns(house: House, edit: Callable[..., None]) -> None:
    ins = {"orders": dg.AssetIn(metadata=Read(exclude_metadata="migration"))}
    edit(MERGE.format(bonus=DOUBLE), ins=ins)
    house.run("copies")
    edit(MERGE.format(bonus=NEW), ins=ins)
    house.lake.insert("orders", [(4, DAY_1, 40)])
    result = house.run("copies")
    assert house.lake.rows("copies")[2:] == [(3, DAY_2, 60), (4, DAY_1, 120)]
    assert "the code that copies names changed: bonus" in warnings(house, result)


@pytest.mark.slow
def test_each_partition_is_compared_at_its_own_next_run(house: House, edit: Callable[..., None]) -> None:
    daily = {"table": Table(key="id", partition_by="day"), "partitions_def": DAYS}
    edit(MERGE.format(bonus=DOUBLE), **daily)
    for day in ("2013-01-01", "2013-01-02"):
        house.run("copies", partition_key=day)
    edit(MERGE.format(bonus="v + 1"), **daily)
    house.run("copies", partition_key="2013-01-01")
    assert house.lake.rows("copies") == [(1, DAY_1, 11), (2, DAY_2, 40), (3, DAY_2, 60)]
    house.run("copies", partition_key="2013-01-02")
    assert house.lake.rows("copies") == [(1, DAY_1, 11), (2, DAY_2, 21), (3, DAY_2, 31)]
    version = house.lake.version("copies")
    house.run("copies", partition_key="2013-01-01")
    assert house.lake.version("copies") == version

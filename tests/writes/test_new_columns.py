"""A result with a column that its table lacks, or lacked when the run's part of it was last written."""

import json
import re
from typing import Any

import pytest

from lakehouse import Append, Changes, History, Merge, Overwrite, Policy, Read, Table
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.errors import UncomparedError
from tests.support.assets import copy
from tests.support.lake import Lake
from tests.support.model import SRC
from tests.support.raises import raises_code

ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30), (4, "b", 40)]
KEYED, BY_K = Table(key="id"), Table(key="id", partition_by="k")
A, B = Slice((PartitionKey("a", {"k": "a"}, {}),)), Slice((PartitionKey("b", {"k": "b"}, {}),))


def filled(src: Changes) -> Merge:
    """Even rows that no change touched have a value in a new column."""
    touched = src.touched("id")
    return Merge(touched.rows.fillna(7), touched)


def as_the_source(lake: Lake, name: str) -> bool:
    source = lake.frame("src").fillna(7) if name == "filled" else lake.frame("src")
    return lake.rows(name) == sorted((tuple(row) for row in source.collect()), key=repr)


@pytest.mark.slow
def test_two_partitions_get_a_column_each_by_a_comparison_of_its_own(lake: Lake) -> None:
    """The run of the second partition finds the column in the table, where the first partition has added it."""
    lake.create("src", ROWS, SRC)
    for part in (A, B):
        lake.materialize(filled, BY_K, slice=part)
    lake.sql("ALTER TABLE {src} ADD COLUMN w INT")
    lake.sql("UPDATE {src} SET w = 5 WHERE id < 3")
    for part in (A, B, A, B):
        lake.materialize(filled, BY_K, slice=part)
    assert as_the_source(lake, "filled")
    assert len(lake.told) == 2 and "the column w" in lake.told[0] and "other columns" in lake.told[1], lake.told


@pytest.mark.slow
def test_two_partitions_that_read_at_once_get_the_column_by_a_comparison_each(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    for part in (A, B):
        lake.materialize(filled, BY_K, slice=part)
    lake.sql("ALTER TABLE {src} ADD COLUMN w INT")
    lake.sql("UPDATE {src} SET v = 0 WHERE id < 3")
    late = lake.begin(filled, BY_K, slice=B)
    write = filled(**lake.read(late, filled))  # pyright: ignore[reportArgumentType]
    lake.materialize(filled, BY_K, slice=A)
    with pytest.raises(UncomparedError):
        late.commit(write, lake.retry)
    lake.materialize(filled, BY_K, slice=B)
    assert as_the_source(lake, "filled")


def past(src: Changes) -> History:
    return History(src)


@pytest.mark.slow
@pytest.mark.parametrize("asset", [copy, past])
def test_a_table_gets_a_column_of_its_source_although_no_row_differs(lake: Lake, asset: Any) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(asset, KEYED)
    before = lake.frame(asset.__name__).collect()
    lake.sql("ALTER TABLE {src} ADD COLUMN w INT")
    lake.sql("UPDATE {src} SET v = v WHERE id = 1")
    lake.materialize(asset, KEYED)
    after = lake.frame(asset.__name__)
    assert "w" in after.columns
    assert sorted(after.drop("w").collect()) == sorted(before)


@pytest.mark.slow
@pytest.mark.parametrize("told", [True, False], ids=["in its mark", "by the log"])
def test_a_column_that_somebody_added_by_hand_is_filled_by_a_comparison(lake: Lake, *, told: bool) -> None:
    lake.create("src", ROWS, SRC)
    lake.materialize(filled, KEYED)
    if not told:  # like a mark of an earlier version
        path = max((lake.root / "filled" / "_delta_log").glob("*.json"))
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for info in (line["commitInfo"] for line in lines if "commitInfo" in line):
            mark = json.loads(info["userMetadata"])
            del mark["lakehouse"]["columns"]
            info["userMetadata"] = json.dumps(mark)
        path.write_text("\n".join(map(json.dumps, lines)))
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    for table in ("src", "filled"):
        lake.sql(f"ALTER TABLE {{{table}}} ADD COLUMN w INT")
    lake.sql("UPDATE {src} SET w = 5 WHERE id = 1")
    lake.materialize(filled, KEYED)
    assert as_the_source(lake, "filled")
    lake.sql("UPDATE {src} SET w = 9 WHERE id = 2")
    lake.materialize(filled, KEYED)
    assert as_the_source(lake, "filled") and len(lake.told) == 1, lake.told


@pytest.mark.slow
def test_an_input_that_leaves_changes_out_is_compared_on_request_alone(lake: Lake) -> None:
    lake.create("src", ROWS, SRC)
    reads = {"src": Read(exclude_operations=("DELETE",))}
    lake.materialize(copy, KEYED, reads=reads)
    lake.sql("ALTER TABLE {src} ADD COLUMN w INT")
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    with raises_code("GAP", match=r"the column w.*lakehouse/full_refresh=true"):
        lake.materialize(copy, KEYED, reads=reads)
    lake.materialize(copy, KEYED, reads=reads, compare="a full refresh was asked for")
    assert as_the_source(lake, "copy")


def latest(src: Changes) -> Overwrite:
    return Overwrite(src.source)


def log(src: Changes) -> Append:
    return Append(src.appended())


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["add", "ignore", "fail"])
@pytest.mark.parametrize("asset", [latest, log])
def test_the_policy_holds_of_whole_results_as_well(lake: Lake, asset: object, policy: str) -> None:
    lake.create("src", ROWS, SRC)
    table = Table(policy=Policy(on_new_columns=policy))  # pyright: ignore[reportArgumentType]
    lake.materialize(asset, table, name="t")  # pyright: ignore[reportArgumentType]
    lake.sql("ALTER TABLE {src} ADD COLUMN w INT")
    lake.insert("src", [(5, "b", 50, 4)])
    if policy == "fail":
        with raises_code("SCHEMA", match="w: is not in the table") as raised:
            lake.materialize(asset, table, name="t")  # pyright: ignore[reportArgumentType]
        added = re.search(r"ALTER TABLE \S+ ADD COLUMNS \(.*?\)(?=\.)", str(raised.value))
        assert added is not None
        lake.spark.sql(added.group())
    lake.materialize(asset, table, name="t")  # pyright: ignore[reportArgumentType]
    rows = lake.frame("src") if policy != "ignore" else lake.frame("src").drop("w")
    assert lake.rows("t") == sorted(map(tuple, rows.collect()), key=repr)


@pytest.mark.slow
def test_a_wider_type_is_refused_with_the_statements_that_widen_the_column(lake: Lake) -> None:
    def widened(src: Changes) -> Merge:
        touched = src.touched("id")
        return Merge(touched.rows.selectExpr("id", "k", "CAST(v AS BIGINT) AS v"), touched)

    lake.create("src", ROWS, SRC)
    lake.materialize(copy, KEYED, name="t")
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    with raises_code("SCHEMA", match="v: the table has int, the result bigint") as raised:
        lake.materialize(widened, KEYED, name="t")
    statements = re.findall(r"ALTER TABLE .*?(?=[;.] |[;.]$)", str(raised.value).partition("To widen a column: ")[2])
    assert len(statements) == 2 and "enableTypeWidening" in statements[0] and "TYPE bigint" in statements[1]
    for statement in statements:
        lake.spark.sql(statement)
    lake.materialize(widened, KEYED, name="t")
    assert lake.rows("t") == [(1, "a", 11), (2, "b", 20), (3, "a", 30), (4, "b", 40)]

"""`Policy(max_changed=)`: a step that would change too large a share of its table writes nothing."""

import pytest

from lakehouse import Aggregate, Append, Changes, Merge, Overwrite, Policy, Table, View
from lakehouse.delta.limits import Limits, in_force
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.errors import DefinitionError
from tests.support.for_each import for_each
from tests.support.lake import Lake
from tests.support.raises import raises_code
from tests.support.slow import slow

pytestmark = pytest.mark.anywhere
HALF = Policy(max_changed=0.5, refresh="incremental")
BY_ID, BY_G = Table(key="id", policy=HALF), Table(key="g", policy=HALF)
LET_THROUGH = {"allowed": frozenset({"max_changed"})}


def copies(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def all_rows(src: Changes) -> Overwrite:
    return Overwrite(src.source)


def counts(src: Changes) -> Aggregate:
    return Aggregate(src, by="g", count="n")


def groups(src: Changes) -> View:
    return View("SELECT g, max(v) AS v FROM src GROUP BY g")


def log(src: Changes) -> Append:
    return Append(src.log())


KINDS = [(copies, BY_ID), slow(all_rows, BY_ID), slow(counts, BY_G), slow(groups, BY_G)]


@pytest.fixture
def source(lake: Lake) -> Lake:
    lake.create("src", [(i, f"g{i}", i) for i in range(10)], "id int, g string, v int")
    return lake


@pytest.mark.parametrize(("asset", "table"), KINDS)
@pytest.mark.parametrize("limits", [Limits(), pytest.param(Limits(driver_rows=0), marks=pytest.mark.slow)])
def test_more_than_the_share_is_held_back_and_no_more_is_written(
    source: Lake, asset: object, table: Table, limits: Limits
) -> None:
    name = asset.__name__  # type: ignore[attr-defined]
    with in_force(limits):
        source.materialize(asset, table)  # a new table is filled
        source.sql("DELETE FROM {src} WHERE id < 3")
        source.sql("INSERT INTO {src} VALUES (90, 'x', 1), (91, 'y', 2)")
        source.materialize(asset, table)  # 5 of 10
        held = source.rows(name)
        source.sql("DELETE FROM {src} WHERE id < 8")  # 5 of 9
        with raises_code("TOO_MANY_CHANGES", match="5 deleted, and at version 1 the table holds 9 rows"):
            source.materialize(asset, table)
        with raises_code("TOO_MANY_CHANGES"):
            source.materialize(asset, table, compare="a full refresh was asked for")
        assert source.rows(name) == held
        source.materialize(asset, table, **LET_THROUGH)
        assert len(source.rows(name)) == 4
        source.sql("DELETE FROM {src}")
        source.materialize(asset, table, **LET_THROUGH)
        source.sql("INSERT INTO {src} VALUES (1, 'a', 1)")
        source.materialize(asset, table)  # an empty table is filled
    assert len(source.rows(name)) == 1


def test_an_append_counts_what_it_adds(source: Lake) -> None:
    table = Table(policy=HALF)
    source.materialize(log, table)
    source.sql("INSERT INTO {src} VALUES (90, 'x', 1)")
    source.materialize(log, table)
    source.sql("INSERT INTO {src} SELECT id + 100, g, v FROM {src}")
    with raises_code("TOO_MANY_CHANGES", match="11 inserted, and at version 1 the table holds 11 rows"):
        source.materialize(log, table)


def test_a_table_without_a_key_is_refused_before_anything_is_written(source: Lake) -> None:
    table = Table(policy=HALF)
    source.materialize(all_rows, table)
    source.sql("DELETE FROM {src} WHERE id = 1")
    with pytest.raises(DefinitionError, match="has no key"):
        source.materialize(all_rows, table)
    assert len(source.rows("all_rows")) == 10


@pytest.mark.slow
def test_a_partition_is_the_whole_of_a_run_of_that_partition(lake: Lake) -> None:
    lake.create("src", [(i, f"2024-01-0{1 + i % 2}", i) for i in range(20)], "id int, day string, v int")
    table = Table(key=("id", "day"), partition_by="day", policy=HALF)
    first = Slice((PartitionKey("2024-01-01", {"day": "2024-01-01"}, {}),))
    lake.materialize(all_rows, table, slice=first)
    lake.sql("DELETE FROM {src} WHERE day = '2024-01-01' AND id < 12")
    with raises_code("TOO_MANY_CHANGES", match="6 deleted, and at version 0 the table holds 10 rows of 2024-01-01"):
        lake.materialize(all_rows, table, slice=first)


@for_each("share", [-0.1, 1.5])
def test_a_share_is_from_0_to_1(share: float) -> None:
    with pytest.raises(ValueError, match="max_changed is a share of rows from 0 to 1"):
        Policy(max_changed=share)

"""A blind append next to our commit: Serializable refuses our commit, WriteSerializable lets both commit.

Databricks creates tables with WriteSerializable. Open-source Delta follows that level where a table's metadata has it.
In the end both levels hold the same rows.
"""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark.sql import SparkSession

from lakehouse import Aggregate, Changes, Table
from lakehouse.delta.table import Isolation
from tests.support.first_commit import declare
from tests.support.interleave import rivals
from tests.support.lake import NO_WAIT, Lake
from tests.support.ready_runs import KEYED, SRC, committed, copy, own, ready, whole
from tests.upstream.acts import WRITE_SERIALIZABLE

pytestmark = pytest.mark.race


def sums(src: Changes) -> Aggregate:
    return Aggregate(src, "g", "n", {"total": "v"})


class Written(NamedTuple):
    """An asset, and what its table holds after its second run, if no other program writes to the table.

    Args:
        asset: The asset.
        table: Its table.
        rows: What it makes of the source.
        rival: A row with a key that the second run writes, as SQL.
        other: A row with another key; `leaves_other` is whether the asset leaves it in the table.
    """

    asset: Callable[..., Any]
    table: Table
    rows: list[tuple[Any, ...]]
    rival: str
    other: tuple[Any, ...]
    leaves_other: bool


SOURCE = [(1, "a", 11), (2, "b", 20), (3, "a", 30)]
ASSETS = {
    "Merge": Written(copy, KEYED, SOURCE, "(1, 'z', 99)", (9, "z", 9), leaves_other=True),
    "Overwrite": Written(whole, KEYED, SOURCE, "(1, 'z', 99)", (9, "z", 9), leaves_other=False),
    "Aggregate": Written(
        sums, Table(key="g"), [("a", 2, 41), ("b", 1, 20)], "('a', 9, 99)", ("z", 9, 9), leaves_other=False
    ),
}


@pytest.fixture
def at_level(spark: SparkSession, lake: Lake, tmp_path: Path) -> Callable[[Written, Isolation], Lake]:
    """A lake whose asset has changes to read, and whose table has an isolation level and has not been read before."""

    def at(of: Written, isolation: Isolation) -> Lake:
        first = Lake(spark, tmp_path / "first")
        first.root.mkdir()
        first.create("src", [(1, "a", 10), *SOURCE[1:]], SRC)
        first.materialize(of.asset, of.table)
        shutil.copytree(first.root, lake.root, dirs_exist_ok=True)
        if isolation is Isolation.WRITE_SERIALIZABLE:
            declare(lake.root / of.asset.__name__, WRITE_SERIALIZABLE)
        lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
        return lake

    return at


@pytest.mark.parametrize("isolation", Isolation, ids=lambda level: level.value)
@pytest.mark.parametrize("of", ASSETS.values(), ids=ASSETS)
def test_a_key_that_a_rival_appends_meanwhile_is_ours_in_the_end(
    at_level: Callable[[Written, Isolation], Lake], of: Written, isolation: Isolation
) -> None:
    """Our commit is refused and tried again, or committed and then corrected in a second commit."""
    lake, name = at_level(of, isolation), of.asset.__name__
    step, write = ready(lake, of.asset, of.table)
    with rivals(lake.spark, partial(lake.sql, f"INSERT INTO {{{name}}} VALUES {of.rival}")) as ran:
        outcome = committed(step.commit(write, lake.retry, NO_WAIT))
    assert len(ran) == 1
    assert lake.rows(name) == of.rows
    is_refused = isolation is Isolation.SERIALIZABLE
    assert (len(outcome.lost), len(own(lake, step))) == ((1, 1) if is_refused else (0, 2))
    lake.materialize(of.asset, of.table)
    assert lake.rows(name) == of.rows


@pytest.mark.parametrize("isolation", Isolation, ids=lambda level: level.value)
@pytest.mark.parametrize("of", ASSETS.values(), ids=ASSETS)
def test_a_key_of_the_rival_s_own_costs_no_second_commit_unless_the_asset_answers_for_all_rows(
    at_level: Callable[[Written, Isolation], Lake], of: Written, isolation: Isolation
) -> None:
    """An `Aggregate` does once another program has written to its table: that program may have changed its sums."""
    lake, name = at_level(of, isolation), of.asset.__name__
    step, write = ready(lake, of.asset, of.table)
    with rivals(lake.spark, partial(lake.sql, f"INSERT INTO {{{name}}} VALUES {of.other}")):
        committed(step.commit(write, lake.retry, NO_WAIT))
    assert lake.rows(name) == sorted([*of.rows, *([of.other] if of.leaves_other else [])], key=repr)
    is_mended = isolation is Isolation.WRITE_SERIALIZABLE and not of.leaves_other
    assert len(own(lake, step)) == (2 if is_mended else 1)

"""Random histories with slow readers, time that passes, and upkeep among their events: nothing is lost.

LAKEHOUSE_HISTORIES sets how many histories there are; without it, there is one.
"""

import os
import shutil
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, example, given, note, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from benchmarks.harness.earlier import set_back
from lakehouse import Table
from lakehouse.cursor.unread import TableState
from lakehouse.upkeep.carry_out import change_properties
from lakehouse.upkeep.registration import register
from tests.support.assets import copy
from tests.support.lake import Lake
from tests.support.model import Delete, Insert, Model, Update, edits, rows
from tests.upkeep.by_hand import carry_out, compares, log_of, look, states

HISTORIES = int(os.environ.get("LAKEHOUSE_HISTORIES", "0"))
KEYED = Table(key="id")
READERS = ("copy", "late")
"""The second is registered with a limit of 40 days; the first has the seven days that every reader has."""


@dataclass(frozen=True)
class Read:
    name: str


@dataclass(frozen=True)
class Pass:
    days: int


@dataclass(frozen=True)
class Keep:
    """Upkeep of a table; only its first steps if it is killed after them."""

    table: str
    steps: Literal[1, 2] | None = None


events = st.one_of(
    edits,
    edits,
    st.builds(Read, st.sampled_from(READERS)),
    st.builds(Pass, st.sampled_from([3, 9, 35])),
    st.builds(Keep, st.sampled_from(["src", *READERS]), st.sampled_from([None, 1, 2])),
)


@pytest.mark.slow
@settings(
    max_examples=max(1, HISTORIES),
    phases=list(Phase) if HISTORIES else [Phase.explicit],
    deadline=None,
    derandomize="LAKEHOUSE_HISTORIES" not in os.environ,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(start=rows(), history=st.lists(events, min_size=4, max_size=14))
@example(
    start=((1, "a", 10), (2, "b", 20), (3, None, 30)),
    history=[
        Update(1, 11),
        Read("copy"),
        Delete(2),
        Pass(9),
        Keep("src"),  # frees what both have passed; the first reader is asleep now, and the second is not
        Insert((4, "c", 40)),
        Read("late"),
        Read("copy"),
        Update(3, 31),
        Pass(35),
        Keep("src", 1),
        Keep("late"),
        Keep("src"),
        Update(1, 12),
    ],
)
def test_each_reader_within_its_limit_reads_on_and_all_equal_a_recompute(
    spark: SparkSession, tmp_path: Path, start: tuple[Any, ...], history: list[Any]
) -> None:
    lake = Lake(spark, tmp_path / uuid4().hex, keys={"src": ("id",)}, trust_key=True)
    lake.root.mkdir()
    model = Model(lake)
    model.create(start, **{"delta.enableDeletionVectors": "true"})
    for name in READERS:
        compares(lake, copy, KEYED, name)
    head = log_of(lake, "src").head()
    assert head is not None
    change_properties(spark, lake.ref("src"), register(head, "src", "late", timedelta(days=40)))
    for event in [*history, *map(Read, READERS)]:
        note(str(event))
        match event:
            case Read(name):
                may_compare = states(lake, "src").get(name) in (TableState.ASLEEP, TableState.GAP, None)
                compared = compares(lake, copy, KEYED, name)
                assert may_compare or not compared, f"{name} is within its limit"
                assert lake.rows(name) == sorted(model.src.values(), key=repr)
            case Pass(days):
                for table in ("src", *READERS):
                    set_back(lake.root / table, days)
            case Keep(table, steps):
                before = lake.rows(table)
                carry_out(lake, look(lake, table), steps)
                assert lake.rows(table) == before
            case _:
                model.apply(event)
    shutil.rmtree(lake.root)

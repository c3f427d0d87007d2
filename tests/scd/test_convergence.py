"""Random events in random batches through `Merge`: after each step both types are what a fold makes of all events.

Half of the histories are read from the source, and half from an archive of its feed, which keeps old events that
leave the source. LAKEHOUSE_EXAMPLES sets how many histories a table has (6).
"""

import os
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, Merge, Table, scd
from lakehouse.delta.log import VersionRange
from lakehouse.read.archive import Archived, ask_archive
from tests.support.events import Event, frame, past, present, random_events, shown
from tests.support.lake import Lake
from tests.support.slow import slow

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "6"))
TRUNCATE = "op = 'T'"
KEPT: dict[str, Any] = {
    "keys": "id",
    "sequence_by": "struct(at, n)",
    "apply_as_deletes": "op = 'D'",
    "column_list": ["id", "a", "b", "s"],
}
CURRENT, HISTORY = Table(key="id"), Table(key=("id", "__START_AT"))


def now(bronze: Changes) -> Merge:
    touched = bronze.touched("id", also=TRUNCATE)
    return Merge(scd.type1(touched.rows, apply_as_truncates=TRUNCATE, **KEPT), touched)


def before(bronze: Changes) -> Merge:
    touched = bronze.touched("id")
    return Merge(scd.type2(touched.rows.where("op <> 'T'"), **KEPT), touched)


def archive(bronze: Changes) -> Append:
    return Append(bronze.log())


def now_of_archive(archive: Changes) -> Merge:
    touched = archive.touched("id", also=TRUNCATE)
    return Merge(scd.type1(_events(touched.rows), apply_as_truncates=TRUNCATE, **KEPT), touched)


def before_of_archive(archive: Changes) -> Merge:
    touched = archive.touched("id")
    return Merge(scd.type2(_events(touched.rows).where("op <> 'T'"), **KEPT), touched)


def _events(archived: DataFrame) -> DataFrame:
    return archived.where("change_type = 'insert'")


def put(lake: Lake, events: Sequence[Event]) -> None:
    writer = frame(lake.spark, events).write.format("delta").option("delta.enableChangeDataFeed", "true")
    writer.mode("append").save(str(lake.root / "bronze"))


STRAIGHT = ((now, CURRENT), (before, HISTORY))
ARCHIVED = ((now_of_archive, CURRENT), (before_of_archive, HISTORY))


def step(lake: Lake) -> None:
    lake.materialize(archive)
    for asset, declared in (*STRAIGHT, *ARCHIVED):
        lake.materialize(asset, declared)


def without_truncates(events: Sequence[Event]) -> list[Event]:
    return [event for event in events if event.op != "T"]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(slow(seed) for seed in range(1, EXAMPLES))])
def test_shuffled_events_in_many_batches_give_what_all_of_them_give_in_order(lake: Lake, seed: int):
    random = Random(seed)
    keys = random.choice([2, 20, 200])
    events = random_events(random, range(keys), each=8, truncates=random.choice([0, 1, 2]))
    cuts = sorted(random.sample(range(1, len(events)), min(random.choice([1, 2]), len(events) - 1)))
    is_archived = seed % 2 == 0
    for start, end in zip([0, *cuts], [*cuts, len(events)], strict=True):
        put(lake, events[start:end])
        if is_archived:
            lake.materialize(archive)
        (current, of_current), (history, of_history) = ARCHIVED if is_archived else STRAIGHT
        lake.materialize(current, of_current)
        lake.materialize(history, of_history)
        arrived = events[:end]
        assert shown(lake.frame(current.__name__)) == present(arrived)
        assert shown(lake.frame(history.__name__)) == past(without_truncates(arrived))


@pytest.mark.slow
def test_old_events_that_leave_the_source_take_nothing_from_what_is_read_from_the_archive(lake: Lake):
    """Read straight from the source, their effect would be taken back: a table holds what its source gives."""
    events = random_events(Random("retention"), range(5), each=6, truncates=1)
    put(lake, events)
    step(lake)
    kept = [shown(lake.frame(name)) for name in ("now_of_archive", "before_of_archive")]
    lake.sql("DELETE FROM {bronze} WHERE at <= 3 OR id IN (1, 2)")
    step(lake)
    versions = [lake.version(name) for name in ("now_of_archive", "before_of_archive")]
    assert [shown(lake.frame(name)) for name in ("now_of_archive", "before_of_archive")] == kept
    left = [event for event in events if event.at > 3 and event.id not in (1, 2)]
    assert shown(lake.frame("now")) == present(left) != kept[0]
    assert shown(lake.frame("before")) == past(without_truncates(left)) != kept[1]
    images = lake.spark.read.option("readChangeFeed", "true").option("startingVersion", 1).format("delta")
    for name, version in zip(("now_of_archive", "before_of_archive"), versions, strict=True):
        feed = images.load(str(lake.root / name)) if version else None
        assert feed is None or feed.count() == 0, "no row is written, either"


@pytest.mark.slow
def test_a_key_that_is_erased_on_the_way_of_its_rows_is_in_no_table(lake: Lake):
    put(lake, random_events(Random("erased"), range(3), each=5))
    step(lake)
    others = [row for row in shown(lake.frame("before_of_archive")) if row[0] != 1]
    lake.sql("DELETE FROM {bronze} WHERE id = 1")
    lake.materialize(archive)
    lake.sql("DELETE FROM {archive} WHERE id = 1")
    step(lake)
    for name in ("bronze", "archive", "now", "before", "now_of_archive", "before_of_archive"):
        assert lake.frame(name).where("id = 1").count() == 0, name
    assert shown(lake.frame("before_of_archive")) == others
    erased = lake.version("bronze")
    put(lake, [Event(2, 99, 0, "U", "r")])
    lake.materialize(archive)

    def answers(after: int) -> bool:
        source = lake.source("bronze")
        return isinstance(ask_archive(lake.ref("archive"), source, VersionRange(after, source.at.version)), Archived)

    assert answers(erased)
    assert not answers(0), "who is behind compares"

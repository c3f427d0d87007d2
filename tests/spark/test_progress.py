"""The progress of a long step is reported now and then; that of a short step never."""

from dataclasses import dataclass
from itertools import pairwise
from logging import INFO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.spark.progress import Listeners, Message, Notice, QueryWatch, listening, sentence, watching


@dataclass
class Stage:
    num_tasks: int
    num_completed_tasks: int
    num_bytes_read: int = 0


NO_SESSION: Any = None
PAUSE = Listeners().pause


class Time:
    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@given(st.lists(st.tuples(st.floats(0, 5), st.sampled_from("ab"), st.booleans()), max_size=60))
def test_never_twice_within_the_quiet_time_and_never_of_a_query_that_is_younger(reports: list):
    time, told, began = Time(), list[float](), dict[str, float]()
    watch = QueryWatch(NO_SESSION, now=time)
    for wait, query, done in reports:
        time.seconds += wait
        began.setdefault(query, time.seconds)
        count = len(told)
        with listening(lambda _: told.append(time.seconds)):
            watch.report([Stage(4, 1)], 2, query, done)
        if len(told) > count:
            assert not done
            assert time.seconds - began[query] >= PAUSE
        if done:
            del began[query]
    assert all(later - earlier >= PAUSE for earlier, later in pairwise(told))


def test_a_query_of_a_minute_is_told_of_five_times():
    time, told = Time(), list[Notice]()
    watch = QueryWatch(NO_SESSION, "writing orders", time)
    for _ in range(120):
        with listening(told.append):
            watch.report([Stage(100, int(time.seconds))], 2, "query", done=False)
        time.seconds += 0.5
    assert len(told) == 5
    assert told[0] == Message(
        "Spark has been writing orders for 10 s: 0 of 1 stages, 10 of 100 tasks done, 2 running, about 90 s left of these.",
        INFO,
    )


def test_what_cannot_be_told_yet_is_not_guessed():
    assert (
        sentence("computing", [], 0, 12)
        == "Spark has been computing for 12 s: 0 of 0 stages, 0 of 0 tasks done, 0 running."
    )
    assert "left" not in sentence("computing", [Stage(3, 3, 5_000_000)], 0, 12)


@pytest.mark.served
def test_what_is_watched_within_itself_is_watched_once(spark: SparkSession) -> None:
    """Spark Connect keeps only one of several equal handlers, and cannot remove it twice."""
    with listening(print), watching(spark):
        with watching(spark):
            assert spark.range(3).count() == 3
        assert spark.range(2).count() == 2

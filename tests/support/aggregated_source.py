"""An `Aggregate`, the source that it sums, and what other programs do to its table."""

from collections.abc import Generator
from typing import Any

import pytest

from lakehouse import Aggregate, Changes, Table
from lakehouse.spark.progress import Message, Notice, listening
from tests.support.lake import Lake
from tests.support.ready_runs import SRC

BY_G, IN_G = Table(key="g"), Table(key="g", partition_by="g")
ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


def sums(src: Changes) -> Aggregate:
    return Aggregate(src, by="g", count="n", sums={"total": "v"})


def due(lake: Lake) -> list[tuple[Any, ...]]:
    """The rows that `sums` should hold, recomputed from its source."""
    rows = lake.sql("SELECT g, count(*), coalesce(sum(v), 0) FROM {src} GROUP BY g")
    return sorted(map(tuple, rows), key=repr)


@pytest.fixture
def rows(lake: Lake) -> Lake:
    lake.create("src", ROWS, SRC)
    lake.materialize(sums, BY_G)
    return lake


@pytest.fixture
def recomputes() -> Generator[list[str]]:
    """The messages about recomputing all sums, one for each time that they were recomputed and compared."""
    sentences = list[str]()

    def listen(notice: Notice) -> None:
        if isinstance(notice, Message) and " recomputes all its sums: " in notice.text:
            sentences.append(notice.text)

    with listening(listen):
        yield sentences


MEDDLED = [
    pytest.param(statement, id=name, marks=() if name == "a group that does not" else pytest.mark.slow)
    for name, statement in {
        "a group that changes": "UPDATE {sums} SET total = 7 WHERE g = 'a'",
        "a group that does not": "UPDATE {sums} SET total = 7 WHERE g = 'b'",
        "a group deleted": "DELETE FROM {sums} WHERE g = 'a'",
        "a group invented": "INSERT INTO {sums} VALUES ('z', 1, 1)",
        "a group twice": "INSERT INTO {sums} VALUES ('a', 2, 40)",
    }.items()
]

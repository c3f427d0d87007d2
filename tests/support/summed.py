"""An `Aggregate`, the source that it sums, and what others do to its table."""

from typing import Any

import pytest

import lakehouse.writes.aggregate
from lakehouse import Aggregate, Changes, Table
from lakehouse.writes.incremental_sums import Recompute
from tests.support.contended import SRC
from tests.support.lake import Lake

BY_G, IN_G = Table(key="g"), Table(key="g", partition_by="g")
ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


def sums(src: Changes) -> Aggregate:
    return Aggregate(src, by="g", count="n", sums={"total": "v"})


def due(lake: Lake) -> list[tuple[Any, ...]]:
    """What `sums` is to hold, recomputed."""
    rows = lake.sql("SELECT g, count(*), coalesce(sum(v), 0) FROM {src} GROUP BY g")
    return sorted(map(tuple, rows), key=repr)


@pytest.fixture
def rows(lake: Lake) -> Lake:
    lake.create("src", ROWS, SRC)
    lake.materialize(sums, BY_G)
    return lake


@pytest.fixture
def anew(monkeypatch: pytest.MonkeyPatch) -> list[str | None]:
    """Why all sums were recomputed and compared, for each time; None if everything was read anyway."""
    found: list[str | None] = []
    add = lakehouse.writes.aggregate.add

    def watched(*args: Any) -> Any:
        told = add(*args)
        found.extend([told.reason] if isinstance(told, Recompute) else [])
        return told

    monkeypatch.setattr("lakehouse.writes.aggregate.add", watched)
    return found


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

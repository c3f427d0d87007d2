"""Every situation of a run follows from what the log shows, as a table of cases: no log and no Spark."""

from dataclasses import replace
from typing import Any

import pytest

from lakehouse.commit.superseded import (
    Due,
    Facts,
    Overtaken,
    RolledBack,
    Situation,
    Superseded,
    situation_of_append,
    situation_of_run,
)
from lakehouse.cursor.cursor import Cursor, Fresh, Known, Lost
from lakehouse.cursor.digests import Code
from lakehouse.cursor.generation import Generation
from lakehouse.cursor.mark import Mark, Position
from lakehouse.delta.log import VersionRange
from lakehouse.delta.table import Read, Table
from lakehouse.read.asset import Asset, PastRows
from lakehouse.read.content import Nothing, SourceRead
from lakehouse.read.decide import Reconcile
from lakehouse.read.run import Run
from lakehouse.spark.table_version import TableRef, TableVersion

NO_SPARK: Any = None
SRC = TableRef.at_path("src", "/src")


def cursor(epoch: int, upto: int, run: str = "another", **parts: Any) -> Known:
    """The position after the commit of epoch 1, 2, ... at version `10 * epoch`, with its source read up to `upto`."""
    reads = {"src": Position("s", upto)}
    mark = Mark("copies", (), "0", epoch, run, "attempt", 0, None, reads, compared=True)
    return replace(Known.of(mark, 10 * epoch), **parts)


def coded(code: Code) -> Known:
    """A commit that has read as far as the run does, with the given code."""
    commit = cursor(2, 8)
    return replace(commit, mark=replace(commit.mark, code=code))


BEGAN = cursor(1, 5)
READING = Run(
    asset=Asset(
        "copies",
        Table(key="id"),
        TableRef.at_path("copies", "/copies"),
        past=PastRows.COMPUTED,
        read_options={"src": Read()},
    ),
    run_id="own",
    cursor=BEGAN,
    changes=(SourceRead(TableVersion(NO_SPARK, SRC, "s", 8), VersionRange(5, 8), Nothing()),),
)
OLD, NEW = (Code("1/3.11", digest, {}) for digest in ("aa", "bb"))
CODED = replace(READING, asset=replace(READING.asset, code=NEW))
COMPARING = replace(READING, together=Reconcile("asked for"))
VALUED = replace(READING, asset=replace(READING.asset, values=frozenset({"rate"}), follows_snapshot_inputs=True))
PLAIN = replace(READING, changes=())
GONE, RESTORED = Fresh(), Lost("no mark is left", Generation.after(1), epoch=1)
AS_FAR, FURTHER, LESS, STALE = cursor(2, 8), cursor(2, 9), cursor(2, 7), cursor(2, 5, stale_base=True)


@pytest.mark.parametrize(
    ("run", "now", "other", "done", "expected"),
    [
        pytest.param(READING, BEGAN, None, None, Due(), id="nothing has moved"),
        pytest.param(READING, AS_FAR, None, None, Superseded(AS_FAR), id="another run read as far"),
        pytest.param(READING, FURTHER, None, None, Superseded(FURTHER), id="another run read further"),
        pytest.param(READING, LESS, None, None, Overtaken(LESS), id="another run read less"),
        pytest.param(READING, STALE, None, None, Overtaken(STALE), id="a rival came between"),
        pytest.param(COMPARING, AS_FAR, None, None, Overtaken(AS_FAR), id="a position settles no reconciliation"),
        pytest.param(READING, AS_FAR, FURTHER, None, Superseded(FURTHER), id="a run of other partitions is named"),
        pytest.param(READING, BEGAN, FURTHER, None, Overtaken(FURTHER), id="its own position stayed behind"),
        pytest.param(READING, GONE, None, None, RolledBack(), id="no mark is left"),
        pytest.param(READING, cursor(1, 4), None, None, Overtaken(cursor(1, 4)), id="the position went back"),
        pytest.param(COMPARING, cursor(1, 4), None, None, Due(), id="a reconciliation needs no position"),
        pytest.param(CODED, coded(NEW), None, None, Superseded(coded(NEW)), id="another run of the same code"),
        pytest.param(CODED, coded(OLD), None, None, Overtaken(coded(OLD)), id="another run of other code"),
        pytest.param(VALUED, AS_FAR, None, None, Overtaken(AS_FAR), id="another run with an older value"),
        pytest.param(PLAIN, BEGAN, None, None, Due(), id="snapshot inputs"),
        pytest.param(PLAIN, cursor(2, 5), None, None, Overtaken(cursor(2, 5)), id="snapshot inputs, overtaken"),
        pytest.param(READING, BEGAN, None, 10, Due(), id="behind its own commit"),
        pytest.param(READING, AS_FAR, None, 10, Superseded(AS_FAR), id="mended by the next run"),
        pytest.param(READING, STALE, None, 10, Overtaken(STALE), id="not mended by the next run"),
        pytest.param(COMPARING, AS_FAR, None, 10, Overtaken(AS_FAR), id="a reconciliation is not mended by others"),
    ],
)
def test_a_run_is_due_superseded_overtaken_or_rolled_back(
    run: Run, now: Cursor, other: Known | None, done: int | None, expected: Situation
) -> None:
    assert situation_of_run(run, Facts(now, other, now if isinstance(now, Known) else None, done)) == expected


@pytest.mark.parametrize(
    ("now", "repeated", "expected"),
    [
        pytest.param(BEGAN, None, Due(), id="nothing has moved"),
        pytest.param(cursor(2, 5, "own"), None, Superseded(cursor(2, 5, "own")), id="its own commit"),
        pytest.param(
            cursor(3, 5), cursor(2, 5, "own"), Superseded(cursor(2, 5, "own")), id="its own, and others after"
        ),
        pytest.param(cursor(2, 5), None, Overtaken(cursor(2, 5)), id="another run's rows"),
        pytest.param(GONE, None, RolledBack(), id="no mark is left"),
    ],
)
def test_rows_that_are_added_in_every_run_are_superseded_only_by_their_own_commit(
    now: Cursor, repeated: Known | None, expected: Situation
) -> None:
    assert situation_of_append(PLAIN, now, repeated) == expected

"""Each change in a table that a stream writes is followed once, and the stream's transactions disturb no mark."""

import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, Merge, Table
from lakehouse.commit.outcome import Unchanged
from lakehouse.cursor.cursor import Known
from tests.support.lake import Lake

pytestmark = pytest.mark.streams

KEYED = Table(key="id")
COLUMNS = "id int, v int"
ARRIVALS = ([(1, 10), (2, 20)], [(3, 30)], [(1, 11), (4, 40)], [(2, 21), (3, 31)])


def kept(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def log(src: Changes) -> Append:
    return Append(src.log().select("id", "v", "change_type"))


@pytest.fixture
def landing(lake: Lake) -> Lake:
    """A lake with arriving rows, and the table of a stream that reads them."""
    lake.create("arrived", [], COLUMNS)
    lake.create("src", [], COLUMNS)
    return lake


def append(landing: Lake, into: str = "src") -> None:
    """Appends by Delta's own sink: each batch is a commit whose `txn` is the query's id and the number of the batch."""
    arrived = landing.spark.readStream.format("delta").load(str(landing.root / "arrived"))
    sink = arrived.writeStream.format("delta").option("checkpointLocation", str(landing.root / f"to {into}"))
    sink.trigger(availableNow=True).start(str(landing.root / into)).awaitTermination()


def append_in_batches(landing: Lake) -> None:
    """The same in `foreachBatch`, with a `txn` that the user's code sets."""
    path = str(landing.root / "src")

    def write(batch: DataFrame, number: int) -> None:
        options = {"txnAppId": "loader", "txnVersion": str(number)}
        batch.write.format("delta").mode("append").options(**options).save(path)

    each_batch(landing, write)


def merge_in_batches(landing: Lake) -> None:
    path = str(landing.root / "src")

    def merge(batch: DataFrame, number: int) -> None:
        batch.createOrReplaceTempView("arrivals")
        batch.sparkSession.sql(
            f"MERGE INTO delta.`{path}` t USING arrivals s ON t.id = s.id"
            " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
        ).collect()

    each_batch(landing, merge)


def each_batch(landing: Lake, act: Callable[[DataFrame, int], None]) -> None:
    arrived = landing.spark.readStream.format("delta").load(str(landing.root / "arrived"))
    sink = arrived.writeStream.foreachBatch(act).option("checkpointLocation", str(landing.root / "to src"))
    sink.trigger(availableNow=True).start().awaitTermination()


def forget_last_batch(checkpoint: Path) -> None:
    """Makes the stream repeat its last batch, as if it had died between its commit and its checkpoint."""
    commits = [file for file in (checkpoint / "commits").iterdir() if file.name.isdecimal()]
    last = max(commits, key=lambda file: int(file.name))
    last.unlink()
    (last.parent / f".{last.name}.crc").unlink(missing_ok=True)


def replayed(log: list[tuple[int, int, str]]) -> list[tuple[int, int]]:
    """The rows that result from a log of changes; a missing or repeated change gives other rows."""
    rows = Counter[tuple[int, int]]()
    for id_, v, change in log:
        rows[id_, v] += -1 if change in ("delete", "update_preimage") else 1
    assert min(rows.values(), default=0) >= 0
    return sorted(rows.elements())


WRITERS = {
    "an append": append,
    "an append in foreachBatch": append_in_batches,
    "a MERGE in foreachBatch": merge_in_batches,
}


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_each_row_that_a_stream_writes_is_followed_once(landing: Lake, write: Callable[[Lake], None]) -> None:
    rows = dict[int, int]()
    appended = list[tuple[int, int]]()
    for arrivals in ARRIVALS if write is merge_in_batches else ARRIVALS[:2]:
        landing.insert("arrived", arrivals)
        write(landing)
        landing.materialize(kept, KEYED)
        landing.materialize(log)
        rows |= dict(arrivals)
        appended += arrivals
        expected = sorted(rows.items() if write is merge_in_batches else appended)
        assert landing.rows("kept") == landing.rows("src") == replayed(landing.rows("log")) == expected


@pytest.mark.parametrize("write", [append, append_in_batches], ids=[*WRITERS][:2])
def test_a_batch_that_a_stream_repeats_is_read_once(landing: Lake, write: Callable[[Lake], None]) -> None:
    landing.insert("arrived", ARRIVALS[0])
    write(landing)
    landing.materialize(log)
    forget_last_batch(landing.root / "to src")
    write(landing)
    assert isinstance(landing.materialize(log), Unchanged)
    assert replayed(landing.rows("log")) == landing.rows("src") == sorted(ARRIVALS[0])


def test_a_stream_into_a_table_of_ours_leaves_its_position_where_it_was(landing: Lake) -> None:
    """The stream's commits have a `txn` of their own and no mark; the next run reads what came since the run before."""
    landing.create("orders", [(1, 1), (2, 2)], COLUMNS)

    def mixed(orders: Changes) -> Merge:
        touched = orders.touched("id")
        return Merge(touched.rows, touched)

    landing.materialize(mixed, KEYED)
    for arrivals in ([(10, 0)], [(11, 0)]):
        landing.insert("arrived", arrivals)
        append(landing, "mixed")
    landing.insert("orders", [(3, 3)])
    landing.sql("DELETE FROM {orders} WHERE id = 1")
    step = landing.begin(mixed, KEYED)
    cursor = step.run.cursor
    assert isinstance(cursor, Known)
    assert (cursor.epoch, cursor.reads["orders"].version, cursor.version) == (1, 0, 0)
    landing.materialize(mixed, KEYED)
    assert landing.rows("mixed") == [(10, 0), (11, 0), (2, 2), (3, 3)]
    shutil.rmtree(landing.root / "to mixed")
    append(landing, "mixed")  # another query reads the rows again, which only the stream could avoid
    assert isinstance(landing.materialize(mixed, KEYED), Unchanged)

"""A stream goes on where a run ended, and an asset where a stream ended: no change is lost or read twice."""

import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import functions as F

from lakehouse import Append, Changes, Table
from lakehouse.cli.main import main
from tests.streams.shop import EDITS, KEYED, PAGE, copied, orders, shop, stream
from tests.support.lake import Lake
from tests.support.raises import raises_code

pytestmark = pytest.mark.streams

__all__ = ["shop"]  # a fixture


def position(root: Path, table: str, capsys: pytest.CaptureFixture[str]) -> int:
    """How far a table has read its one source, as the command line shows it."""
    capsys.readouterr()
    assert main(["status", "--root", str(root), "--json"]) == 0
    tables = json.loads(capsys.readouterr().out)["tables"]
    (reading,) = next(each["reads"] for each in tables if each["name"] == table)
    return reading["read"]


def copy(orders: Changes) -> Any:
    return PAGE["orders_copy"].op.compute_fn.decorated_fn(orders)


copy.__annotations__ = PAGE["orders_copy"].op.compute_fn.decorated_fn.__annotations__


def test_after_a_lost_checkpoint_a_stream_goes_on_behind_a_run(shop: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    stream(shop)
    shutil.rmtree(shop.root / "checkpoint")
    for edit in EDITS[:4]:  # the stream sees neither the deleted row nor the updated ones
        shop.sql(edit)
        shop.materialize(orders, KEYED)
    shop.materialize(copy, KEYED, compare="a full refresh was asked for")
    assert copied(shop) == shop.rows("orders")
    start = position(shop.root, "copy", capsys) + 1
    for edit in EDITS[4:]:
        shop.sql(edit)
        shop.materialize(orders, KEYED)
        stream(shop, startingVersion=str(start))
        assert copied(shop) == shop.rows("orders"), edit
    versions = [row[2] for row in shop.rows("copy")]
    assert max(versions) >= start, "the stream has written"


def test_a_stream_takes_over_from_an_asset(shop: Lake, capsys: pytest.CaptureFixture[str]) -> None:
    """The stream reads exactly what the run has not read: each change of later versions is in its table once."""
    shop.materialize(orders, KEYED)
    start = position(shop.root, "orders", capsys) + 1
    for edit in EDITS[:3]:
        shop.sql(edit)
    seen = list[tuple[int, str]]()
    feed = shop.spark.readStream.format("delta").option("readChangeFeed", "true").option("startingVersion", str(start))
    sink = feed.load(str(shop.root / "src")).select("order_id", "_change_type", "_commit_version").writeStream
    sink = sink.format("delta").option("checkpointLocation", str(shop.root / "taken over"))
    sink.trigger(availableNow=True).start(str(shop.root / "seen")).awaitTermination()
    expected = shop.spark.sql(f"SELECT * FROM table_changes_by_path('{shop.root}/src', {start})")
    seen = [tuple(row) for row in expected.select("order_id", "_change_type", "_commit_version").collect()]
    assert shop.rows("seen") == sorted(seen, key=repr)


def keep_log(shop: Lake, **options: str) -> None:
    """A stream that appends each change to a table, with the columns of `Changes.log()`."""
    feed = shop.spark.readStream.format("delta").option("readChangeFeed", "true").options(**options)
    log = feed.load(str(shop.root / "orders")).select(
        "order_id",
        "amount",
        F.col("_change_type").alias("change_type"),
        F.col("_commit_version").alias("commit_version"),
        F.col("_commit_timestamp").alias("commit_timestamp"),
    )
    sink = log.writeStream.format("delta").option("checkpointLocation", str(shop.root / "log checkpoint"))
    sink.trigger(availableNow=True).start(str(shop.root / "log")).awaitTermination()


def log(orders: Changes) -> Append:
    return Append(orders.log())


def end_of_stream(checkpoint: Path) -> int:
    """The last version that a stream has read completely, by its checkpoint."""
    batch = max(int(file.name) for file in (checkpoint / "commits").iterdir() if file.name.isdecimal())
    offset = json.loads((checkpoint / "offsets" / str(batch)).read_text().splitlines()[-1])
    assert offset["index"] == -1
    return offset["reservoirVersion"] - 1


@pytest.fixture
def logged(shop: Lake) -> int:
    """Lets a stream append changes to a table; how far the stream has read."""
    keep_log(shop)
    for edit in EDITS[:3]:
        shop.sql(edit)
        shop.materialize(orders, KEYED)
    keep_log(shop)
    return end_of_stream(shop.root / "log checkpoint")


def test_an_asset_goes_on_where_a_stream_ended(shop: Lake, logged: int) -> None:
    assert logged == shop.version("orders")
    for edit in EDITS[3:]:
        shop.sql(edit)
        shop.materialize(orders, KEYED)
    with raises_code("FOREIGN_TABLE"):
        shop.materialize(log)
    shop.materialize(log, go_on_from=logged)
    shop.materialize(log, go_on_from=logged)
    feed = shop.spark.sql(f"SELECT * FROM table_changes_by_path('{shop.root}/orders', 0)")
    changes = [tuple(row) for row in feed.select("order_id", "amount", "_change_type", "_commit_version").collect()]
    # The stream began with the rows of version 0 as inserts, which is how the feed shows them.
    assert Counter(row[:4] for row in shop.rows("log")) == Counter(changes)


def test_a_checkpoint_that_is_ahead_of_the_table_is_refused_and_nothing_is_written(shop: Lake, logged: int) -> None:
    """As after the table was restored from a backup that is older than the checkpoint."""
    before = shop.rows("log")
    with raises_code("START", match=f"ends at version {logged}"):
        shop.materialize(log, Table(), go_on_from=logged + 1)
    assert shop.rows("log") == before and shop.version("log") == 1

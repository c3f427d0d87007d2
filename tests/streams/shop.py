"""An asset's table that streams read, the edits of its source, and a copy that a stream keeps."""

import pytest

from lakehouse import Changes, Merge, Table
from tests.entry.test_readme import code
from tests.support.lake import Lake

PAGE = code("docs/how-to/streams.md")
KEYED = Table(key="order_id")
COLUMNS = "order_id int, amount int"
EDITS = (
    "INSERT INTO {src} VALUES (4, 40), (5, 50)",
    "UPDATE {src} SET amount = amount + 1 WHERE order_id < 3",
    "DELETE FROM {src} WHERE order_id = 3",
    "UPDATE {src} SET amount = -1 WHERE order_id = 4",
    "INSERT INTO {src} VALUES (3, 33)",
    "INSERT OVERWRITE {src} SELECT order_id, amount + 5 FROM {src} WHERE order_id <> 1",
    "UPDATE {src} SET order_id = 9 WHERE order_id = 2",
)


def orders(src: Changes) -> Merge:
    touched = src.touched("order_id")
    return Merge(touched.rows.where("amount >= 0"), touched)


@pytest.fixture
def shop(lake: Lake) -> Lake:
    """An asset's table, and an empty copy of it."""
    lake.create("src", [(1, 10), (2, 20), (3, 30)], COLUMNS)
    lake.materialize(orders, KEYED)
    lake.sql(f"CREATE TABLE delta.`{lake.root}/copy` ({COLUMNS}, version bigint) USING delta")
    return lake


def stream(shop: Lake, source: str = "orders", **options: str) -> None:
    """Lets the stream of the documentation page read all available changes."""
    tables = (str(shop.root / source), str(shop.root / "copy"))
    PAGE["keep_copy"](shop.spark, *tables, str(shop.root / "checkpoint"), **options).awaitTermination()


def copied(shop: Lake) -> list[tuple[int, ...]]:
    return [row[:2] for row in shop.rows("copy")]

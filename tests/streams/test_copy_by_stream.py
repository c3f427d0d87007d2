"""A stream that reads the feed of a table: first its rows, then every change."""

import shutil

import pytest
from pyspark.errors import StreamingQueryException

from tests.streams.shop import EDITS, KEYED, copied, orders, shop, stream
from tests.support.lake import Lake

pytestmark = pytest.mark.streams

__all__ = ["shop"]  # a fixture
LIMITS = pytest.mark.parametrize("options", [{}, {"maxFilesPerTrigger": "1"}], ids=["at once", "a file at a time"])


@LIMITS
def test_a_stream_reads_the_rows_and_then_each_change(shop: Lake, options: dict[str, str]) -> None:
    stream(shop, **options)
    assert copied(shop) == shop.rows("orders")
    for edit in EDITS:
        shop.sql(edit)
        shop.materialize(orders, KEYED)
        stream(shop, **options)
        assert copied(shop) == shop.rows("orders"), edit


@LIMITS
def test_a_stream_that_was_away_reads_all_changes_that_it_missed(shop: Lake, options: dict[str, str]) -> None:
    stream(shop, **options)
    for edit in EDITS:
        shop.sql(edit)
        shop.materialize(orders, KEYED)
    shop.sql("OPTIMIZE {orders}")
    stream(shop, **options)
    assert copied(shop) == shop.rows("orders")


@LIMITS
def test_an_overwrite_that_is_split_loses_no_row_and_an_updated_key_leaves_none(
    shop: Lake, options: dict[str, str]
) -> None:
    """Delta delivers the files of an overwrite one by one: a key's new row may come before its old row is deleted."""
    stream(shop, "src", **options)
    for edit in EDITS:
        shop.sql(edit)
        stream(shop, "src", **options)
        assert copied(shop) == shop.rows("src"), edit


def test_a_stream_with_a_checkpoint_that_is_ahead_of_its_table_misses_commits(shop: Lake) -> None:
    """As after a table is restored from a backup. The stream fails while the table is behind, then silently goes on."""
    shutil.copytree(shop.root / "orders", shop.root / "restored")
    for edit in EDITS[:2]:
        shop.sql(edit)
        shop.materialize(orders, KEYED)
    stream(shop)
    with pytest.raises(StreamingQueryException, match="non-existent version"):
        stream(shop, "restored")
    for row in (70, 71, 72, 73):
        shop.insert("restored", [(row, row)])
    stream(shop, "restored")
    assert [row[0] for row in copied(shop) if row[0] >= 70] == [72, 73]

"""What Delta stores of a write is not always what was written: a partition's empty text is a NULL."""

import pytest

from lakehouse import Changes, Merge, Table
from lakehouse.commit.commit import Unchanged
from tests.support.contended import SRC, whole
from tests.support.lake import Lake

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    "table", [Table(key="id", partition_by="g"), Table(key=("id", "g"), partition_by="g")], ids=["not in key", "in key"]
)
def test_an_empty_text_is_null_in_a_partition_column(lake: Lake, table: Table) -> None:
    """Delta stores it so; whoever compares with '' finds nothing there and adds the row once more."""
    lake.create("src", [(1, "", 10), (2, "b", 20)], SRC)

    def placed(src: Changes) -> Merge:
        touched = src.touched(*table.key_columns)
        return Merge(touched.rows, touched)

    both = "CASE id WHEN 1 THEN 11 ELSE v END, g = ''"
    for change in (None, f"SET v = {both}", "SET g = 'c' WHERE id = 1"):
        if change is not None:
            lake.sql(f"UPDATE {{src}} {change}")
        lake.materialize(placed, table)
        assert set(lake.rows("placed")) == {(id_, g or None, v) for id_, g, v in lake.rows("src")}
        assert len(lake.rows("placed")) == 2


@pytest.mark.parametrize("keys", [("g",), ("g", "id"), ("at", "g")])
@pytest.mark.parametrize("found", ["at the driver", "where it is"])
def test_empty_texts_and_nulls_in_a_partition_column_share_it_without_loss(
    lake: Lake, keys: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """Both are stored as NULL, so a step about one of them must not take the other's rows for gone."""
    if found == "where it is":
        monkeypatch.setattr("lakehouse.read.feed_reader.small", lambda _: None)
        monkeypatch.setattr("lakehouse.read.touched.small", lambda _: None)
    schema = f"{SRC}, at timestamp"
    lake.create("src", [(1, "", 10, None), (2, None, 20, None), (3, "b", 30, None)], schema)
    lake.keys["src"] = ("g", "id")
    table = Table(key=("g", "id"), partition_by="g")

    def placed(src: Changes) -> Merge:
        touched = src.touched(*keys)
        return Merge(touched.rows, touched)

    def stored() -> set[tuple[object, ...]]:
        return {(id_, g or None, v, at) for id_, g, v, at in lake.rows("src")}

    for change in ("", "SET v = 11 WHERE id = 1", "SET v = 21 WHERE id = 2", "SET g = '' WHERE id = 3"):
        if change:
            lake.sql(f"UPDATE {{src}} {change}")
        lake.materialize(placed, table)
        assert set(lake.rows("placed")) == stored()
        assert len(lake.rows("placed")) == 3
    lake.sql("DELETE FROM {src} WHERE g = ''")
    lake.materialize(placed, table)
    assert set(lake.rows("placed")) == stored()


def test_an_overwrite_of_empty_texts_in_a_partition_column_is_quiet(lake: Lake) -> None:
    lake.create("src", [(1, "", 10), (2, "b", 20)], SRC)
    lake.materialize(whole, Table(partition_by="g"))
    assert isinstance(lake.materialize(whole, Table(partition_by="g")), Unchanged)

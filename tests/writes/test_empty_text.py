"""Delta stores an empty text in a partition column as NULL, so no write may contain one."""

from collections.abc import Callable
from typing import Any

import pytest

from lakehouse import Append, Changes, Merge, Table
from lakehouse.delta.limits import MEASURED, Limits, in_force
from tests.support.lake import Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import SRC, whole

pytestmark = pytest.mark.slow
HIVES_NULL = "__HIVE_DEFAULT_PARTITION__"
IN_KEY, BESIDE_KEY = Table(key=("id", "g"), partition_by="g"), Table(key="id", partition_by="g")


def merged(src: Changes) -> Merge:
    touched = src.touched("id", "g")
    return Merge(touched.rows, touched)


def by_id(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def appended(src: Changes) -> Append:
    return Append(src.appended())


@pytest.mark.parametrize(
    ("asset", "table"),
    [
        pytest.param(merged, IN_KEY, id="merge by a key with it"),
        pytest.param(by_id, BESIDE_KEY, id="merge by a key without it"),
        pytest.param(whole, Table(key="id", partition_by="g"), id="overwrite by key"),
        pytest.param(whole, Table(partition_by="g"), id="overwrite"),
        pytest.param(appended, Table(partition_by="g"), id="append"),
    ],
)
@pytest.mark.parametrize(
    ("way", "text"),
    [(MEASURED, ""), (Limits(driver_rows=0), ""), (MEASURED, HIVES_NULL)],
    ids=["at the driver", "where it is", "Hive's text for NULL"],
)
def test_a_row_with_an_empty_text_in_a_partition_column_is_refused(
    lake: Lake, asset: Callable[..., Any], table: Table, way: Limits, text: str
) -> None:
    """A NULL there is a value like any other, and so is an empty text in another column."""
    name = asset.__name__
    lake.create("src", [(1, None, 10), (2, "b", 20)], SRC)
    lake.materialize(asset, table)
    assert len(lake.rows(name)) == 2
    lake.insert("src", [(3, text, 30)])
    version = lake.version(name)
    with (
        in_force(way),
        raises_code("BROKEN_PROMISE", match=r"an empty text in column g, which .* NULL.*Nothing was written"),
    ):
        lake.materialize(asset, table)
    assert lake.version(name) == version
    lake.sql("DELETE FROM {src} WHERE id = 3")


def test_a_first_write_with_an_empty_text_in_a_partition_column_is_refused(lake: Lake) -> None:
    lake.create("src", [(1, "", 10)], SRC)
    with raises_code("BROKEN_PROMISE", match="an empty text in column g"):
        lake.materialize(by_id, BESIDE_KEY)
    lake.materialize(by_id, Table(key="id"), name="plain")
    assert lake.rows("plain") == [(1, "", 10)]


@pytest.mark.parametrize("way", [MEASURED, Limits(driver_rows=0)], ids=["at the driver", "where it is"])
def test_a_touched_key_with_an_empty_text_in_a_partition_column_is_refused(lake: Lake, way: Limits) -> None:
    """The asset replaced the text by NULL, so the row of the deleted source row would stay in the table."""

    def cleaned(src: Changes) -> Merge:
        touched = src.touched("id", "g")
        return Merge(touched.rows.selectExpr("id", "nullif(g, '') AS g", "v"), touched)

    lake.create("src", [(1, "", 10), (2, "b", 20)], SRC)
    lake.materialize(cleaned, IN_KEY)
    lake.sql("DELETE FROM {src} WHERE id = 1")
    with in_force(way), raises_code("BROKEN_PROMISE", match="an empty text in column g"):
        lake.materialize(cleaned, IN_KEY)

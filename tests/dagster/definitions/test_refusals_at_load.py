"""Calls without a meaning are refused before Spark is asked for anything, each in a sentence that says what to do."""

from collections.abc import Callable
from typing import Any

from lakehouse.delta.log import VersionRange
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.delta.table import Read, Table
from lakehouse.materialization import Materialization, begin
from lakehouse.read.asset import Asset, PastRows
from lakehouse.read.changes import Changes
from lakehouse.read.content import Nothing, SourceRead
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import EveryKey
from lakehouse.spark.table_version import TableRef, TableVersion
from tests.support.for_each import for_each
from tests.support.raises import raises_code

NO_SPARK: Any = None
NOWHERE = TableRef.at_path("landed", "/nowhere/landed")


def read(name: str) -> SourceRead:
    source = TableVersion(NO_SPARK, TableRef.at_path(name, f"/nowhere/{name}"), "id", 1)
    return SourceRead(source, VersionRange(0, 1), Nothing())


def touched(name: str, *columns: str) -> Touched:
    """Touched keys that are every key of a source; only the identity of this object matters here."""
    source: Any = object()
    return Touched(columns, EveryKey(), source, (read(name),))


def unnamed() -> object:
    return Changes(read("orders")).touched()


def of_other_columns() -> object:
    return touched("orders", "id") | touched("customers", "customer")


def rows_of_two() -> object:
    return (touched("orders", "id") | touched("customers", "id")).rows


def keys_of_two() -> object:
    return (touched("orders", "id") | touched("customers", "id")).keys


def appended(slice_: Slice) -> Materialization:
    asset = Asset("landed", Table(partition_by="day"), NOWHERE, past=PastRows.APPENDED, read_options={"src": Read()})
    return begin(lambda: NO_SPARK, asset, "run", slice=slice_)


def days(*found: str) -> Slice:
    return Slice(tuple(PartitionKey(day, {"day": day}, {}) for day in found))


def appended_to_two() -> object:
    return appended(days("2013-01-01", "2013-01-02"))


@for_each(
    "asked, code, said",
    [
        (unnamed, "READ", r"touched\(\) of 'orders' needs the columns"),
        (of_other_columns, "WRITE", r"of \(id\) and of \(customer\) cannot be united: .* via\(frame, 'id'\)"),
        (rows_of_two, "WRITE", r"of orders and customers come from two sources, .* Use of\(frame\)"),
        (keys_of_two, "WRITE", r"of two sources together no list of them exists; use of\(\)"),
        (
            appended_to_two,
            "READ",
            r"'landed' reads Changes, .* Nothing was written. Backfill .* one run per partition",
        ),
    ],
)
def test_what_means_nothing_is_refused_in_words(asked: Callable[[], object], code: str, said: str) -> None:
    with raises_code(code, match=said):
        asked()


def test_changes_are_appended_to_one_partition_in_a_run() -> None:
    assert appended(days("2013-01-01")).run.slice == days("2013-01-01")

"""Sums that depend on more than the rows, or on some of the changes only, are refused, and nothing is written."""

import pytest
from pyspark.sql import functions as F

from lakehouse import Aggregate, Changes, Read, Table
from lakehouse.errors import WriteError
from tests.support.aggregated_source import BY_G, ROWS, rows, sums
from tests.support.lake import Lake
from tests.support.raises import raises_code
from tests.support.ready_runs import SRC

pytestmark = pytest.mark.anywhere

__all__ = ["rows"]  # a fixture


def test_what_has_no_exact_sum_is_refused(lake: Lake) -> None:
    lake.create("src", [], "id int, g string, d double, s string, b boolean, at date")
    for value in ("d", "s", "b", "at"):

        def summed(src: Changes, value: str = value) -> Aggregate:
            return Aggregate(src, "g", "n", {"total": value})

        del summed.__annotations__["value"]
        with raises_code("SCHEMA", match="CAST"):
            lake.materialize(summed, BY_G)
    assert not lake.exists("summed")


def test_what_is_not_of_the_row_alone_is_refused_and_so_are_other_keys_partitions_and_some_of_the_changes(
    lake: Lake,
) -> None:
    lake.create("src", ROWS, SRC)
    for value, name in (("nothing", "nothing"), ("n + 1", "n"), ("others * 2", "others")):

        def ranked(src: Changes, value: str = value) -> Aggregate:
            return Aggregate(src, "g", "n", {"others": "v", "total": value})

        def grouped(src: Changes, value: str = value) -> Aggregate:
            return Aggregate(src, {"g": value}, "n", {"others": "v"})

        def chosen(src: Changes, value: str = value) -> Aggregate:
            return Aggregate(src, "g", "n", {"others": "v"}, where=f"{value} > 1")

        for asset in (ranked, grouped, chosen):
            del asset.__annotations__["value"]
            with raises_code("PLAN", match=f"name `{name}` cannot be resolved"):
                lake.materialize(asset, BY_G)
            assert not lake.exists(asset.__name__)
    for table in (Table(key="v"), Table(key=["g", "n"]), Table(key="g", partition_by="n"), Table()):
        with raises_code("WRITE", "MISSING_KEY", match=r"key|groups|partition"):
            lake.materialize(sums, table)
    for read in (Read(start=0), Read(exclude_operations="DELETE")):
        with pytest.raises(WriteError, match="where"):
            lake.materialize(sums, BY_G, reads={"src": read})
    assert not lake.exists("sums")


@pytest.fixture
def src(rows: Lake) -> Changes:
    found = rows.read(rows.begin(sums, BY_G), sums)["src"]
    assert isinstance(found, Changes)
    return found


def test_names_that_clash_and_values_that_are_not_of_the_row_cannot_be_built(src: Changes) -> None:
    """tests/views/test_conditions.py lists such values."""
    for by, count, listed in (((), "n", {}), ("g", "G", {}), ("g", "n", {"N": "v"})):
        with pytest.raises(ValueError, match="each name once"):
            Aggregate(src, by, count, listed)
    for sql in ("xxhash64(*)", "rand()"):
        with pytest.raises(ValueError, match="one row"):
            Aggregate(src, "g", "n", {"total": sql})
    with pytest.raises(TypeError):
        Aggregate(src, "g", "n", {"total": F.col("v")})  # type: ignore[dict-item]
    commented = Aggregate(src, {"g": "g -- as it is"}, "n", {"total": "v * 2 -- twice"}, where="v > 1 -- not all")
    plain = Aggregate(src, "g", "n", {"total": "v * 2"}, where="v > 1")
    assert sorted(commented.computation.rows.collect()) == sorted(plain.computation.rows.collect())

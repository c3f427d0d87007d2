"""Sums that would go by more than the rows, or by some of the changes only, are refused, and nothing is written."""

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


@pytest.mark.parametrize("kind", ["double", "string", "boolean", "date"])
def test_what_has_no_exact_sum_is_refused(lake: Lake, kind: str) -> None:
    lake.create("src", [], f"id int, g string, v {kind}")
    with raises_code("SCHEMA", match="CAST"):
        lake.materialize(sums, BY_G)
    assert not (lake.root / "sums").exists()


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("nothing", "name `nothing` cannot be resolved"),
        ("n + 1", "name `n` cannot be resolved"),
        ("others * 2", "name `others` cannot be resolved"),
    ],
)
def test_what_is_not_of_the_row_alone_is_refused(lake: Lake, value: str, why: str) -> None:
    def ranked(src: Changes) -> Aggregate:
        return Aggregate(src, "g", "n", {"others": "v", "total": value})

    def grouped(src: Changes) -> Aggregate:
        return Aggregate(src, {"g": value}, "n", {"others": "v"})

    def chosen(src: Changes) -> Aggregate:
        return Aggregate(src, "g", "n", {"others": "v"}, where=f"{value} > 1")

    lake.create("src", ROWS, SRC)
    for asset in (ranked, grouped, chosen):
        with raises_code("PLAN", match=why):
            lake.materialize(asset, BY_G)
        assert not (lake.root / asset.__name__).exists()


@pytest.mark.parametrize("table", [Table(key="v"), Table(key=["g", "n"]), Table(key="g", partition_by="n"), Table()])
def test_the_groups_are_the_key_and_the_partitions_are_groups(lake: Lake, table: Table) -> None:
    lake.create("src", ROWS, SRC)
    with raises_code("WRITE", "MISSING_KEY", match=r"key|groups|partition"):
        lake.materialize(sums, table)
    assert not (lake.root / "sums").exists()


@pytest.mark.parametrize("read", [Read(start=0), Read(exclude_operations="DELETE")])
def test_sums_of_some_of_the_changes_are_refused(lake: Lake, read: Read) -> None:
    lake.create("src", ROWS, SRC)
    with pytest.raises(WriteError, match="where"):
        lake.materialize(sums, BY_G, reads={"src": read})


@pytest.fixture
def src(rows: Lake) -> Changes:
    found = rows.read(rows.begin(sums, BY_G), sums)["src"]
    assert isinstance(found, Changes)
    return found


def test_names_that_clash_cannot_be_built(src: Changes) -> None:
    for by, count, listed in (((), "n", {}), ("g", "G", {}), ("g", "n", {"N": "v"})):
        with pytest.raises(ValueError, match="each name once"):
            Aggregate(src, by, count, listed)


def test_values_that_are_not_of_the_row_cannot_be_built(src: Changes) -> None:
    """Which those are: tests/views/test_conditions.py."""
    for sql in ("xxhash64(*)", "rand()"):
        with pytest.raises(ValueError, match="one row"):
            Aggregate(src, "g", "n", {"total": sql})
    with pytest.raises(TypeError):
        Aggregate(src, "g", "n", {"total": F.col("v")})  # type: ignore[dict-item]
    commented = Aggregate(src, {"g": "g -- as it is"}, "n", {"total": "v * 2 -- twice"}, where="v > 1 -- not all")
    plain = Aggregate(src, "g", "n", {"total": "v * 2"}, where="v > 1")
    assert sorted(commented.computation.rows.collect()) == sorted(plain.computation.rows.collect())

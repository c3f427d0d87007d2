"""Queries over few rows are interpreted, all others compiled, and the session keeps its settings."""

from collections.abc import Generator, Iterator

import pytest
from pyspark.sql import SparkSession

from lakehouse import Changes, Merge, Overwrite, Policy, Table
from lakehouse.delta.limits import MEASURED
from lakehouse.delta.log import Size
from lakehouse.spark.abilities import handed_over
from lakehouse.spark.progress import Doing, Notice, PhaseBegan, listening
from lakehouse.spark.session import FACTORY_MODE, interpreting
from tests.support.lake import Lake

INTERPRETED, COMPILED = "NO_CODEGEN", "FALLBACK"
LITTLE = Size(MEASURED.interpreted_rows, MEASURED.interpreted_bytes)
SIZES = {
    "little": (LITTLE, INTERPRETED),
    "nothing": (Size(0, 0), INTERPRETED),
    "many rows": (Size(LITTLE.rows + 1, 1), COMPILED),
    "wide rows": (Size(1, LITTLE.bytes + 1), COMPILED),
    "nobody knows": (None, COMPILED),
}


@pytest.fixture
def undecided(spark: SparkSession) -> Iterator[SparkSession]:
    if spark.conf.get(FACTORY_MODE, None) is not None:
        pytest.skip("this session says how its code is to be made")
    yield spark
    assert spark.conf.get(FACTORY_MODE, None) is None


def copied(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


@pytest.mark.parametrize(("size", "mode"), SIZES.values(), ids=SIZES)
def test_what_is_little_is_interpreted_and_afterwards_all_is_as_before(
    undecided: SparkSession, size: Size | None, mode: str
) -> None:
    def fails() -> None:
        with interpreting(undecided, size), handed_over(undecided.range(1), "a", 1, "m") as (own, _):
            assert undecided.conf.get(FACTORY_MODE) == own.conf.get(FACTORY_MODE) == mode
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()


def test_a_session_that_says_otherwise_keeps_its_word(undecided: SparkSession) -> None:
    undecided.conf.set(FACTORY_MODE, COMPILED)
    try:
        with interpreting(undecided, Size(1, 1)):
            assert undecided.conf.get(FACTORY_MODE) == COMPILED
        assert undecided.conf.get(FACTORY_MODE, None) == COMPILED
    finally:
        undecided.conf.unset(FACTORY_MODE)


@pytest.fixture
def modes(undecided: SparkSession) -> Generator[list[str | None]]:
    """The mode of code generation each time that a statement was planned."""
    seen: list[str | None] = []

    def listen(notice: Notice) -> None:
        if notice == PhaseBegan("plan"):
            seen.append(undecided.conf.get(FACTORY_MODE))

    with listening(listen):
        yield seen


@pytest.mark.parametrize(("collected", "mode"), [(True, INTERPRETED), (False, COMPILED)], ids=["counted", "uncounted"])
def test_a_step_counts_the_rows_of_its_tables_by_their_statistics(
    lake: Lake, modes: list[str | None], mode: str, *, collected: bool
) -> None:
    lake.spark.conf.set("spark.databricks.delta.stats.collect", str(collected).lower())
    try:
        writer = lake.values([(1, 10), (2, 20)], "id INT, v INT").write.format("delta")
        writer.option("delta.enableChangeDataFeed", "true").save(str(lake.root / "src"))
    finally:
        lake.spark.conf.unset("spark.databricks.delta.stats.collect")
    size = lake.ref("src").log(lambda: lake.spark).size()
    assert (size.rows if size is not None else None) == (2 if collected else None)
    lake.materialize(copied, Table(key="id"))
    assert modes == [mode]
    assert lake.rows("copied") == [(1, 10), (2, 20)]


def test_nobody_knows_what_an_asset_without_inputs_reads(lake: Lake, modes: list[str | None]) -> None:
    def made() -> Overwrite:
        return Overwrite(lake.values([(1, 10)], "id INT, v INT"))

    lake.materialize(made)
    assert modes == [COMPILED]


@pytest.mark.slow
def test_a_table_of_many_rows_is_not_little_because_its_source_is(lake: Lake, modes: list[str | None]) -> None:
    lake.create("src", [(1, 10)], "id INT, v INT")
    lake.materialize(copied, Table(key="id"))
    lake.spark.range(10, 11 + LITTLE.rows).selectExpr("CAST(id AS INT)", "0 AS v").write.format("delta").mode(
        "append"
    ).save(str(lake.root / "copied"))
    lake.sql("UPDATE {src} SET v = 11")
    lake.materialize(copied, Table(key="id"))
    assert modes == [INTERPRETED, COMPILED]


@pytest.mark.slow
def test_few_rows_with_a_long_history_of_changes_are_not_little(lake: Lake, modes: list[str | None]) -> None:
    """The policy is "incremental" because under `auto` the run would read the few rows instead."""
    table = Table(key="id", policy=Policy(refresh="incremental"))
    lake.create("src", [(1, 10)], "id INT, v INT")
    lake.materialize(copied, table)
    many = lake.spark.range(10, 11 + MEASURED.driver_rows).selectExpr("CAST(id AS INT)", "0 AS v")
    many.write.format("delta").mode("append").save(str(lake.root / "src"))
    lake.sql("DELETE FROM {src} WHERE id >= 10")
    lake.materialize(copied, table)
    assert modes == [INTERPRETED, COMPILED]
    assert lake.rows("copied") == [(1, 10)]


def test_the_changes_of_a_small_source_are_read_interpreted(lake: Lake, undecided: SparkSession) -> None:
    seen: list[str | None] = []

    def listen(notice: Notice) -> None:
        if notice == Doing("reading the changes of src"):
            seen.append(undecided.conf.get(FACTORY_MODE))

    lake.create("src", [(1, 10)], "id INT, v INT")
    lake.materialize(copied, Table(key="id"))
    lake.insert("src", [(2, 20)])
    with listening(listen):
        lake.materialize(copied, Table(key="id"))
    assert seen == [INTERPRETED]
    assert lake.rows("copied") == [(1, 10), (2, 20)]

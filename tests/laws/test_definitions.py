"""Whatever is edited between two runs, a table is what its current definition gives, or the run says why it is not.

Definitions are edited at random, as data is: key, config, code version, what an input leaves out, the windows and the
column of a partition, the mapping of the source's partitions. The oracle is plain Python over the source's rows. Only
public names and Dagster are used. `LAKEHOUSE_HISTORIES` sets how many histories there are of each family.
"""

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from random import Random
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import Append, Changes, DeltaIOManager, Merge, Overwrite, Read, Retry, Table

HISTORIES = int(os.environ.get("LAKEHOUSE_HISTORIES", "1"))
EDITS = 3
"""The seed with which a key, a limit, a start, a column and a mapping are edited, some while no data changes."""
STEPS = 4
FIRST, LATER = date(2024, 1, 1), date(2024, 1, 20)
SCHEMA: Any = pa.schema(
    [
        pa.field("id", pa.int32()),
        pa.field("g", pa.string()),
        pa.field("v", pa.int32()),
        pa.field("day", pa.date32()),
        pa.field("due", pa.date32()),
    ]
)
Row = tuple[int, str, int, date, date]
PLAIN = {"delta.enableDeletionVectors": "false"}
"""So that the table can be read without Spark."""


class Limit(dg.Config):
    """Rows below the limit are left out."""

    limit: int = 0


@dataclass(frozen=True)
class Definition:
    """What an asset's code, its run and its partitions define; each field is edited on its own."""

    key: tuple[str, ...] = ("id",)
    limit: int = 0
    code: str = "1"
    start: int | None = None
    monthly: bool = False
    column: str = "day"
    all_partitions: bool = False


@dataclass(frozen=True)
class Running:
    spark_session: SparkSession


@dataclass
class World:
    """A source, the asset that reads it, and the definition that the asset has now."""

    spark: SparkSession
    root: Path
    random: Random
    instance: dg.DagsterInstance
    partition_by: tuple[str, ...] = ()
    definition: Definition = field(default_factory=Definition)
    rows: dict[int, Row] = field(default_factory=dict[int, Row])
    was_partial: bool = False

    def __post_init__(self) -> None:
        self.insert(FIRST)
        self.insert(LATER)

    def insert(self, day: date | None = None) -> None:
        at, due = day or self.random.choice([FIRST, LATER]), self.random.choice([FIRST, LATER])
        row = (len(self.rows) + 1, self.random.choice("pq"), self.random.choice([1, 5, 9]), at, due)
        self.rows[row[0]] = row
        write_deltalake(
            str(self.root / "src"),
            pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True))], schema=SCHEMA),
            mode="append",
            partition_by=list(self.partition_by) or None,
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def delete(self) -> None:
        id_ = self.random.choice(list(self.rows))
        self.rows[id_] = (0, "", 0, FIRST, FIRST)  # its number is never used again
        DeltaTable(str(self.root / "src")).delete(f"id = {id_}")

    @property
    def there(self) -> list[Row]:
        return [row for row in self.rows.values() if row[0]]

    @property
    def version(self) -> int:
        return DeltaTable(str(self.root / "src")).version()

    def run(self, assets: list[Any], partition: str | None = None) -> str | None:
        """Why the run failed; None if it did not."""
        manager = DeltaIOManager(
            spark=Running(self.spark), root=str(self.root), conflicts=Retry(attempts=2, wait_initial=0, wait_max=0)
        )
        result = dg.materialize(
            assets,
            selection=["made"],
            resources={"io_manager": manager},
            instance=self.instance,
            partition_key=partition,
            raise_on_error=False,
            run_config={"ops": {"made": {"config": {"limit": self.definition.limit}}}},
        )
        if result.success:
            return None
        (event,) = [event for event in result.all_events if event.is_step_failure]
        described = event.step_failure_data.user_failure_data
        said = described.description if described else None
        assert said is not None and "Nothing was written" in said, event.step_failure_data.error
        return said

    def made(self, *columns: str) -> Counter[tuple[Any, ...]]:
        table = DeltaTable(str(self.root / "made")).to_pyarrow_table(columns=list(columns))
        return Counter(tuple(row[name] for name in columns) for row in table.to_pylist())


def merged(world: World) -> None:
    """A table by key: edits of its key, config, code version and start."""
    defined = world.definition

    @dg.asset(
        metadata=Table(key=defined.key, properties=PLAIN),
        code_version=defined.code,
        ins={"src": dg.AssetIn(metadata=Read() if defined.start is None else Read(start=defined.start))},
    )
    def made(config: Limit, src: Changes) -> Merge:
        touched = src.touched(*defined.key)
        rows = touched.rows.where(F.col("v") >= config.limit)
        return Merge(rows.withColumn("v", F.col("v") * int(defined.code)).select("id", "g", "v"), touched)

    refused = world.run([dg.AssetSpec("src"), made])
    if refused is not None:
        assert defined.start is not None, refused
        return
    if defined.start is None:
        due = Counter((i, g, v * int(defined.code)) for i, g, v, *_ in world.there if v >= defined.limit)
        assert world.made("id", "g", "v") == due, defined


def appended(world: World) -> None:
    """A table that only grows: under one config no row is in it twice, and no row is left out silently."""
    defined = world.definition

    @dg.asset(ins={"src": dg.AssetIn(metadata=Read() if defined.start is None else Read(start=defined.start))})
    def made(config: Limit, src: Changes) -> Append:
        return Append(src.appended().where(F.col("v") >= config.limit).select("id", "v"))

    if world.run([dg.AssetSpec("src"), made]) is None:
        world.was_partial = world.was_partial or defined.start is not None
        if not world.was_partial:
            assert world.made("id", "v") == Counter((i, v) for i, _, v, *_ in world.there if v >= defined.limit), (
                defined
            )
        elif defined.start is None:
            raise AssertionError("what its start had left out is missing, and nobody was told")
    assert not (world.root / "made").exists() or max(world.made("id").values(), default=1) == 1


def windowed(world: World) -> None:
    """One partition, "2024-01-01": edits of its window and of its column."""
    defined = world.definition
    partitions: dg.PartitionsDefinition[str] = (
        dg.MonthlyPartitionsDefinition("2024-01-01")
        if defined.monthly
        else dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")
    )

    @dg.asset(partitions_def=partitions, metadata=Table(key="id", partition_by=defined.column, properties=PLAIN))
    def made(config: Limit, src: Changes) -> Merge:
        touched = src.touched("id")
        return Merge(touched.rows.where(F.col("v") >= config.limit), touched)

    refused = world.run([dg.AssetSpec("src"), made], "2024-01-01")
    assert refused is None, refused
    at = 3 if defined.column == "day" else 4
    inside = [row for row in world.there if row[at] == FIRST or defined.monthly]
    kept = {key for key in world.made("id", "day", "due") if key[at - 2] == FIRST or defined.monthly}
    assert kept == {(row[0], row[3], row[4]) for row in inside if row[2] >= defined.limit}, defined


def counted(world: World) -> None:
    """The partitions of the source that a run reads: its own, or all of them."""
    defined = world.definition
    regions = dg.StaticPartitionsDefinition(["p", "q"])
    mapping = dg.AllPartitionMapping() if defined.all_partitions else dg.IdentityPartitionMapping()

    @dg.asset(
        partitions_def=regions,
        metadata=Table(key="g", partition_by="g", properties=PLAIN),
        ins={"src": dg.AssetIn(partition_mapping=mapping)},
    )
    def made(context: dg.AssetExecutionContext, config: Limit, src: Changes) -> Overwrite:
        rows: DataFrame = src.source.where(F.col("v") >= config.limit)
        return Overwrite(rows.agg(F.count("*").alias("n")).select(F.lit(context.partition_key).alias("g"), "n"))

    partition = world.random.choice("pq")
    source = dg.AssetSpec("src", partitions_def=regions, metadata=Table(partition_by="g"))
    refused = world.run([source, made], partition)
    assert refused is None, refused
    read = [row for row in world.there if defined.all_partitions or row[1] == partition]
    due = len([row for row in read if row[2] >= defined.limit])
    assert [n for g, n in world.made("g", "n") if g == partition] == [due], (partition, defined)


FAMILIES = {
    merged: ("key", "limit", "code", "start"),
    appended: ("limit", "start"),
    windowed: ("limit", "monthly", "column"),
    counted: ("limit", "all_partitions"),
}


def edited(world: World, name: str) -> Definition:
    now = world.definition
    match name:
        case "key":
            return replace(now, key=("id", "g") if now.key == ("id",) else ("id",))
        case "limit":
            return replace(now, limit=world.random.choice([0, 2, 6]))
        case "code":
            return replace(now, code="2" if now.code == "1" else "1")
        case "start":
            return replace(now, start=world.version if now.start is None else None)
        case "monthly":
            return replace(now, monthly=not now.monthly)
        case "column":
            return replace(now, column="due" if now.column == "day" else "day")
        case _:
            return replace(now, all_partitions=not now.all_partitions)


@pytest.fixture
def instances() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@pytest.mark.parametrize("seed", range(EDITS, EDITS + HISTORIES))
def test_a_table_is_what_its_current_definition_gives(
    spark: SparkSession, tmp_path: Path, instances: dg.DagsterInstance, family: Any, seed: int
) -> None:
    partition_by = ("g",) if family is counted else ()
    world = World(spark, tmp_path / "lake", Random(f"{family.__name__} {seed}"), instances, partition_by)
    family(world)
    for _ in range(STEPS):
        if world.random.random() < 0.3:
            world.insert()
        elif world.random.random() < 0.2 and family is not appended and len(world.there) > 1:
            world.delete()
        if world.random.random() < 0.7:
            world.definition = edited(world, world.random.choice(FAMILIES[family]))
        family(world)

"""Edits of a definition that test_definitions does not make: the table is what the definition gives now.

Only public names and Dagster are used, and the rows are compared with plain Python. No data changes between the two
runs, so nothing but the edited part tells the second run that there is work to do.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse import Changes, DeltaIOManager, Merge, Policy, Retry, Table
from tests.support.slow import slow

PLAIN = {"delta.enableDeletionVectors": "false"}
"""So that the table can be read without Spark."""
SCHEMA: Any = pa.schema([("id", pa.int32()), ("g", pa.string()), ("v", pa.int32()), ("at", pa.timestamp("us", "UTC"))])
NEW_YEAR = datetime(2024, 1, 1, tzinfo=UTC)
HOURS = (2, 12, 26, 240)
"""The times of the rows, in hours after the new year: the small hours, noon, the next day and the second week."""
ROWS = [(1, "p", 1, HOURS[0]), (1, "q", 2, HOURS[1]), (2, "p", 3, HOURS[2]), (3, "q", 4, HOURS[3])]


class Limit(dg.Config):
    """Rows below the limit are left out."""

    limit: int = 0


class Rules(dg.ConfigurableResource):  # pyright: ignore[reportMissingTypeArgument]
    """The limit as a resource, which assets share; neither the team nor the token decides a row."""

    limit: int = 0
    team: str = ""
    token: str = ""


@dataclass(frozen=True)
class Running:
    spark_session: SparkSession


@dataclass(frozen=True)
class Lake:
    """The table `src`, and the runs of the asset `made` that reads it."""

    spark: SparkSession
    root: Path
    instance: dg.DagsterInstance

    def write(self, *rows: tuple[int, str, int, int], partition_by: str | None = None, table: str = "src") -> None:
        named = [{"id": i, "g": g, "v": v, "at": NEW_YEAR + timedelta(hours=hours)} for i, g, v, hours in rows]
        write_deltalake(
            str(self.root / table),
            pa.Table.from_pylist(named, schema=SCHEMA),
            mode="append",
            partition_by=partition_by,
            configuration={"delta.enableChangeDataFeed": "true"},
        )

    def run(self, *assets: Any, partition: str | None = None, limit: int | None = None, **resources: Any) -> str:
        """The run's warnings, or why it failed; a failed run has written nothing."""
        manager = DeltaIOManager(
            spark=Running(self.spark), root=str(self.root), conflicts=Retry(attempts=1, wait_initial=0, wait_max=0)
        )
        result = dg.materialize(
            [*assets],
            selection=["made"],
            resources={"io_manager": manager, **resources},
            instance=self.instance,
            partition_key=partition,
            raise_on_error=False,
            run_config={} if limit is None else {"ops": {"made": {"config": {"limit": limit}}}},
        )
        failed = [event.step_failure_data for event in result.all_events if event.is_step_failure]
        if failed:
            described = failed[0].user_failure_data
            why = described.description if described else None
            assert why is not None and "Nothing was written" in why, failed[0].error
            return why
        return "\n".join(entry.user_message for entry in self.instance.all_logs(result.run_id) if entry.level == 30)

    def made(self, *columns: str) -> list[tuple[Any, ...]]:
        table = DeltaTable(str(self.root / "made")).to_pyarrow_table(columns=list(columns))
        return sorted(tuple(row[name] for name in columns) for row in table.to_pylist())


@pytest.fixture
def redefined(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    with dg.DagsterInstance.ephemeral() as instance:
        yield Lake(spark, tmp_path / "lake", instance)


SRC = dg.AssetSpec("src")
DAY = dg.DailyPartitionsDefinition("2024-01-01")


def windowed(partitions_def: dg.PartitionsDefinition[str]) -> dg.AssetsDefinition:
    @dg.asset(partitions_def=partitions_def, metadata=Table(key=("id", "g"), partition_by="at", properties=PLAIN))
    def made(src: Changes) -> Merge:
        touched = src.touched("id", "g")
        return Merge(touched.rows.select("id", "g", "at"), touched)

    return made


@pytest.mark.slow
@pytest.mark.parametrize(
    "now",
    [
        dg.DailyPartitionsDefinition("2024-01-01", timezone="America/New_York"),
        slow(dg.DailyPartitionsDefinition("2024-01-01", hour_offset=6)),
    ],
    ids=["time zone", "hour offset"],
)
def test_a_partition_of_another_window_holds_the_rows_of_that_window(
    redefined: Lake, now: dg.TimeWindowPartitionsDefinition
) -> None:
    redefined.write(*ROWS)
    redefined.run(SRC, windowed(DAY), partition="2024-01-01")
    redefined.run(SRC, windowed(now), partition="2024-01-01")
    within = now.time_window_for_partition_key("2024-01-01")
    inside = [(i, g) for i, g, at in redefined.made("id", "g", "at") if within.start <= at < within.end]
    assert inside == [(i, g) for i, g, _, hour in ROWS if hour in (12, 26)]


@pytest.mark.slow
def test_rows_under_another_value_of_a_resource_are_those_of_that_value(redefined: Lake) -> None:
    policy = Policy(ignore_config="rules.team")

    @dg.asset(metadata=Table(key=("id", "g"), properties=PLAIN, policy=policy))
    def made(src: Changes, rules: Rules) -> Merge:
        touched = src.touched("id", "g")
        return Merge(touched.rows.where(F.col("v") >= rules.limit), touched)

    redefined.write(*ROWS)
    for limit in (4, 2, 3):
        redefined.run(SRC, made, rules=Rules(limit=limit))
        assert redefined.made("v") == [(v,) for _, _, v, _ in ROWS if v >= limit]
    version = DeltaTable(str(redefined.root / "made")).version()
    redefined.run(SRC, made, rules=Rules(limit=3, team="another", token="another"))
    assert DeltaTable(str(redefined.root / "made")).version() == version


def difference_of(old: str, new: str) -> dg.AssetsDefinition:
    @dg.asset(ins={"old": dg.AssetIn(old), "new": dg.AssetIn(new)}, metadata=Table(key="id", properties=PLAIN))
    def made(old: Changes, new: Changes) -> Merge:
        touched = old.touched("id") | new.touched("id")
        was, now = old.source.selectExpr("id", "v AS was"), new.source.selectExpr("id", "v AS now")
        return Merge(touched.of(was.join(now, "id").selectExpr("id", "now - was AS v")), touched)

    return made


@pytest.mark.slow
def test_inputs_whose_sources_were_exchanged_are_noticed(redefined: Lake) -> None:
    for table, factor in (("src", 1), ("later", 10)):
        redefined.write(*((i, "p", i * factor, 0) for i in (1, 2)), table=table)
    sources = SRC, dg.AssetSpec("later")
    redefined.run(*sources, difference_of("later", "src"))
    assert redefined.made("v") == [(-18,), (-9,)]
    redefined.run(*sources, difference_of("src", "later"))
    assert redefined.made("v") == [(9,), (18,)]


def largest_by(*key: str, partition_by: str | None = None) -> dg.AssetsDefinition:
    @dg.asset(metadata=Table(key=key, partition_by=partition_by, properties=PLAIN))
    def made(src: Changes) -> Merge:
        touched = src.touched(*key)
        largest = F.max(F.struct("v", "id", "g")).alias("largest")
        return Merge(
            touched.rows.groupBy(*(F.col(name).alias(f"of_{name}") for name in key)).agg(largest).select("largest.*"),
            touched,
        )

    return made


@pytest.mark.slow
def test_other_partition_columns_of_a_table_are_never_taken_for_the_former_ones_in_silence(redefined: Lake) -> None:
    """They decide no row of an asset without partitions. The files keep their layout, and the run reports that."""
    redefined.write(*ROWS)
    redefined.run(SRC, largest_by("id", "g", partition_by="g"))
    assert "its partition columns changed from g to v" in redefined.run(SRC, largest_by("id", "g", partition_by="v"))
    assert redefined.made("v") == [(v,) for _, _, v, _ in ROWS]

"""Fifteen views of a shop in three layers, as SQL files, and the same queries computed anew each time."""

import re
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from pyspark.sql import SparkSession

from benchmarks.harness import data
from lakehouse import DeltaIOManager, Policy, Table, views_from

FOLDER = Path(__file__).parent
LAYERS = ("silver", "gold", "reports")
BRONZE = ("clicks", "orders", "items", "customers", "products")
_NAME = re.compile(rf"\b(bronze|{'|'.join(LAYERS)})\.(\w+)")


@dataclass(frozen=True)
class Running:
    """Any object with a `spark_session` serves as the IO manager's `spark`."""

    spark_session: SparkSession


@dataclass
class Views:
    """The views, materialized by Dagster in one run of all of them."""

    spark: SparkSession
    instance: dg.DagsterInstance
    name: str = "views"
    policy: Policy = Policy()

    def step(self, root: Path) -> None:
        sources = [dg.AssetSpec(["bronze", name], metadata=Table(key="id", trust_key=True)) for name in BRONZE]
        views = views_from(FOLDER, specs=sources)
        manager = DeltaIOManager(spark=Running(self.spark), root=str(root), policy=self.policy)
        quietly = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
        dg.materialize(
            [*sources, *views],
            instance=self.instance,
            resources={"io_manager": manager},
            selection=[key for view in views for key in view.keys],
            run_config=quietly,
        )


@dataclass
class Recomputed:
    """Each table computed anew and overwritten, layer by layer."""

    spark: SparkSession
    name: str = "R3 recompute"

    def step(self, root: Path) -> None:
        for table, query in queries().items():
            rows = self.spark.sql(over(query, root))
            rows.write.format("delta").options(**data.PROPERTIES).mode("overwrite").save(str(root / table))


def queries() -> dict[str, str]:
    """The query of each table, by its path below the root, in the order of the layers."""
    files = (file for layer in LAYERS for file in sorted((FOLDER / layer).glob("*.sql")))
    return {f"{file.parent.name}/{file.stem}": file.read_text().split("\nAS ", 1)[1] for file in files}


def over(query: str, root: Path) -> str:
    """A query over the tables below a root."""
    return _NAME.sub(lambda name: data.name(root / name[1] / name[2]), query)

"""A code location for runs that Dagster starts: two tables follow one source, and a third one reads both."""

import os
from typing import Any

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository
from pyspark.sql import SparkSession

from lakehouse import Changes, DeltaIOManager, Merge, Policy, Table, View
from tests.support.dagster_house import Running

ROOT, INPUTS = "LAKEHOUSE_TEST_AGREEING_ROOT", "LAKEHOUSE_TEST_AGREEING_INPUTS"

src = dg.AssetSpec("src", metadata=Table(key="id"))


@dg.asset(metadata=Table(key="id"))
def a(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


@dg.asset(metadata=Table(key="id"))
def b(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.where("v > 0"), touched)


@dg.asset(metadata=Table(key="id"))
def m(a: Changes, b: Changes) -> View:
    return View("SELECT a.id AS id, a.v + coalesce(b.v, 0) AS v FROM a LEFT JOIN b ON a.id = b.id")


FORK = [src, a, b, m]


def policy() -> Policy:
    return Policy(inputs=os.environ.get(INPUTS, "agree"))


def definitions() -> dg.Definitions:
    manager = DeltaIOManager(spark=Running(SparkSession.getActiveSession()), root=os.environ[ROOT], policy=policy())  # pyright: ignore[reportArgumentType]
    return dg.Definitions(assets=FORK, resources={"io_manager": manager}, executor=dg.in_process_executor)


def repository() -> dg.RepositoryDefinition:
    return definitions().get_repository_def()


def run_of(name: str, instance: dg.DagsterInstance) -> dict[str, Any]:
    """Runs one table from the code location; the metadata of its materialization, as plain values."""
    job = ReconstructableRepository.for_module("tests.support.agreeing_project", "repository").get_reconstructable_job(
        "__ASSET_JOB"
    )
    key = dg.AssetKey(name)
    with dg.execute_job(job, instance, asset_selection=[key], raise_on_error=True):
        event = instance.get_latest_materialization_event(key)
    assert event is not None and event.asset_materialization is not None
    return {label: value.value for label, value in event.asset_materialization.metadata.items()}

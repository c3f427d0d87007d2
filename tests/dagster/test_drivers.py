"""Two Spark drivers on one table of S3: the second is refused while the first is writing, and only then."""

import dagster as dg
import pytest

from lakehouse.dagster.one_driver import refuse_second_driver
from lakehouse.dagster.run_tags import DRIVER
from lakehouse.spark.table_version import TableRef
from tests.support.raises import raises_code

S3 = TableRef.at_path("written", "s3a://lake/written")


def run_during_another(
    instance: dg.DagsterInstance, first: str | None, second: str | None, ref: TableRef = S3, step: str = "written"
) -> None:
    """A run of an asset, on a driver of its own, in the middle of a step of a run on the first driver."""

    @dg.asset(name=step)
    def outer(context: dg.AssetExecutionContext) -> None:
        refuse_second_driver(context, ref, lambda: first)

        @dg.asset(name="written")
        def inner(context: dg.AssetExecutionContext) -> None:
            refuse_second_driver(context, ref, lambda: second)

        dg.materialize([inner], instance=instance)

    dg.materialize([outer], instance=instance)


def test_a_second_driver_of_a_table_on_s3_is_refused_while_the_first_writes(instance: dg.DagsterInstance) -> None:
    with raises_code("SECOND_DRIVER") as raised:
        run_during_another(instance, "app-1", "app-2")
    first = max(instance.get_runs(), key=lambda run: run.tags[DRIVER] == "app-1")
    assert raised.value.run == first.run_id


@pytest.mark.parametrize(
    ("first", "second", "ref", "step"),
    [
        ("app-1", "app-1", S3, "written"),  # the same server, or the same process
        ("app-1", "app-2", TableRef.at_path("written", "/lake/written"), "written"),
        ("app-1", "app-2", TableRef.at_path("written", "abfss://c@a/written"), "written"),
        ("app-1", "app-2", TableRef.in_catalog("written", "shop.written"), "written"),
        ("app-1", "app-2", S3, "another"),
        ("app-1", None, S3, "written"),
    ],
)
def test_nothing_else_is_refused(
    instance: dg.DagsterInstance, first: str, second: str | None, ref: TableRef, step: str
) -> None:
    run_during_another(instance, first, second, ref, step)


def test_a_run_that_has_ended_refuses_nothing(instance: dg.DagsterInstance) -> None:
    drivers = iter(["app-1", "app-2"])

    @dg.asset
    def written(context: dg.AssetExecutionContext) -> None:
        refuse_second_driver(context, S3, lambda: next(drivers))

    dg.materialize([written], instance=instance)
    dg.materialize([written], instance=instance)

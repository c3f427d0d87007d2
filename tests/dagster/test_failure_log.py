"""What the log of a failed step contains: the sentence of our error once, and where it was raised once."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse import Changes, DeltaIOManager, Merge, Overwrite, Table, incremental
from lakehouse.delta.log import VersionRange
from lakehouse.read.content import Nothing, SourceRead
from lakehouse.spark.table_version import TableRef, TableVersion


@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge: ...


def test_the_sentence_is_there_once_and_so_is_the_stack(tmp_path: Path) -> None:
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=str(tmp_path))
    given = dg.Definitions([dg.AssetSpec("orders"), copies], resources={"io_manager": manager})
    job = given.resolve_implicit_global_asset_job_def()
    result = job.execute_in_process(asset_selection=[copies.key], raise_on_error=False)
    (event,) = [event for event in result.all_events if event.is_step_failure]
    error = event.step_failure_data.error
    assert error is not None
    text = error.to_string()
    assert text.count("'copies' reads 'orders', but there is no Delta table at") == 1
    assert text.count("[lakehouse.SOURCE_MISSING]") == 1 and error.cause is None
    assert text.count("raise ReadError.source_missing") == 1, "where it was raised"


def test_our_error_in_the_function_of_an_asset_has_its_code_and_another_stays_what_it_is() -> None:
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root="/nowhere")
    source = TableVersion(lambda: pytest.fail("Spark"), TableRef.at_path("orders", "/nowhere/orders"), "id", 1)
    changes = Changes(SourceRead(source, VersionRange(0, 1), Nothing()))

    def ours() -> Any:
        return changes.touched()

    def theirs() -> Any:
        raise ZeroDivisionError

    for misused, said in ((ours, "[lakehouse."), (theirs, "ZeroDivisionError")):

        @dg.asset(name="table")
        def table(misused: dg.ResourceParam[Any]) -> Overwrite:
            return Overwrite(misused())

        defs = incremental(dg.Definitions([table], resources={"io_manager": manager, "misused": misused}))
        result = defs.resolve_implicit_global_asset_job_def().execute_in_process(raise_on_error=False)
        (event,) = [event for event in result.all_events if event.is_step_failure]
        error = event.step_failure_data.error
        assert error is not None
        assert said in error.to_string()
        assert (error.cls_name == "Failure") == (misused is ours)

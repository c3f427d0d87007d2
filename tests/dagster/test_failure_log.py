"""What the log of a failed step says: the sentence of our error once, and where it was raised once."""

from pathlib import Path

import dagster as dg

from lakehouse import Changes, DeltaIOManager, Merge, Table


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

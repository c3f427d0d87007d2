"""A process that materializes one asset through Dagster and ends: `python -m benchmarks.contestants.cold_ours ROOT`."""

import sys
from pathlib import Path

import dagster as dg

from benchmarks.harness.data import KEY
from lakehouse import Changes, DeltaIOManager, Merge, Table
from lakehouse.dagster.resources import LocalSpark
from lakehouse.server.settings import local_settings


@dg.asset(metadata=Table(key=KEY))
def target(source: Changes) -> Merge:
    touched = source.touched(KEY)
    return Merge(touched.rows, touched)


def main() -> None:
    root = Path(sys.argv[1])
    spark = LocalSpark(spark_config=local_settings(root), root=str(root))
    history = root / "_dagster"
    history.mkdir(exist_ok=True)
    with dg.DagsterInstance.local_temp(str(history)) as instance:
        source = dg.AssetSpec("source", metadata=Table(key=KEY))
        resources = {"io_manager": DeltaIOManager(spark=spark, root=str(root)), "spark": spark}
        quietly = {"loggers": {"console": {"config": {"log_level": "ERROR"}}}}
        dg.materialize([source, target], instance=instance, resources=resources, selection=[target], run_config=quietly)


if __name__ == "__main__":
    main()

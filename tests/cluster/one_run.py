"""One run of Dagster in a process of its own, like a pod of Kubernetes: its Spark is the server at SPARK_REMOTE.

It follows `orders` into the table that the command line names, by an aggregate, which shows whether a change is applied
twice. With a third argument it waits within the asset's function until the file `go` exists.
"""

import os
import sys
import time
from pathlib import Path

import dagster as dg

from lakehouse import Aggregate, Changes, ClusterSpark, DeltaIOManager, Table

DIRECTORY, NAME, WAITS = Path(sys.argv[1]), sys.argv[2], len(sys.argv) > 3
orders = dg.AssetSpec("orders", metadata=Table(key="id"))


@dg.asset(name=NAME, metadata=Table(key="v"))
def totals(orders: Changes) -> Aggregate:
    (DIRECTORY / f"reached-{os.getpid()}").touch()
    while WAITS and not (DIRECTORY / "go").exists():
        time.sleep(0.1)
    return Aggregate(orders, by="v", count="orders", sums={"ids": "id"})


manager = DeltaIOManager(spark=ClusterSpark(), root="viewfs://lake/data")
with dg.DagsterInstance.get() as instance:
    result = dg.materialize(
        [orders, totals], resources={"io_manager": manager}, instance=instance, raise_on_error=False
    )
    failures = [event.step_failure_data for event in result.all_events if event.is_step_failure]
    for of in failures:
        sys.stdout.write(str(of.user_failure_data.description if of.user_failure_data else of.error))
sys.stdout.flush()
os._exit(0)  # at exit PySpark would wait ten minutes for a server that is gone

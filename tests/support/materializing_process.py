"""A process that materializes one table and prints the result: `python -m tests.support.materializing_process ROOT`."""

import sys

import dagster as dg

from lakehouse import Changes, DeltaIOManager, LocalSpark, Merge, Table, incremental
from resources.environments import declare_api

orders = dg.AssetSpec("orders", metadata=Table(key="id"))


@dg.asset(metadata=Table(key="id"))
def copies(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows, touched)


def main(root: str) -> None:
    declare_api()
    manager = DeltaIOManager(spark=LocalSpark(root=root, idle=60), root=root)
    definitions = incremental(dg.Definitions(assets=[orders, copies], resources={"io_manager": manager}))
    job = definitions.resolve_implicit_global_asset_job_def()
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, asset_selection=[copies.key])
    (event,) = result.get_asset_materialization_events()
    sys.stdout.write(str(event.materialization.metadata["write"].value))


if __name__ == "__main__":
    main(*sys.argv[1:])

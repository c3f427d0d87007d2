"""A process that makes step after step on a root's server: `python -m benchmarks.contestants.served_steps ROOT STEPS`.

It prints, as JSON, the wall time, CPU time and bytes of each step, both its own and those of the server's JVM.
"""

import json
import os
import sys
import time
from pathlib import Path

from benchmarks.contestants.ours import Ours
from benchmarks.harness.data import Pair, change, neighbours
from benchmarks.harness.meter import cpu_seconds, transferred
from lakehouse.dagster.resources import LocalSpark
from lakehouse.server.lifecycle import stop
from lakehouse.server.rendezvous import Rendezvous
from lakehouse.server.settings import local_settings


def spent(process: int) -> tuple[float, int, int]:
    """The CPU seconds of a process, and the bytes that it has read and written by system calls."""
    return cpu_seconds(process), *transferred(process)


def main() -> None:
    root, steps = Path(sys.argv[1]), int(sys.argv[2])
    spark = LocalSpark(spark_config=local_settings(root), root=str(root))
    try:
        ours, pair = Ours(spark.spark_session), Pair(root)
        state = Rendezvous(root).state()
        assert state is not None
        processes = (os.getpid(), state.jvm)

        def measured() -> list[float]:
            before, began = [spent(process) for process in processes], time.monotonic()
            ours.step(pair)
            wall, after = time.monotonic() - began, [spent(process) for process in processes]
            return [wall, *(sum(a[i] - b[i] for a, b in zip(after, before, strict=True)) for i in range(3))]

        ours.prepare(pair)
        found: dict[str, list[list[float]]] = {"one changed row": [], "no change": []}
        for turn in range(steps):
            change(ours.spark, pair.source, neighbours(3_000_000 + 1_000 * turn))
            found["one changed row"].append(measured())
        found["no change"] = [measured() for _ in range(10)]
        print(json.dumps(found))
    finally:
        stop(root, now=True)


if __name__ == "__main__":
    main()

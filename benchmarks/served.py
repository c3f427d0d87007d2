"""The small step where users make it: through the server that the processes of a lakehouse share."""

import json
import subprocess
import sys
from statistics import median

from benchmarks.data import Pair
from benchmarks.lab import Lab
from benchmarks.race import WARM
from benchmarks.report import PROJECT, Result, at_most

ROWS = 10_000_000


def run(lab: Lab) -> Result:
    with lab.room() as room:
        pair = Pair.of(lab.table(ROWS, 6), room / "pair")
        command = [sys.executable, "-m", "benchmarks.served_steps", str(pair.root), str(WARM + lab.rounds)]
        done = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    found: dict[str, list[list[float]]] = json.loads(done.stdout.splitlines()[-1])
    figures = {
        what: [median(each) for each in zip(*laps[WARM if what != "no change" else 1 :], strict=True)]
        for what, laps in found.items()
    }
    return Result(
        "served",
        "The small step through the server",
        "One changed row of ten million, and no change, as above, but in a process that uses the server of the root. "
        "CPU and bytes are those of both processes; of jobs and tasks the server tells its clients nothing.",
        ("", "wall s", "CPU s", "MB read", "MB written"),
        [
            (what, f"{wall:.2f}", f"{cpu:.2f}", f"{read / 1e6:.1f}", f"{written / 1e6:.2f}")
            for what, (wall, cpu, read, written) in figures.items()
        ],
        [
            at_most("wall, one changed row: at most 1.5 s", figures["one changed row"][0], 1.5),
            at_most("wall, no change: at most 0.1 s", figures["no change"][0], 0.1),
        ],
    )

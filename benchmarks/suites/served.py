"""The small step as users run it: through the server that the processes of a lakehouse share."""

import json
import subprocess
import sys
from statistics import median

from benchmarks.harness.data import Pair
from benchmarks.harness.lab import Lab
from benchmarks.harness.race import WARM
from benchmarks.harness.report import PROJECT, Result, at_most

ROWS, STEPS = 10_000_000, 40
YOUNG, OLD = "one changed row, steps 4 to 8 of a server", f"one changed row, steps {STEPS - 4} to {STEPS}"


def run(lab: Lab) -> Result:
    with lab.room() as room:
        pair = Pair.of(lab.table(ROWS, 6), room / "pair")
        command = [sys.executable, "-m", "benchmarks.contestants.served_steps", str(pair.root), str(STEPS)]
        done = subprocess.run(command, cwd=PROJECT, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603
    found: dict[str, list[list[float]]] = json.loads(done.stdout.splitlines()[-1])
    steps = found["one changed row"]
    laps = {YOUNG: steps[WARM : WARM + 5], OLD: steps[-5:], "no change": found["no change"][1:]}
    figures = {what: [median(each) for each in zip(*those, strict=True)] for what, those in laps.items()}
    return Result(
        "served",
        "The small step through the server",
        "One changed row of ten million, and no change, as above, but in a process that uses the server of the root. "
        "What a server has compiled serves its later steps, so it becomes faster with age. "
        "CPU and bytes are those of both processes; of jobs and tasks the server tells its clients nothing.",
        ("", "wall s", "CPU s", "MB read", "MB written"),
        [
            (what, f"{wall:.2f}", f"{cpu:.2f}", f"{read / 1e6:.1f}", f"{written / 1e6:.2f}")
            for what, (wall, cpu, read, written) in figures.items()
        ],
        [
            at_most(f"wall, {OLD}: at most 1.5 s", figures[OLD][0], 1.5),
            at_most("wall, no change: at most 0.1 s", figures["no change"][0], 0.1),
        ],
    )

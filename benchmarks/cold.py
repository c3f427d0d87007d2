"""A new process for every run: from its start to its end, with this project's server and with a JVM for each run."""

import os
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path
from statistics import median

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.data import FEED, KEY
from benchmarks.lab import Lab
from benchmarks.report import PROJECT, Result, at_most
from resources.lifecycle import stop

ROWS = 100_000
LINES = {
    "first": "first materialization",
    "next": "next materialization",
}


def run(lab: Lab) -> Result:
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for turn in range(lab.rounds):
        for who in ("ours", "ours, JVM in the process", "pip quick start, R2"):
            with lab.room() as root:
                lay_out(root)
                try:
                    seconds[who, "first"].append(timed(who, root, "first"))
                    update(root, turn)
                    seconds[who, "next"].append(timed(who, root, "next"))
                finally:
                    if who == "ours":
                        stop(root, now=True)
    found = {key: median(values) for key, values in seconds.items()}
    rival = "pip quick start, R2"
    return Result(
        "cold",
        "A process for every run",
        f"{ROWS:,} rows of two columns; the first run writes the target, the next one carries one changed row. Seconds "
        "from the start of the process to its end, Dagster and its history included in ours. The quick start resolves "
        "its jars from a warm local cache. The next materialization of ours finds the server that the first started.",
        ("", "wall s", "fastest", "slowest"),
        [
            (
                f"{LINES[what]}: {who}",
                f"{value:.1f}",
                f"{min(seconds[who, what]):.1f}",
                f"{max(seconds[who, what]):.1f}",
            )
            for (who, what), value in found.items()
        ],
        [
            at_most(
                "wall, cold to first: at most 0.5x of the quick start",
                found["ours", "first"] / found[rival, "first"],
                0.5,
            ),
            at_most("wall, next: at most 0.25x of a JVM per run", found["ours", "next"] / found[rival, "next"], 0.25),
        ],
    )


def lay_out(root: Path) -> None:
    rows = pa.table({KEY: pa.array(range(ROWS), pa.int64()), "value": pa.array([0] * ROWS, pa.int64())})
    write_deltalake(str(root / "source"), rows, configuration={FEED: "true"})


def update(root: Path, turn: int) -> None:
    """One row changes, without a JVM."""
    DeltaTable(str(root / "source")).update(predicate=f"{KEY} = {turn}", updates={"value": "value + 1"})


def timed(who: str, root: Path, what: str) -> float:
    match who:
        case "ours":
            command = ["benchmarks.cold_ours", str(root), "server"]
        case "ours, JVM in the process":
            command = ["benchmarks.cold_ours", str(root), "process"]
        case _:
            command = ["benchmarks.cold_rival", str(root), what]
    began = time.monotonic()
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", *command], cwd=PROJECT, env=os.environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{who}: {(done.stdout + done.stderr)[-3000:]}")
    return time.monotonic() - began

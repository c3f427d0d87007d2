"""A new process for every run, from its start to its end, with this project's server and with a JVM for each run.

Run it after `make warm`, for the contestant that uses the archive of shared classes.
"""

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from statistics import median

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from benchmarks.harness.data import FEED, KEY
from benchmarks.harness.lab import Lab
from benchmarks.harness.report import PROJECT, Result, at_most
from lakehouse.server.jvm import class_archive, java
from lakehouse.server.lifecycle import stop

ROWS = 100_000
OURS, ARCHIVED, RIVAL = "ours", "ours, after make warm", "pip quick start, R2"
LINES = {
    "loading": "loading the code location of this project",
    "first": "first materialization",
    "next": "next materialization",
}


def run(lab: Lab) -> Result:
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for turn in range(lab.rounds):
        seconds["", "loading"].append(loaded())
        for who in (OURS, ARCHIVED, RIVAL):
            with lab.room() as root, nullcontext() if who == ARCHIVED else without_archive():
                lay_out(root)
                try:
                    seconds[who, "first"].append(timed(who, root, "first"))
                    update(root, turn)
                    seconds[who, "next"].append(timed(who, root, "next"))
                finally:
                    stop(root, now=True)
    found = {key: median(values) for key, values in seconds.items()}
    return Result(
        "cold",
        "A process for every run",
        f"{ROWS:,} rows of two columns; the first run writes the target, the next one carries one changed row. Seconds "
        "from the start of the process to its end, Dagster and its history included in ours. The quick start resolves "
        "its jars from a warm local cache. The next materialization of ours finds the server that the first started.",
        ("", "wall s", "fastest", "slowest"),
        [
            (
                f"{LINES[what]}{who and ': '}{who}",
                f"{value:.1f}",
                f"{min(seconds[who, what]):.1f}",
                f"{max(seconds[who, what]):.1f}",
            )
            for (who, what), value in found.items()
        ],
        [
            at_most("wall, loading the code location: at most 3 s", found["", "loading"], 3),
            *(
                at_most(f"wall, {title}: at most {goal}x", found[who, what] / found[RIVAL, what], goal)
                for who in (OURS, ARCHIVED)
                for what, title, goal in (
                    ("first", f"cold to first, {who}, against the quick start", 0.5),
                    ("next", f"next, {who}, against a JVM per run", 0.25),
                )
            ),
        ],
    )


@contextmanager
def without_archive() -> Generator[None]:
    """Moves the archive of classes away, as on a machine on which `make warm` was never run."""
    archive = class_archive(java() or "")
    away = archive.with_suffix(".away")
    archive.rename(away)
    try:
        yield
    finally:
        away.rename(archive)


def loaded() -> float:
    """The seconds in which a process loads this project's code location."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import assets.definitions"], cwd=PROJECT, check=True)
    return time.monotonic() - began


def lay_out(root: Path) -> None:
    rows = pa.table({KEY: pa.array(range(ROWS), pa.int64()), "value": pa.array([0] * ROWS, pa.int64())})
    write_deltalake(str(root / "source"), rows, configuration={FEED: "true"})


def update(root: Path, turn: int) -> None:
    """Changes one row, without a JVM."""
    DeltaTable(str(root / "source")).update(predicate=f"{KEY} = {turn}", updates={"value": "value + 1"})


def timed(who: str, root: Path, what: str) -> float:
    command = (
        ["benchmarks.contestants.cold_rival", str(root), what]
        if who == RIVAL
        else ["benchmarks.contestants.cold_ours", str(root)]
    )
    began = time.monotonic()
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-m", *command], cwd=PROJECT, env=os.environ, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{who}: {(done.stdout + done.stderr)[-3000:]}")
    return time.monotonic() - began

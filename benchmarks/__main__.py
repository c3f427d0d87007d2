"""`python -m benchmarks [name ...]`: each suite prints its table, and writes docs/benchmarks.md and its file beside."""

import argparse
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from benchmarks.harness import data, pages, report
from benchmarks.harness.lab import Lab
from benchmarks.harness.report import Result

SUITE = ("small_step", "quiet", "backlog", "orchestration")
MORE = (
    "served",
    "many_steps",
    "upkeep",
    "growth",
    "scattered",
    "matrix",
    "layout",
    "graph",
    "scd",
    "history",
    "extracts",
    "archive",
    "cliffs",
    "key_types",
    "expectations",
    "hourly",
    "views",
    "medallion",
    "agree",
    "frozen",
    "branch",
)
LARGE = ("growth", "matrix", "graph", "scd", "history", "extracts", "frozen", "branch")
APART = ("contention", "cold", "live", "stores", "scale")
"""Suites that have a target of their own in the Makefile."""


def suite(name: str) -> Callable[[Lab], Result]:
    """The function that measures: `run` in the file with this name in benchmarks/suites."""
    return import_module(f"benchmarks.suites.{name}").run


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    options.add_argument("names", nargs="*", help=f"of {', '.join((*SUITE, *MORE, *APART))}")
    options.add_argument("--large", action="store_true", help="the sizes of make bench-large")
    options.add_argument("--rounds", type=int, default=5)
    options.add_argument("--scale", type=float, default=1, help="a fraction of the rows, to try a benchmark out")
    options.add_argument("--quick", action="store_true", help="a JVM that compiles less, to try a benchmark out")
    given = options.parse_args()
    names = given.names or (LARGE if given.large else SUITE)
    with tempfile.TemporaryDirectory(dir=data.cache(), ignore_cleanup_errors=True) as scratch:
        lab = Lab(Path(scratch), given.rounds, given.large, given.scale, given.quick)
        for name in names:
            began, load = time.monotonic(), report.load()
            result = suite(name)(lab)
            seconds = f"{time.monotonic() - began:.0f} s"
            about = report.machine() | {
                "rounds": str(given.rounds),
                "load before and after": f"{load}, {report.load()}",
                "took": seconds,
            }
            result = replace(result, machine=about)
            print(f"\n{result.to_text()}\n", flush=True)
            if given.scale == 1 and not given.quick:
                report.keep(result)
                pages.write_pages()


if __name__ == "__main__":
    main()

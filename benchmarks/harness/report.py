"""Results: printed, and kept as data."""

import json
import os
import platform
import subprocess
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path

from benchmarks.harness.meter import Cost
from benchmarks.harness.race import Tally

PROJECT = Path(__file__).parents[2]
RESULTS = PROJECT / "benchmarks" / "results"
MEASURED = ("lakehouse", "resources", "benchmarks", ":!benchmarks/results", "requirements.lock")
"""The paths on which figures depend; a result that was measured with uncommitted changes there says so."""
COLUMNS = ("", "wall s", "CPU s", "jobs", "tasks", "rows read", "MB read", "MB written", "MB shuffled", "files + / -")


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal, and how it came out.

    Args:
        what: The goal.
        measured: What was measured, in words.
        reached: Whether the goal is reached; None if the figure is only reported.
    """

    what: str
    measured: str
    reached: bool | None


def at_most(what: str, ratio: float, limit: float) -> Goal:
    return Goal(what, f"{ratio:.3g}", ratio <= limit)


@dataclass(frozen=True)
class Result:
    """One benchmark's outcome.

    Args:
        name: The name of its file below benchmarks/.
        title: Its heading.
        note: What was run, in a few sentences.
        columns, rows: Its table.
        goals: Its goals.
        machine: The machine and the versions; filled in by the runner.
    """

    name: str
    title: str
    note: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    goals: Sequence[Goal] = ()
    machine: dict[str, str] = field(default_factory=dict)

    def to_text(self) -> str:
        """The whole result as text, for a terminal and for the file of its suite."""
        parts = [f"{self.title}\n{'=' * len(self.title)}\n\n{self.note}\n\n{table(self.columns, self.rows)}"]
        if self.goals:
            parts.append(goals(self))
        told = "; ".join(f"{key} {value}" for key, value in self.machine.items())
        name, large = self.name.removesuffix("_large"), " --large" * self.name.endswith("_large")
        parts.append(f"python -m benchmarks {name}{large}: {told}.")
        return "\n\n".join(parts) + "\n"


def goals(result: Result) -> str:
    return table(("goal", "measured", "reached"), [(g.what, g.measured, said(g)) for g in result.goals])


def said(goal: Goal) -> str:
    return {True: "yes", False: "no", None: "reported"}[goal.reached]


def row(name: str, tally: Tally) -> tuple[str, ...]:
    files = tally.added
    return (name, *figures(tally.cost), f"{files.added} / {files.removed}")


def figures(cost: Cost) -> tuple[str, ...]:
    mb = 1e6
    return (
        f"{cost.wall:.2f}",
        f"{cost.cpu:.2f}",
        f"{cost.jobs:.0f}",
        f"{cost.tasks:.0f}",
        f"{cost.input_rows:,.0f}",
        f"{cost.read / mb:.1f}",
        f"{cost.written / mb:.2f}",
        f"{cost.shuffled / mb:.2f}",
    )


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table that also reads well on a terminal."""
    widths = [max(len(str(line[index])) for line in (columns, *rows)) for index in range(len(columns))]

    def line(cells: Sequence[str]) -> str:
        first, *rest = zip(cells, widths, strict=True)
        return "| " + " | ".join([first[0].ljust(first[1]), *(c.rjust(w) for c, w in rest)]) + " |"

    rule = "|" + "|".join("-" * (w + 2) if i == 0 else "-" * (w + 1) + ":" for i, w in enumerate(widths)) + "|"
    return "\n".join([line(columns), rule, *map(line, rows)])


def load() -> str:
    return " ".join(Path("/proc/loadavg").read_text().split()[:1])


def machine() -> dict[str, str]:
    """Where the figures were measured; without a date, so that the same figures give the same file."""
    cpu = next(
        (x.split(":")[1].strip() for x in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in x), ""
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    commit, changed = _git("describe", "--always"), _git("status", "--porcelain", "-uno", "--", *MEASURED)
    return {
        "machine": f"{os.cpu_count()} x {cpu}, {memory:.0f} GiB, Python {platform.python_version()}",
        "versions": f"pyspark {version('pyspark')}, delta-spark {version('delta-spark')}, "
        f"deltalake {version('deltalake')}, dagster {version('dagster')}, commit {commit}{changed and ' with changes'}",
    }


def _git(*arguments: str) -> str:
    command = ["git", *arguments]
    return subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603


def keep(result: Result) -> None:
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{result.name}.json").write_text(json.dumps(asdict(result), indent=1) + "\n")


def kept() -> list[Result]:
    found = []
    for path in sorted(RESULTS.glob("*.json")):
        read = json.loads(path.read_text())
        found.append(Result(**read | {"goals": [Goal(**goal) for goal in read["goals"]]}))
    return found

"""The pictures of a soak: what grew, and how late the last table was; `make soak-pictures` puts them into docs/."""

import json
from collections.abc import Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.harness.chart import Line, lines
from resources.environments import PROJECT

RESULT = PROJECT / "build" / "soak" / "soak.json"
IMAGES = PROJECT / "docs" / "images" / "soak"
MB = 1e6


def draw(result: Mapping[str, Any], directory: Path) -> None:
    """Writes the pictures as SVG."""
    samples, sizes = result["samples"], result["sizes"]
    hits = [(act["at"] - result["began"]) / 60 for act in result["disturbances"]]
    roles = ("Spark server", "code server", "daemon", "source", "run")
    memory = [
        Line(role, [(each["at"] / 60, each["memory"][role] / MB) for each in samples if role in each["memory"]])
        for role in roles
    ]
    (directory / "soak_memory.svg").write_text(lines("Memory of each kind of process", "MB", "minutes", memory, hits))
    shares = ("tables", "logs", "Spark's own files", "Dagster's history")
    disk = [Line(share, [(each["at"] / 60, each[share] / MB) for each in sizes]) for share in shares]
    (directory / "soak_disk.svg").write_text(lines("Bytes on disk", "MB", "minutes", disk, hits))
    late = [Line("from a source's commit to the last table", _by_minute(result))]
    (directory / "soak_lateness.svg").write_text(lines("How late the last table was", "s", "minutes", late, hits))


def _by_minute(result: Mapping[str, Any]) -> list[tuple[float, float]]:
    minutes: dict[int, list[float]] = {}
    for each in result["late"]:
        minutes.setdefault(int((each["at"] - result["began"]) // 60), []).append(each["seconds"])
    return [(minute + 0.5, median(seconds)) for minute, seconds in sorted(minutes.items()) if minute >= 0]


if __name__ == "__main__":
    IMAGES.mkdir(exist_ok=True)
    draw(json.loads(RESULT.read_text()), IMAGES)

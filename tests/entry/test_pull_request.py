"""The page's recipe for a pull request: its own commands show what a changed query of the demo does to production."""

import datetime as dt
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from lakehouse.server.lifecycle import stop
from lakehouse.server.settings import local_settings
from resources.environments import PROJECT
from resources.nycflights import events_of
from tests.support.branched import untouched

DAY = dt.date(2013, 1, 1)
RECIPE = re.compile(r"```yaml\n(name: compare\n.*?)```", re.DOTALL)
GITHUB = {"event.number": "12", "token": "of a test"}
JAVA = "spark.driver.extraJavaOptions"
QUICK = json.dumps({JAVA: f"{local_settings(PROJECT)[JAVA]} -XX:+UseSerialGC -XX:TieredStopAtLevel=1"})
"""A JVM that compiles less, because each server works for half a minute."""
POSTS_A_COMMENT = "#!/bin/sh\n" + 'test "$1 $2 $3 $4" = "pr comment 12 --body-file" && cp "$5" posted.txt\n'


def checkout(folder: Path) -> Path:
    """The demo, as a pull request changes it: a flight is late if it departs half an hour late."""
    for name in ("assets", "resources"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(PROJECT / "pyproject.toml", folder)
    shutil.copy(PROJECT / ".dagster" / "dagster.yaml", folder)
    gold = folder / "assets" / "gold.py"
    before, line, after = gold.read_text().partition("count_if(dep_delay >= 15) AS late,\n")
    gold.write_text(before + line.replace("15", "30") + after)
    (program := folder / "bin" / "gh").parent.mkdir()
    program.write_text(POSTS_A_COMMENT)
    program.chmod(0o755)
    return folder


class Runner:
    """A machine that has production's root; each command is a process in the shell that a runner starts."""

    def __init__(self, root: Path, folder: Path, text: str) -> None:
        for name, value in (GITHUB | {"workspace": str(folder)}).items():
            text = text.replace(f"${{{{ github.{name} }}}}", value)
        job = yaml.safe_load(text)["jobs"]["compare"]
        self.install, *self.commands = [step["run"] for step in job["steps"] if "run" in step]
        hidden = ("LAKEHOUSE", "SPARK", "DAGSTER")
        kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
        path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), kept["PATH"]])
        given = {
            "PATH": path,
            "LAKEHOUSE_ROOT": str(root),
            "LAKEHOUSE_SPARK_IDLE": "60",
            "LAKEHOUSE_SPARK_SETTINGS": QUICK,
        }
        self.environment: dict[str, str] = kept | job["env"] | given

    def run(self, command: str, place: Path) -> str:
        """The output of a command."""
        shell = ["bash", "-e", "-c", command]
        ran = subprocess.run(shell, cwd=place, env=self.environment, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, f"{command}\n{ran.stdout[-3000:]}{ran.stderr[-3000:]}"
        return ran.stdout


@pytest.mark.slow
@pytest.mark.timeout(1800)  # two servers and six processes
def test_a_pull_request_is_told_which_rows_of_production_its_query_changes(tmp_path: Path) -> None:
    (text,) = RECIPE.findall((PROJECT / "docs/how-to/branch.md").read_text())
    root, folder = tmp_path / "lake", checkout(tmp_path / "checkout")
    runner = Runner(root, folder, text)
    assert runner.install.startswith("pip install")
    try:
        runner.run(f"lakehouse run bronze/flight_events --partition {DAY}", PROJECT)
        runner.run("lakehouse run --all", PROJECT)
        with untouched(root):
            _, ran, *_ = [runner.run(command, folder) for command in runner.commands]
    finally:
        stop(root, now=True)
    departed = [event for event in events_of([DAY]) if event["event"] == "departed"]
    early, late = (Counter(each["carrier"] for each in departed if each["dep_delay"] >= least) for least in (15, 30))
    carriers = sorted(carrier for carrier in early if early[carrier] != late[carrier])
    comment = (folder / "posted.txt").read_text()
    assert comment.startswith("~~~\n") and comment.endswith("differ from where pr-12 began.\n~~~\n")
    assert f"gold/carrier_delays: {len(carriers)} different\n  differ in late ({len(carriers)})\n" in comment
    assert [carrier for carrier in carriers if f"  ~ carrier={carrier}, day={DAY}\n" not in comment] == []
    assert "gold/route_punctuality: the same rows\n" in comment
    assert "14 assets (2 written, 12 unchanged)" in ran
    assert not (tmp_path / "lake_branches" / "pr-12").exists()

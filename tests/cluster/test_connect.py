"""A user's own Spark Connect server: restarted between two runs of a process, and killed during a run."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resources.environments import PROJECT
from tests.cluster.processes import free_port

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1500)]


def test_a_process_lives_through_the_restarts_of_its_server(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.cluster.connect_client", str(tmp_path)]
    # Set before PySpark is imported, as in the environment of a cluster's processes.
    remote = {"SPARK_REMOTE": f"sc://127.0.0.1:{free_port()}", "SPARK_CONNECT_MODE_ENABLED": "1"}
    answer = subprocess.run(
        command, cwd=PROJECT, env=os.environ | remote, capture_output=True, text=True, timeout=1200, check=False
    )
    assert answer.returncode == 0, answer.stderr[-4000:]
    said = json.loads(answer.stdout.splitlines()[-1])
    killed = said.pop("killed under a run")
    assert said == {
        "on a port of its own": "",
        "after a restart": "",
        "equal after a restart": True,
        "run again": "",
        "equal in the end": True,
        "one commit": 1,
    }
    assert "The Spark session in which the inputs of 'copies' were read has ended" in killed
    assert "Nothing was written. Run it again" in killed

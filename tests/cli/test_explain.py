"""`lakehouse explain` on the demo's definitions, in a process of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from resources.environments import PROJECT


def explained(root: Path, *words: str) -> tuple[int, str, str]:
    answer = subprocess.run(
        [sys.executable, "-m", "lakehouse", "explain", *words, "-m", "assets.definitions"],
        cwd=PROJECT,
        env=os.environ | {"LAKEHOUSE_ROOT": str(root)},
        capture_output=True,
        text=True,
        check=False,
    )
    return answer.returncode, answer.stdout, answer.stderr


def test_a_run_that_would_be_refused_ends_with_one_and_one_document(tmp_path: Path) -> None:
    code, out, _ = explained(tmp_path, "silver/flights", "--json")
    document = json.loads(out)
    assert (code, document["verdict"], document["version"]) == (1, "refused", None)
    assert "there is no Delta table at" in document["why"]


@pytest.mark.slow
def test_an_asset_that_is_not_there_is_named_beside_those_that_are(tmp_path: Path) -> None:
    code, out, err = explained(tmp_path, "silver/zzzzzz")
    assert (code, out) == (2, "")
    assert "There is no asset silver/zzzzzz. There are: " in err and "silver/flights" in err
    code, out, err = explained(tmp_path, "flights", "--json")
    message = "There is no asset flights. Did you mean silver/flights?"
    assert code == 2 and json.loads(out) == {"error": "UsageError", "code": "USAGE", "message": message}

"""`lakehouse new`: what it writes loads, and files that were there before are not touched."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from lakehouse import __version__
from lakehouse.cli.main import main
from resources.environments import PROJECT

LOAD = """
import json
from shop.definitions import defs
complete = defs()
complete.get_repository_def()
print(json.dumps({
    "assets": sorted(spec.key.to_user_string() for spec in complete.resolve_all_asset_specs()),
    "sensors": [sensor.name for sensor in complete.sensors],
    "schedules": [schedule.name for schedule in complete.schedules],
    "root": complete.resources["io_manager"].root,
}))
"""


@pytest.fixture
def shop(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Path:
    assert main(["new", str(tmp_path / "shop"), "--json"]) == 0
    capsys.readouterr()
    return tmp_path / "shop"


def test_the_project_loads_as_it_was_written(shop: Path):
    path = os.pathsep.join([str(shop / "src"), str(PROJECT)])
    environment = os.environ | {"PYTHONPATH": path}
    command = [sys.executable, "-c", LOAD]
    ran = subprocess.run(command, check=False, cwd=shop, env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr[-3000:]
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "assets": ["gold/orders_by_customer_id", "orders"],
        "sensors": ["carry_changes"],
        "schedules": ["nightly_checks"],
        "root": str(shop / "lake"),
    }


@pytest.mark.parametrize(
    ("given", "answer", "policy"),
    [
        ("off", "", {"inputs": "agree", "deletion_vectors": False}),
        ("on", "", {"inputs": "agree"}),
        (None, "y", {"inputs": "agree", "deletion_vectors": False}),
        (None, "", {"inputs": "agree"}),
    ],
)
def test_tables_keep_deletion_vectors_unless_somebody_says_that_others_read_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, given: str | None, answer: str, policy: dict[str, object]
):
    """At a terminal the user is asked; elsewhere the default is used."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal(answer + "\n"))
    monkeypatch.setattr(sys, "stdout", Terminal())
    options = [] if given is None else ["--deletion-vectors", given]
    assert main(["new", str(tmp_path / "shop"), *options]) == 0
    written = yaml.safe_load((tmp_path / "shop/src/shop/defs/lakehouse/defs.yaml").read_text())
    assert written["attributes"]["policy"] == policy


def test_the_project_has_the_files_that_the_answer_names_and_no_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (tmp_path / "my-shop" / ".git").mkdir(parents=True)
    assert main(["new", str(tmp_path / "my-shop"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    files = {
        path.relative_to(tmp_path / "my-shop").as_posix()
        for path in (tmp_path / "my-shop").rglob("*")
        if path.is_file()
    }
    assert answer["package"] == "my_shop"
    assert set(answer["files"]) == files
    assert {
        ".env",
        ".gitignore",
        ".dagster/dagster.yaml",
        "src/my_shop/defs/orders.py",
        "tests/test_tables.py",
    } <= files
    assert answer["next"][1:] == ['dg launch --assets "*"', "dg dev"]
    texts = [(tmp_path / "my-shop" / file).read_text() for file in files]
    assert not any("project_name" in text or "library_version" in text for text in texts)
    assert f"~={__version__}" in (tmp_path / "my-shop" / "pyproject.toml").read_text()
    instance = yaml.safe_load((tmp_path / "my-shop" / ".dagster/dagster.yaml").read_text())
    assert instance["concurrency"]["pools"] == {"default_limit": 1, "granularity": "run"}
    assert instance["run_monitoring"] == {"enabled": True, "max_runtime_seconds": 86400}, "or a dead run keeps its pool"


def test_the_answer_lists_the_files_and_the_next_commands(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.chdir(tmp_path)
    assert main(["new", "shop"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "shop/"
    assert any(line.startswith("  src/shop/definitions.py") for line in lines)
    assert lines[-4:-3] == ["Next:"]
    assert lines[-3].startswith('  cd shop && pip install -e ".[dev]"  ')
    assert main(["new", str(tmp_path / "our new" / "shop")]) == 0
    assert f"cd '{tmp_path}/our new/shop' && pip install" in capsys.readouterr().out
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    assert main(["new", "."]) == 0
    assert '  pip install -e ".[dev]"  ' in capsys.readouterr().out
    assert (tmp_path / "empty" / "src" / "empty" / "definitions.py").is_file()


def test_a_folder_that_cannot_become_a_project_is_refused_and_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    for number, (name, files, problem) in enumerate(
        (
            ("shop", ["notes.txt", ".env"], "shop is not empty: it holds .env and 1 more"),
            ("shop", [".git", ".venv", "notes.txt"], "shop is not empty: it holds notes.txt. Name a folder"),
            ("1st", [], "would be called '1st'. Name the folder as Python names modules"),
            ("class", [], "would be called 'class'"),
            ("dagster", [], "would be called 'dagster', as that of "),
            ("file", None, "file is a file. Name a folder"),
        )
    ):
        (folder := tmp_path / str(number) / name).parent.mkdir()
        if files is None:
            folder.write_text("mine")
        for file in files or ():
            folder.mkdir(exist_ok=True)
            (folder / file).write_text("mine")
        with pytest.raises(SystemExit) as ended:
            main(["new", str(folder)])
        assert ended.value.code == 2
        assert problem in capsys.readouterr().err
        assert sorted(path.name for path in folder.rglob("*")) == sorted(files or ())

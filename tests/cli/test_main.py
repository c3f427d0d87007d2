"""The command: what it finds, what it prints, how it ends; in a process of its own where that is what is tested."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name

import pytest

from lakehouse.cli.command import Answer, Command
from lakehouse.cli.main import COMMANDS, main
from lakehouse.server.rendezvous import Rendezvous
from resources.environments import PROJECT
from tests.support.for_each import for_each

OF_THE_MACHINE = [
    ["--help"],
    ["run", "--help"],
    ["diff", "--help"],
    ["status", "--help"],
    ["doctor", "--help"],
    ["explain", "--help"],
    ["changes", "--help"],
    ["spark", "--help"],
    ["spark", "status", "--root", "/nowhere"],
    ["spark", "install"],
]


def loaded_by(code: str) -> set[str]:
    """The modules that a new Python process has loaded by its end, whatever its exit code."""
    text = f"import sys\ntry:\n    {code}\nexcept SystemExit:\n    pass\nprint(); print(*sys.modules)"
    answer = subprocess.run([sys.executable, "-c", text], cwd=PROJECT, capture_output=True, text=True, check=True)
    return set(answer.stdout.splitlines()[-1].split())


def test_a_command_about_the_machine_loads_neither_dagster_nor_spark():
    forbidden = {"dagster", "pyspark", "grpc", "pyarrow", "deltalake"}
    calls = f"""from lakehouse.cli.main import main
    for words in {OF_THE_MACHINE!r}:
        try: main(words)
        except SystemExit: pass
        assert not {forbidden!r} & {{*sys.modules}}, words"""
    assert "lakehouse.cli.main" in loaded_by(calls)


def test_each_command_is_where_the_list_says(capsys: pytest.CaptureFixture[str]):
    for name, (text, place) in COMMANDS.items():
        assert isinstance(resolve_name(place), Command)
        with pytest.raises(SystemExit) as ended:
            main([name, "--help"])
        assert ended.value.code == 0
        assert text.split()[0] in capsys.readouterr().out, name


def test_the_server_s_supervisor_loads_nothing_but_its_own():
    ours = {name for name in loaded_by("import lakehouse.server.supervisor") if name.startswith("lakehouse")}
    assert ours == {"lakehouse", "lakehouse.server", "lakehouse.server.rendezvous", "lakehouse.server.supervisor"}


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    """A root whose lock a process holds."""
    lock = Rendezvous(tmp_path).jvm()
    assert lock.take()
    lock.sign("process 4711")
    yield tmp_path
    lock.let_go()


def test_json_is_one_document_and_the_exit_code_says_what_it_says(held: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["spark", "status", "--json", "--root", str(held)]) == 1
    assert json.loads(capsys.readouterr().out) == {"root": str(held), "state": "one process", "running": False}
    assert main(["spark", "stop", "--json", "--root", str(held / "other")]) == 0
    assert json.loads(capsys.readouterr().out) == {"root": f"{held}/other", "stopped": False}


def test_an_error_of_the_library_is_a_sentence_and_one_document(capsys: pytest.CaptureFixture[str], held: Path):
    assert main(["spark", "start", "--root", str(held)]) == 1
    answer = capsys.readouterr()
    assert answer.out == ""
    assert "process 4711 has the root to itself" in answer.err
    assert main(["spark", "start", "--json", "--root", str(held)]) == 1
    document = json.loads(capsys.readouterr().out)
    assert (document["error"], document["code"]) == ("SetupError", "SERVER")
    assert "process 4711 has the root to itself" in document["message"]


def usage(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    return capsys.readouterr().err


@for_each(
    "words, said",
    [
        (
            [],
            "say which command: adopt, branch, changes, check, compare, conflicts, cut, diff, doctor, explain, new, readers, run, shell, show, spark, status",
        ),
        (["spark"], "required: ACTION"),
        (["statsu"], "There is no command statsu. Did you mean status?"),
        (["spark", "stop", "-m", "assets.definitions", "--root", "lake"], "not allowed with"),
        (["spark", "status", "-m", "nowhere.at_all"], "There is no module nowhere.at_all here"),
        (["spark", "status", "-m", "resources.environments"], "holds 0 dg.Definitions; say which one"),
        (["spark", "status", "-m", "resources.environments:defs"], "resources.environments:defs is not there"),
        (["branch", "a b"], "'a b' is no name for a branch: a name has letters, digits, _ and -"),
    ],
)
def test_a_command_line_that_says_too_little_ends_with_two(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
):
    assert said in usage(words, capsys)


def test_without_a_project_the_sentence_names_both_ways(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    text = usage(["spark", "status"], capsys)
    assert "-m MODULE" in text
    assert "--root DIR" in text


SHOP = (
    "import os\nimport dagster as dg\nfrom lakehouse import LocalSpark\n"
    "defs = dg.Definitions(resources={'spark': LocalSpark(root=os.environ['SHOP'])})"
)


def test_a_file_is_loaded_and_definitions_py_where_nothing_is_configured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    files = {"definitions.py": [], "shop_of_a_file.py": ["-f", "shop_of_a_file.py"]}
    for name, words in (files | {"folder/definitions.py": ["-f", "folder/definitions.py"]}).items():
        (tmp_path / name).write_text(SHOP.replace("os.environ['SHOP']", f"'lake of {name}'"))
        main(["spark", "status", "--json", *words])
        assert json.loads(capsys.readouterr().out)["root"] == f"{tmp_path}/lake of {name}"


def test_a_file_that_is_not_there_is_a_wrong_command_line(capsys: pytest.CaptureFixture[str]):
    assert "There is no Python file nowhere.py here" in usage(["status", "-f", "nowhere.py"], capsys)


def test_the_code_location_of_the_current_directory_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    for name, file, text in (
        ("a", "pyproject.toml", '[tool.dg.project]\nroot_module = "a"\ncode_location_target_module = "a.defs"'),
        ("b", "pyproject.toml", '[tool.dagster]\nmodule_name = "b.defs"'),
        ("c", "dg.toml", '[project]\nroot_module = "x"\ncode_location_target_module = "c.defs"'),
    ):
        (place := tmp_path / f"project_{name}").mkdir()
        package, variable = f"shop_of_{name}", f"SHOP_OF_{name.upper()}"
        (place / file).write_text(text.replace(f"{name}.defs", f"{package}.defs").replace(f'"{name}"', f'"{package}"'))
        (place / package).mkdir()
        (place / package / "defs.py").write_text(SHOP.replace("SHOP", variable))
        (place / ".env").write_text(f"{variable}=${{PWD}}/lake")
        monkeypatch.chdir(place)
        monkeypatch.syspath_prepend(str(place))  # as `python -m lakehouse` does
        monkeypatch.setenv("PWD", str(place))
        assert main(["spark", "status", "--json"]) == 1
        assert json.loads(capsys.readouterr().out) == {"root": f"{place}/lake", "state": "no server", "running": False}
        assert os.environ.pop(variable) == f"{place}/lake"


MADE_BY_A_FUNCTION = """
import dagster as dg
from lakehouse import LocalSpark

other = dg.Definitions(resources={"spark": LocalSpark(root="other")})

@dg.definitions
def defs():
    return dg.Definitions(resources={"spark": LocalSpark(root="made")})
"""


def test_definitions_that_a_function_makes_are_loaded_as_dagster_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "made_by_a_function.py").write_text(MADE_BY_A_FUNCTION)
    for name in ("made_by_a_function", "made_by_a_function:defs"):
        main(["spark", "status", "--json", "-m", name])
        assert json.loads(capsys.readouterr().out)["root"].endswith("made")


def test_this_project_s_own_root_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.chdir(PROJECT)
    main(["spark", "status", "--json"])
    assert json.loads(capsys.readouterr().out)["root"].endswith("lake")


def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str]):
    import lakehouse

    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"{lakehouse.__version__}\n"


def _stopped(_: Namespace) -> Answer:
    raise KeyboardInterrupt


STOPPED = Command(lambda _: None, _stopped)


def test_ctrl_c_ends_a_command_without_a_stack(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(COMMANDS, "status", ("as a user stops it", f"{__name__}:STOPPED"))
    assert main(["status"]) == 130
    assert capsys.readouterr().err == "\n"

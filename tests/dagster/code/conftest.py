"""The project whose code the tests of this folder edit."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.dagster.code.project import Project, projects


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Project]:
    yield from projects(tmp_path)

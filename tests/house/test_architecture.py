"""The reader's paths of docs/architecture.md stay as short as the page says."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PATHS = [
    [
        (file, int(lines))
        for file, lines in re.findall(r"^\| \d \| `(lakehouse/\S+)` \|.*\| (\d+) \|$", table, re.MULTILINE)
    ]
    for table in re.findall(r"^\| Step \| File .*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
]


@pytest.mark.parametrize("path", PATHS, ids=["read", "commit"])
def test_a_path_is_six_files_each_about_as_long_as_the_page_says(path: list[tuple[str, int]]) -> None:
    assert len(path) == 6
    real = {file: len((ROOT / file).read_text().splitlines()) for file, _ in path}
    assert {file: lines for file, lines in path if abs(lines - real[file]) > 0.15 * lines} == {}


PACKAGES = [path.parent for path in (ROOT / "lakehouse").glob("*/__init__.py") if path.parent.name != "errors"]


@pytest.mark.parametrize("package", PACKAGES, ids=lambda package: package.name)
def test_a_package_says_in_which_order_its_files_are_read(package: Path) -> None:
    reading = re.search(r"^Read: (.*?)\"\"\"", (package / "__init__.py").read_text(), re.MULTILINE | re.DOTALL)
    assert reading is not None
    files = {path.stem for path in package.glob("*.py")} - {"__init__"}
    listed = set(re.findall(r"\w+", reading[1]))
    assert files - listed == set()

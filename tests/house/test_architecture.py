"""The reader's paths of docs/architecture.md stay as short as the page says."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text()
PATHS = [
    re.findall(r"^\| \d \| `(lakehouse/\S+)` \|", table, re.MULTILINE)
    for table in re.findall(r"^\| Step \| File .*?\n\n", PAGE, re.MULTILINE | re.DOTALL)
]


def test_each_path_is_six_files_that_are_there() -> None:
    assert [len(path) for path in PATHS] == [6, 6]
    assert [file for path in PATHS for file in path if not (ROOT / file).is_file()] == []


PACKAGES = [path.parent for path in (ROOT / "lakehouse").glob("*/__init__.py") if path.parent.name != "errors"]


def test_a_package_says_in_which_order_its_files_are_read() -> None:
    for package in PACKAGES:
        reading = re.search(r"^Read: (.*?)\"\"\"", (package / "__init__.py").read_text(), re.MULTILINE | re.DOTALL)
        assert reading is not None, package.name
        files = {path.stem for path in package.glob("*.py")} - {"__init__"}
        assert files - set(re.findall(r"\w+", reading[1])) == set(), package.name


ROWS = [
    line
    for line in PAGE.partition("## Where to find what")[2].partition("\n## ")[0].splitlines()
    if "`lakehouse/" in line
]
KNOWN = {"deltalake", "explain", "lakehouse", "lakehouse run", "lakehouse status", "dg scaffold defs", "defs.yaml"}
"""The names that the first column of a row may contain: commands, and files of users."""


def test_a_row_of_the_table_names_files_that_exist_and_names_that_are_in_them() -> None:
    wrong = list[tuple[str, str]]()
    for row in ROWS:
        named = re.findall(r"`([^`]+)`", row.split(" | ", 1)[1])
        files = [ROOT / name for name in named if "/" in name]
        wrong += [(row[2:50], str(file)) for file in files if not file.exists()]
        inside = [each for file in files for each in ([file] if file.is_file() else sorted(file.rglob("*.py")))]
        text = "\n".join(file.read_text() for file in inside if file.exists())
        names = [part for name in named if "/" not in name and name not in KNOWN for part in name.split(".")]
        wrong += [(row[2:50], name) for name in names if name.isidentifier() and not re.search(rf"\b{name}\b", text)]
    assert wrong == []

"""The page on views has each code with which a text can be refused, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_on_views_has_each_code():
    source = "".join(path.read_text() for path in (ROOT / "lakehouse").rglob("*.py"))
    codes = set(re.findall(r'"(VIEW_[A-Z_]+)"', source))
    page = (ROOT / "docs/reference/queries.md").read_text()
    assert set(re.findall(r"^\| `(VIEW_[A-Z_]+)` \|", page, re.MULTILINE)) == codes

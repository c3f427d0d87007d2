"""A full name in a docstring of lakehouse exists: a move that leaves an old name behind makes this test fail."""

import re
from pathlib import Path
from pkgutil import resolve_name

from tests.support.for_each import for_each

ROOT = Path(__file__).parents[2]
NAMED = sorted(
    {
        (str(file.relative_to(ROOT)), name)
        for file in (ROOT / "lakehouse").rglob("*.py")
        for name in re.findall(r"`(lakehouse(?:\.[a-z_]\w*)+)`", file.read_text())
    }
)


@for_each("file, name", NAMED)
def test_a_name_in_a_docstring_is_there(file: str, name: str):
    assert resolve_name(name) is not None, f"{file} names {name}"

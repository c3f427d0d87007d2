"""The pages of the site are those of the repository: each is in the navigation, and each link leads to a page."""

import os
import re
from pathlib import Path, PurePosixPath

import pytest

import lakehouse
from website.__main__ import pages_that_load
from website.api import page_of_names
from website.links import LINK, relink
from website.navigation import navigation
from website.pages import OF_THE_ROOT, ROOT, homes, public_names

HOMES = homes()
PAGES = [path for path in HOMES if path.suffix == ".md"]


def test_each_link_of_a_page_leads_to_a_page_or_a_file_of_the_site():
    broken = {
        (page.name, target)
        for page in PAGES
        for _, _, target, _ in LINK.findall(relink(page.read_text(), page, ROOT, HOMES))
        if target and PurePosixPath(os.path.normpath(HOMES[page].parent / target)) not in HOMES.values()
    }
    assert broken == set()


def test_code_is_at_most_88_columns_wide_so_that_a_page_of_the_site_shows_it_whole():
    wide = [
        (page.name, line)
        for page in PAGES
        for language, block in re.findall(r"^```(\w*)\n(.*?)^```", page.read_text(), re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
        if language != "mermaid" and len(line) > 88
    ]
    assert wide == []


def test_the_navigation_has_each_page_once():
    index, decisions = (
        relink(path.read_text(), path, ROOT, HOMES)
        for path in (ROOT / "docs" / name for name in ("README.md", "adr/README.md"))
    )
    named = re.findall(r'= "([^"]+)"', navigation(index, decisions))
    assert sorted(named) == sorted([*(HOMES[page].as_posix() for page in PAGES), "reference/api.md"])


def test_the_page_of_public_names_has_each_of_them():
    assert public_names() == lakehouse.__all__
    shown = re.findall(r"^::: lakehouse\.(\w+)", page_of_names(lakehouse.__all__), re.MULTILINE)
    assert {*shown} == {*lakehouse.__all__}
    with pytest.raises(ValueError, match="Another"):
        page_of_names([*lakehouse.__all__, "Another"])


def relinked(text: str) -> str:
    return relink(text, ROOT / "docs/how-to/write-a-view.md", ROOT, HOMES)


def test_a_link_to_a_file_that_is_no_page_is_its_text_alone():
    assert relinked("see [the tests](../../tests/entry/test_site.py).") == "see the tests."
    assert relinked("see [words](../../CONTEXT.md#tables).") == f"see [words](../{OF_THE_ROOT['CONTEXT.md']}#tables)."


def test_a_link_within_code_stays_as_it_is():
    assert relinked("```python\nrows[0](key)\n```") == "```python\nrows[0](key)\n```"


def test_a_link_to_a_file_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match=r"docs/how-to/write-a-view.md links nothing.md"):
        relinked("[nothing](nothing.md)")


def test_a_page_that_loads_something_from_another_server_is_found(tmp_path: Path):
    (tmp_path / "own.html").write_text('<script src="assets/own.js"></script><a href="https://delta.io">Delta</a>')
    (tmp_path / "other.html").write_text('<script async src="https://cdn.example/mermaid.js"></script>')
    assert pages_that_load(tmp_path) == ["other.html"]

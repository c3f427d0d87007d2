"""Every suite that a target of the Makefile names can be started, and what is written by hand stays when one ends."""

import inspect
from pathlib import Path

import pytest

from benchmarks.__main__ import APART, LARGE, MORE, SUITE, suite
from benchmarks.harness import pages

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted({*SUITE, *MORE, *LARGE, *APART}))
def test_each_suite_that_make_bench_names_is_a_file_that_takes_a_lab(name: str):
    assert [*inspect.signature(suite(name)).parameters] == ["lab"]


def test_the_pages_of_the_suites_are_what_their_results_give(tmp_path: Path):
    """An edit of a page alone would be lost with the next measurement."""
    pages.write_pages(tmp_path)
    written = {path.relative_to(tmp_path).as_posix(): path.read_text() for path in tmp_path.rglob("*.md")}
    docs = PROJECT / "docs"
    kept = {path.relative_to(docs).as_posix(): path.read_text() for path in docs.glob("benchmarks/*.md")}
    assert written == {"benchmarks.md": (docs / "benchmarks.md").read_text(), **kept}


def test_each_suite_has_a_title_and_each_text_of_a_page_its_suite():
    assert {*pages.TITLES} == {*SUITE, *MORE, *LARGE, *APART}
    assert {path.stem for path in pages.WRITTEN.glob("pages/*.md")} < {*pages.TITLES}

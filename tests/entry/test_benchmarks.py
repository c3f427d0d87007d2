"""Every suite that a target of the Makefile names can be started, and the page shows what was measured."""

import inspect
from pathlib import Path

from benchmarks.__main__ import APART, LARGE, MORE, SUITE, suite
from benchmarks.harness import pages
from benchmarks.subjects import OTHERS, SUBJECTS, TITLES

DOCS = Path(__file__).parents[2] / "docs"
WRITTEN = ("benchmarks.md", "benchmarks/*.txt", "images/benchmarks/*")


def contents(folder: Path) -> dict[str, str]:
    files = [file for pattern in WRITTEN for file in folder.glob(pattern)]
    return {file.relative_to(folder).as_posix(): file.read_text() for file in files if file.name != "by_hand.txt"}


def test_each_suite_that_make_bench_names_is_a_file_that_takes_a_lab_and_has_a_title():
    names = {*SUITE, *MORE, *LARGE, *APART}
    assert {name: [*inspect.signature(suite(name)).parameters] for name in names} == {name: ["lab"] for name in names}
    assert {*TITLES} == names


def test_the_page_and_its_files_are_what_the_results_give(tmp_path: Path):
    """An edit of the page alone would be lost with the next measurement."""
    pages.write_pages(tmp_path)
    assert contents(tmp_path) == contents(DOCS)


def test_the_page_names_each_suite_that_was_measured():
    shown = {subject.result.removesuffix("_large") for subject in SUBJECTS} | {*OTHERS}
    assert shown == {pages.suite_of(result) for result in pages.kept()}

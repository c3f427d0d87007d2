"""Every suite that a target of the Makefile names can be started, and what is written by hand stays when one ends."""

import inspect
from pathlib import Path

import pytest

from benchmarks.__main__ import APART, LARGE, MORE, SUITE, suite

PROJECT = Path(__file__).parents[2]


@pytest.mark.parametrize("name", sorted({*SUITE, *MORE, *LARGE, *APART}))
def test_each_suite_that_make_bench_names_is_a_file_that_takes_a_lab(name: str):
    assert [*inspect.signature(suite(name)).parameters] == ["lab"]


def test_the_page_of_results_begins_with_the_text_that_a_suite_writes_above_them():
    """An edit of the page alone would be lost with the next measurement."""
    written = (PROJECT / "benchmarks/how_to_read.md").read_text().rstrip()
    assert (PROJECT / "docs/benchmarks.md").read_text().startswith(f"{written}\n\n## Goals\n")

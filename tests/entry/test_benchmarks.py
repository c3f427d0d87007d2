"""Every suite that a target of the Makefile names can be started."""

import inspect

import pytest

from benchmarks.__main__ import APART, LARGE, MORE, SUITE, suite


@pytest.mark.parametrize("name", sorted({*SUITE, *MORE, *LARGE, *APART}))
def test_each_suite_that_make_bench_names_is_a_file_that_takes_a_lab(name: str):
    assert [*inspect.signature(suite(name)).parameters] == ["lab"]

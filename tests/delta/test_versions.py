"""The meaning of "since last time"."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.log import NOTHING_READ, VersionRange
from tests.support.for_each import for_each


def test_a_range_reads_after_its_start_and_up_to_its_end():
    range_ = VersionRange(17, 23)
    assert (len(range_), range_.is_empty, str(range_)) == (6, False, "(17, 23]")


def test_a_table_read_to_its_end_has_nothing_new():
    assert VersionRange(7, 7).is_empty
    assert len(VersionRange(7, 7)) == 0
    assert not VersionRange(7, 8).is_empty


def test_a_first_read_covers_version_zero():
    assert len(VersionRange(NOTHING_READ, 0)) == 1


@for_each("after, upto", [(-2, 3), (5, 4), (0, -1)])
def test_a_range_that_no_table_has_cannot_be_built(after: int, upto: int):
    with pytest.raises(ValueError, match="range"):
        VersionRange(after, upto)


@given(st.lists(st.integers(NOTHING_READ, 50), min_size=2).map(sorted))
def test_ranges_that_follow_each_other_leave_no_hole_and_share_no_version(stops: list[int]):
    steps = [VersionRange(after, upto) for after, upto in pairwise(stops)]
    assert sum(map(len, steps)) == len(VersionRange(stops[0], stops[-1]))

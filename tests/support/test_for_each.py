"""A test over many cases fails if one of them fails, and names each case that fails."""

import pytest

from tests.support.for_each import for_each


def test_every_case_is_tried_and_each_that_fails_is_named():
    @for_each("number, square", [(1, 1), (2, 5), (3, 9), (4, 17)])
    def is_a_square(number: int, square: int, power: int):
        assert number**power == square

    with pytest.raises(ExceptionGroup, match="2 of 4 cases") as failed:
        is_a_square(power=2)
    assert [failure.__notes__ for failure in failed.value.exceptions] == [
        ["with number=2, square=5"],
        ["with number=4, square=17"],
    ]

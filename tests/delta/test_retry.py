"""How often a lost commit is tried again; time and chance are arguments."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.policy import Retry
from tests.support.for_each import for_each


def no_chance() -> float:
    return 0.0


def test_waits_grow_and_stop_at_the_cap():
    retry = Retry(wait_initial=1, wait_max=5, jitter=0)
    assert [retry.wait(attempt, no_chance) for attempt in range(1, 6)] == [1, 2, 4, 5, 5]


def test_full_jitter_draws_from_the_whole_wait_and_none_from_nothing():
    def drawn() -> float:
        return 0.75

    assert Retry(wait_initial=4, jitter=1).wait(1, drawn) == 1
    assert Retry(wait_initial=4, jitter=0.5).wait(1, drawn) == 2.5
    assert Retry(wait_initial=4, jitter=0).wait(1, drawn) == 4


def test_the_last_attempt_is_the_last():
    retry = Retry(attempts=3)
    assert [retry.allows(attempt, 0) for attempt in (1, 2, 3, 4)] == [True, True, False, False]


def test_no_attempt_starts_after_the_deadline():
    retry = Retry(deadline=10)
    assert retry.allows(1, 9.9)
    assert not retry.allows(1, 10)


def test_one_attempt_means_to_fail_at_the_first_conflict():
    assert not Retry(attempts=1).allows(1, 0)


seconds = st.floats(0, 1e6)


@given(
    st.builds(Retry, st.integers(1, 100), seconds, seconds, seconds, st.floats(0, 1)),
    st.integers(1, 10_000),
    st.floats(0, 1, exclude_max=True),
)
def test_every_legal_policy_waits_a_finite_time_within_its_cap(retry: Retry, attempt: int, drawn: float):
    wait = retry.wait(attempt, lambda: drawn)
    assert 0 <= wait <= retry.wait_max
    assert math.isfinite(wait)
    assert retry.wait(attempt, no_chance) <= retry.wait(attempt + 1, no_chance)


@for_each(
    "policy",
    [
        {"attempts": 0},
        {"attempts": -1},
        {"wait_initial": -0.1},
        {"wait_initial": math.nan},
        {"wait_max": -1},
        {"wait_max": math.nan},
        {"deadline": -1},
        {"deadline": math.nan},
        {"jitter": -0.1},
        {"jitter": 1.1},
        {"jitter": math.nan},
    ],
)
def test_an_illegal_policy_cannot_be_built(policy: dict[str, float]):
    with pytest.raises(ValueError, match=r"attempt|seconds|share"):
        Retry(**policy)

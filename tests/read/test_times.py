"""A version's time depends on the history alone, not on where a range begins."""

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.read.content import times_of

clocks = st.lists(st.integers(0, 9), min_size=1, max_size=8)


@given(clocks, st.integers(0, 7))
def test_a_versions_time_is_the_same_wherever_its_range_begins(said: list[int], cut: int) -> None:
    whole = times_of(enumerate(said))
    cut = min(cut, len(said) - 1)
    first = times_of(enumerate(said[: cut + 1]))
    rest = times_of(list(enumerate(said))[cut + 1 :], (cut, first[cut]))
    assert first | rest == whole


@given(clocks)
def test_each_version_is_later_than_the_one_before_it_and_no_earlier_than_its_commit_says(said: list[int]) -> None:
    times = times_of(enumerate(said))
    assert all(times[version] >= at for version, at in enumerate(said))
    assert all(times[version] < times[version + 1] for version in range(len(said) - 1))


@given(clocks)
def test_times_that_delta_made_monotonic_over_what_it_listed_come_to_the_same(said: list[int]) -> None:
    whole = times_of(enumerate(said))
    for begin in range(1, len(said)):
        listed = times_of(list(enumerate(said))[begin:])
        assert times_of(sorted(listed.items()), (begin - 1, whole[begin - 1])) == {v: whole[v] for v in listed}

"""A log that a look walks back over once for each partition, in any order: the same commits, but read only once."""

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dagster.follow.followed import _Walked
from tests.support.commits import History

COMMITS = 9


@given(st.lists(st.tuples(st.integers(0, COMMITS - 1), st.integers(0, COMMITS - 1)), max_size=6), st.integers(0, 4))
def test_a_walked_log_has_the_commits_of_the_log(ranges: list[tuple[int, int]], cleaned: int) -> None:
    history = History()
    for _ in range(COMMITS):
        history.append()
    history.clean(cleaned)
    walked = _Walked(history)
    for newest, oldest in ranges:
        assert list(walked.commits(newest, oldest)) == list(history.commits(newest, oldest))


def test_commits_that_were_walked_over_are_not_read_again() -> None:
    history = History()
    for _ in range(COMMITS):
        history.append()
    walked = _Walked(history)
    list(walked.commits(COMMITS - 1, 3))
    read = len(history.pages)
    assert [commit.version for commit in walked.commits(COMMITS - 1, 3)] == list(range(COMMITS - 1, 2, -1))
    assert len(history.pages) == read

"""How much of a source one run reads, where its input sets a limit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.commit_info import Commit
from lakehouse.ladder import Reader, _capped
from lakehouse.read import Read
from lakehouse.versions import NOTHING_READ


def write(version: int, size: int = 10) -> Commit:
    return Commit(version, version, "WRITE", {"mode": "Append"}, {"numOutputRows": 1, "numOutputBytes": size}, None)


def compaction(version: int) -> Commit:
    return Commit(version, version, "OPTIMIZE", {}, {"numOutputBytes": 1000}, None)


def read(commits: tuple[Commit, ...], limits: Read, furthest: int = NOTHING_READ) -> list[int]:
    reader = Reader("asset", limits, recomputes=True, may_compare=True, remedy="", furthest=furthest)
    return [commit.version for commit in _capped(commits, reader)]


MIXED = (compaction(1), write(2), compaction(3), write(4, 25), compaction(5), write(6))


@pytest.mark.parametrize(
    ("limits", "furthest", "last"),
    [
        (Read(), NOTHING_READ, 6),
        (Read(max_versions=1), NOTHING_READ, 3),
        (Read(max_versions=2), NOTHING_READ, 5),
        (Read(max_versions=3), NOTHING_READ, 6),
        (Read(max_bytes=1), NOTHING_READ, 3),
        (Read(max_bytes=34), NOTHING_READ, 3),
        (Read(max_bytes=35), NOTHING_READ, 5),
        (Read(max_bytes=45), NOTHING_READ, 6),
        (Read(max_versions=2, max_bytes=1), NOTHING_READ, 3),
        (Read(max_versions=1), 4, 5),
        (Read(max_versions=1, exclude=("WRITE",)), NOTHING_READ, 6),
    ],
)
def test_a_limit_counts_what_there_is_to_read(limits: Read, furthest: int, last: int):
    assert read(MIXED, limits, furthest) == list(range(1, last + 1))


@given(
    loud=st.lists(st.booleans(), min_size=1, max_size=12),
    versions=st.integers(1, 5),
    size=st.integers(1, 100),
    furthest=st.integers(0, 12),
)
def test_every_portion_goes_on_and_none_is_larger_than_it_must_be(
    loud: list[bool], versions: int, size: int, furthest: int
):
    """Portion after portion reads every commit once, in order, whatever the limits."""
    rest = tuple(write(at) if is_loud else compaction(at) for at, is_loud in enumerate(loud, 1))
    limits = Read(max_versions=versions, max_bytes=size)
    while rest:
        portion = read(rest, limits, furthest)
        assert portion == [commit.version for commit in rest[: len(portion)]] and portion
        counted = [at for at in portion if loud[at - 1]]
        beyond = [at for at in counted if at > furthest]
        assert len(counted) <= max(1, min(versions, size // 10)) or len(beyond) == 0
        assert portion[-1] >= min(furthest, rest[-1].version)
        rest = rest[len(portion) :]

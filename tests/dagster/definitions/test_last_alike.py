"""A recompute reads the last version of a source that has the rows of the position: its files are kept the longest."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.dagster.definitions.recompute import _last_alike
from lakehouse.delta.commit_info import Commit
from tests.support.commits import History
from tests.support.for_each import for_each

KINDS = ["append", "OPTIMIZE", "VACUUM END", "ADD COLUMNS", "RENAME COLUMN", "SET TBLPROPERTIES"]


def source(kinds: Sequence[str]) -> History:
    history = History()
    for kind in kinds:
        if kind == "append":
            history.append()
        else:
            history.add(kind)
    return history


@given(st.lists(st.sampled_from(KINDS), min_size=1, max_size=8), st.data())
def test_the_last_version_with_the_same_rows_and_columns(kinds: list[str], data: st.DataObject) -> None:
    history = source(kinds)
    at = data.draw(st.integers(0, len(kinds) - 1))
    found = _last_alike(history, "src", at, None)
    later = kinds[at + 1 : found + 1]
    assert found >= at and set(later) <= {"OPTIMIZE", "VACUUM END"}, "no row and no column changed in between"
    if found + 1 < len(kinds):
        assert kinds[found + 1] not in {"OPTIMIZE", "VACUUM END"}, "and it is the last one"


@for_each("concerned, found", [((), 4), ((2,), 1), ((3,), 2)])
def test_a_commit_of_other_partitions_changes_no_row_of_a_partition(concerned: tuple[int, ...], found: int) -> None:
    history = source(["append"] * 5)

    def concerning(commits: Sequence[Commit]) -> list[Commit]:
        return [commit for commit in commits if commit.version in concerned]

    assert _last_alike(history, "src", 0, concerning) == found

"""After a legal event an `Append` goes on from where somebody decides, on real tables."""

import pytest

from lakehouse import Append, Changes
from lakehouse.commit.commit import Committed
from lakehouse.cursor.mark import Mark
from lakehouse.errors import ForeignTableError
from tests.support.lake import Lake

SRC = "id int, v int"


def kept(src: Changes) -> Append:
    return Append(src.appended())


@pytest.mark.slow
def test_a_renamed_append_goes_on_from_now_and_its_mark_says_so(lake: Lake) -> None:
    """A run that is repeated with the tag neither skips a row nor adds one twice."""
    lake.create("src", [(1, 10)], SRC)
    lake.materialize(kept)
    (lake.root / "kept").rename(lake.root / "renamed")
    lake.insert("src", [(3, 30)])
    with pytest.raises(ForeignTableError, match=r"Nothing was written.*lakehouse/go_on_from/renamed="):
        lake.materialize(kept, name="renamed")
    outcome = lake.materialize(kept, name="renamed", run="decided", go_on_from="now")
    assert isinstance(outcome, Committed)
    mark = Mark.from_json(outcome.commit.user_metadata)
    assert mark is not None and str(mark.decided).startswith("went on from now: ")
    lake.insert("src", [(4, 40)])
    lake.materialize(kept, name="renamed", run="again", go_on_from="now", aliases=frozenset({"decided"}))
    lake.materialize(kept, name="renamed")
    assert lake.rows("renamed") == [(1, 10), (4, 40)]

"""Rows that an asset never wrote are not taken for its own, and its own rows are not taken for those of others."""

from collections.abc import Callable

import pytest

from lakehouse.cursor.cursor import Fresh, Lost
from lakehouse.cursor.find import OWNER
from tests.support.commits import History, cursor
from tests.support.for_each import for_each

OVERWRITE = {"mode": "Overwrite"}


def foreign(history: History, *partitions: str, positions: bool = True) -> int | None:
    found = cursor(history, *partitions, positions=positions)
    assert isinstance(found, Fresh), found
    return found.foreign


THEIRS: dict[str, Callable[[History], object]] = {
    "appended": lambda h: h.append(),
    "overwritten every night": lambda h: (h.append(), h.add("WRITE", OVERWRITE, numOutputRows=9)),
    "made by select": lambda h: h.add("CREATE TABLE AS SELECT", numOutputRows=9),
    "replaced": lambda h: (h.append(), h.add("CREATE OR REPLACE TABLE AS SELECT")),
    "restored to a version": lambda h: (h.append(), h.append(), h.restore(0)),
    "restored to a time": lambda h: (h.append(), h.append(), h.restore(None)),
    "converted": lambda h: h.add("CONVERT"),
    "another asset's": lambda h: h.own(4, asset="silver/others"),
    "emptied and filled": lambda h: (h.append(), h.add("TRUNCATE"), h.append()),
    "kept up": lambda h: (h.append(), h.add("OPTIMIZE"), h.add("VACUUM END")),
    "long cleaned up": lambda h: (h.append(), h.append(), h.append(), h.clean(2)),
}


@for_each("act", THEIRS)
@for_each("partitions", [(), ("a",), ("a", "b")])
@for_each("positions", [True, False])
@for_each("knows_epochs", [True, False])
def test_rows_that_the_asset_never_wrote_are_somebody_elses(
    act: str, partitions: tuple[str, ...], *, positions: bool, knows_epochs: bool
):
    history = History(knows_epochs=knows_epochs)
    THEIRS[act](history)
    assert foreign(history, *partitions, positions=positions) is not None


@pytest.mark.parametrize(
    "make",
    [
        lambda h: h.add("CREATE TABLE"),
        lambda h: (h.add("CREATE TABLE"), h.add("SET TBLPROPERTIES"), h.append(0)),
        lambda h: (h.append(), h.add("TRUNCATE"), h.add("OPTIMIZE")),
        lambda h: (h.append(), h.add("DELETE", {"predicate": '["true"]'})),
        lambda h: (h.append(), h.add("WRITE", OVERWRITE, numOutputRows=0)),
    ],
)
def test_an_empty_table_is_nobodys(history: History, make: Callable[[History], object]):
    make(history)
    assert foreign(history) is foreign(history, "a") is foreign(history, "a", positions=False) is None


def test_a_partition_not_written_yet_is_not_somebody_elses_where_the_log_no_longer_has_those_that_were(
    history: History,
):
    history.properties[OWNER] = history.asset
    history.own(4, ("a",))
    history.add("OPTIMIZE")
    history.add("DELETE", {"predicate": '["(id = 3)"]'}, numDeletedRows=3)
    history.add("OPTIMIZE")
    history.clean(1)
    for positions in (True, False):
        found = cursor(history, "b", positions=positions)
        assert isinstance(found, Lost) or found.foreign is None  # without rows, a lost position loses nothing
    history.properties[OWNER] = "another/asset"
    assert foreign(history, "b") == foreign(history, "b", positions=False) == 2


def test_an_old_table_of_somebody_else_that_only_upkeep_has_touched_since_is_not_taken_over():
    history = History()
    history.append()
    history.add("OPTIMIZE")
    history.add("OPTIMIZE")
    history.clean(1)
    assert foreign(history) is not None


def test_our_own_table_whose_commits_were_cleaned_up_stays_ours():
    """Its application id is still in the log."""
    history = History()
    history.own(4)
    history.append()
    history.append()
    history.clean(2)
    assert isinstance(cursor(history), Lost)

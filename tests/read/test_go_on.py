"""From where an `Append` goes on if its position cannot be continued: a user decides, and the decision counts once."""

from dataclasses import replace
from typing import Literal

import pytest

from lakehouse import Read, Table
from lakehouse.cursor.cursor import Fresh
from lakehouse.cursor.mark import Position
from lakehouse.delta.log import VersionRange
from lakehouse.read.asset import Asset, PastRows
from lakehouse.read.content import Nothing, SourceRead
from lakehouse.read.decide import Refuse
from lakehouse.read.feed_reader import Feeds
from lakehouse.read.feed_trust import Source
from lakehouse.read.read_plan import InputFacts, read_plan
from lakehouse.read.resolve import read_changes
from lakehouse.spark.table_version import TableRef
from tests.support.commits import FEED, TABLE_ID, History, cursor_at, run_of, source_of
from tests.support.raises import raises_code

APPENDS = Asset(
    "kept", Table(), TableRef.at_path("kept", "/kept"), past=PastRows.APPENDED, read_options={"src": Read()}
)
GONE = Refuse("its position is gone", "Decide where it goes on.")
AT = Position(TABLE_ID, 2)


@pytest.fixture
def source() -> Source:
    """A source at version 5; no commit after version 3 has rows."""
    history = History("src", properties=FEED)
    for _ in range(4):
        history.append()
    for _ in range(2):
        history.add("OPTIMIZE")
    return source_of(history)


def read(
    source: Source, together: Refuse | None, at: Position | None, go_on_from: int | Literal["now"] | None
) -> SourceRead:
    cursor = Fresh() if at is None else cursor_at(at)
    facts = InputFacts(run_of(APPENDS, cursor, together, go_on_from=go_on_from), Read(), source, at)
    return read_changes(read_plan(facts), facts, Feeds())


@pytest.mark.parametrize(("wish", "after"), [("now", 5), (5, 5), (4, 4), (3, 3)])
@pytest.mark.parametrize("at", [None, AT, replace(AT, table="another")], ids=["none", "known", "of another table"])
def test_who_has_decided_goes_on_from_there(
    source: Source, at: Position | None, wish: int | Literal["now"], after: int
) -> None:
    changes = read(source, GONE, at, wish)
    assert changes.range == VersionRange(after, 5)
    assert isinstance(changes.content, Nothing)
    assert changes.refusal == GONE.reason


def test_nobody_has_decided(source: Source) -> None:
    with raises_code("GAP", match=r"its position is gone.*Nothing was written.*Decide where it goes on"):
        read(source, GONE, AT, None)


def test_rows_that_the_table_has_are_never_added_a_second_time(source: Source) -> None:
    with raises_code("GAP", match="to go on from version 1 would add the rows up to version 2 a second time"):
        read(source, GONE, AT, 1)


def test_a_version_that_the_source_has_not_reached_is_refused(source: Source) -> None:
    with raises_code("START", match="ends at version 5"):
        read(source, GONE, AT, 6)


@pytest.mark.parametrize("wish", ["now", 3, 0])
def test_a_position_that_can_be_continued_from_is_continued_from_whatever_was_decided(
    source: Source, wish: int | Literal["now"]
) -> None:
    """Therefore a run that is repeated with its tags neither skips a change nor adds one twice."""
    changes = read(source, None, replace(AT, version=4), wish)
    assert changes.range == VersionRange(4, 5)
    assert changes.refusal is None

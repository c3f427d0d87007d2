"""What a write that names no input answers for: frames record that they were taken, reading `source` shows nothing."""

import inspect
from collections.abc import Collection
from typing import Any

from lakehouse import Changes, Overwrite, Read, Table
from lakehouse.delta.log import VersionRange
from lakehouse.read.content import Content, Everything, Nothing, SourceRead, Use
from lakehouse.spark.table_version import TableRef, TableVersion
from tests.support.for_each import for_each
from tests.support.lake import Lake
from tests.support.model import SRC

NO_SPARK: Any = None
FIRST, LATER = Everything(), Nothing()
SOURCE, CHANGED, KEYS, TOUCHED = Use.SOURCE, Use.CHANGED_ROWS, Use.KEYS, Use.TOUCHED_ROWS


def test_a_user_holds_these_members_of_the_changes_and_no_others() -> None:
    members = {name for name, _ in inspect.getmembers(Changes) if not name.startswith("_")}
    assert members == {
        "appended",
        "feed",
        "is_empty",
        "is_initial",
        "log",
        "name",
        "net",
        "range",
        "source",
        "touched",
    }


def read(content: Content, uses: Collection[Use]) -> SourceRead:
    source = TableVersion(NO_SPARK, TableRef.at_path("src", "/nowhere/src"), "id", 1)
    return SourceRead(source, VersionRange(0, 1), content, uses=set(uses))


@for_each(
    "content, uses, answers",
    [
        (LATER, (), False),
        (LATER, (SOURCE,), False),
        (LATER, (KEYS, TOUCHED, SOURCE), False),
        (LATER, (CHANGED,), True),
        (LATER, (CHANGED, SOURCE), True),
        (FIRST, (), False),
        (FIRST, (KEYS, TOUCHED), False),
        (FIRST, (SOURCE,), True),
        (FIRST, (CHANGED,), True),
    ],
)
def test_an_append_answers_for_the_changes_whose_rows_were_taken(
    content: Content, uses: Collection[Use], *, answers: bool
) -> None:
    """In a first read the source consists of these rows."""
    assert read(content, uses).gave_changes is answers


@for_each(
    "content, uses, loses",
    [
        (LATER, (), False),
        (LATER, (SOURCE,), False),
        (LATER, (CHANGED,), True),
        (LATER, (CHANGED, SOURCE), True),
        (LATER, (KEYS, TOUCHED), True),
        (LATER, (KEYS, TOUCHED, SOURCE), True),
        (LATER, (KEYS,), True),
        (LATER, (KEYS, SOURCE), False),
        (FIRST, (SOURCE,), False),
        (FIRST, (CHANGED, KEYS, TOUCHED), False),
    ],
)
def test_an_overwrite_loses_rows_where_rows_of_the_changes_were_taken(
    content: Content, uses: Collection[Use], *, loses: bool
) -> None:
    """Whatever else was taken. In a first read the changes are all rows."""
    assert read(content, uses).gave_a_part is loses


def of_appended(src: Changes) -> Overwrite:
    return Overwrite(src.appended())


def test_what_the_library_takes_for_itself_says_nothing_of_a_result(lake: Lake) -> None:
    lake.create("src", [(1, "a", 10)], SRC)
    step = lake.begin(of_appended, Table(key="id"))
    step.changes(lake.source("src"), Read(), lake.ref)
    taken = step.run.changes[0]
    assert (len(taken.source.columns), len(taken.feed.columns)) == (3, 6)
    assert taken.uses == set()

"""A definition as parts: a difference that decides rows shows in a part, by name; any other difference in no part."""

import json
from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.cursor.definition import LONGEST, definition, left_out, read_in, why_handed_otherwise, why_redefined
from lakehouse.delta.partition_keys import PartitionKey, Slice, Window
from lakehouse.delta.table import Read, Table
from tests.support.for_each import for_each

START = datetime(2024, 1, 1, tzinfo=UTC)


def window(length: timedelta, start: datetime = START, column: str = "day") -> Slice:
    return Slice((PartitionKey("2024-01-01", {column: "2024-01-01"}, {column: Window(start, start + length)}),))


def value(value: str, column: str = "region") -> Slice:
    return Slice((PartitionKey("east", {column: value}, {}),))


def of(slice_: Slice | None) -> dict[str, str]:
    return definition(Table(), slice_, {}, {})


DAY, MONTH = window(timedelta(days=1)), window(timedelta(days=31))


@for_each(
    "before, now, said",
    [
        (DAY, DAY, None),
        (DAY, MONTH, "was day 2024-01-01T00:00Z/2024-01-02T00:00Z and is day 2024-01-01T00:00Z/2024-02-01T00:00Z"),
        (DAY, window(timedelta(days=1), START - timedelta(hours=5)), "is day 2023-12-31T19:00Z/2024-01-01T19:00Z"),
        (
            DAY,
            window(timedelta(days=1), column="at"),
            "its partition was day 2024-01-01T00:00Z/2024-01-02T00:00Z and is at",
        ),
        (value("east"), value("east"), None),
        (value("east"), value("east", "country"), "its partition was region=east and is country=east"),
        (DAY, None, "and is all of the table"),
        (None, DAY, None),
    ],
)
@for_each("has_keys", [True, False])
def test_a_partition_is_its_windows_and_values(
    before: Slice | None, now: Slice | None, said: str | None, *, has_keys: bool
) -> None:
    """A position of the whole table is valid for each partition that the table was given since."""
    reason = why_redefined(of(before), of(now), has_keys=has_keys)
    assert reason == said if said is None else said in str(reason)


def test_the_order_and_the_case_of_columns_decide_nothing() -> None:
    before = definition(Table(key=("id", "Day"), partition_by="G"), None, {}, {})
    assert before == definition(Table(key=("day", "ID"), partition_by="g"), None, {}, {})
    other = definition(Table(key="id", partition_by="g"), None, {}, {})
    assert why_redefined(before, other, has_keys=True) == "its key changed from day, id to id"


def test_a_field_that_is_ignored_decides_nothing() -> None:
    one, two = ({"limit": 1, "threads": threads} for threads in (1, 2))
    assert definition(Table(), None, {}, one, ("threads",)) == definition(Table(), None, {}, two, ("threads",))
    assert (
        why_redefined(definition(Table(), None, {}, one), definition(Table(), None, {}, {}), has_keys=True) is not None
    )


def test_a_field_that_is_ignored_from_now_on_decides_nothing_although_the_mark_has_its_value() -> None:
    before = definition(Table(), None, {}, {"limit": 1, "threads": 1})
    now = definition(Table(), None, {}, {"limit": 1, "threads": 2}, ("threads",))
    assert why_redefined(before, now, has_keys=True) is not None
    assert why_redefined(before, now, has_keys=True, ignored=("threads",)) is None


SOME = st.builds(
    Read,
    start=st.sampled_from(["snapshot", 3, START]),
    exclude_operations=st.sets(st.sampled_from(["DELETE", "a b"])).map(tuple),
    exclude_metadata=st.sets(st.sampled_from(["x", "line\nline", "DELETE"])).map(tuple),
)


@given(before=SOME, now=SOME)
def test_what_is_left_out_no_more_is_noticed_and_what_is_left_out_besides_is_not(before: Read, now: Read) -> None:
    more = read_in(definition(Table(), None, {"src": before}, {}), "src", now)
    covered = set(left_out(before)) <= set(left_out(now))
    long = len(json.dumps("\n".join(left_out(before)))) > LONGEST + 2
    assert (more is None) == covered or (long and before != now)


@given(keys=st.integers(1, 3000), fields=st.integers(0, 200), text=st.text(min_size=1, max_size=300))
def test_no_definition_is_large(keys: int, fields: int, text: str) -> None:
    """Even with 10,000 partitions, a large config and long names."""
    slice_ = Slice(tuple(PartitionKey(str(n), {"region": f"{text}{n}"}, {}) for n in range(keys)))
    parts = definition(
        Table(key=tuple(f"key {n}" for n in range(40))),
        slice_,
        {f"silver/source_{n}": Read(exclude_metadata=(text + "x",)) for n in range(8)},
        {f"{text[:40]}{n}": text for n in range(fields)},
    )
    assert all(len(part) <= LONGEST for part in parts.values())
    assert len(json.dumps(parts)) <= 4096


def handed(inputs: dict[str, str], resources: dict[str, object], ignored: tuple[str, ...] = ()) -> dict[str, str]:
    return definition(Table(), None, {"a": Read()}, {}, ignored, inputs=inputs, resources=resources)


def test_an_asset_that_reads_no_changes_computes_all_rows_whatever_it_is_handed() -> None:
    assert definition(Table(), None, {}, {}, inputs={"old": "a"}, resources={"rules.least": 1}) == {}


@for_each(
    "inputs, resources, said",
    [
        ({"old": "a", "new": "b"}, {"rules.least": 1}, None),
        ({"old": "b", "new": "a"}, {"rules.least": 1}, "its input new was 'b' and is 'a'"),
        ({"old": "a", "newer": "c"}, {"rules.least": 1}, None),
        ({"old": "a", "new": "b"}, {"rules.least": 2}, "its resource rules.least had another value"),
        ({"old": "a", "new": "b"}, {"others.least": 2}, None),
        ({}, {}, None),
    ],
)
def test_another_source_behind_an_input_and_another_value_of_a_resource_are_noticed(
    inputs: dict[str, str], resources: dict[str, object], said: str | None
) -> None:
    """A name that one side lacks is no difference: the code changed with it, or an earlier version wrote the mark."""
    before = handed({"old": "a", "new": "b"}, {"rules.least": 1})
    assert why_handed_otherwise(before, handed(inputs, resources)) == said
    assert why_redefined(before, handed(inputs, resources), has_keys=True) is None


@for_each("was, now", [(16, 17), (17, 16)])
def test_so_many_fields_that_they_are_one_part_hide_no_value(was: int, now: int) -> None:
    before, after = (handed({}, {f"shop.f{n}": n for n in range(fields)}) for fields in (was, now))
    assert why_handed_otherwise(before, after) is not None
    assert why_handed_otherwise(handed({}, {}), after) is None


def test_a_field_of_a_resource_that_is_ignored_decides_nothing() -> None:
    before, now = handed({}, {"db.token": 1}), handed({}, {"db.token": 2})
    assert why_handed_otherwise(before, now, ("db.token",)) is None
    assert why_handed_otherwise(before, handed({}, {"db.token": 2}, ("db.token",)), ("db.token",)) is None

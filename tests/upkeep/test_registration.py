"""What the properties of a table record about readers that no mark names."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.log import FILE_RETENTION, LOG_RETENTION, Head, as_interval, feed_retention, files_kept, limit_from
from lakehouse.upkeep.registration import (
    TIME_TRAVEL,
    keep_longer,
    limit_of,
    register,
    registered_limits,
    release,
    time_travel,
)
from tests.support.for_each import for_each
from tests.support.raises import raises_code

DAY = timedelta(days=1)


def head(**properties: str) -> Head:
    return Head(3, "id", {name.replace("__", "."): value for name, value in properties.items()}, ())


def changed(before: Head, name: str, limit: timedelta | None) -> Head:
    change = release(before, "t", name) if limit is None else register(before, "t", name, limit)
    properties = {k: v for k, v in before.properties.items() if k not in change.to_remove} | dict(change.to_set)
    return Head(before.version + 1, before.table_id, properties, ())


@for_each(
    "text, limit",
    [
        ("14d", 14 * DAY),
        ("36 h", 1.5 * DAY),
        ("2w", 14 * DAY),
        ("90 min", timedelta(minutes=90)),
        ("14 days", 14 * DAY),
        ("interval 1 week", 7 * DAY),
        ("0d", None),
        ("soon", None),
        ("-3d", None),
        ("3 months", None),
        ("", None),
    ],
)
def test_a_limit_is_a_time_above_zero(text: str, limit: timedelta | None) -> None:
    assert limit_from(text) == limit


def test_a_longer_limit_lengthens_what_the_table_keeps_and_not_what_it_promises() -> None:
    registered = changed(head(), "bi", 60 * DAY)
    assert feed_retention(registered) == 60 * DAY
    assert time_travel(registered) == 7 * DAY
    assert registered_limits(registered.properties) == {"bi": 60 * DAY}
    assert (limit_of(registered, "bi"), limit_of(registered, "gold/totals")) == (60 * DAY, 60 * DAY)


def test_a_shorter_limit_leaves_what_the_table_keeps() -> None:
    registered = changed(head(), "bi", 3 * DAY)
    assert registered.properties.keys() == {"lakehouse.readers.bi"}
    assert (limit_of(registered, "bi"), limit_of(registered, "gold/totals")) == (3 * DAY, 7 * DAY)


@for_each("days", [60, 10, 5])
def test_a_retention_that_somebody_sets_after_a_registration_is_what_the_table_promises(days: int) -> None:
    registered = changed(head(), "bi", 30 * DAY)
    properties = {**registered.properties, FILE_RETENTION: f"interval {days} days"}
    theirs = replace(registered, properties=properties)
    assert (time_travel(theirs), files_kept(theirs)) == (days * DAY, days * DAY)
    assert limit_of(theirs, "bi") == min(30, days) * DAY
    assert keep_longer(theirs) is None, "nobody's own retention is taken back"
    released = changed(theirs, "bi", None)
    assert files_kept(released) == days * DAY and TIME_TRAVEL not in released.properties
    longer = changed(theirs, "streams", 90 * DAY)
    assert (time_travel(longer), files_kept(longer)) == (days * DAY, 90 * DAY)
    assert files_kept(changed(longer, "streams", None)) == max(30, days) * DAY


def test_readers_that_register_at_once_each_have_their_limit_in_the_end() -> None:
    """Each has looked at the table before the other has changed it."""
    before = head()
    long, short = register(before, "t", "a", 30 * DAY), register(before, "t", "b", 14 * DAY)
    both = replace(before, properties={**before.properties, **long.to_set, **short.to_set})
    assert limit_of(both, "a") == 14 * DAY
    longer = keep_longer(both)
    assert longer is not None
    mended = replace(both, properties={**both.properties, **longer.to_set})
    assert (limit_of(mended, "a"), limit_of(mended, "b"), time_travel(mended)) == (30 * DAY, 14 * DAY, 7 * DAY)
    assert keep_longer(mended) is None


def test_a_release_that_is_cut_off_can_be_given_again() -> None:
    """A release sets properties before it removes others."""
    registered = changed(head(), "bi", 60 * DAY)
    cut_off = replace(registered, properties={**registered.properties, **release(registered, "t", "bi").to_set})
    again = release(cut_off, "t", "bi")
    left = {name: value for name, value in cut_off.properties.items() if name not in again.to_remove}
    assert files_kept(replace(cut_off, properties={**left, **again.to_set})) == files_kept(head())


def test_a_reader_cannot_be_registered_twice_or_under_a_name_that_is_none() -> None:
    registered = changed(head(), "bi", 14 * DAY)
    for name in ("bi", "", " x", "a'b", "a\nb"):
        with raises_code("READER_NAME"):
            register(registered, "t", name, DAY)
    with raises_code("READER_NAME", match="Registered are: bi"):
        release(registered, "t", "streams")


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 90)), max_size=8), st.sampled_from([None, 2, 20]))
def test_once_all_are_released_files_are_kept_as_before(steps: list[tuple[str, int]], days: int | None) -> None:
    """While readers are registered, each may be as far behind as its limit, and earlier promises still hold."""
    before = head() if days is None else head(delta__deletedFileRetentionDuration=f"interval {days} days")
    now, promised = before, files_kept(before)
    for name, limit in steps:
        now = changed(now, name, None if name in registered_limits(now.properties) else limit * DAY)
        limits = registered_limits(now.properties)
        assert all(limit_of(now, each) == limit for each, limit in limits.items())
        assert time_travel(now) == promised
        assert files_kept(now) == max([promised, *limits.values()])
    for name in registered_limits(now.properties):
        now = changed(now, name, None)
    assert files_kept(now) == promised and TIME_TRAVEL not in now.properties
    assert now.properties.keys() <= {FILE_RETENTION, LOG_RETENTION}


@given(st.integers(1, 10**7))
def test_an_interval_is_read_as_it_was_written(seconds: int) -> None:
    assert limit_from(as_interval(timedelta(seconds=seconds))) == timedelta(seconds=seconds)

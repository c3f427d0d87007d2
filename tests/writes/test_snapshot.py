"""A table kept from full extracts is the fold of these extracts."""

import datetime as dt
import random
from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse import History, Snapshot, Table
from lakehouse.commit.outcome import Committed, Outcome, Unchanged
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.unread import DAY
from lakehouse.delta.commit_info import NO_ROWS
from lakehouse.errors import WriteError
from tests.support.extracts import HISTORIES, Delivery, Kept, UnknownPastError, day, drawn, number
from tests.support.for_each import for_each
from tests.support.lake import Lake, cleaned
from tests.support.raises import raises_code
from tests.support.rows_without_spark import UNREAD_ROWS
from tests.support.slow import slow

KEYED = Table(key="id")
ONE = {1: {"g": "x", "a": 1, "b": "p"}, 2: {"g": "y", "a": 2, "b": "q"}, 3: {"g": "y", "a": 3, "b": "r"}}


def taken(lake: Lake, delivery: Delivery, table: Table = KEYED, *, tags: Any = None, **options: Any) -> Outcome:
    """The outcome of a run that returns the delivery."""

    def kept() -> Snapshot:
        return delivery.snapshot(lake, **options)

    return lake.materialize(kept, table, **(tags or {}))


def mark(lake: Lake) -> Mark:
    found = Mark.from_json(lake.commits("kept")[-1].user_metadata)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("seed", "deliveries", "version_of", "table"),
    [
        (1, 2, number, KEYED),
        slow(296, 6, number, KEYED),
        slow(2, 6, day, KEYED),
        slow(3, 6, number, Table(key="id", partition_by="g")),
        *(slow(seed, 6, number, KEYED) for seed in HISTORIES),
    ],
)
def test_the_table_is_the_fold_of_its_extracts(
    lake: Lake, seed: int, deliveries: int, version_of: Callable[[int], Any], table: Table
) -> None:
    chance, kept = random.Random(seed), Kept()
    for step in range(deliveries):
        delivery = drawn(chance, kept, version_of, keys=40, first=step == 0)
        before, was = (lake.version("kept"), kept.type_1()) if step else (-1, [])
        try:
            kept.deliver(delivery)
        except UnknownPastError:
            with pytest.raises(WriteError, match="an extract of another scope"):
                taken(lake, delivery, table, on_older="ignore")
            continue
        outcome = taken(lake, delivery, table, on_older="ignore")
        columns = lake.frame("kept").select("id", "g", "a", "b")
        assert sorted((tuple(row) for row in columns.collect()), key=repr) == kept.type_1(), delivery
        assert lake.version("kept") == before + isinstance(outcome, Committed)
        assert was != kept.type_1() or isinstance(outcome, Unchanged) or outcome_changes_nothing(outcome)
        assert mark(lake).extract is not None and mark(lake).extract.value == kept.newest


def outcome_changes_nothing(outcome: Outcome) -> bool:
    return isinstance(outcome, Committed) and outcome.commit.rows == NO_ROWS


def test_the_same_extract_again_writes_nothing_and_a_newer_equal_one_its_version_alone(lake: Lake) -> None:
    taken(lake, Delivery(1, ONE))
    assert isinstance(taken(lake, Delivery(1, ONE)), Unchanged)
    outcome = taken(lake, Delivery(2, ONE))
    assert outcome_changes_nothing(outcome)
    assert mark(lake).extract is not None and mark(lake).extract.text == "int 2"


@pytest.mark.slow
def test_extracts_come_from_inputs_and_through_a_retry_once(lake: Lake) -> None:
    def kept(src: DataFrame) -> Snapshot:
        return Snapshot(src, version=dt.datetime(2026, 1, 2, 3, 4, 5))  # noqa: DTZ001  (in UTC)

    lake.create("src", [(1, "x", 1, "p")], "id BIGINT, g STRING, a INT, b STRING")
    lake.materialize(kept, KEYED, run="one")
    lake.materialize(kept, KEYED, run="one")
    assert lake.version("kept") == 0
    assert mark(lake).extract is not None and mark(lake).extract.text == "datetime 2026-01-02T03:04:05+00:00"
    lake.insert("src", [(2, "y", 2, "q")])
    lake.materialize(kept, KEYED)
    assert lake.rows("kept") == [(1, "x", 1, "p"), (2, "y", 2, "q")]


@pytest.mark.slow
def test_more_deletions_than_allowed_are_held_back_until_a_tag_lets_them_through(lake: Lake) -> None:
    taken(lake, Delivery(1, ONE))
    fewer = Delivery(2, {1: ONE[1]}, {"g": ("x", "y")})
    with raises_code("DELETIONS_HELD_BACK", match="lacks 2 of the 3 rows in its scope"):
        taken(lake, fewer, max_deleted=0.5)
    assert lake.version("kept") == 0
    with raises_code("DELETIONS_HELD_BACK"):
        taken(lake, Delivery(2, {}))
    taken(lake, fewer, max_deleted=0.5, tags={"allowed": frozenset({"max_deleted"})})
    assert lake.rows("kept") == [(1, "x", 1, "p")] and mark(lake).decided == "allowed max_deleted"
    taken(lake, Delivery(3, {}), max_deleted=1)
    assert lake.rows("kept") == []


def test_an_older_extract_is_refused_or_ignored_and_the_newest_version_stays(lake: Lake) -> None:
    taken(lake, Delivery(5, ONE))
    with raises_code("OLDER_EXTRACT", match="Extract 4 of 'kept' is older than extract 5"):
        taken(lake, Delivery(4, {1: ONE[1]}))
    assert isinstance(taken(lake, Delivery(4, {1: ONE[1]}), on_older="ignore"), Unchanged)
    assert lake.told == ["kept holds extract 5 and ignores the older extract 4."]
    with raises_code("UNKNOWN_EXTRACT", match="it holds extract 5, of type int, not date"):
        taken(lake, Delivery(dt.date(2026, 1, 1), ONE))
    assert lake.version("kept") == 0 and len(lake.rows("kept")) == 3


@pytest.mark.slow
def test_a_version_is_carried_on_before_clean_up_can_reach_its_commit(lake: Lake) -> None:
    taken(lake, Delivery(1, ONE))
    later = {"now": lake.commits("kept")[-1].timestamp + 8 * DAY}
    assert outcome_changes_nothing(taken(lake, Delivery(0, {1: ONE[1]}), on_older="ignore", tags=later))
    assert mark(lake).extract is not None and mark(lake).extract.value == 1
    assert outcome_changes_nothing(taken(lake, Delivery(1, ONE), tags={"now": later["now"] + 8 * DAY}))
    assert isinstance(taken(lake, Delivery(1, ONE)), Unchanged)


@pytest.mark.slow
def test_a_lost_version_is_refused_until_a_tag_takes_the_extract(lake: Lake) -> None:
    rows = lake.values([(1, 1), (2, 2)], "id BIGINT, v INT")

    def kept() -> Snapshot:
        return Snapshot(rows, version=7)

    lake.materialize(kept, KEYED)
    cleaned(lake, "kept")
    with raises_code("UNKNOWN_EXTRACT", match=r"the log was cleaned up .* lakehouse/allow/kept=version"):
        lake.materialize(kept, KEYED)
    with raises_code("REFRESH_REFUSED", match="lakehouse/allow/kept=version"):
        lake.materialize(kept, KEYED, compare="a full refresh was asked for")
    lake.materialize(kept, KEYED, allowed=frozenset({"version"}))
    assert lake.rows("kept") == [(1, 1), (2, 2)]
    assert (mark(lake).decided, str(mark(lake).extract)) == ("allowed version", "7")
    assert isinstance(lake.materialize(kept, KEYED), Unchanged)


@pytest.mark.slow
def test_a_table_of_another_program_is_taken_over_by_the_tag_alone(lake: Lake) -> None:
    lake.create("kept", [(9, "x", 1, "p")], "id BIGINT, g STRING, a INT, b STRING")
    with raises_code("FOREIGN_TABLE", match="tag lakehouse/allow/kept=version, which replaces its rows"):
        taken(lake, Delivery(1, ONE))
    with raises_code("FOREIGN_TABLE"):
        taken(lake, Delivery(1, ONE), tags={"allowed": frozenset({"max_deleted"})})
    taken(lake, Delivery(1, ONE), tags={"allowed": frozenset({"version"})})
    assert [row[0] for row in lake.rows("kept")] == [1, 2, 3]


def test_a_key_that_an_extract_has_twice_is_refused_by_its_value(lake: Lake) -> None:
    def kept() -> Snapshot:
        return Snapshot(lake.values([(1, 1), (2, 1), (2, 2)], "id BIGINT, v INT"), version=1)

    with raises_code("BROKEN_PROMISE", match="more than one row with the key id=2"):
        lake.materialize(kept, KEYED)
    assert not lake.exists("kept")


def test_a_row_with_null_in_its_key_is_refused_in_an_extract_of_either_type_and_nothing_is_written(lake: Lake) -> None:
    def kept(rows: str) -> Callable[[], Any]:
        def kept() -> Snapshot:
            return Snapshot(lake.spark.sql(f"SELECT * FROM VALUES {rows} t(id, g, v) WHERE v > 0"), version=1)

        return kept

    def past() -> History:
        return History(kept("(1, 'a', 1), (2, NULL, 2)")())

    key = Table(key=("id", "g"))
    with raises_code("BROKEN_PROMISE", match=r"NULL in its key \(id=2, g=NULL\)"):
        lake.materialize(kept("(1, 'a', 1), (2, NULL, 2)"), key)
    with raises_code("BROKEN_PROMISE", match=r"NULL in its key \(id=2, g=NULL\)"):
        lake.materialize(past, key)
    assert not lake.exists("kept") and not lake.exists("past")
    lake.materialize(kept("(1, 'a', 1), (2, NULL, 0)"), key)
    assert lake.rows("kept") == [(1, "a", 1)], "a row that the asset leaves out may have any key"


def test_an_extract_that_is_not_what_it_says_is_refused(lake: Lake) -> None:
    with raises_code("MISSING_KEY"):
        taken(lake, Delivery(1, ONE), Table())
    with raises_code("COLUMN_MISSING", match="The extract of 'kept' has no column country"):
        taken(lake, Delivery(1, ONE, ("country",)))
    with raises_code("BROKEN_PROMISE", match="a row with g=y"):
        taken(lake, Delivery(1, ONE, {"g": ("x", None)}))
    assert not lake.exists("kept")
    taken(lake, Delivery(1, ONE))
    with raises_code("SCHEMA", match="a: the table has int, the result string"):
        lake.materialize(_retyped(lake), KEYED)
    assert lake.version("kept") == 0


def _retyped(lake: Lake) -> Callable[[], Snapshot]:
    def kept() -> Snapshot:
        return Snapshot(lake.values([(1, "one")], "id BIGINT, a STRING"), version=2)

    return kept


@pytest.mark.slow
def test_a_key_that_comes_into_the_scope_keeps_one_row(lake: Lake) -> None:
    taken(lake, Delivery(1, ONE))
    moved = ONE[1] | {"g": "y"}
    taken(lake, Delivery(2, ONE | {1: moved}, ("g",)))
    assert lake.rows("kept") == [(1, "y", 1, "p"), (2, "y", 2, "q"), (3, "y", 3, "r")]


@pytest.mark.slow
def test_an_extract_with_a_new_column_adds_the_column(lake: Lake) -> None:
    taken(lake, Delivery(1, ONE))

    def kept() -> Snapshot:
        return Snapshot(lake.values([(1, "x", 10)], "id BIGINT, g STRING, c INT"), version=2, scope="g")

    lake.materialize(kept, KEYED)
    assert lake.rows("kept") == [(1, "x", 1, "p", 10), (2, "y", 2, "q", None), (3, "y", 3, "r", None)]


@for_each(
    "options, error, said",
    [
        ({"version": True}, TypeError, "an int, a date or a datetime, not True"),
        ({"version": "2026-01-01"}, TypeError, "an int, a date or a datetime, not '2026-01-01'"),
        ({"version": 1 << 63}, ValueError, "at most 64 bits"),
        ({"version": 1, "max_deleted": 20}, ValueError, "a share of rows from 0 to 1, not 20"),
        ({"version": 1, "on_older": "skip"}, ValueError, "'fail' or 'ignore', not 'skip'"),
        ({"version": 1, "scope": ("g", "G")}, ValueError, "names a column once"),
        ({"version": 1, "scope": {"g": ()}}, ValueError, "lists the delivered values of g"),
        ({"version": 1, "scope": {"g": "DE"}}, ValueError, "lists the delivered values of g"),
    ],
)
def test_a_snapshot_that_means_nothing_cannot_be_built(options: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        Snapshot(UNREAD_ROWS, **options)


@pytest.mark.slow
@pytest.mark.parametrize("past", [False, True])
def test_a_scope_that_the_table_pads_and_the_extract_does_not_is_refused(lake: Lake, *, past: bool) -> None:
    """In a join on it no row would be in scope, and rows that the extract lacks would stay."""
    lake.sql(f"CREATE TABLE {lake.ref('files').identifier} (id INT, c CHAR(4)) USING delta")
    lake.insert("files", [(1, "DE"), (2, "DE"), (3, "FR")])

    def kept(files: DataFrame) -> Snapshot | History:
        extract = Snapshot(files if version == 1 else lake.values([(1, "DE")], "id INT, c STRING"), version, scope="c")
        return History(extract) if past else extract

    kept.__annotations__["return"] = History if past else Snapshot
    version = 1
    lake.materialize(kept, KEYED)
    version = 2
    with raises_code("SCHEMA", match=r"c: is joined as char\(4\) in the table"):
        lake.materialize(kept, KEYED)

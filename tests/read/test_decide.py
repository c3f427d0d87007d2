"""What is read of an input, as a table of cases: cursor, source, options and definition give one plan."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import write_deltalake

from lakehouse.cursor.cursor import Cursor, Fresh, Known, Lost
from lakehouse.cursor.definition import definition
from lakehouse.cursor.digests import Code
from lakehouse.cursor.generation import FIRST_GENERATION, Generation
from lakehouse.cursor.mark import Mark, Position
from lakehouse.delta.limits import MEASURED, Limits, in_force
from lakehouse.delta.log import READER
from lakehouse.delta.policy import Policy
from lakehouse.delta.table import Read, Table
from lakehouse.read.asset import Asset, PastRows
from lakehouse.read.decide import (
    NeedOfAllRows,
    PolicyAnswer,
    Reconcile,
    Refuse,
    answer_by_policy,
    decision_for_all,
    replaces_all_rows,
    warning_of_new_code,
)
from lakehouse.read.feed_trust import Source
from lakehouse.read.read_plan import FirstRead, InputFacts, ReadFeed, read_plan
from lakehouse.spark.table_version import TableRef
from tests.support.commits import FEED, History, run_of, source_of
from tests.support.for_each import for_each

MERGES = Asset(
    "totals",
    Table(key="id"),
    TableRef.at_path("totals", "/totals"),
    past=PastRows.COMPUTED,
    read_options={"src": Read()},
    code_version="2",
)
FAILS = replace(MERGES, table=Table(key="id", on_gap="fail"))
APPENDS = replace(MERGES, past=PastRows.APPENDED)
LATE = Read(start=3)


def here(table: str, version: int, mapped: str | None = None) -> Source:
    history = History("src", properties=FEED)
    for _ in range(version + 1):
        history.append()
    return source_of(history, table, mapped)


HERE = here("s", 8)
AT = Position("s", 5)
ASKED = Reconcile("a full refresh was asked for", on_request=True)


def parts(asset: Asset, read: Read, config: Mapping[str, object] | None = None) -> dict[str, str]:
    return definition(asset.table, None, {"src": read}, config or {})


def known(
    at: Position = AT, *, was: Mapping[str, str] | None = None, code: str | None = "2", everything: bool = False
) -> Known:
    mark = Mark(
        "totals", (), FIRST_GENERATION, 4, "run", "attempt", 3, code, {"src": at}, everything=everything, definition=was
    )
    return Known.of(mark, 4)


WHOLE = parts(MERGES, Read())
OTHER_KEY = parts(replace(MERGES, table=Table(key=("id", "day"))), Read())
LATE_BEFORE = parts(MERGES, LATE)
STALE = replace(known(was=WHOLE, everything=True), stale_base=True)


GONE = Lost("it is gone", Generation.after(1))
ELSEWHERE, SHORTER, MAPPED = here("t", 8), here("s", 4), here("s", 8, "#1")


def case(asset: Asset, cursor: Cursor, expected: Any, read: Read = Read(), found: Source = HERE) -> tuple[Any, ...]:
    return asset, cursor, expected, read, found


@for_each(
    "asset, cursor, expected, read, found",
    [
        case(MERGES, Fresh(), FirstRead()),
        case(MERGES, known(was=WHOLE), AT),
        case(APPENDS, known(was=WHOLE), AT),
        case(MERGES, known(replace(AT, is_snapshot=True), was=WHOLE), FirstRead()),
        case(MERGES, GONE, "compared: it is gone"),
        case(FAILS, GONE, "refused: it is gone"),
        case(APPENDS, GONE, "refused: it is gone"),
        case(MERGES, GONE, "refused: it is gone", LATE),
        case(MERGES, known(was=WHOLE, code="1"), "compared: code version"),
        case(FAILS, known(was=WHOLE, code="1"), "compared: code version"),
        case(MERGES, known(was=LATE_BEFORE, code="1"), "refused: code", LATE),
        case(APPENDS, known(was=WHOLE, code="1"), AT),
        case(MERGES, known(was=OTHER_KEY), "compared: its key changed from day, id to id"),
        case(APPENDS, known(was=OTHER_KEY), AT),
        case(MERGES, known(was=None), AT),  # a mark of format 1 is believed
        case(MERGES, known(was=LATE_BEFORE), "compared: start=3"),
        case(FAILS, known(was=LATE_BEFORE), "compared: start=3"),
        case(APPENDS, known(was=LATE_BEFORE), "refused: start=3"),
        case(MERGES, known(was=LATE_BEFORE), AT, LATE),
        case(MERGES, known(was=LATE_BEFORE), "refused: start=3", Read(start=4)),
        case(MERGES, known(was=WHOLE), AT, LATE),  # leaving rows out from now on compares nothing
        case(MERGES, known(was=LATE_BEFORE), AT, Read(start=3, exclude_operations="DELETE")),
        case(MERGES, known(was=WHOLE), "compared: another table", found=ELSEWHERE),
        case(FAILS, known(was=WHOLE), "refused: another table", found=ELSEWHERE),
        case(APPENDS, known(was=WHOLE), "refused: another table", found=ELSEWHERE),
        case(MERGES, known(was=WHOLE), "compared: ends at version 4", found=SHORTER),
        case(MERGES, known(was=WHOLE), "compared: partitions", found=MAPPED),
        case(MERGES, known(replace(AT, mapped="#1"), was=WHOLE), "compared: partitions"),
        case(MERGES, known(was=None), replace(AT, mapped="#1"), found=MAPPED),  # format 1 does not record which
        case(MERGES, STALE, "compared: another writer"),
        case(MERGES, replace(STALE, mark=replace(STALE.mark, definition=LATE_BEFORE)), AT, LATE),
    ],
)
def test_an_input_has_one_plan(
    asset: Asset, cursor: Cursor, expected: Position | FirstRead | str, read: Read, found: Source
) -> None:
    """In the cases, a position means that the feed after it is read."""
    together = decision_for_all(asset, cursor, parts(asset, read), None)
    plan = read_plan(InputFacts(run_of(asset, cursor, together), read, found, cursor.reads.get("src")))
    match expected:
        case Position():
            assert isinstance(plan, ReadFeed) and plan.batch.position == expected
        case str():
            kind, reason = expected.split(": ")
            assert isinstance(plan, Reconcile if kind == "compared" else Refuse)
            assert reason in plan.reason
        case _:
            assert plan == expected


@for_each("read", [Read(), LATE])
def test_what_is_asked_for_is_done(read: Read) -> None:
    cursor = known(was=WHOLE)
    together = decision_for_all(MERGES, cursor, parts(MERGES, read), ASKED)
    assert read_plan(InputFacts(run_of(MERGES, cursor, together), read, HERE, AT)) == ASKED


def test_a_refused_append_is_told_how_to_go_on() -> None:
    refused = decision_for_all(APPENDS, GONE, {}, None)
    assert isinstance(refused, Refuse) and "lakehouse/go_on_from/totals=" in refused.remedy


OLD, NEW = (Code("1/3.11", digest, {"totals": digest}) for digest in ("aa", "bb"))
CODED = replace(MERGES, code=NEW, code_version=None)


def coded(code: Code | None, version: str | None = None, **mark: object) -> Known:
    at = known(was=WHOLE, code=version)
    return replace(at, mark=replace(at.mark, code=code, **mark))  # type: ignore[arg-type]


@for_each(
    "asset, cursor, answer",
    [
        (CODED, coded(OLD), "compares"),
        (replace(CODED, table=FAILS.table), coded(OLD), "compares"),
        (CODED, coded(NEW), None),
        (CODED, coded(None), None),  # a mark without code
        (CODED, coded(replace(OLD, kind="1/3.12")), None),  # another version of Python
        (CODED, coded(replace(OLD, kind="2/3.11")), None),  # another format
        (replace(CODED, code=None), coded(OLD), None),  # no source code
        (MERGES, coded(OLD, "2"), None),  # only the code version counts
        (CODED, Fresh(), None),
        (replace(CODED, read_options={}), coded(OLD), None),
        (replace(CODED, past=PastRows.APPENDED), coded(OLD), "an Append keeps"),
        (replace(CODED, past=PastRows.KEPT), coded(OLD), "a History keeps"),
        (replace(CODED, read_options={"src": LATE}), coded(OLD, definition=LATE_BEFORE), "an input leaves rows"),
        (replace(CODED, policy=Policy(on_new_code="warn")), coded(OLD), "on_new_code='warn'"),
        (replace(CODED, policy=Policy(on_new_code="ignore")), coded(OLD), None),
    ],
)
def test_new_code_compares_or_warns(asset: Asset, cursor: Cursor, answer: str | None) -> None:
    read = asset.read_options.get("src", Read())
    definition = parts(asset, read)
    together = decision_for_all(asset, cursor, definition, None)
    assert together == (Reconcile("the code of totals changed") if answer == "compares" else None)
    warning = warning_of_new_code(asset, cursor, definition, together)
    warns = None if answer == "compares" else answer
    assert (warning is None) is (warns is None) and (warns or "") in (warning or "")
    position = cursor.reads.get("src")
    plan = read_plan(InputFacts(run_of(asset, cursor, together), read, HERE, position))
    if together is None and position is not None:
        assert isinstance(plan, ReadFeed) and plan.batch.position == position
    else:
        assert plan == (together or FirstRead())
    asked = decision_for_all(asset, cursor, definition, ASKED)
    assert warning_of_new_code(asset, cursor, definition, asked) is None, "everything is compared anyway"


def test_an_asset_that_reads_no_changes_is_never_compared_for_its_definition() -> None:
    extract = replace(MERGES, read_options={})
    assert decision_for_all(extract, known(was=OTHER_KEY, code="1"), WHOLE, None) is None


def test_config_decides_field_by_field() -> None:
    before, now = parts(MERGES, Read(), {"limit": 1, "day": "a"}), parts(MERGES, Read(), {"limit": 2, "day": "a"})
    assert decision_for_all(MERGES, known(was=before), now, None) == Reconcile("its config limit had another value")
    refused = decision_for_all(APPENDS, known(was=before), now, None)
    assert isinstance(refused, Refuse) and "config limit" in refused.reason


def test_a_field_that_is_ignored_from_now_on_is_no_other_definition_of_a_history() -> None:
    keeps = replace(MERGES, past=PastRows.KEPT)
    ignores = replace(keeps, policy=Policy(ignore_config="note"))
    cursor = known(was=parts(keeps, Read(), {"note": "a"}))
    assert isinstance(decision_for_all(keeps, cursor, parts(keeps, Read(), {"note": "b"}), None), Refuse)
    assert decision_for_all(ignores, cursor, parts(ignores, Read(), {"note": "b"}), None) is None


def under(asset: Asset, **policy: Any) -> Asset:
    return replace(asset, policy=Policy(**policy))


STRICT = under(MERGES, refresh="strict")
PARTIAL = replace(under(MERGES, refresh="full"), read_options={"src": LATE})


@for_each(
    "asset, cursor, expected, read, found",
    [
        case(STRICT, GONE, Refuse),
        case(STRICT, known(was=WHOLE, code="1"), Refuse),
        case(STRICT, known(was=OTHER_KEY), Refuse),
        case(STRICT, known(was=LATE_BEFORE), Refuse),
        case(STRICT, known(was=WHOLE), Refuse, found=ELSEWHERE),
        case(STRICT, STALE, Refuse),
        case(STRICT, Fresh(), FirstRead),
        case(STRICT, known(was=WHOLE), ReadFeed),
        case(under(MERGES, refresh="full"), Fresh(), FirstRead),
        case(under(MERGES, refresh="full"), known(was=WHOLE), Reconcile),
        case(PARTIAL, known(was=LATE_BEFORE), ReadFeed, LATE),
        case(under(APPENDS, refresh="full"), known(was=WHOLE), ReadFeed),
        case(under(MERGES, refresh="incremental"), GONE, Reconcile),
    ],
)
def test_a_policy_says_whether_everything_is_compared(
    asset: Asset, cursor: Cursor, expected: type, read: Read, found: Source
) -> None:
    together = decision_for_all(asset, cursor, parts(asset, read), None)
    plan = read_plan(InputFacts(run_of(asset, cursor, together), read, found, cursor.reads.get("src")))
    assert type(plan) is expected
    if isinstance(plan, Refuse):
        assert "refresh='strict'" in plan.remedy and "lakehouse/full_refresh=true" in plan.remedy
    asked = read_plan(InputFacts(run_of(asset, cursor, ASKED), read, found, cursor.reads.get("src")))
    assert asked == ASKED or asset.past is PastRows.APPENDED


def test_new_code_of_a_strict_table_is_warned_of() -> None:
    strict = under(CODED, refresh="strict")
    assert decision_for_all(strict, coded(OLD), parts(strict, Read()), None) is None
    assert "refresh='strict'" in str(warning_of_new_code(strict, coded(OLD), parts(strict, Read()), None))


def test_new_code_of_a_strict_view_is_not_warned_of_because_its_query_is_held_against_the_mark() -> None:
    strict = replace(under(CODED, refresh="strict"), has_query=True)
    assert warning_of_new_code(strict, coded(OLD), parts(strict, Read()), None) is None


class Sized(History):
    """A log that knows how many rows its table has."""

    rows = 1000

    def live_rows(self, version: int) -> int:
        return self.rows


@for_each(
    "inserted, asset, read, is_dear",
    [
        (500, MERGES, Read(), True),  # half of its rows
        (499, MERGES, Read(), False),
        (500, under(MERGES, refresh="incremental"), Read(), False),
        (500, STRICT, Read(), False),
        (500, APPENDS, Read(), False),
        (500, replace(MERGES, past=PastRows.KEPT), Read(), False),
        (500, replace(MERGES, inputs=frozenset({"src", "dim"})), Read(), False),
        (400, replace(MERGES, has_query=True, inputs=frozenset({"src", "dim"})), Read(), True),
        (399, replace(MERGES, has_query=True), Read(), False),  # too few to ask how many rows there are
        (500, replace(under(MERGES, refresh="incremental"), has_query=True), Read(), False),
        (500, MERGES, LATE, False),
        (500, MERGES, Read(max_versions=1), False),  # a limit leaves a version to the next run
    ],
)
def test_many_changes_are_dearer_than_all_rows(inserted: int, asset: Asset, read: Read, *, is_dear: bool) -> None:
    history = Sized("src", properties=FEED)
    for _ in range(8):
        history.append()
    history.append(inserted)
    if read.max_versions is not None:
        history.append(1)
    asset = replace(asset, inputs=asset.inputs or frozenset({"src"}))
    position = replace(AT, version=7)
    with in_force(Limits(changes_to_count=400)):
        run = replace(run_of(asset, known(position, was=parts(asset, read))), head=None)  # its table does not exist
        plan = read_plan(InputFacts(run, read, source_of(history, "s"), position))
    assert isinstance(plan, Reconcile) is is_dear
    assert not is_dear or f"{inserted} images of changed rows, and all 1,000 rows" in str(plan)


def test_the_changes_of_a_query_are_weighed_against_the_larger_of_the_source_and_the_table(tmp_path: Path) -> None:
    """A source may be a small part of the table, as one branch of a UNION is."""
    history, position = Sized("src", properties=FEED), replace(AT, version=7)
    for rows in (*[1] * 8, 400):
        history.append(rows)
    for rows, is_dear in ((10, True), (50_000, False)):
        table = TableRef.at_path("totals", str(tmp_path / str(rows)))
        write_deltalake(table.location, pa.table({"id": range(rows)}))
        asset = replace(MERGES, ref=table, has_query=True, inputs=frozenset({"src"}))
        source = source_of(history, "s")
        run = replace(run_of(asset, known(position)), head=table.log(source.at.session).head())
        with in_force(Limits(changes_to_count=400)):
            assert isinstance(read_plan(InputFacts(run, Read(), source, position)), Reconcile) is is_dear


COMPUTED, WARNED, BY_KEYS, REFUSED = PolicyAnswer
OF_EACH_WORD: dict[NeedOfAllRows, tuple[PolicyAnswer, PolicyAnswer, PolicyAnswer, PolicyAnswer]] = {
    # auto, incremental, strict, full
    NeedOfAllRows.ASKED: (COMPUTED, COMPUTED, COMPUTED, COMPUTED),
    NeedOfAllRows.BEGINNING: (COMPUTED, COMPUTED, COMPUTED, COMPUTED),
    NeedOfAllRows.NO_SOURCE: (COMPUTED, COMPUTED, COMPUTED, COMPUTED),
    NeedOfAllRows.READ: (COMPUTED, WARNED, REFUSED, COMPUTED),
    NeedOfAllRows.PLAN: (COMPUTED, WARNED, REFUSED, COMPUTED),
    NeedOfAllRows.SOME_KEYS: (COMPUTED, WARNED, WARNED, COMPUTED),
    NeedOfAllRows.COST: (COMPUTED, BY_KEYS, BY_KEYS, COMPUTED),
}


def test_a_policy_has_an_answer_to_each_need_of_all_rows() -> None:
    """`strict` computes all rows only if a user asks for it and at the beginning; only `auto` chooses by cost."""
    words = ("auto", "incremental", "strict", "full")
    given = {need: tuple(answer_by_policy(need, word) for word in words) for need in NeedOfAllRows}
    assert given == OF_EACH_WORD


def test_a_large_table_is_replaced_where_the_logs_tell_many_changes_and_the_policy_counts_by_cost() -> None:
    """Where it is not known how many rows differ, the comparison stays."""
    large = MEASURED.compared_rows + 1
    tables = [
        (MERGES, large, True),
        (MERGES, MEASURED.compared_rows, False),
        (MERGES, None, False),
        (under(MERGES, max_changed=0.5), large, False),
        (replace(MERGES, changes_are_kept=True), large, False),
    ]
    for asset, rows, may in tables:
        replaced = {each for each in NeedOfAllRows if replaces_all_rows(each, asset, HERE.head, rows)}
        assert replaced == ({NeedOfAllRows.COST} if may else set())
    registered = replace(HERE.head, properties={f"{READER}stream": "interval 1 day"})
    assert not replaces_all_rows(NeedOfAllRows.COST, MERGES, registered, large)


def test_what_a_run_hands_to_the_function_counts_as_its_code_does() -> None:
    def wired(asset: Asset, source: str) -> dict[str, str]:
        return definition(asset.table, None, {"src": Read()}, {}, inputs={"old": source})

    was = known(was=wired(MERGES, "a"))
    assert "its input old was 'a' and is 'b'" in str(decision_for_all(MERGES, was, wired(MERGES, "b"), None))
    assert decision_for_all(MERGES, was, wired(MERGES, "a"), None) is None
    for asset in (APPENDS, under(MERGES, on_new_code="warn"), under(MERGES, refresh="strict")):
        assert decision_for_all(asset, was, wired(asset, "b"), None) is None
        assert "its input old was 'a'" in str(warning_of_new_code(asset, was, wired(asset, "b"), None))
    ignoring = under(MERGES, on_new_code="ignore")
    assert decision_for_all(ignoring, was, wired(ignoring, "b"), None) is None
    assert warning_of_new_code(ignoring, was, wired(ignoring, "b"), None) is None

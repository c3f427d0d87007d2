"""What rivals leave of the base of an own commit: one rule, by which a run and the next run decide alike."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.commit.rivals import rivals_before
from lakehouse.cursor.cursor import Known, Lost
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.since_base import Base, BaseHolds, BaseReverted, StaleBase, judge_base, why_names_taken
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.log import VersionRange
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.delta.table import Read, Table
from lakehouse.errors import StaleInputsError
from lakehouse.read.asset import Asset, PastRows
from lakehouse.read.content import Feed, SourceRead
from lakehouse.read.run import Run
from lakehouse.spark.driver_rows import Local
from lakehouse.spark.table_version import TableRef, TableVersion
from tests.support.commits import History, cursor, known
from tests.support.for_each import for_each

PARTITION = ("p",)
UPTO = 8
Act: TypeAlias = Callable[[History], object]
OVERWRITE = {"mode": "Overwrite", "predicate": '["g = p"]'}


def another_run(partitions: tuple[str, ...] = ("p", "q")) -> Act:
    return lambda history: history.own(5, partitions, epoch=len(history.entries) + 1)


def quiet_run(history: History) -> None:
    version = history.own(5, ("p", "q"), epoch=len(history.entries) + 1)
    quiet = replace(history.entries[version], operation="WRITE", metrics={"numOutputRows": 0})
    history.entries[version] = replace(quiet, parameters={"mode": "Append"})


def began() -> History:
    """A table at version 1 that has read its source up to version 5 for partition p."""
    history = History()
    history.append()
    history.own(5, PARTITION)
    return history


def running(history: History) -> Run:
    """A run of p that reads on up to version 8."""
    source = TableVersion(None, TableRef.at_path("src", "/src"), "s", UPTO)  # type: ignore[arg-type]
    table, ref = Table(key="id", partition_by="g"), TableRef.at_path(history.asset, "/table")
    return Run(
        asset=Asset(history.asset, table, ref, past=PastRows.COMPUTED, read_options={"src": Read()}),
        run_id="ours",
        cursor=cursor(history, *PARTITION),
        changes=(SourceRead(source, VersionRange(5, UPTO), Feed(Local(None, None, None))),),  # type: ignore[arg-type]
        slice=Slice((PartitionKey("p", {"g": "p"}, {}),)),
        head=history.head(),
    )


def landed(history: History, run: Run, *, compared: bool, by_snapshot_inputs: bool) -> tuple[Mark, Commit]:
    """The commit of a run, planned when that run began."""
    mark = run.mark("attempt", run.began_at, compared=compared)
    version = history.land(mark)
    assert version is not None
    if by_snapshot_inputs:
        history.entries[version] = replace(history.entries[version], operation="WRITE", parameters=OVERWRITE)
    return mark, history.entries[version]


def judged(history: History, mark: Mark, commit: Commit) -> Base:
    return judge_base(history.commits(commit.version - 1, mark.base + 1), commit, mark)


CASES: dict[str, tuple[tuple[Act, ...], Base, Base]] = {
    "nobody": ((), BaseHolds(), BaseHolds()),
    "files alone": ((lambda it: it.add("OPTIMIZE"),), BaseHolds(), BaseHolds()),
    "another partition": ((another_run(("q",)),), BaseHolds(), BaseHolds()),
    "a run without rows": ((quiet_run,), BaseHolds(), BaseHolds()),
    "another program": ((lambda it: it.append(),), StaleBase(()), BaseHolds()),
    "a run of the asset": ((another_run(),), BaseReverted("another run of the asset"), BaseReverted("another run")),
    "a restore": ((lambda it: it.restore(0),), BaseReverted("(RESTORE)"), BaseReverted("(RESTORE)")),
    "a truncate": ((lambda it: it.add("TRUNCATE"),), BaseReverted("(TRUNCATE)"), BaseReverted("(TRUNCATE)")),
    "a log that was cleaned": (
        (lambda it: it.append(), lambda it: it.append(), lambda it: it.clean(3)),
        BaseReverted("was cleaned up"),
        BaseReverted("was cleaned up"),
    ),
}


@for_each("compared", [True, False])
@for_each("acts, of_compared, of_appended", CASES.values())
def test_who_came_between_decides_what_a_position_is_worth(
    acts: tuple[Act, ...],
    of_compared: Base,
    of_appended: Base,
    *,
    compared: bool,
):
    history = began()
    run = running(history)
    for act in acts:
        act(history)
    base = judged(history, *landed(history, run, compared=compared, by_snapshot_inputs=False))
    wanted = of_compared if compared else of_appended
    assert type(base) is type(wanted)
    if isinstance(base, BaseReverted) and isinstance(wanted, BaseReverted):
        assert base.reason.startswith("version") and wanted.reason in base.reason


def test_a_commit_that_replaced_all_rows_of_its_partitions_holds_whichever_run_came_between():
    history = began()
    run = running(history)
    another_run()(history)
    assert judged(history, *landed(history, run, compared=False, by_snapshot_inputs=True)) == BaseHolds(
        (history.entries[2],)
    )


def test_a_commit_that_was_planned_on_a_later_version_is_of_a_table_that_was_deleted():
    history = began()
    mark, commit = landed(history, running(history), compared=True, by_snapshot_inputs=False)
    base = judge_base((), commit, replace(mark, base=commit.version))
    assert isinstance(base, BaseReverted) and "deleted meanwhile" in base.reason


def test_a_log_with_a_hole_is_not_taken_for_a_whole_one():
    history = began()
    run = running(history)
    for _ in range(3):
        history.add("OPTIMIZE")
    mark, commit = landed(history, run, compared=True, by_snapshot_inputs=False)
    between = [history.entries[4], history.entries[2]]
    assert isinstance(judge_base(between, commit, mark), BaseReverted)


acts = st.sampled_from(
    [
        lambda it: it.append(),
        lambda it: it.add("OPTIMIZE"),
        lambda it: it.add("TRUNCATE"),
        lambda it: it.restore(0),
        lambda it: it.restore(len(it.entries) - 1),
        another_run(("q",)),
        another_run(),
        another_run(()),
        quiet_run,
    ]
)


@given(
    before=st.lists(acts, max_size=3),
    between=st.lists(acts, max_size=4),
    kept=st.integers(0, 8),
    compared=st.booleans(),
    by_snapshot_inputs=st.booleans(),
)
def test_a_run_and_the_next_run_agree_about_its_commit(
    before: list[Act],
    between: list[Act],
    kept: int,
    *,
    compared: bool,
    by_snapshot_inputs: bool,
):
    history = began()
    for act in before:
        act(history)
    run = running(history)
    for act in between:
        act(history)
    mark, commit = landed(history, run, compared=compared, by_snapshot_inputs=by_snapshot_inputs and not compared)
    history.clean(min(kept, commit.version))
    found = find_cursor(history, history.head(), history.asset, PARTITION)
    try:
        rivals = rivals_before(history, run, mark, commit)
    except StaleInputsError:
        assert isinstance(found, Lost)
    else:
        assert isinstance(found, Known) and found.version == commit.version
        assert found.stale_base == bool(rivals)


def test_a_name_is_taken_by_a_commit_after_the_last_own_one():
    history, names = History(), {"id", "n", "n.y"}
    history.add("DROP COLUMNS", {"columns": '["n.y"]'})
    history.own()

    def why(names: set[str] | None) -> str | None:
        head = history.head()
        assert head is not None
        return why_names_taken(history, head, known(history), names)

    assert why(names) is None
    history.add("DROP COLUMNS", {"columns": '["N.y"]'})
    history.add("ADD COLUMNS")
    assert why(names) == "version 2 (DROP COLUMNS) of its table has taken a name that its result has"
    assert why({"id"}) is None and why(None) == why(names)
    history.add("REPLACE COLUMNS")
    assert why({"id"}) == "version 4 (REPLACE COLUMNS) of its table has taken a name that its result has"

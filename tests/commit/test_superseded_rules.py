"""How a run of some partitions takes the commits of other sets of partitions."""

from dataclasses import replace

import pytest

from lakehouse.commit.rivals import rivals_before
from lakehouse.commit.superseded import superseded_by
from lakehouse.cursor.cursor import Known, Lost
from lakehouse.cursor.digests import QueryDigest
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.mark import Mark, Position
from lakehouse.delta.log import VersionRange
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.delta.table import Read, Table
from lakehouse.read.asset import Asset, PastRows, UserRequest
from lakehouse.read.content import Feed, Nothing, SourceRead
from lakehouse.read.decide import Reconcile
from lakehouse.read.run import Run
from lakehouse.spark.driver_rows import Local
from lakehouse.spark.table_version import TableRef, TableVersion
from tests.support.commits import History, cursor, known, read_to
from tests.support.for_each import for_each
from tests.support.raises import raises_code

AS_OF = 8
RATES = Position("r", 5, is_snapshot=True)
QUERY = QueryDigest("#a", "#b", "1")


def table_at(name: str, table_id: str, version: int) -> TableVersion:
    """A table at one version; no row of it is read."""
    return TableVersion(None, TableRef.at_path(name, f"/{name}"), table_id, version)  # type: ignore[arg-type]


@pytest.fixture
def history() -> History:
    """Partition p has read up to version 5, alone and together with q."""
    history = History()
    history.own(5, ("p",))
    history.own(5, ("p", "q"))
    return history


def asset_of(history: History) -> Asset:
    table, ref = Table(key="id", partition_by="g"), TableRef.at_path(history.asset, "/table")
    return Asset(history.asset, table, ref, past=PastRows.COMPUTED, read_options={"src": Read()})


def run(history: History, after: int = 5, upto: int = AS_OF, partitions: tuple[str, ...] = ("p",)) -> Run:
    """A run, by default of p, that reads the changes after version 5, up to version 8."""
    head = history.head()
    assert head is not None
    source = table_at("src", "s", upto)
    nothing = Feed(Local(None, None, None))  # type: ignore[arg-type]
    keys = tuple(PartitionKey(partition, {"g": partition}, {}) for partition in partitions)
    return Run(
        asset=asset_of(history),
        run_id="ours",
        cursor=find_cursor(history, head, history.asset, partitions),
        changes=(SourceRead(source, VersionRange(after, upto), nothing),),
        slice=Slice(keys) if keys else None,
        head=head,
    )


def landed(history: History, ours: Run, base: int, *, compared: bool = True) -> int:
    """The version of our commit, which was planned on `base`."""
    done = history.land(ours.mark("attempt", base, compared=compared))
    assert done is not None
    return done


def landed_unseen(history: History, ours: Run, theirs: int) -> int:
    """The version of our commit, planned before a run of p and q committed that has read up to `theirs`."""
    base = history.entries[-1].version
    history.own(theirs, ("p", "q"), epoch=2, compared=True)
    return landed(history, ours, base)


def refuse(history: History, ours: Run, own: int) -> None:
    """Judges a commit as the run does for its own."""
    commit = history.entries[own]
    mark = Mark.from_json(commit.user_metadata)
    assert mark is not None
    rivals_before(history, ours, mark, commit)


def test_one_that_read_as_far_is_done_for_us_if_it_was_first(history: History):
    ours = run(history)
    version = history.own(AS_OF, ("p", "q"), epoch=2)
    found = superseded_by(history, history.head(), ours, None)
    assert isinstance(found, Known) and found.version == version


@pytest.mark.parametrize(
    "theirs",
    [QUERY, replace(QUERY, kind="of another parser", names="x"), None],
    ids=["the same", "names unknown", "unknown"],
)
def test_one_that_computed_the_query_is_done_for_us(history: History, theirs: QueryDigest | None):
    ours = run(history).with_facts(query=QUERY)
    history.own(AS_OF, ("p", "q"), epoch=2, query=theirs)
    assert isinstance(superseded_by(history, history.head(), ours, None), Known)


@pytest.mark.parametrize("theirs", [replace(QUERY, text="x"), replace(QUERY, names="x")], ids=["text", "names"])
def test_one_that_computed_another_query_is_not_done_for_us(history: History, theirs: QueryDigest):
    ours = run(history).with_facts(query=QUERY)
    history.own(AS_OF, ("p", "q"), epoch=2, query=theirs)
    assert superseded_by(history, history.head(), ours, None) is None


def mending(history: History, ours: Run, *, everything: bool = False) -> tuple[Run, int]:
    """Our run after its commit, just before which another program changed rows; and the version of that commit."""
    ours = replace(ours, together=Reconcile("asked for") if everything else None)
    base = history.entries[-1].version
    history.append()
    done = landed(history, ours, base)
    own = Mark.from_json(history.entries[done].user_metadata)
    assert own is not None
    return replace(ours, cursor=replace(Known.of(own, done), reads=ours.cursor.reads)), done


def test_one_that_followed_upon_our_commit_has_mended_it(history: History):
    ours, done = mending(history, run(history))
    version = history.own(AS_OF, ("p", "q"), epoch=2, compared=True)
    found = superseded_by(history, history.head(), ours, done)
    assert isinstance(found, Known) and found.version == version


def test_one_that_followed_upon_our_commit_has_not_mended_what_no_range_tells(history: History):
    """After a full refresh, for example: the rival's key is not among the changes."""
    ours, done = mending(history, run(history), everything=True)
    history.own(AS_OF, ("p", "q"), epoch=2, compared=True)
    assert superseded_by(history, history.head(), ours, done) is None
    history.own(AS_OF + 1, ("p", "q"), epoch=3, compared=True)
    with raises_code("OVERTAKEN", match=f"this run committed version {done}"):
        superseded_by(history, history.head(), ours, done)


def test_one_behind_which_rows_slipped_is_not_done_for_us(history: History):
    """That run was killed before it could write these rows again."""
    ours = run(history)
    base = history.entries[-1].version
    history.append()
    history.own(AS_OF, ("p", "q"), epoch=2, base=base, compared=True)
    with raises_code("OVERTAKEN"):
        superseded_by(history, history.head(), ours, None)


def test_one_of_other_partitions_is_nothing_to_us(history: History):
    ours = run(history)
    history.own(AS_OF + 1, ("q",))
    assert superseded_by(history, history.head(), ours, None) is None


def test_a_full_refresh_goes_on_where_a_position_was_taken_back():
    history = History()
    history.own(5, ("p", "q"))
    history.own(7, ("p",))
    ours = replace(run(history, 7), together=Reconcile("asked for"))
    history.append()
    history.own(6, ("p", "q"), epoch=2, base=1, compared=True)
    assert superseded_by(history, history.head(), ours, None) is None


def test_one_that_came_unseen_and_had_read_further_has_rows_that_ours_took_back(history: History):
    ours = run(history)
    done = landed_unseen(history, ours, AS_OF + 2)
    with raises_code("OVERTAKEN", match=f"this run committed version {done}"):
        refuse(history, ours, done)


def test_one_that_came_unseen_is_nothing_to_refuse_where_the_whole_result_is_compared(history: History):
    ours = replace(run(history), changes=(), snapshots={"src": table_at("src", "s", AS_OF)})
    refuse(history, ours, landed_unseen(history, ours, AS_OF))


def test_one_that_a_restore_went_back_to_is_done_for_us_all_the_same(history: History):
    ours = run(history)
    version = history.own(AS_OF, ("p", "q"), epoch=2)
    history.append()
    history.restore(version)
    found = superseded_by(history, history.head(), ours, None)
    assert isinstance(found, Known) and found.version == version


@pytest.mark.parametrize("asked", [True, False])
def test_an_epoch_that_another_program_has_used_is_the_same_whenever_a_run_looks(history: History, *, asked: bool):
    """Where everything is compared because the code changed, the epoch in the log was not looked up."""
    ours = run(history)
    history.transactions[ours.application_id] = 99
    cursor = find_cursor(history, history.head(), history.asset, ("p",), overrides_mark=asked)
    request = UserRequest(compare="asked for" if asked else None)
    ours = replace(ours, cursor=cursor, together=Reconcile("asked for", on_request=asked), request=request)
    assert superseded_by(history, history.head(), ours, None) is None


def test_one_that_was_taken_back_has_done_nothing_for_us(history: History):
    ours = run(history)
    began = history.entries[-1].version
    history.own(AS_OF, ("p", "q"), epoch=2)
    history.restore(began)
    with raises_code("OVERTAKEN"):  # the restored commit is the newest, and the run has another generation
        superseded_by(history, history.head(), ours, None)


@pytest.fixture
def uneven() -> History:
    """Partition p has read up to version 103, and q up to 50."""
    history = History()
    history.own(50, ("q",))
    history.own(50, ("p",))
    history.own(103, ("p",), epoch=2, compared=True)
    return history


def test_one_that_has_taken_a_partition_back_is_not_built_upon(uneven: History):
    """That run read a portion from the position of q on, and set keys of p to what they were then."""
    ours = run(uneven, 103, 105)
    uneven.own(60, ("p", "q"), compared=True)
    with raises_code("OVERTAKEN"):
        superseded_by(uneven, uneven.head(), ours, None)


def test_one_that_has_taken_a_partition_back_unseen_is_where_the_next_run_begins(uneven: History):
    ours = run(uneven, 103, 105)
    base = ours.began_at
    uneven.own(60, ("p", "q"), compared=True)
    own = landed(uneven, ours, base)
    with raises_code("OVERTAKEN", match="Neither run saw the other"):
        refuse(uneven, ours, own)
    assert isinstance(cursor(uneven, "p"), Lost)


def test_one_whose_rows_somebody_else_changed_again_is_not_built_upon(uneven: History):
    """That run was killed before it could write the rows again, and had begun before this run's range."""
    ours = run(uneven, 103, 105)
    uneven.append()
    uneven.own(104, ("p", "q"), base=ours.began_at, compared=True)
    with raises_code("OVERTAKEN"):
        superseded_by(uneven, uneven.head(), ours, None)


def test_one_that_was_planned_before_the_partition_went_further_is_not_built_upon(uneven: History):
    """That run was killed before it could look at the commits in between."""
    ours = run(uneven, 103, 105)
    uneven.own(102, ("p", "q"), base=1, compared=True)
    with raises_code("ROLLED_BACK", match="did not see each other"):
        superseded_by(uneven, uneven.head(), ours, None)


def test_one_that_was_planned_before_a_restore_is_not_done_for_us(history: History):
    base = history.entries[-1].version
    history.append()
    history.restore(base)
    ours = run(history)
    history.own(AS_OF, ("p", "q"), epoch=2, base=base + 1, compared=True)
    with raises_code("OVERTAKEN"):
        superseded_by(history, history.head(), ours, None)


def test_one_from_before_the_asset_had_partitions_is_done_for_a_partition():
    history = History()
    history.own(5)
    ours = run(history)
    version = history.own(AS_OF, epoch=2)
    found = superseded_by(history, history.head(), ours, None)
    assert isinstance(found, Known) and found.version == version


@for_each("late", [True, False])
def test_rows_that_were_appended_in_two_generations_are_not_taken_for_one_range(*, late: bool):
    """A writer that planned before a RESTORE appends after it, next to the run that goes on from what was restored."""
    history = History()
    history.own(3)
    history.own(5, epoch=2)
    old = replace(run(history, partitions=()), run_id="old")
    history.restore(0)
    new = run(history, 3, partitions=())
    first, second = ((old, 1), (new, 2)) if late else ((new, 2), (old, 1))
    landed(history, *first, compared=False)
    own = landed(history, *second, compared=False)
    with raises_code("OVERTAKEN", match="or in the table twice"):
        refuse(history, second[0], own)
    assert isinstance(cursor(history), Lost)


@for_each("snapshots", [{}, {"rates": table_at("rates", "r", 5)}])
def test_a_run_that_is_repeated_does_not_take_a_commit_that_slipped_for_done(snapshots: dict[str, TableVersion]):
    """The first run was killed, or gave up, before it could overwrite the rival's rows."""
    history = History()
    history.own(reads=dict.fromkeys(snapshots, RATES), compared=True)
    ours = replace(run(history, partitions=()), changes=(), snapshots=snapshots)
    history.append()
    landed(history, ours, ours.began_at)
    again = replace(ours, run_id="again", aliases=frozenset({"ours"}), cursor=known(history))
    assert superseded_by(history, history.head(), again, None) is None


def test_what_reads_no_changes_is_not_done_by_another_run_that_looked_up_the_same(history: History):
    """The run may have listed files, for example, and there may be more of them by now."""
    ours = replace(run(history, partitions=("p",)), changes=(), snapshots={"rates": table_at("rates", "r", 5)})
    history.own(partitions=("p",), reads={"rates": RATES}, epoch=2)
    with raises_code("OVERTAKEN"):
        superseded_by(history, history.head(), ours, None)


def test_one_of_another_set_that_looked_up_the_same_is_no_reason_not_to_compare(history: History):
    ours = replace(run(history, partitions=("p",)), changes=(), snapshots={"rates": table_at("rates", "r", 5)})
    history.own(partitions=("p", "q"), reads={"rates": RATES}, epoch=2)
    assert superseded_by(history, history.head(), ours, None) is None


def test_a_commit_that_is_to_be_mended_and_whose_log_was_cleaned_is_not_gone_on_from():
    """The table was emptied meanwhile, and only the commit after that is left: a range would leave a hole."""
    history = History()
    history.own(5)
    ours, done = mending(history, run(history, partitions=()))
    history.add("TRUNCATE")
    history.add("OPTIMIZE")
    history.clean(done + 2)
    assert isinstance(cursor(history), Lost) and cursor(history).epoch == ours.cursor.epoch
    with raises_code("ROLLED_BACK"):
        superseded_by(history, history.head(), ours, done)


def test_one_that_came_unseen_and_changed_no_row_is_nothing_to_refuse(history: History):
    ours = run(history)
    base = history.entries[-1].version
    quiet = history.own(AS_OF, ("p", "q"), epoch=2, compared=True)
    history.entries[quiet] = replace(
        history.entries[quiet], operation="WRITE", parameters={"mode": "Append"}, metrics={"numOutputRows": 0}
    )
    refuse(history, ours, landed(history, ours, base))
    assert read_to(history, "p") == AS_OF and not known(history, "p").stale_base


def test_what_was_written_as_a_whole_is_what_it_says_whoever_came_before(history: History):
    """An overwrite of the partition leaves no rows of the other run."""
    ours = run(history)
    base = history.entries[-1].version
    history.own(AS_OF, ("p", "q"), epoch=2, compared=True)
    own = landed(history, ours, base, compared=False)
    history.entries[own] = replace(history.entries[own], operation="WRITE", parameters={"mode": "Overwrite"})
    refuse(history, ours, own)
    assert read_to(history, "p") == AS_OF


def test_a_commit_that_slipped_is_made_again_though_there_is_nothing_to_read(history: History):
    """Otherwise every look for something to do would find this commit to mend, for ever."""
    history.append()
    history.own(5, ("p",), epoch=2, base=1, compared=True)
    ours = run(history)
    assert known(history, "p").stale_base
    nothing = replace(ours, changes=(replace(ours.changes[0], range=VersionRange(5, 5), content=Nothing()),))
    assert nothing.is_due()

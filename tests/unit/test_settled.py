"""What a run of some partitions takes the commits of other sets of them for."""

from dataclasses import replace

import pytest

from lakehouse.changes import Changes, Feed
from lakehouse.cursor import Known, find_cursor
from lakehouse.errors import OvertakenError
from lakehouse.local import Local
from lakehouse.mark import Mark
from lakehouse.partitions import PartitionKey, Slice
from lakehouse.run import Run
from lakehouse.settled import refuse_older, settled_by
from lakehouse.table import Table
from lakehouse.tables import Pinned, TableRef
from lakehouse.versions import VersionRange
from lakehouse.writes import Merge
from tests.unit.history import TABLE_ID, History

AS_OF = 8
ANY: Merge = Merge(None, None)  # type: ignore[arg-type]


@pytest.fixture
def history() -> History:
    """Partition p has read up to version 5, alone and together with q."""
    history = History()
    history.own(5, ("p",))
    history.own(5, ("p", "q"))
    return history


def run(history: History) -> Run:
    """A run of p that reads up to version 8."""
    head = history.head()
    assert head is not None
    source = Pinned(None, TableRef.at_path("src", "/src"), "s", AS_OF)  # type: ignore[arg-type]
    nothing = Feed(Local(None, None, None))  # type: ignore[arg-type]
    return Run(
        asset=history.asset,
        table=Table(key="id", partition_by="g"),
        ref=TableRef.at_path(history.asset, "/table"),
        run_id="ours",
        cursor=find_cursor(history, head, history.asset, ("p",)),
        changes=(Changes(source, VersionRange(5, AS_OF), nothing),),
        slice=Slice((PartitionKey("p", {"g": "p"}, {}),)),
        began_at=head.version,
        table_id=TABLE_ID,
    )


def landed_unseen(history: History, ours: Run, theirs: int) -> int:
    """Our commit's version, planned before a run of p and q committed, which has read up to `theirs`."""
    mark: Mark = ours.mark("attempt", history.entries[-1].version, compared=True)
    history.own(theirs, ("p", "q"), epoch=2, compared=True)
    done = history.land(mark)
    assert done is not None
    return done


def test_one_that_read_as_far_is_done_for_us_if_it_was_first(history: History):
    ours = run(history)
    version = history.own(AS_OF, ("p", "q"), epoch=2)
    found = settled_by(history, history.head(), ours, ANY, None)
    assert isinstance(found, Known) and found.version == version


def test_one_that_came_unseen_just_before_our_commit_does_not_settle_it(history: History):
    """Both may have inserted the same rows: ours has to be compared once more."""
    ours = run(history)
    done = landed_unseen(history, ours, AS_OF)
    found = settled_by(history, history.head(), ours, ANY, done)
    assert found is None or found.version == done


def test_one_that_came_unseen_and_had_read_further_has_rows_that_ours_took_back(history: History):
    ours = run(history)
    done = landed_unseen(history, ours, AS_OF + 2)
    with pytest.raises(OvertakenError, match=f"own version {done} followed unseen"):
        refuse_older(history, ours, ours.began_at, done)


def test_one_that_came_unseen_and_had_read_as_far_is_nothing_to_refuse(history: History):
    ours = run(history)
    refuse_older(history, ours, ours.began_at, landed_unseen(history, ours, AS_OF))


def test_one_that_a_restore_went_back_to_is_done_for_us_all_the_same(history: History):
    ours = run(history)
    version = history.own(AS_OF, ("p", "q"), epoch=2)
    history.append()
    history.restore(version)
    found = settled_by(history, history.head(), ours, ANY, None)
    assert isinstance(found, Known) and found.version == version


@pytest.mark.parametrize("asked", [True, False])
def test_an_epoch_that_another_program_has_used_is_the_same_whenever_a_run_looks(history: History, *, asked: bool):
    """Where everything is compared because the code is another, nobody asked for the epoch of the log."""
    ours = run(history)
    history.transactions[ours.application_id] = 99
    cursor = find_cursor(history, history.head(), history.asset, ("p",), compare=asked)
    ours = replace(ours, cursor=cursor, compare="its code is another", asked=asked)
    assert settled_by(history, history.head(), ours, ANY, None) is None


def test_one_that_was_taken_back_has_done_nothing_for_us(history: History):
    ours = run(history)
    began = history.entries[-1].version
    history.own(AS_OF, ("p", "q"), epoch=2)
    history.restore(began)
    with pytest.raises(OvertakenError):  # the restored commit is the newest, and the run has another generation
        settled_by(history, history.head(), ours, ANY, None)

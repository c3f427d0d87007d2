"""Whether a quarantine belongs to the position of its table: by the versions that the marks of both name."""

from lakehouse.cursor.beside import is_ahead, why_quarantine_differs
from lakehouse.cursor.cursor import Known
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark
from tests.support.commits import History
from tests.support.for_each import for_each

NAME = "silver/flights_quarantine"


def mark(
    asset: str, beside: int | None, partitions: tuple[str, ...] = (), epoch: int = 1, *, everything: bool = False
) -> Mark:
    attempt = f"attempt {epoch}"
    return Mark(asset, partitions, FIRST_GENERATION, epoch, "run", attempt, 0, beside=beside, everything=everything)


def table_at(version: int, beside: int | None, *partitions: str) -> Known:
    """The position of a table, whose mark names a version of its quarantine."""
    return Known.of(mark("silver/flights", beside, partitions), version)


def quarantine(*planned_on: int, partitions: tuple[str, ...] = ()) -> History:
    """A quarantine with one commit for each version of the table on which a run planned its commit."""
    history = History(NAME)
    for epoch, version in enumerate(planned_on, 1):
        history.land(mark(NAME, version, partitions, epoch))
    return history


def why(history: History, cursor: Known, *partitions: str) -> str | None:
    return why_quarantine_differs(history, history.head(), NAME, cursor, partitions)


def ahead(history: History, cursor: Known, *partitions: str) -> bool:
    head = history.head()
    assert head is not None
    return is_ahead(history, head, NAME, cursor, partitions)


def test_the_version_that_the_mark_of_the_table_names_goes_with_it():
    history = quarantine(-1, 4)
    assert why(history, table_at(5, 1)) is None and not ahead(history, table_at(5, 1))
    history.add("OPTIMIZE")
    assert why(history, table_at(9, 1)) is None and not ahead(history, table_at(9, 1))


def test_a_run_that_ended_before_it_wrote_the_table_is_made_up_for_by_the_next():
    history = quarantine(-1, 5)
    assert why(history, table_at(5, 0)) is None
    assert ahead(history, table_at(5, 0))


def test_a_run_that_set_all_of_it_may_have_gone_by_what_the_next_run_does_not():
    """Another definition, for example, which was taken back: the next run would touch only the changed keys."""
    history = quarantine(-1)
    history.land(mark(NAME, 5, epoch=2, everything=True))
    assert why(history, table_at(5, 0)) == (
        f"a run that set all of its quarantine '{NAME}' (version 1) ended before it wrote the table"
    )
    assert why(history, table_at(6, 1)) is None, "its run has written the table"


@for_each("beside", [None, 0])
def test_a_run_that_planned_before_the_newest_commit_of_the_table_came_too_late(beside: int | None):
    history = quarantine(4) if beside is None else quarantine(-1, 4)
    version = len(history.entries) - 1
    assert why(history, table_at(5, beside)) == (
        f"a run that came too late wrote version {version} of its quarantine '{NAME}'"
    )


def test_a_run_of_another_partition_says_nothing_of_this_one():
    history = quarantine(-1, 4, partitions=("p",))
    assert why(history, table_at(5, 0, "q"), "q") is None and not ahead(history, table_at(5, 0, "q"), "q")
    assert "came too late" in str(why(history, table_at(5, 0, "p"), "p"))


def test_a_quarantine_that_somebody_took_away_or_back_does_not_go_with_the_table():
    history = quarantine(-1, 4)
    assert why(History(NAME), table_at(5, None)) is None
    assert why(History(NAME), table_at(5, 1)) == f"its quarantine '{NAME}' is gone"
    assert why(history, table_at(5, 3)) == f"its quarantine '{NAME}' is at version 1, and was at 3"
    history.restore(0)
    assert why(history, table_at(5, 1)) == f"version 2 (RESTORE) changed its quarantine '{NAME}'"
    history = quarantine(-1, 4)
    history.add("DROP COLUMNS")
    assert why(history, table_at(5, 1)) == f"version 2 (DROP COLUMNS) changed its quarantine '{NAME}'"
    assert why(history, table_at(6, 2)) is None


def test_commits_that_were_cleaned_up_may_have_been_anybody_s():
    history = quarantine(-1, 4, 5, 6)
    history.clean(2)
    assert why(history, table_at(5, 1)) is None
    assert why(history, table_at(5, 0)) == f"commits of its quarantine '{NAME}' after version 0 were cleaned up"


def test_what_others_commit_to_a_quarantine_does_not_decide_where_a_run_goes_on():
    history = quarantine(-1)
    history.append()
    assert why(history, table_at(5, 0)) is None and not ahead(history, table_at(5, 0))

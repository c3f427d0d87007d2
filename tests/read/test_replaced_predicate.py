"""A condition on changed rows is known only if each of the commits records one in the form that this library writes."""

from dataclasses import replace

from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.limits import MEASURED
from lakehouse.read.feed_reader import replaced_within
from tests.support.for_each import for_each

MARK = Mark("silver/orders", (), FIRST_GENERATION, 3, "run", "attempt", 6, None, {}).to_json()
WRITTEN = {"numOutputRows": 1, "numDeletedRows": 1, "numCopiedRows": 0}
OURS = Commit(7, 0, "WRITE", {"mode": "Overwrite", "predicate": "`id` = 1"}, WRITTEN, MARK)
QUIET = Commit(8, 0, "OPTIMIZE", {"predicate": "[]"})


def test_the_predicate_of_a_replacement_holds_for_its_rows():
    assert replaced_within((OURS,)) == "(`id` = 1)"


def test_one_of_several_commits_may_have_changed_a_row():
    other = replace(OURS, version=9, parameters={"mode": "Overwrite", "predicate": "`id` = 2 OR `id` = 3"})
    assert replaced_within((OURS, QUIET, other)) == "(`id` = 1) OR (`id` = 2 OR `id` = 3)"


@for_each(
    "stranger",
    [
        replace(OURS, user_metadata=None),
        replace(OURS, user_metadata='{"lakehouse": 7}'),
        replace(OURS, user_metadata='{"lakehouse": {"asset"'),
        replace(OURS, user_metadata=MARK.replace('{"asset"', '{"format":9,"asset"')),
        replace(OURS, operation="DELETE", parameters={"predicate": '["(id = 1)"]'}),
        replace(OURS, operation="MERGE", parameters={"predicate": "(t.id = s.id)"}),
        replace(OURS, parameters={"mode": "Append"}),
        replace(OURS, parameters={"mode": "Overwrite", "predicate": "true"}),
        replace(OURS, parameters={"mode": "Overwrite", "predicate": "`at` >= TIMESTAMP'2020-01-01 00:00:00+00:00'"}),
    ],
)
def test_one_commit_that_does_not_say_so_leaves_nothing_known(stranger: Commit):
    assert replaced_within((stranger,)) is None
    assert replaced_within((OURS, stranger)) is None


def test_without_commits_nothing_is_known():
    assert replaced_within(()) is None
    assert replaced_within((QUIET,)) is None


def test_many_predicates_are_not_worth_it():
    assert replaced_within((OURS,) * MEASURED.replaced_predicates) is not None
    assert replaced_within((OURS,) * (MEASURED.replaced_predicates + 1)) is None

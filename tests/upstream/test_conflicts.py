"""When Delta lets a second writer commit and when not, cell by cell; a failure here means that Delta changed a rule.

The loser has read the table and written everything but its log entry when the winner commits. The answers to conflicts
(lakehouse/spark/diagnosis.py) and the rules that foresee them (lakehouse/conflicts/rules.py) rely on these cells.
"""

from collections import defaultdict
from typing import NamedTuple

import pytest
from delta import exceptions

from lakehouse.commit.rivals import Conflict, ConflictKind, classify
from lakehouse.conflicts.operations import ConcurrentWrite, Layout, Verdict
from lakehouse.conflicts.rules import foresee
from tests.support.interleave import rivals
from tests.support.lake import Lake
from tests.upstream.acts import ACTS, FORMS, copied

pytestmark = pytest.mark.race


class Answer(NamedTuple):
    """Delta's error for the loser; all None if the loser commits."""

    name: str | None
    condition: str | None = None
    kind: ConflictKind | None = None
    partition: str | None = None


COMMITS = Answer(None)
ADDED = Answer("ConcurrentAppendException", "DELTA_CONCURRENT_APPEND.WITHOUT_HINT", ConflictKind.FILES)
ADDED_IN_A = Answer(ADDED.name, "DELTA_CONCURRENT_APPEND.WITH_PARTITION_HINT", ConflictKind.FILES, "[g=a]")
ADDED_IN_B = ADDED_IN_A._replace(partition="[g=b]")
REMOVED = Answer("ConcurrentDeleteReadException", "DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT", ConflictKind.FILES)
REMOVED_IN_B = Answer(REMOVED.name, "DELTA_CONCURRENT_DELETE_READ.WITH_PARTITION_HINT", ConflictKind.FILES, "[g=b]")
METADATA = Answer("MetadataChangedException", "DELTA_METADATA_CHANGED", ConflictKind.METADATA)
DOMAIN = Answer("ConcurrentTransactionException", None, ConflictKind.METADATA)
SAME_ASSET = Answer("ConcurrentTransactionException", "DELTA_CONCURRENT_TRANSACTION", ConflictKind.SAME_ASSET)
PROTOCOL = Answer("ProtocolChangedException", "DELTA_PROTOCOL_CHANGED", ConflictKind.PROTOCOL)
OVERTAKEN = Answer("ConcurrentWriteException", "DELTA_CONCURRENT_WRITE", ConflictKind.UNKNOWN)

MATRIX = {
    # A blind append has read nothing: files cannot defeat it, only metadata, the protocol and its own twin can.
    ("plain", "append", "append"): COMMITS,
    ("plain", "append", "update 1"): COMMITS,
    ("plain", "append", "overwrite"): COMMITS,
    ("plain", "append", "optimize"): COMMITS,
    ("plain", "append", "enable vectors"): COMMITS,
    ("plain", "append", "set property"): METADATA,
    ("plain", "append", "append with a new column"): METADATA,
    ("plain", "append", "enable defaults"): COMMITS,
    ("featured", "append", "drop feature"): PROTOCOL,
    ("tracked", "append", "append"): COMMITS,
    ("clustered", "append", "cluster by v"): COMMITS,
    ("plain", "append", "cluster by v"): COMMITS,
    ("identity", "append", "append"): METADATA,
    ("identity", "append", "update 1"): COMMITS,
    ("identity", "update 1", "append"): ADDED,
    ("identity", "merge new", "append"): METADATA,
    # Delta checks an application id before files.
    ("plain", "append as application", "append as application"): SAME_ASSET,
    ("plain", "merge as application", "merge as application"): SAME_ASSET,
    # Without partitions every added file defeats a write that read the table: whatever its rows, even by OPTIMIZE.
    ("plain", "append that reads", "append"): ADDED,
    ("plain", "update 1", "append"): ADDED,
    ("plain", "update 1", "update 1"): ADDED,
    ("plain", "update 1", "update 5"): ADDED,
    ("plain", "update 1", "optimize"): ADDED,
    ("plain", "merge 1", "append"): ADDED,
    ("plain", "merge 1", "update 5"): ADDED,
    ("plain", "merge 1", "optimize"): ADDED,
    ("vectors", "merge 1", "update 5"): ADDED,
    ("clustered", "merge 1", "update 5"): ADDED,
    # A commit that only removes files defeats writers that have read one of them.
    ("plain", "update 5", "delete file"): REMOVED,
    ("plain", "update 1", "delete file"): COMMITS,
    ("plain", "merge 1", "restore"): REMOVED,
    # Metadata.
    ("plain", "merge 1", "add column"): METADATA,
    ("plain", "merge 1", "enable vectors"): COMMITS,
    ("clustered", "merge 1", "cluster by v"): COMMITS,
    ("clustered", "cluster by v", "cluster by v"): DOMAIN,
    ("clustered", "cluster by v", "restore"): DOMAIN,
    ("plain", "set property", "optimize"): COMMITS,
    ("plain", "set property", "add column"): METADATA,
    ("plain", "set property", "enable vectors"): METADATA,
    ("plain", "set property", "restore"): METADATA,
    ("identity", "set property", "append"): METADATA,
    ("plain", "enable defaults", "enable vectors"): PROTOCOL,
    ("featured", "merge 1", "drop feature"): PROTOCOL,
    ("featured", "set property", "drop feature"): PROTOCOL,
    ("featured", "optimize", "drop feature"): COMMITS,
    # OPTIMIZE changes no row, so files that are added meanwhile do not defeat it.
    ("plain", "optimize", "append"): COMMITS,
    ("plain", "optimize", "update 1"): REMOVED,
    ("vectors", "optimize", "delete 1"): REMOVED,
    ("plain", "optimize", "optimize"): REMOVED,
    ("plain", "optimize", "set property"): COMMITS,  # it tries again by itself as long as its files exist
    # An overwrite has read everything; a RESTORE commits as the next version or not at all.
    ("plain", "overwrite", "append"): ADDED,
    ("plain", "restore", "append"): OVERTAKEN,
    # WriteSerializable lets a write commit after a blind append that it has not read, and after nothing else.
    ("write serializable", "merge 1", "append"): COMMITS,
    ("write serializable", "merge 1", "update 5"): ADDED,
    # Partitions keep two writers apart only if the loser names its own partition by a literal.
    ("partitioned", "merge in b", "merge in a"): COMMITS,
    ("partitioned", "merge in b", "update a"): COMMITS,
    ("partitioned", "merge in b", "append to a"): COMMITS,
    ("partitioned", "merge in b", "optimize a"): COMMITS,
    ("partitioned", "merge in b", "append"): ADDED_IN_B,
    ("partitioned", "merge in b", "optimize b"): ADDED_IN_B,
    ("partitioned", "merge in b", "overwrite"): REMOVED_IN_B,
    ("partitioned", "merge joined on g", "update a"): ADDED_IN_A,
    ("partitioned", "merge in b, by source", "update a"): ADDED_IN_A,
    ("partitioned", "update b", "update a"): COMMITS,
    ("partitioned", "replace b", "append"): ADDED_IN_B,
    ("partitioned", "overwrite dynamically", "append"): ADDED_IN_B,
    ("partitioned", "optimize b", "update a"): COMMITS,
    ("partitioned", "optimize b", "update b"): REMOVED_IN_B,
}
"""(the table, the loser, the winner): Delta's answer to the loser."""


@pytest.mark.parametrize("cell", MATRIX, ids=lambda cell: f"{cell[0]} {cell[1]} after {cell[2]}")
def test_what_delta_answers_to_the_second_of_two_writers(forms: Lake, lake: Lake, cell: tuple[str, str, str]) -> None:
    form, loser, winner = cell
    table = copied(forms, lake, form)
    before, error = lake.version("t"), None
    with rivals(lake.spark, lambda: ACTS[winner](lake.spark, table)) as ran:
        try:
            ACTS[loser](lake.spark, table)
        except Exception as raised:
            error = raised
    assert len(ran) == 1
    assert answer(error) == MATRIX[cell], error
    assert lake.version("t") == before + 1 + (error is None)


def answer(error: Exception | None) -> Answer:
    if error is None:
        return COMMITS
    found: Conflict = classify(error)
    return Answer(type(error).__name__, found.condition, found.kind, found.partition)


def test_the_rules_say_what_delta_does() -> None:
    """Writes that are the same to the rules share a verdict: it is "cannot" if Delta refused none of them."""
    alike: dict[tuple[ConcurrentWrite, ConcurrentWrite, Layout], set[str | None]] = defaultdict(set)
    for (form, loser, winner), delta in MATRIX.items():
        alike[ACTS[loser].writing, ACTS[winner].writing, FORMS[form].layout].add(delta.name)
    for (loser, winner, layout), names in alike.items():
        foreseen = foresee(loser, winner, layout)
        assert (foreseen.verdict is Verdict.CANNOT) == (names == {None}), (loser, winner, layout, names, foreseen)
        assert names - {None} <= set(foreseen.exceptions), (loser, winner, layout, names, foreseen)


def test_every_class_of_delta_s_conflicts_has_a_cell() -> None:
    known = {name for name in vars(exceptions) if name.endswith("Exception")}
    unseen = known - {answer.name for answer in MATRIX.values()}
    assert unseen == {"ConcurrentDeleteDeleteException", "DeltaConcurrentModificationException"}

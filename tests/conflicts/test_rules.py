"""The conflict rules against the published tables, cell by cell, and laws that hold between the cells.

tests/upstream compares them with what open-source Delta really does.
"""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.commit.rivals import classify
from lakehouse.conflicts.operations import TRAITS, ConcurrentWrite, Engine, Foreseen, Layout, Limit, Operation, Verdict
from lakehouse.conflicts.rules import GROUP, MATRICES, Documented, foresee, row_level
from lakehouse.delta.table import Isolation
from tests.support.for_each import for_each

SEVERITY = list(Verdict)
APPEND, READ, DELETE = "ConcurrentAppendException", "ConcurrentDeleteReadException", "ConcurrentDeleteDeleteException"
METADATA, PROTOCOL = "MetadataChangedException", "ProtocolChangedException"
TRANSACTION, WRITE = "ConcurrentTransactionException", "ConcurrentWriteException"

blind, reading = ConcurrentWrite(Operation.BLIND_APPEND), ConcurrentWrite(Operation.READING_APPEND)
change, overwrite, optimize = (
    ConcurrentWrite(Operation.CHANGE),
    ConcurrentWrite(Operation.OVERWRITE),
    ConcurrentWrite(Operation.OPTIMIZE),
)
feature, metadata = ConcurrentWrite(Operation.FEATURE), ConcurrentWrite(Operation.METADATA)
clustering, update = ConcurrentWrite(Operation.CLUSTERING), replace(change, inserts=False)
protocol, creation, restore = (
    ConcurrentWrite(Operation.DROPPED_FEATURE),
    ConcurrentWrite(Operation.CREATION),
    ConcurrentWrite(Operation.REPLACEMENT),
)
evolving = replace(blind, evolves=True)

NOTHING, PLAIN, PARTITIONED = (), Layout(), Layout(partitioned=True)
REWRITTEN, ADDED = (APPEND, READ, DELETE), (APPEND,)
REMOVED = (READ, DELETE)


def within(writing: ConcurrentWrite, *partitions: str) -> ConcurrentWrite:
    return replace(writing, within=frozenset(partitions))


def severity(foreseen: Foreseen) -> int:
    return SEVERITY.index(foreseen.verdict)


# --- Open-source Delta -----------------------------------------------------------------------------------------

OPEN_SOURCE = [  # loser; what it gets after: blind, reading, change, overwrite, OPTIMIZE, CLUSTER BY, RESTORE
    (blind, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING),
    (reading, ADDED, ADDED, (APPEND, READ), (APPEND, READ), (APPEND, READ), NOTHING, (APPEND, READ)),
    (change, ADDED, ADDED, REWRITTEN, REWRITTEN, REWRITTEN, NOTHING, REWRITTEN),
    (overwrite, ADDED, ADDED, REWRITTEN, REWRITTEN, REWRITTEN, NOTHING, REWRITTEN),
    (optimize, NOTHING, NOTHING, REMOVED, REMOVED, REMOVED, NOTHING, REMOVED),
    (clustering, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, (TRANSACTION,), (TRANSACTION,)),
    (metadata, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING, (METADATA,)),
    (restore, (WRITE,), (WRITE,), (WRITE,), (WRITE,), (WRITE,), (WRITE,), (WRITE,)),
]
WINNERS = (blind, reading, change, overwrite, optimize, clustering, restore)
CELLS = [(row[0], winner, cell) for row in OPEN_SOURCE for winner, cell in zip(WINNERS, row[1:], strict=True)]


def named(value: object) -> str | None:
    return value.operation.value if isinstance(value, ConcurrentWrite) else None


@for_each("loser, winner, exceptions", CELLS)
def test_a_table_without_partitions_answers_as_open_source_delta_does(
    loser: ConcurrentWrite, winner: ConcurrentWrite, exceptions: tuple[str, ...]
):
    found = foresee(loser, winner)
    assert found.exceptions == exceptions
    assert found.verdict is (Verdict.CAN if exceptions else Verdict.CANNOT)


@for_each("table", [Layout(clustered=True), Layout(deletion_vectors=True)])
def test_neither_deletion_vectors_nor_clustering_help_on_open_source_delta(table: Layout):
    for loser, winner, exceptions in CELLS:
        assert foresee(loser, winner, table).exceptions == exceptions


@for_each("loser", [reading, change, overwrite, optimize])
@for_each("winner", [change, overwrite])
def test_partitions_keep_two_writes_apart_only_where_both_name_them(loser: ConcurrentWrite, winner: ConcurrentWrite):
    assert foresee(within(loser, "a"), within(winner, "b"), PARTITIONED).verdict is Verdict.CANNOT
    assert foresee(within(loser, "a", "b"), within(winner, "b"), PARTITIONED).verdict is Verdict.CAN
    assert foresee(loser, within(winner, "b"), PARTITIONED).verdict is Verdict.AVOIDABLE
    assert foresee(within(loser, "a"), winner, PARTITIONED).verdict is Verdict.AVOIDABLE
    assert foresee(within(loser, "a"), within(winner, "b"), PLAIN).verdict is Verdict.CAN


@for_each("loser", [blind, reading, change, overwrite, feature, clustering, metadata])
def test_a_change_of_metadata_or_protocol_defeats_every_writer_of_rows(loser: ConcurrentWrite):
    assert foresee(loser, metadata).exceptions == (METADATA,)
    assert foresee(loser, evolving).exceptions == (METADATA,)
    assert foresee(loser, protocol).exceptions == (PROTOCOL,)
    assert foresee(within(loser, "a"), within(evolving, "b"), PARTITIONED).exceptions == (METADATA,)


@for_each("loser", [blind, reading, change, overwrite])
def test_writers_follow_a_feature_that_asks_nothing_of_them_unless_they_change_the_schema_too(loser: ConcurrentWrite):
    assert foresee(loser, feature).verdict is Verdict.CANNOT
    assert foresee(replace(loser, evolves=True), feature).exceptions == (METADATA,)
    assert foresee(loser, feature, Layout(), Engine.DATABRICKS).exceptions == (METADATA,)


@for_each("winner", [metadata, evolving, protocol, feature])
def test_optimize_follows_metadata_and_protocol_by_itself(winner: ConcurrentWrite):
    assert foresee(optimize, winner).verdict is Verdict.CANNOT
    assert foresee(optimize, metadata, Layout(), Engine.DATABRICKS).exceptions == (METADATA,)


def test_one_application_id_defeats_the_second_before_its_files_are_looked_at():
    twins = [replace(writing, application="flights") for writing in (blind, change, overwrite)]
    for loser, winner in product(twins, twins):
        assert foresee(loser, winner).exceptions == (TRANSACTION,)
        assert foresee(within(loser, "a"), within(winner, "b"), PARTITIONED).exceptions == (TRANSACTION,)
    assert foresee(twins[0], replace(blind, application="other")).verdict is Verdict.CANNOT


def test_of_two_creators_one_loses_and_nobody_loses_to_a_creation_that_came_before_it():
    assert foresee(creation, creation) == foresee(creation, blind)
    assert foresee(creation, creation).verdict is Verdict.AVOIDABLE
    assert foresee(creation, creation).exceptions == (PROTOCOL,)
    assert foresee(change, creation).verdict is Verdict.CANNOT


def test_two_writers_of_new_identity_values_disagree_about_the_high_water_mark():
    table = Layout(partitioned=True, identity=True)
    assert foresee(within(blind, "a"), within(blind, "b"), table).exceptions == (METADATA,)
    assert foresee(change, blind, table).exceptions == (METADATA, APPEND)  # a MERGE may or may not insert
    assert foresee(optimize, blind, table).verdict is Verdict.CANNOT
    assert foresee(blind, feature, table).exceptions == (METADATA,)


def test_an_update_makes_no_identity_values():
    table = Layout(identity=True)
    assert foresee(update, blind, table).exceptions == (APPEND,)
    assert foresee(blind, update, table).verdict is Verdict.CANNOT
    assert foresee(update, feature, table).verdict is Verdict.CANNOT


@for_each("loser", [metadata, feature, protocol, replace(update, evolves=True)])
def test_a_change_of_metadata_loses_to_a_high_water_mark_that_moved(loser: ConcurrentWrite):
    assert foresee(loser, blind, Layout(identity=True)).exceptions == (METADATA,)
    assert METADATA not in foresee(loser, update, Layout(identity=True)).exceptions
    assert METADATA not in foresee(loser, blind).exceptions


def test_what_serializable_forbids_and_write_serializable_allows():
    """A long transaction reads the table and inserts; a short one inserts and commits meanwhile."""
    allowed = Layout(isolation=Isolation.WRITE_SERIALIZABLE)
    assert foresee(reading, blind, PLAIN).exceptions == (APPEND,)
    assert foresee(reading, blind, allowed).verdict is Verdict.CANNOT
    assert foresee(replace(reading, evolves=True), blind, allowed).exceptions == (APPEND,)
    assert foresee(reading, reading, allowed).exceptions == (APPEND,)


# --- Databricks ------------------------------------------------------------------------------------------------

SERIALIZABLE, WRITE_SERIALIZABLE = Isolation.SERIALIZABLE, Isolation.WRITE_SERIALIZABLE
NEVER, FILES, ROWS = Verdict.CANNOT, Verdict.CAN, Verdict.AVOIDABLE
PUBLISHED = [  # the worse of both orders: INSERT+INSERT, MERGE+INSERT, MERGE+MERGE, OPTIMIZE+INSERT, +MERGE, +OPTIMIZE
    (Layout(isolation=WRITE_SERIALIZABLE), NEVER, NEVER, FILES, NEVER, FILES, FILES),
    (Layout(isolation=SERIALIZABLE), NEVER, FILES, FILES, NEVER, FILES, FILES),
    (Layout(isolation=WRITE_SERIALIZABLE, deletion_vectors=True), NEVER, NEVER, ROWS, NEVER, NEVER, NEVER),
    (Layout(isolation=SERIALIZABLE, deletion_vectors=True), NEVER, ROWS, ROWS, NEVER, NEVER, NEVER),
    (
        Layout(isolation=WRITE_SERIALIZABLE, deletion_vectors=True, row_level=False),
        NEVER,
        NEVER,
        FILES,
        NEVER,
        NEVER,
        NEVER,
    ),
    (Layout(isolation=SERIALIZABLE, deletion_vectors=True, row_level=False), NEVER, FILES, FILES, NEVER, NEVER, NEVER),
]
DATA_PAIRS = ((blind, blind), (change, blind), (change, change), (optimize, blind), (optimize, change), (optimize,) * 2)


@for_each("table, cells", [(row[0], row[1:]) for row in PUBLISHED])
def test_databricks_answers_as_its_matrices_say(table: Layout, cells: tuple[Verdict, ...]):
    for (one, other), cell in zip(DATA_PAIRS, cells, strict=True):
        both = (foresee(one, other, table, Engine.DATABRICKS), foresee(other, one, table, Engine.DATABRICKS))
        assert max(both, key=severity).verdict is cell, (one, other)


def test_an_insert_that_reads_its_table_counts_as_a_merge():
    for table, other in product([row[0] for row in PUBLISHED], (blind, change, optimize)):
        as_merge = foresee(change, other, table, Engine.DATABRICKS)
        assert foresee(reading, other, table, Engine.DATABRICKS) == as_merge


@for_each("one, other", list(product([blind, update, optimize], repeat=2)))
def test_on_databricks_nothing_goes_side_by_side_on_a_table_with_identity_columns(
    one: ConcurrentWrite, other: ConcurrentWrite
):
    table = Layout(partitioned=True, deletion_vectors=True, identity=True)
    assert foresee(within(one, "a"), within(other, "b"), table, Engine.DATABRICKS).verdict is Verdict.CAN


@for_each("limit", [Limit.COMPLEX_TYPE, Limit.SUBQUERY, Limit.NON_DETERMINISTIC])
def test_conditions_that_rows_cannot_be_compared_by_fall_back_to_files(limit: Limit):
    table = Layout(deletion_vectors=True)
    limited = replace(change, limits=frozenset({limit}))
    assert foresee(change, change, table, Engine.DATABRICKS).verdict is Verdict.AVOIDABLE
    for pair in ((limited, change), (change, limited)):
        found = foresee(*pair, table, Engine.DATABRICKS)
        assert found.verdict is Verdict.CAN
        assert limit.value in found.why


def test_z_order_takes_the_peace_between_optimize_and_other_writes_away():
    table, z_ordered = Layout(deletion_vectors=True), replace(optimize, limits=frozenset({Limit.Z_ORDER}))
    assert foresee(change, z_ordered, table, Engine.DATABRICKS).verdict is Verdict.CAN
    assert foresee(z_ordered, change, table, Engine.DATABRICKS).verdict is Verdict.CAN
    assert foresee(blind, z_ordered, table, Engine.DATABRICKS).verdict is Verdict.CANNOT


@for_each("winner", [change, optimize])
def test_on_databricks_too_partitions_keep_two_writes_apart_where_both_name_them(winner: ConcurrentWrite):
    answers = {
        (ours, theirs): foresee(
            replace(change, within=ours), replace(winner, within=theirs), PARTITIONED, Engine.DATABRICKS
        )
        for ours, theirs in product([None, frozenset("a")], [None, frozenset("a"), frozenset("b")])
    }
    assert answers.pop((frozenset("a"), frozenset("b"))).verdict is Verdict.CANNOT
    assert answers.pop((frozenset("a"), frozenset("a"))).verdict is Verdict.CAN
    assert {found.verdict for found in answers.values()} == {Verdict.AVOIDABLE}


def test_rows_are_compared_only_without_partitions_and_with_deletion_vectors():
    assert row_level(change, change, Layout(deletion_vectors=True))
    assert row_level(change, change, Layout(deletion_vectors=True, clustered=True))
    assert not row_level(change, change, Layout(deletion_vectors=True, partitioned=True))
    assert not row_level(change, change, Layout())
    assert not row_level(change, change, Layout(deletion_vectors=True, row_level=False))


# --- Laws ------------------------------------------------------------------------------------------------------

partitions = st.none() | st.frozensets(st.sampled_from("abc"), min_size=1)
writings = st.builds(
    ConcurrentWrite,
    st.sampled_from(Operation),
    partitions,
    st.sampled_from([None, "one", "other"]),
    st.booleans(),
    st.booleans(),
    st.frozensets(st.sampled_from(Limit)),
)
layouts = st.builds(
    Layout,
    partitioned=st.booleans(),
    isolation=st.sampled_from(Isolation),
    deletion_vectors=st.booleans(),
    row_level=st.booleans(),
    identity=st.booleans(),
)
engines = st.sampled_from(Engine)


@given(writings, writings, layouts, engines)
def test_an_answer_names_exceptions_and_a_remedy_exactly_where_there_is_something_to_lose(
    loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout, engine: Engine
):
    found = foresee(loser, winner, table, engine)
    lost = found.verdict is not Verdict.CANNOT
    assert bool(found.exceptions) == bool(found.remedy) == lost
    assert found.why.endswith(".")


@given(writings, writings, layouts, engines)
def test_write_serializable_never_forbids_what_serializable_allows(
    loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout, engine: Engine
):
    weak, strong = (foresee(loser, winner, replace(table, isolation=level), engine) for level in reversed(Isolation))
    assert severity(weak) <= severity(strong)


@given(writings, writings, layouts, engines)
def test_row_level_concurrency_and_deletion_vectors_only_take_conflicts_away(
    loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout, engine: Engine
):
    for more in ("row_level", "deletion_vectors"):
        with_, without = (foresee(loser, winner, replace(table, **{more: on}), engine) for on in (True, False))
        assert severity(with_) <= severity(without)


@given(writings, writings, layouts, engines)
def test_naming_other_partitions_only_takes_conflicts_away(
    loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout, engine: Engine
):
    apart = foresee(within(loser, "a"), within(winner, "b"), table, engine)
    vague = foresee(replace(loser, within=None), replace(winner, within=None), table, engine)
    assert severity(apart) <= severity(vague)


@given(writings, writings, layouts)
def test_open_source_delta_knows_no_row_level_concurrency(
    loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout
):
    assert foresee(loser, winner, replace(table, row_level=True)) == foresee(
        loser, winner, replace(table, row_level=False, deletion_vectors=not table.deletion_vectors)
    )


@given(writings, writings, layouts, engines)
def test_every_exception_that_is_foreseen_is_one_that_a_write_recognises(
    loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout, engine: Engine
):
    for name in foresee(loser, winner, table, engine).exceptions:
        raised = type(name, (Exception,), {})()
        assert classify(raised).kind.value != "not a conflict"


def test_every_operation_has_traits_and_every_cell_of_the_matrices_is_filled():
    assert set(TRAITS) == set(Operation)
    pairs = {frozenset({a, b}) for a, b in product(set(GROUP.values()), repeat=2)}
    assert all(set(matrix) == pairs for matrix in MATRICES.values())
    assert {cell for matrix in MATRICES.values() for cell in matrix.values()} == set(Documented)


def test_a_table_is_not_partitioned_and_clustered():
    with pytest.raises(ValueError, match="not both"):
        Layout(partitioned=True, clustered=True)

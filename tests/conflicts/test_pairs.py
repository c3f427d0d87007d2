"""Which writers can meet in one table, and which tables' writers share a pool."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.conflicts.operations import Engine, Operation, Verdict
from lakehouse.conflicts.pairs import FOREIGN, ConflictPair, Writer, conflict_pairs, pool_name, pools, warnings
from lakehouse.delta.table import Table
from tests.support.for_each import for_each

FLIGHTS, BY_DAY = "/lake/flights", "/lake/by_day"
flights = Writer("flights", FLIGHTS, Table(key="id"), Operation.CHANGE)
by_day = Writer("by_day", BY_DAY, Table(key="id", partition_by="day"), Operation.CHANGE, sliced=True)
upkeep = Writer("optimize (job nightly)", FLIGHTS, Table(key="id"), Operation.OPTIMIZE, is_asset=False)


def met(*writers: Writer, engine: Engine = Engine.OPEN_SOURCE) -> dict[tuple[str, str], ConflictPair]:
    found = [pair for pair in conflict_pairs(writers, engine) if pair.declared]
    assert len({(pair.writer, pair.rival) for pair in found}) == len(found)
    return {(pair.writer, pair.rival): pair for pair in found}


def test_an_asset_without_partitions_meets_itself_and_a_pool_avoids_it():
    (pair,) = met(flights).values()
    assert pair.rival == "another run of it"
    assert pair.foreseen.exceptions == ("ConcurrentTransactionException",)
    (pooled,) = met(replace(flights, pool="table:flights")).values()
    assert pooled.avoided_by == "pool table:flights"
    assert pooled.foreseen == pair.foreseen


def test_two_partitions_of_one_asset_do_not_conflict_and_need_no_pool():
    found = met(by_day)
    side_by_side = found["by_day", "a run of another partition"]
    assert (side_by_side.foreseen.verdict, side_by_side.avoided_by) == (Verdict.CANNOT, "")
    assert pools([by_day]) == {}


def test_what_partitions_cannot_keep_apart_is_told_with_what_avoids_it():
    found = met(by_day)
    same = found["by_day", "another run of the same partition"]
    assert same.foreseen.exceptions == ("ConcurrentTransactionException",)
    column = found["by_day", "a run of another partition that adds a column"]
    assert column.foreseen.exceptions == ("MetadataChangedException",)
    first = found["by_day", "another partition's first run, with no table yet"]
    assert first.foreseen.verdict is Verdict.AVOIDABLE
    assert column.avoided_by == first.avoided_by == "Materialize one partition before the others."


def test_two_assets_of_one_table_meet_in_both_directions_and_share_a_pool():
    one = Writer("one", "main.t", Table(key="id", name="main.t"), Operation.CHANGE)
    other = Writer("other", "main.t", Table(name="main.t"), Operation.BLIND_APPEND)
    found = met(one, other)
    assert found["one", "other"].foreseen.verdict is Verdict.CAN
    assert found["other", "one"].foreseen.verdict is Verdict.CANNOT
    assert pools([one, other]) == {"main.t": "table:main.t"}
    told = warnings([one, other])
    assert "other" in told["one"][0] and "one" in told["other"][0]


def test_a_partitioned_asset_that_shares_its_table_takes_turns_because_the_other_names_no_partition():
    other = replace(by_day, name="corrections", sliced=False)
    assert met(by_day, other)["by_day", "corrections"].foreseen.verdict is Verdict.AVOIDABLE
    assert set(pools([by_day, other])) == {BY_DAY}


def test_identity_columns_make_partitions_take_turns():
    declared = Table(key="id", partition_by="day", properties={"delta.feature.identityColumns": "supported"})
    writer = replace(by_day, declared=declared)
    found = met(writer)["by_day", "a run of another partition"]
    assert found.foreseen.exceptions == ("MetadataChangedException",)
    assert set(pools([writer])) == {BY_DAY}
    assert "identity" in warnings([writer])["by_day"][0]


def test_upkeep_in_a_tables_pool_is_a_rival_and_has_no_page_of_its_own():
    pooled = [replace(writer, pool="table:flights") for writer in (flights, upkeep)]
    found = met(*pooled)
    assert set(found) == {("flights", "another run of it"), ("flights", upkeep.name)}
    assert found["flights", upkeep.name].avoided_by == "pool table:flights"
    assert set(warnings(pooled)) == set()


def test_any_table_may_meet_writers_that_no_definition_tells_of():
    found = {pair.rival: pair for pair in conflict_pairs([by_day]) if not pair.declared}
    assert set(found) == set(FOREIGN)
    assert found["another program's append"].foreseen.verdict is Verdict.AVOIDABLE
    assert found["a change of its schema or properties"].foreseen.verdict is Verdict.CAN


@for_each(
    "writer, told",
    [
        (flights, None),
        (by_day, None),
        (replace(by_day, sliced=False), "name no partition"),
        (
            replace(flights, declared=Table(properties={"delta.isolationLevel": "WriteSerializable"})),
            "refuses to create",
        ),
    ],
)
def test_what_is_known_before_an_asset_runs_is_told(writer: Writer, told: str | None):
    found = warnings([writer])
    assert (told is None and found == {}) or (told is not None and told in found[writer.name][0])


def test_each_engine_is_asked_with_its_own_defaults():
    writer = replace(flights, operation=Operation.READING_APPEND)
    appended = {
        engine: next(pair for pair in conflict_pairs([writer], engine) if pair.rival == "another program's append")
        for engine in Engine
    }
    assert appended[Engine.OPEN_SOURCE].foreseen.verdict is Verdict.CAN
    assert appended[Engine.DATABRICKS].foreseen.verdict is Verdict.CANNOT


def test_a_pool_has_a_name_that_dagster_takes():
    assert pool_name(replace(flights, name="gold/my flights")) == "table:gold/my_flights"


declared = st.sampled_from([Table(key="id"), Table(partition_by="day"), Table(cluster_by="day")])
operations = st.sampled_from([Operation.BLIND_APPEND, Operation.READING_APPEND, Operation.CHANGE, Operation.OVERWRITE])
writers = st.lists(
    st.builds(
        Writer, st.text("abc", min_size=1), st.sampled_from([FLIGHTS, BY_DAY]), declared, operations, st.booleans()
    ),
    unique_by=lambda writer: writer.name,
    max_size=4,
)


@given(writers)
def test_once_in_its_pool_no_run_is_left_to_meet_another_unprotected(found: list[Writer]):
    """A pool avoids whatever conflicts within a code location, except the conflicts among runs of one partition."""
    pool_of = pools(found)
    pooled = [replace(writer, pool=pool_of.get(writer.location)) for writer in found]
    for pair in conflict_pairs(pooled):
        likely = pair.rival in {writer.name for writer in found} | {
            "another run of it",
            "a run of another partition",
        }
        if pair.declared and likely and pair.foreseen.verdict is not Verdict.CANNOT:
            assert pair.avoided_by.startswith("pool table:")


@given(writers)
def test_every_writer_meets_itself_and_every_other_one_of_its_table_once(found: list[Writer]):
    seen = [(pair.writer, pair.rival) for pair in conflict_pairs(found) if pair.declared]
    for writer in found:
        others = {other.name for other in found if other is not writer and other.location == writer.location}
        rivals = [rival for name, rival in seen if name == writer.name]
        assert others <= set(rivals)
        assert len(rivals) == len(set(rivals)) == len(others) + (4 if writer.sliced else 1)

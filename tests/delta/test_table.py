"""What an asset declares about its table; Dagster's metadata carries it unchanged."""

from collections.abc import Mapping
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakehouse.conflicts.operations import Engine, Layout
from lakehouse.conflicts.pairs import layout
from lakehouse.delta.policy import Policy
from lakehouse.delta.table import Isolation, Table
from tests.support.for_each import for_each

names = st.sampled_from(["id", "Straße", "a b", "a`b", "a.b", "日"])
columns = st.sampled_from([(), ("id",), ("id", "a b"), ("日", "a`b", "a.b")])
texts = st.dictionaries(names, st.sampled_from(["", "true", "it's"]), max_size=2)


policies = st.builds(
    Policy,
    on_same_rows=st.sampled_from([None, "retry", "fail"]),
    statement=st.sampled_from([None, "auto", "merge"]),
    ignore_config=st.sampled_from([None, (), "day", ("day", "limit")]),
    show_rows=st.sampled_from([None, 0, 3]),
)


@st.composite
def tables(draw: st.DrawFn) -> Table:
    layout = draw(st.sampled_from(["partition_by", "cluster_by"]))
    key = draw(columns)
    return Table(
        key=key,
        trust_key=bool(key) and draw(st.booleans()),
        properties=draw(texts),
        name=draw(st.none() | st.sampled_from(["events", "main.silver.flights"])),
        on_gap=draw(st.sampled_from(["reconcile", "fail"])),
        policy=draw(policies),
        columns=draw(texts),
        **{layout: draw(columns)},
    )


class Wrapped:
    """Metadata as Dagster returns it: the value inside a MetadataValue."""

    def __init__(self, value: Any) -> None:
        self.value = value


@given(tables())
def test_metadata_carries_the_whole_table(table: Table):
    assert Table.from_metadata(dict(table)) == table
    assert Table.from_metadata({name: Wrapped(value) for name, value in table.items()}) == table


def test_other_metadata_of_the_asset_is_left_alone():
    metadata = {"owner": "me", "lakehouse/read/start": 3, "lakehouse/key": ["id"], "dagster/uri": "x", "key": "no"}
    assert Table.from_metadata(metadata) == Table(key="id")


def test_an_asset_without_a_table_declares_an_empty_one():
    assert Table.from_metadata({}) == Table()
    assert not Table()


def test_metadata_holds_only_what_was_declared():
    assert dict(Table(key="id", on_gap="fail")) == {"lakehouse/key": ["id"], "lakehouse/on_gap": "fail"}


def test_one_column_may_be_given_as_itself_and_several_as_a_list():
    assert Table(key="id").key_columns == ("id",)
    assert Table(key=["a", "b"]).key_columns == Table(key=("a", "b")).key_columns == ("a", "b")
    assert Table().key_columns == Table().partition_columns == Table().cluster_columns == ()


def test_a_declaration_does_not_change_afterwards():
    given_ = {"delta.appendOnly": "true"}
    table = Table(properties=given_)
    given_["delta.appendOnly"] = "false"
    assert table.all_properties["delta.appendOnly"] == "true"
    with pytest.raises(FrozenInstanceError):
        table.key = "id"


def test_the_change_data_feed_is_on_unless_it_is_declared_off_in_whatever_case():
    assert Table().all_properties == {"delta.enableChangeDataFeed": "true"}
    assert Table(properties={"delta.enablechangedatafeed": "false"}).all_properties == {
        "delta.enablechangedatafeed": "false"
    }


def test_a_table_with_a_key_has_deletion_vectors_unless_it_declares_them_off_in_whatever_case():
    name = "delta.enableDeletionVectors"
    assert Table(key="id").all_properties[name] == "true"
    assert Table(key="id", properties={name.upper(): "false"}).all_properties == {
        "delta.enableChangeDataFeed": "true",
        name.upper(): "false",
    }
    assert Table(key="id", properties={"delta.enableChangeDataFeed": "false"}).all_properties[name] == "true"


def test_the_isolation_level_is_read_in_whatever_case_and_else_it_is_the_engines():
    declared = Table(properties={"DELTA.isolationlevel": "writeSERIALIZABLE"})
    assert declared.isolation is Isolation.WRITE_SERIALIZABLE
    assert {layout(declared, engine).isolation for engine in Engine} == {Isolation.WRITE_SERIALIZABLE}
    assert Table().isolation is None
    assert layout(Table(), Engine.OPEN_SOURCE).isolation is Isolation.SERIALIZABLE
    assert layout(Table(), Engine.DATABRICKS).isolation is Isolation.WRITE_SERIALIZABLE


def test_the_layout_holds_what_conflicts_depend_on():
    plain, engine = Table(), Engine.OPEN_SOURCE
    assert layout(plain, engine) == Layout()
    assert layout(Table(key="id"), engine) == Layout(deletion_vectors=True)
    assert layout(Table(partition_by="day"), engine) == Layout(partitioned=True)
    assert layout(Table(cluster_by="day"), engine) == Layout(clustered=True)
    vectors, identity = "delta.enableDeletionVectors", "delta.feature.identityColumns"
    assert layout(Table(properties={vectors: "True"}), engine) == Layout(deletion_vectors=True)
    assert layout(Table(key="id", properties={vectors: "false"}), engine) == Layout()
    assert layout(Table(properties={identity: "supported"}), engine) == Layout(identity=True)


def test_databricks_gives_deletion_vectors_to_a_clustered_table_unless_it_declares_none():
    declared = {"delta.enableDeletionVectors": "false"}
    tables = [Table(), Table(partition_by="day"), Table(cluster_by="day"), Table(cluster_by="day", properties=declared)]
    assert [layout(table, Engine.DATABRICKS).deletion_vectors for table in tables] == [False, False, True, False]


@for_each(
    "declared, why",
    [
        ({"partition_by": "a", "cluster_by": "b"}, "not both"),
        ({"key": ["id", "ID"]}, "twice"),
        ({"key": ""}, "without a name"),
        ({"partition_by": ["a", ""]}, "without a name"),
        ({"cluster_by": "_Commit_Version"}, "change data feed"),
        ({"on_gap": "skip"}, "reconcile"),
        ({"name": ""}, "catalog name"),
        ({"name": "main..flights"}, "catalog name"),
        ({"properties": {"delta.setTransactionRetentionDuration": "interval 1 day"}}, "applied once"),
        ({"properties": {"delta.isolationLevel": "SnapshotIsolation"}}, "Serializable or WriteSerializable"),
        ({"trust_key": True}, "trust_key is about the declared key"),
        ({"properties": {"delta.isolationLevel": ""}}, "Serializable or WriteSerializable"),
        ({"properties": {"Delta.settransactionRETENTIONduration": "interval 1 day"}}, "applied once"),
    ],
)
def test_a_table_that_could_not_be_kept_cannot_be_declared(declared: dict[str, Any], why: str):
    with pytest.raises(ValueError, match=why):
        Table(**declared)


@for_each("declared", [{"key": 5}, {"partition_by": ("day", 5)}, {"cluster_by": {"day"}}])
def test_names_are_texts(declared: dict[str, Any]):
    with pytest.raises(TypeError, match=f"{next(iter(declared))} is a name or a tuple of names, not"):
        Table(**declared)


def test_a_table_is_a_mapping_because_dagster_takes_one_as_metadata():
    assert isinstance(Table(), Mapping)

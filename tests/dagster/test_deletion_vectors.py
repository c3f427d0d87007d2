"""One switch for all tables of a manager: readers without deletion vectors read the tables and their quarantines."""

from collections.abc import Callable

import dagster as dg
import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaProtocolError

from lakehouse import Changes, DeltaIOManager, Expect, Merge, Policy, Table
from lakehouse.dagster.io_manager import code_location_of
from tests.support.dagster_house import Running
from tests.support.lake import Lake

KEPT = Table(key="id", expect=Expect("v > 0", on_failure="quarantine"))


def kept(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


READERS: dict[str, Callable[[str], list[int]]] = {
    "pandas": lambda table: sorted(DeltaTable(table).to_pandas()["id"]),
    "pyarrow": lambda table: sorted(DeltaTable(table).to_pyarrow_table()["id"].to_pylist()),
    "a query of delta-rs": lambda table: sorted(
        pa.table(QueryBuilder().register("t", DeltaTable(table)).execute("SELECT id FROM t").read_all())[
            "id"
        ].to_pylist()
    ),
}


@pytest.mark.slow
def test_without_deletion_vectors_every_reader_reads_a_table_and_its_quarantine(lake: Lake):
    """The page on readers lists the exceptions; a release of `deltalake` that learns vectors makes this test fail."""
    lake.create("src", [(1, 1), (2, 2), (3, 3)], "id int, v int")
    managers = {
        name: DeltaIOManager(
            spark=Running(lake.spark),
            root=str(lake.root),
            policy=Policy(deletion_vectors=None if name == "with" else False),
        )
        for name in ("with", "without")
    }
    read = dict[str, dict[str, list[int] | None]]()
    source = dg.AssetSpec("src")
    for name, manager in managers.items():
        asset = dg.asset(key=[name, "kept"], metadata=KEPT)(kept)
        definitions = dg.Definitions(assets=[asset, source], resources={"io_manager": manager})
        declared = code_location_of(definitions).by_name[f"{name}/kept"].declared
        assert ("delta.enableDeletionVectors" in declared.all_properties) == (name == "with")
        for statement in ("SELECT 1", "UPDATE {src} SET v = -1 WHERE id = 2", "UPDATE {src} SET v = 2 WHERE id = 2"):
            lake.sql(statement)
            assert dg.materialize([asset, source], resources={"io_manager": manager}).success
        lake.sql("UPDATE {src} SET v = -1 WHERE id = 3")
        assert dg.materialize([asset, source], resources={"io_manager": manager}).success
        for reader, rows in READERS.items():
            for table, suffix in (("table", ""), ("quarantine", "_quarantine")):
                try:
                    read.setdefault(reader, {})[f"{table} {name}"] = rows(str(lake.root / name / f"kept{suffix}"))
                except DeltaProtocolError:
                    read.setdefault(reader, {})[f"{table} {name}"] = None
        lake.sql("UPDATE {src} SET v = 3 WHERE id = 3")
    rows = {"table": [1, 2], "quarantine": [3]}
    for reader, by_table in read.items():
        knows_vectors = reader == "a query of delta-rs"
        assert by_table == {
            f"{table} {name}": ids if knows_vectors or name == "without" else None
            for name in managers
            for table, ids in rows.items()
        }, reader
    for name in managers:  # as a writer, delta-rs supports vectors
        DeltaTable(str(lake.root / name / "kept")).update(updates={"v": "9"}, predicate="id = 1")
        assert sorted(lake.rows(f"{name}/kept")) == [(1, 9), (2, 2)]


def test_a_table_that_says_it_itself_wins_over_its_manager():
    said = Table(key="id", policy=Policy(deletion_vectors=True)).under(Policy(deletion_vectors=False))
    assert said.all_properties["delta.enableDeletionVectors"] == "true"
    by_property = Table(key="id", properties={"delta.enableDeletionVectors": "true"})
    assert by_property.under(Policy(deletion_vectors=False)).all_properties["delta.enableDeletionVectors"] == "true"

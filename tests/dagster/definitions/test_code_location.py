"""A code location is parsed once: what it records of each table, and what happens to an object that is listed twice."""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from dagster.components.testing import create_defs_folder_sandbox
from pyspark.sql import DataFrame

from lakehouse import (
    Append,
    Changes,
    DeltaIOManager,
    History,
    Merge,
    Overwrite,
    Read,
    Table,
    change_sensor,
    checks,
    incremental,
    validate,
)
from lakehouse.cli.status import comparisons
from lakehouse.dagster.code_location import AssetTable, CodeLocation
from lakehouse.dagster.definitions.night_schedule import NIGHTLY
from lakehouse.delta.location import Location
from tests.support.for_each import for_each
from tests.support.raises import raises_code

ORDERS, COPIES = dg.AssetKey("orders"), dg.AssetKey("copies")
MODULES = {
    "__init__": "",
    "landings": """
import dagster as dg
from lakehouse import Table

landings = dg.AssetSpec("landings", metadata=Table(key="id"))
""",
    "flights": """
import dagster as dg
from lakehouse import Changes, Merge, Table, automation, checks

@dg.asset(metadata=Table(key="id"), automation_condition=automation())
def flights(landings: Changes) -> Merge:
    touched = landings.touched("id")
    return Merge(touched.rows, touched)

compared = checks([flights], "recompute", sample=0.5)[0]
""",
    "more": """
import dagster as dg
from .flights import compared, flights
from .landings import landings

flown = dg.define_asset_job("flown", [flights])
""",
}
"""A project as `dg` sees one. The last module imports objects of the others, so Dagster lists them a second time."""

orders = dg.AssetSpec("orders", metadata=Table(key="id"))


@dg.asset(
    ins={"orders": dg.AssetIn(metadata=Read(max_versions=5)), "rates": dg.AssetIn(["raw", "rates"])},
    metadata=Table(key="id", name="shop.copies"),
    io_manager_key="elsewhere",
)
def copies(orders: Changes, rates: DataFrame) -> Merge: ...


@dg.asset(metadata=Table(key="id"))
def plain(orders: Changes) -> Merge: ...


@dg.asset
def counted(copies: DataFrame) -> None: ...


def resources(root: str = "/lake") -> dict[str, Any]:
    return {"io_manager": DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root=root)}


def below(manager: str) -> Location | None:
    return Location(f"/{manager}") if manager == "io_manager" else None


@pytest.fixture
def in_folder() -> Iterator[dg.Definitions]:
    """The definitions that `load_from_defs_folder` makes of the modules, with the resources."""
    with create_defs_folder_sandbox() as sandbox:
        for name, text in MODULES.items():
            (sandbox.defs_folder_path / f"{name}.py").write_text(text)
        with sandbox.build_all_defs() as loaded:
            yield dg.Definitions.merge(loaded, dg.Definitions(resources=resources()))


def times(defs: dg.Definitions) -> Counter[str]:
    """How often the definitions list each asset key."""
    specs = (
        spec
        for asset in defs.assets or []
        for spec in ([asset] if isinstance(asset, dg.AssetSpec) else asset.specs)  # type: ignore[union-attr]
    )
    return Counter(spec.key.to_user_string() for spec in specs)


@pytest.mark.filterwarnings(
    "ignore::dagster.PreviewWarning", "ignore::dagster.BetaWarning"
)  # warnings about Dagster's loaders
def test_the_definitions_of_a_folder_whose_modules_import_each_other_load(in_folder: dg.Definitions):
    assert times(in_folder)["landings"] > 1, "Dagster lists a spec of a folder once more"
    assert times(in_folder)["flights"] > 1, "Dagster lists an asset for each module that names it"
    defs = incremental(in_folder, sensor="carry_changes", nightly_checks="0 3 * * *")
    dg.Definitions.validate_loadable(defs)
    assert times(defs) == {"landings": 1, "flights": 1}
    made = Counter(key for check in defs.asset_checks or [] for key in check.check_keys)  # type: ignore[union-attr]
    assert set(made.values()) == {1}
    assert {(key.asset_key.to_user_string(), key.name) for key in made} >= {
        ("landings", "keys"),
        ("flights", "up_to_date"),
    }
    assert {NIGHTLY, "flown"} <= {job.name for job in defs.jobs or []}
    assert defs.resolve_assets_def("flights").op.pool == "table:flights"


@for_each("twice", [orders, plain])
def test_an_object_that_is_listed_twice_is_one(twice: Any):
    listed = [orders, plain, twice]
    given = dg.Definitions(assets=listed, resources=resources())
    for defs in (
        incremental(given, sensor="carry_changes"),
        validate(given),
        dg.Definitions(
            assets=listed,
            asset_checks=checks(listed, "keys", "up_to_date"),
            sensors=[change_sensor("carry_changes", listed, root="/lake")],
            resources=resources(),
        ),
    ):
        dg.Definitions.validate_loadable(defs)


def test_a_check_that_is_listed_twice_is_made_once_in_a_night(tmp_path: Path):
    made = checks([plain], "recompute")
    given = dg.Definitions(assets=[orders, plain], asset_checks=[*made, *made], resources=resources(str(tmp_path)))
    night = incremental(given, nightly_checks="0 3 * * *").resolve_job_def(NIGHTLY).execute_in_process()
    evaluated = [(each.asset_key.to_user_string(), each.check_name) for each in night.get_asset_check_evaluations()]
    assert evaluated.count(("plain", "equals_full_recompute")) == 1
    assert len(evaluated) == len(set(evaluated))


@pytest.mark.parametrize(
    "other",
    [dg.AssetSpec("orders"), dg.asset(name="orders", io_manager_key="memory")(lambda: 1)],
    ids=["another spec", "an asset"],
)
def test_two_definitions_of_one_key_stay_an_error_of_dagster_s(other: Any):
    memory = {"memory": dg.mem_io_manager}
    given = dg.Definitions(assets=[orders, plain, other], resources=resources() | memory)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"(Duplicate|conflicting)(.|\n)*orders"):
        dg.Definitions.validate_loadable(given)
    with pytest.raises(dg.DagsterInvalidDefinitionError, match=r"(Duplicate|conflicting)(.|\n)*orders"):
        dg.Definitions.validate_loadable(incremental(given, sensor="carry_changes"))


def test_a_table_has_what_its_definition_says():
    location = CodeLocation.of([orders, copies, counted], below)
    assert list(location.tables) == [ORDERS, COPIES, counted.key], "in the order of the definitions"
    source, table, other = location[ORDERS], location[COPIES], location[counted.key]
    assert (source.is_spec, source.asset, source.is_written, source.changes) == (True, None, False, {})
    assert source.ref is not None
    assert (source.ref.name, source.ref.location) == ("orders", "/io_manager/orders")
    assert (table.is_spec, table.asset, table.is_written, table.stands_alone) == (False, copies, True, True)
    assert (table.declared.key_columns, table.manager, table.root, table.ref) == (("id",), "elsewhere", None, None)
    assert table.inputs == {"orders": ORDERS, "rates": dg.AssetKey(["raw", "rates"])}
    assert table.changes == {"orders": Read(max_versions=5)}
    assert location.followed_by(table) == (source,)
    assert (other.asset, other.is_written) == (counted, False), "no IO manager writes what returns nothing"


def test_where_a_table_is_follows_from_its_declaration_and_the_root_of_its_manager():
    location = CodeLocation.of([copies, orders], lambda manager: Location(f"/{manager}"))
    named, below_root = location[COPIES], location[ORDERS]
    assert named.ref is not None
    assert named.ref.files is None, "a catalog has it"
    assert below_root.ref_below(Location("/other")).location == "/other/orders"


def test_of_a_table_that_nothing_defines_dagster_s_own_manager_has_it():
    key = dg.AssetKey(["raw", "rates"])
    assert CodeLocation.of([copies], below)[key] == AssetTable(key, root=Location("/io_manager"))


@dg.multi_asset(specs=[dg.AssetSpec("left", metadata=Table(key="id")), dg.AssetSpec("right")])
def pair(): ...


@dg.graph_asset
def composed() -> Any:
    @dg.op
    def one() -> int:
        return 1

    return one()


def test_assets_of_other_shapes_are_parsed_too():
    external = dg.AssetsDefinition(specs=[dg.AssetSpec("old", metadata=Table(key="id", partition_by="day"))])
    location = CodeLocation.of([pair, composed, external], below)
    left, old = location[dg.AssetKey("left")], location[dg.AssetKey("old")]
    assert (left.asset, left.stands_alone, left.declared.key_columns) == (pair, False, ("id",))
    assert (location[composed.key].is_written, location[composed.key].changes) == (False, {})
    assert (old.asset, old.is_spec, old.declared.partition_columns) == (None, True, ("day",))


def test_a_table_whose_result_says_nothing_of_delta_has_no_checks_that_ask_how_it_is_written():
    @dg.asset(io_manager_key="memory", metadata=Table(key="id"))
    def elsewhere() -> int:
        return 1

    location = CodeLocation.of([elsewhere], below)
    assert (location[elsewhere.key].is_written, location[elsewhere.key].past) == (True, None)
    assert [key.name for check in checks([elsewhere], "keys", "recompute") for key in check.check_keys] == ["keys"]
    assert comparisons(location).by_table["elsewhere"].impossible == "its function reads no table"
    with raises_code("UNSUPPORTED_ANNOTATION", match="'elsewhere'"):
        _ = location[elsewhere.key].kind


def test_a_slice_of_a_table_without_partitions_is_the_whole_table():
    days = dg.StaticPartitionsDefinition(["2026-01-01", "2026-01-02"])

    @dg.asset(partitions_def=days, metadata=Table(partition_by="day"))
    def daily(orders: DataFrame) -> Overwrite: ...

    location = CodeLocation.of([orders, daily], below)
    slice_ = location[daily.key].slice(["2026-01-02"])
    assert location[ORDERS].slice(["2026-01-02"]) is None
    assert slice_ is not None
    assert slice_.keys == ("2026-01-02",)


@for_each(
    "kind, read, is_kept",
    [(Append, Changes, True), (History, Changes, True), (Merge, Changes, False), (Append, DataFrame, False)],
)
def test_the_changes_of_a_table_are_kept_if_a_history_or_an_append_reads_them(
    kind: Any, read: Any, *, is_kept: bool
) -> None:
    def follower(plain: Any) -> Any: ...

    follower.__annotations__ = {"plain": read, "return": kind}
    location = CodeLocation.of([orders, plain, dg.asset(follower)], lambda _: Location.of_root("/lake"))
    assert location.keeps_changes_of("plain") is is_kept
    assert not location.keeps_changes_of("orders")
    manager = DeltaIOManager(spark=dg.ResourceDefinition.none_resource(), root="/lake")
    assert manager.asset_of(plain, plain.key, location).changes_are_kept is is_kept

"""What is refused when the code location loads."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame

from lakehouse import (
    Aggregate,
    Append,
    Changes,
    DeltaIOManager,
    History,
    LocalSpark,
    Merge,
    Overwrite,
    Read,
    Snapshot,
    Table,
    checks,
    incremental,
    validate,
)
from lakehouse.errors import DefinitionError
from tests.support.for_each import for_each
from tests.support.raises import raises_code
from tests.support.tables import DAYS, by_day, copies, landed, number, orders, totals


def definitions(lake_root: str, *assets: dg.AssetsDefinition) -> dg.Definitions:
    return dg.Definitions(assets=list(assets), resources={"io_manager": DeltaIOManager(spark=object(), root=lake_root)})


def test_a_version_of_dagster_that_is_not_tested_is_refused_at_load(monkeypatch: pytest.MonkeyPatch) -> None:
    validate(dg.Definitions())
    for version in ("1.12.9", "2.0.0"):
        monkeypatch.setattr(dg, "__version__", version)  # this environment has one Dagster
        with raises_code("VERSION", match=f"Dagster {version}"):
            validate(dg.Definitions())


def test_a_graph_of_ops_is_refused_in_words() -> None:
    with pytest.raises(DefinitionError, match="'number' is a graph of ops"):
        validate(definitions("/lake", number))
    validate(dg.Definitions(assets=[number]))


def test_what_could_never_work_is_refused_when_the_location_loads() -> None:
    @dg.asset
    def keyless(orders: Changes) -> Merge: ...

    @dg.asset
    def meaningless(orders: int) -> Append: ...

    @dg.asset
    def silent(orders: Changes): ...

    @dg.asset(partitions_def=DAYS)
    def nowhere(orders: DataFrame) -> Append: ...

    @dg.asset(key_prefix="..")
    def escaping(orders: DataFrame) -> Append: ...

    @dg.asset
    def unkeyed(orders: Changes) -> Aggregate: ...

    @dg.asset(ins={"orders": dg.AssetIn(metadata=Read(exclude_operations="DELETE"))}, metadata=Table(key="id"))
    def partly(orders: Changes) -> Aggregate: ...

    @dg.asset(ins={"orders": dg.AssetIn(metadata=Read(exclude_operations="DELETE"))}, metadata=Table(key="id"))
    def gappy(orders: Changes) -> History: ...

    @dg.asset(metadata=Table(key="id", partition_by="day"))
    def layered(orders: Changes) -> History: ...

    @dg.asset(ins={"orders": dg.AssetIn(metadata=Read(max_versions=1))})
    def unheeded(orders: DataFrame) -> Append: ...

    @dg.multi_asset(outs={"one": dg.AssetOut(), "two": dg.AssetOut()})
    def pair(orders: DataFrame): ...

    expected = {
        unheeded: ("DEFINITION", r"'orders' of asset 'unheeded' has Read\(...\) options but is not annotated with"),
        pair: ("DEFINITION", "is one of several in a multi_asset; give each table an @asset of its own"),
        unkeyed: ("MISSING_KEY", "Asset 'unkeyed' returns an Aggregate but its table declares no key"),
        partly: ("DEFINITION", "'partly' sums all rows of 'orders', of which"),
        gappy: ("DEFINITION", "'gappy' keeps the history of 'orders', of which"),
        layered: ("DEFINITION", "Asset 'layered' keeps a history, which cannot be partitioned"),
        keyless: (
            "MISSING_KEY",
            r"Asset 'keyless' returns a Merge but its table declares no key. Add metadata=Table",
        ),
        meaningless: ("UNSUPPORTED_ANNOTATION", "annotates its input 'orders' with int"),
        silent: ("UNSUPPORTED_ANNOTATION", "does not annotate its result"),
        nowhere: ("PARTITION_COLUMN", r"Add Table\(partition_by=...\)"),
        escaping: ("DEFINITION", "cannot be a directory"),
    }
    for asset, (code, text) in expected.items():
        with raises_code(code, match=text):
            validate(definitions("/tmp/nowhere", asset))
    validate(definitions("/tmp/nowhere", copies, totals, by_day, landed))


@pytest.mark.filterwarnings("ignore::dagster.BetaWarning")
@for_each("policy", [dg.BackfillPolicy.single_run(), dg.BackfillPolicy.multi_run(7)])
def test_a_backfill_of_several_partitions_in_a_run_is_refused_where_changes_are_read(policy: dg.BackfillPolicy) -> None:
    @dg.asset(partitions_def=DAYS, backfill_policy=policy, metadata=Table(key="id", partition_by="day"))
    def ranged(orders: Changes) -> Merge: ...

    @dg.asset(partitions_def=DAYS, backfill_policy=policy, metadata=Table(partition_by="day"))
    def whole(orders: DataFrame) -> Overwrite: ...

    with pytest.raises(DefinitionError, match=r"'ranged' reads Changes, .* several partitions into one run\. Leave"):
        validate(definitions("/tmp/nowhere", ranged))
    validate(definitions("/tmp/nowhere", whole))


def test_a_table_inside_another_and_one_among_sparks_own_files_are_refused() -> None:
    @dg.asset(key=["copies", "by_day"])
    def inside(orders: DataFrame) -> Append: ...

    @dg.asset(key_prefix="_spark")
    def hidden(orders: DataFrame) -> Append: ...

    with pytest.raises(DefinitionError, match="'copies/by_day' would be inside that of 'copies'"):
        validate(definitions("s3a://bucket/lake/", inside, copies))
    with pytest.raises(DefinitionError, match="cannot be a directory"):
        validate(definitions("/tmp/nowhere", hidden))


@for_each(
    "root, path",
    [
        ("/lake", "/lake/orders/inner"),
        ("file:///lake", "/lake/orders/inner"),
        ("/lake", "file:/lake/orders/inner"),
        ("/lake", "/lake/../lake/orders/inner"),
        ("s3a://bucket/lake", "s3://bucket/lake/orders/inner"),
    ],
)
def test_an_address_is_inside_another_however_it_is_written(root: str, path: str) -> None:
    @dg.asset(metadata=Table(path=path))
    def inside(orders: DataFrame) -> Append: ...

    @dg.asset(metadata=Table(path=path, name="shop.external"))
    def external(orders: DataFrame) -> Append: ...

    resources = {"io_manager": DeltaIOManager(spark=object(), root=root)}
    for asset in (inside, external):
        with pytest.raises(DefinitionError, match="would be inside that of 'orders'"):
            validate(dg.Definitions(assets=[orders, asset], resources=resources))


def test_changes_of_an_asset_that_writes_no_table_are_refused() -> None:
    @dg.asset
    def mailed(orders: Changes) -> None: ...

    with pytest.raises(DefinitionError, match="'orders' of asset 'mailed' reads Changes, but"):
        validate(definitions("/lake", mailed))
    assert list(checks([mailed])) == []

    @dg.asset(metadata=Table(key="id"))
    def lost(orders: Changes) -> Merge: ...

    manager = DeltaIOManager(spark=object(), root="/lake")
    with pytest.raises(DefinitionError, match="none of the resources is a DeltaIOManager with the key 'io_manager'"):
        validate(dg.Definitions([orders, lost], resources={"lake": manager}))


@for_each("of", ["schedule", "sensor"])
def test_the_definition_of_an_asset_is_no_target(of: str) -> None:
    @dg.asset(metadata=Table(key="id"))
    def copies(orders: Changes) -> Merge: ...

    def with_target(target: Any) -> dg.Definitions:
        given = definitions("/lake", copies)
        if of == "schedule":
            schedule = dg.ScheduleDefinition(name="nightly", cron_schedule="@daily", target=target)
            return dg.Definitions.merge(given, dg.Definitions(schedules=[schedule]))

        @dg.sensor(name="nightly", target=target)
        def look() -> None: ...

        return dg.Definitions.merge(given, dg.Definitions(sensors=[look]))

    with pytest.raises(DefinitionError, match=r"'nightly' has the definition of asset 'copies'.*assets\('copies'\)"):
        validate(with_target([copies]))
    assert validate(with_target(dg.AssetSelection.assets("copies")))


def test_assets_that_say_themselves_what_they_wrote_may_have_checks() -> None:
    @dg.multi_asset(
        specs=[dg.AssetSpec("one"), dg.AssetSpec("two")], check_specs=[dg.AssetCheckSpec("fine", asset="one")]
    )
    def several(): ...

    validate(definitions("/lake", several, copies))


def test_a_check_inside_an_asset_is_refused_because_dagster_drops_its_result() -> None:
    inside = [dg.AssetCheckSpec("fine", asset="number")]

    @dg.asset(name="number", check_specs=inside)
    def of_dagster() -> tuple[int, dg.AssetCheckResult]:
        return 1, dg.AssetCheckResult(passed=False)

    result = dg.materialize([of_dagster])
    assert result.success and not result.get_asset_check_evaluations(), "Dagster evaluates it: the refusal can go"

    @dg.asset(name="number", check_specs=inside, metadata=Table(key="id"))
    def of_ours(orders: Changes) -> tuple[Merge, dg.AssetCheckResult]: ...

    with pytest.raises(DefinitionError, match=r"Asset 'number' declares the check 'fine' .* @dg\.asset_check"):
        validate(definitions("/lake", of_ours))


def test_a_snapshot_in_partitions_or_of_changes_is_refused_and_so_is_one_without_a_key() -> None:
    @dg.asset(partitions_def=DAYS, metadata=Table(key="id", partition_by="day"))
    def parted(orders: DataFrame) -> Snapshot: ...

    @dg.asset(metadata=Table(key="id"))
    def following(orders: Changes) -> Snapshot: ...

    @dg.asset
    def keyless(orders: DataFrame) -> Snapshot: ...

    for asset, said in ((parted, "has partitions or reads Changes"), (following, "annotate its inputs with DataFrame")):
        with pytest.raises(DefinitionError, match=said):
            validate(definitions("/lake", asset))
    with raises_code("MISSING_KEY", match="returns a Snapshot but its table declares no key"):
        validate(definitions("/lake", keyless))


def test_an_asset_that_says_itself_what_it_wrote_needs_no_annotation_of_a_write(instance: dg.DagsterInstance) -> None:
    """For a `MaterializeResult` without a value Dagster infers the type `Any`."""

    @dg.asset
    def loaded() -> dg.MaterializeResult:
        return dg.MaterializeResult(metadata={"rows": 3})

    resources = {"io_manager": DeltaIOManager(spark=object(), root="/lake")}
    validate(dg.Definitions(assets=[loaded], resources=resources))
    assert dg.materialize([loaded], resources=resources, instance=instance).success


def test_a_manager_takes_environment_variables_where_dagster_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dagster resolves them in runs only; but sensors and commands read the definitions."""
    monkeypatch.setenv("LAKE", "s3://bucket/lake")
    monkeypatch.setenv("LAKE_KEY", "key")
    manager = DeltaIOManager(
        spark=LocalSpark(root=dg.EnvVar("LAKE_FILES")),
        root=dg.EnvVar("LAKE"),
        storage_options={"AWS_ACCESS_KEY_ID": dg.EnvVar("LAKE_KEY"), "AWS_REGION": "eu-central-1"},
    )
    assert manager.location.address == "s3://bucket/lake"
    assert manager.location.options == {"AWS_ACCESS_KEY_ID": "key", "AWS_REGION": "eu-central-1"}
    monkeypatch.setenv("LAKE_FILES", str(tmp_path))
    assert manager.spark.directory == tmp_path
    monkeypatch.delenv("LAKE")
    with pytest.raises(DefinitionError, match=r"variable LAKE\. It is not set"):
        validate(dg.Definitions(resources={"io_manager": manager}))


def test_an_input_that_is_read_at_another_place_than_its_table_has_is_refused(tmp_path: Path) -> None:
    @dg.asset(ins={"src": dg.AssetIn("orders", input_manager_key="prod")}, metadata=Table(key="id"))
    def here(src: Changes) -> Merge: ...

    spec = dg.AssetSpec("orders")
    prod, same = (DeltaIOManager(spark=object(), root=str(tmp_path / name)) for name in ("prod", "dev"))
    resources = {"io_manager": DeltaIOManager(spark=object(), root=str(tmp_path / "dev")), "prod": prod}
    for assets in ([spec, here], [here]):
        with pytest.raises(DefinitionError, match=r"AssetSpec\('orders'\)\.with_io_manager_key\('prod'\)"):
            incremental(dg.Definitions(assets=assets, resources=resources))
    incremental(dg.Definitions(assets=[spec.with_io_manager_key("prod"), here], resources=resources))
    incremental(dg.Definitions(assets=[spec, here], resources=resources | {"prod": same}))


def test_two_inputs_of_one_upstream_are_refused_by_name_because_dagster_resolves_only_one() -> None:
    @dg.asset(metadata=Table(key="id"), ins={"same": dg.AssetIn(key="orders")})
    def doubled(orders: Changes, same: DataFrame) -> Merge: ...

    with pytest.raises(dg.DagsterInvalidDefinitionError, match="no way of being resolved"):
        dg.Definitions.validate_loadable(dg.Definitions(assets=[orders, doubled]))
    with pytest.raises(
        DefinitionError, match=r"Input '(same|orders)' of asset 'doubled' .* '(same|orders)' \('orders'\)"
    ):
        validate(definitions("/lake", doubled))
    with pytest.raises(DefinitionError, match="of asset 'doubled' names the upstream asset of another input"):
        incremental(definitions("/lake", doubled), sensor="carry_changes")

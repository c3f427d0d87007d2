"""What a step reports after its commit cannot make the step fail, because the result is in the table by then."""

from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import dagster as dg
import pytest

from lakehouse import Table
from lakehouse.delta.file_log import FileLog
from lakehouse.server.jars import DIRECTORY, delta_jars
from tests.support.dagster_house import House, metadata
from tests.support.interleave import after
from tests.support.lake import Lake
from tests.support.slow import slow
from tests.support.tables import carried, orders

FEATURE = "delta.feature."
FEATURES: dict[str, dict[str, str]] = {
    "TypeWidening": {"delta.enableTypeWidening": "true"},
    "TypeWideningPreview": {FEATURE + "typeWidening-preview": "supported"},
    "VacuumProtocolCheck": {FEATURE + "vacuumProtocolCheck": "supported"},
    "VariantType": {FEATURE + "variantType": "supported"},
    "VariantTypePreview": {FEATURE + "variantType-preview": "supported"},
    "VariantShredding": {"delta.enableVariantShredding": "true"},
    "VariantShreddingPreview": {FEATURE + "variantShredding-preview": "supported"},
    "V2Checkpoint": {"delta.checkpointPolicy": "v2"},
    "RowTracking": {"delta.enableRowTracking": "true"},
    "InCommitTimestamp": {"delta.enableInCommitTimestamps": "true"},
    "ColumnMapping": {"delta.columnMapping.mode": "name"},
    "IcebergCompatV1": {FEATURE + "icebergCompatV1": "supported"},
    "IcebergCompatV2": {
        "delta.enableIcebergCompatV2": "true",
        "delta.columnMapping.mode": "name",
        "delta.enableDeletionVectors": "false",
    },
    "IcebergCompatV3": {"delta.enableIcebergCompatV3": "true", "delta.columnMapping.mode": "name"},
    "AppendOnly": {FEATURE + "appendOnly": "supported"},
    "Invariants": {FEATURE + "invariants": "supported"},
    "CheckConstraints": {FEATURE + "checkConstraints": "supported"},
    "GeneratedColumns": {FEATURE + "generatedColumns": "supported"},
    "IdentityColumns": {FEATURE + "identityColumns": "supported"},
    "AllowColumnDefaults": {FEATURE + "allowColumnDefaults": "supported"},
    "DomainMetadata": {FEATURE + "domainMetadata": "supported"},
    "Clustering": {},  # CLUSTER BY is the only way to switch it on
    "TimestampNTZ": {FEATURE + "timestampNtz": "supported"},
    "ChangeDataFeed": {FEATURE + "changeDataFeed": "supported"},
    "DeletionVectors": {FEATURE + "deletionVectors": "supported"},
    "MaterializePartitionColumns": {FEATURE + "materializePartitionColumns": "supported"},
    "CheckpointProtection": {FEATURE + "checkpointProtection": "supported"},
}
"""The table features of this Delta, by the names of their classes, with properties that give them to a table."""
NOT_FOR_A_PATH = {"CatalogOwned", "CoordinatedCommits", "AdaptiveMetadata", "GeoSpatial", "GeoSpatialPreview"}
"""Features that a table at a path cannot have by properties alone, or whose logs `deltalake` does not read at all."""
UNCOUNTED = {
    "TypeWidening",
    "TypeWideningPreview",
    "VacuumProtocolCheck",
    "VariantShredding",
    "VariantShreddingPreview",
}
"""Features of tables whose deletion vectors `deltalake` cannot read, so that it does not count the rows."""


def two_steps(
    lake: Lake, instance: dg.DagsterInstance, properties: dict[str, str], cluster_by: str | None = None
) -> list[dict[str, Any]]:
    """The metadata of two steps of a copy; the second updates a row."""

    copied = dg.asset(name="copied", metadata=Table(key="id", properties=properties, cluster_by=cluster_by))(carried)

    lake.create("orders", [(1, 10), (2, 20)], "id int, v int")
    house = House(lake, [orders, copied], instance)
    first = dict(metadata(house.run("copied"), "copied"))
    lake.sql("UPDATE {orders} SET v = 11 WHERE id = 1")
    second = dict(metadata(house.run("copied"), "copied"))
    assert lake.rows("copied") == [(1, 11), (2, 20)]
    return [first, second]


def test_every_table_feature_of_this_delta_is_tried() -> None:
    jar = DIRECTORY / delta_jars()[0].file_name  # next to those for other versions of Spark
    names = [Path(name).name for name in ZipFile(jar).namelist()]
    ending = "TableFeature$.class"
    features = {name.removesuffix(ending) for name in names if name.endswith(ending)} - {""}
    assert {name for name in features if "$" not in name} | {"RowTracking"} == FEATURES.keys() | NOT_FOR_A_PATH


@pytest.mark.slow
@pytest.mark.parametrize("feature", FEATURES)
def test_a_step_tells_what_it_has_written_to_a_table_of_each_feature(
    lake: Lake, instance: dg.DagsterInstance, feature: str
) -> None:
    first, second = two_steps(lake, instance, FEATURES[feature], "id" if feature == "Clustering" else None)
    assert (first["inserted"], second["updated"]) == (2, 1)
    counts = [told.get("dagster/row_count") for told in (first, second)]
    assert counts == ([None, None] if feature in UNCOUNTED else [2, 2])


class Panic(BaseException):
    pass


Panic.__name__ = "PanicException"


@pytest.mark.parametrize("raised", [ValueError("gone"), slow(Panic("gone"))], ids=["an error", "a panic of deltalake"])
def test_no_fact_of_the_log_fails_a_step_that_has_written(
    house: House, monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    def fail(*_: object) -> None:
        raise raised

    for version, fact in enumerate(("head", "size", "live_rows", "file_schema", "commits")):
        # A log that can no longer be read once the commit was found in it.
        with monkeypatch.context() as patched, after("find in the log", partial(patched.setattr, FileLog, fact, fail)):
            result = house.run("copies")
        told = metadata(result, "copies")
        assert (told["inserted" if version == 0 else "updated"], told["version"]) == (3, version), fact
        assert house.lake.rows("copies") == house.lake.rows("orders")
        lines = [entry.user_message for entry in house.instance.all_logs(result.run_id)]
        assert any("The table of copies holds the result, and " in line and "gone" in line for line in lines), fact
        house.lake.sql("UPDATE {orders} SET v = v + 1")

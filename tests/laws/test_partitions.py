"""Every changed row of a partitioned source arrives through the sensor, and nothing is requested for ever.

Sources are written by delta-rs; the sensor is the real one, and looks at real logs. A run is what its predicate selects,
evaluated without Spark; LAKEHOUSE_EXAMPLES sets how many histories there are. tests/laws/test_partitions_on_spark.py
has histories whose runs are real.
"""

import os
from collections import Counter
from pathlib import Path
from uuid import uuid4

import dagster as dg
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from lakehouse import Changes, Merge, Table, change_sensor
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position
from lakehouse.dagster.follow.partitions import upstream_keys
from lakehouse.dagster.slices import slice_of
from lakehouse.errors import WriteError
from tests.support.partitioned import SHOPS, Sales, sales
from tests.support.predicates import Test, selects
from tests.support.ticks import ticked

EXAMPLES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "20"))
TICKS = 40
TOLD = list[Counter[str]]()
"""What was counted in each run of the test."""


class Carried:
    """A table of partitions that follows `sales`: what its runs have read, and a log that records it."""

    def __init__(self, root: Path, of: Sales, instance: dg.DagsterInstance) -> None:
        self.root, self.of, self.instance = root, of, instance

        @dg.asset(partitions_def=of.own, metadata=Table(key="id", partition_by=of.own_columns))
        def carried(sales: Changes) -> Merge: ...

        self.asset = carried
        self.sensor = change_sensor("carry_on", [of.spec, carried], root=str(root), max_partitions=100, max_runs=100)
        self.read = dict[str, list[int]]()
        self.seen = Counter[str]()

    def test(self, partition: str) -> Test:
        """The rows that the run of a partition selects, by their test in the source and in the result."""
        upstream = upstream_keys(self.asset, self.of.spec.key, self.of.definition, partition)
        declared = Table(partition_by=self.of.columns)
        read = selects(slice_of("sales", declared, self.of.definition, upstream).predicate(self.of.types))
        own = slice_of("carried", Table(partition_by=self.of.own_columns), self.of.own, [partition])
        kept = selects(own.predicate(self.of.types))
        return lambda row: read(row) and kept(row)

    def rows_of(self, partition: str) -> list[int]:
        test = self.test(partition)
        return sorted(row["id"] for row in self.of.rows if test(row))

    def run(self, request: dg.RunRequest) -> None:
        """Leaves what a run leaves in Dagster, and also in the table unless the run is refused."""
        partition = str(request.partition_key)
        status = dg.DagsterRunStatus.SUCCESS
        try:
            self.read[partition] = self.rows_of(partition)
            self.commit(partition)
        except WriteError:
            self.seen["refused runs"] += 1
            status = dg.DagsterRunStatus.FAILURE
        run = dg.DagsterRun("any", status=status, asset_selection={self.asset.key})
        self.instance.add_run(run.with_tags(dict(request.tags)))

    def commit(self, partition: str) -> None:
        source, path = DeltaTable(str(self.root / "sales")), self.root / "carried"
        base = DeltaTable(str(path)).version() if path.exists() else -1
        position = Position(str(source.metadata().id), source.version())
        mark = Mark(
            "carried", (partition,), FIRST_GENERATION, 1, "run", f"attempt {base}", base, reads={"sales": position}
        )
        rows = [row for row in self.of.rows if row["id"] in self.read[partition]]
        write_deltalake(
            str(path),
            self.of.arrow(rows),
            mode="append",
            partition_by=list(self.of.own_columns),
            commit_properties=CommitProperties(custom_metadata={"userMetadata": mark.to_json()}),
        )

    def carry(self) -> None:
        """Ticks until a tick requests nothing; then each partition has the rows that its run selects."""
        cursor = None
        for _ in range(TICKS):
            result = ticked(self.sensor, self.instance, cursor)
            cursor, asked = result.cursor, list(result.run_requests or [])
            self.seen["requests"] += len(asked)
            for request in asked:
                self.run(request)
            if not asked:
                break
        else:
            raise AssertionError(f"after {TICKS} ticks there are still requests")
        for partition in self.of.own.get_partition_keys():
            try:
                expected = self.rows_of(partition)
            except WriteError:
                self.seen["refused partitions"] += 1
                continue
            assert self.read.get(partition, []) == expected, partition
            self.seen["rows that arrived"] += len(expected)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:Class `MultiToSingleDimensionPartitionMapping`")  # in beta
def test_every_changed_row_of_a_partitioned_source_arrives_and_nothing_is_requested_for_ever(tmp_path: Path) -> None:
    seen = Counter[str]()

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.explicit, Phase.reuse, Phase.generate],
        deadline=None,
        derandomize="LAKEHOUSE_EXAMPLES" not in os.environ,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.data())
    def histories(data: st.DataObject) -> None:
        root = tmp_path / uuid4().hex
        with dg.DagsterInstance.ephemeral() as instance:
            instance.add_dynamic_partitions(SHOPS, ["01", "2026-01-02", "b c"])
            with dg.partition_loading_context(dynamic_partitions_store=instance):
                seen.update(history(data, root, instance))

    histories()
    assert seen["histories"] >= EXAMPLES
    assert seen["rows that arrived"] > seen["histories"]
    TOLD.append(seen)


def history(data: st.DataObject, root: Path, instance: dg.DagsterInstance) -> Counter[str]:
    of = data.draw(sales())
    note(str(of))
    of.append(root, data.draw(of.some()))
    table = Carried(root, of, instance)
    table.carry()
    for act in data.draw(st.lists(st.sampled_from(["append", "append", "delete", "compact", "add"]), max_size=4)):
        match act:
            case "append":
                of.append(root, data.draw(of.some()))
            case "delete" if of.rows:
                of.delete(root, data.draw(st.sampled_from(of.rows))["id"])
            case "add":
                instance.add_dynamic_partitions(SHOPS, ["7"])
            case _:
                DeltaTable(str(root / "sales")).optimize.compact()
        table.carry()
    return table.seen + Counter({"histories": 1, f"of {type(of.definition).__name__}": 1})

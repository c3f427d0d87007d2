"""One table as its checks see it: its log, its sources' logs, and its rows where a check needs them."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from functools import cached_property
from typing import Any

import dagster as dg
from pyspark.sql import SparkSession

from lakehouse.checking.feed import feed
from lakehouse.checking.finding import Finding, Grade
from lakehouse.checking.keys import keys
from lakehouse.checking.lag import lag
from lakehouse.checking.recompute import of_sample, recompute
from lakehouse.checking.schema import Drift, schema
from lakehouse.checking.staleness import staleness
from lakehouse.cursor.find import Cursor, Known, find_cursor
from lakehouse.cursor.unread import Unread, unread
from lakehouse.dagster.code_location import changes_of, table_ref
from lakehouse.dagster.io_manager import DeltaIOManager
from lakehouse.dagster.recomputed import recomputed_rows, whole
from lakehouse.declare.table import Table
from lakehouse.log.log import Head, Log
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.progress import doing, heard
from lakehouse.spark.snapshot import TableRef, TableVersion
from lakehouse.spark.types import fit


@dataclass(frozen=True)
class Checked:
    """A table, and what its asset reads.

    Args:
        asset: The asset; None for a table that no asset makes.
        ref: Its table.
        table: What it declares.
        sources: The table behind each input.
        io_manager: Writes the table, or would.
        seed: What the draw of a sample goes by.
        now: Milliseconds since the epoch.
    """

    asset: dg.AssetsDefinition | None
    ref: TableRef
    table: Table
    sources: Mapping[str, TableRef]
    io_manager: DeltaIOManager
    seed: str
    now: int = field(default_factory=lambda: int(time.time() * 1000))

    @classmethod
    def of(
        cls,
        key: dg.AssetKey,
        asset: dg.AssetsDefinition | None,
        tables: Mapping[dg.AssetKey, Table],
        managers: Mapping[dg.AssetKey, Any],
        seed: str,
    ) -> "Checked":
        """An asset's table, where the managers say.

        Args:
            key: The asset's key.
            asset: The asset; None for a table that no asset makes.
            tables: What each table declares.
            managers: The IO manager of the table and of each that it reads; where one is of another kind, the
                source counts as below the table's own root.
            seed: What the draw of a sample goes by.
        """
        own = managers[key]
        assert isinstance(own, DeltaIOManager), f"{key.to_user_string()} is written by no DeltaIOManager"

        def located(of: dg.AssetKey) -> TableRef:
            manager = managers.get(of)
            root = manager.location if isinstance(manager, DeltaIOManager) else own.location
            return table_ref(root, of, tables.get(of, Table()))

        inputs = dict[str, dg.AssetKey]() if asset is None else asset.keys_by_input_name
        sources = {name: located(source) for name, source in inputs.items()}
        return cls(asset, located(key), tables[key], sources, own, seed)

    def lag(self, most: timedelta) -> Finding:
        read = self._unread(set(self.sources))
        return read if isinstance(read, Finding) else lag(self.name, read, most, self.now)

    def staleness(self, margin: timedelta) -> Finding:
        read = self._unread(self._changes)
        return read if isinstance(read, Finding) else staleness(self.name, read, margin, self.now)

    def feed(self) -> Finding:
        read = self._unread(self._changes)
        return read if isinstance(read, Finding) else feed(self.name, read)

    def schema(self) -> Finding:
        head = self.head
        if head is None:
            return self._no_table
        columns = self.log.file_schema(head.version)
        if columns is None:
            return Finding.unavailable(f"The columns of '{self.name}' are unknown: only Spark can read its log.")
        declared = [column for column in self.table.descriptions if column.lower() not in columns.types]
        cursor = self.cursor
        if not isinstance(cursor, Known):
            return schema(self.name, declared, None, (), len(columns.types))
        own = _drift(self.ref, self.log, cursor.version, head)
        drifts = [
            drift
            for ref in self.sources.values()
            if (position := cursor.reads.get(ref.name)) is not None
            and (source := (log := ref.log(self.session)).head()) is not None
            and source.table_id == position.table
            and (drift := _drift(ref, log, position.version, source)) is not None
        ]
        return schema(self.name, declared, own, drifts, len(columns.types))

    def keys(self) -> Finding:
        if self.head is None:
            return self._no_table
        doing(f"checking the key of {self.name}")
        with heard(self.session()):
            return keys(self.name, TableVersion.of(self.session(), self.ref, self.head).rows(), self.table.key_columns)

    def recompute(self, sample: int | None) -> Finding:
        cursor, head = self.cursor, self.head
        assert self.asset is not None, "a table that no asset makes cannot be recomputed"
        if (
            head is None
            or not isinstance(cursor, Known)
            or not {r.name for r in self.sources.values()} <= cursor.reads.keys()
        ):
            return Finding.unavailable(f"'{self.name}' has not read all its inputs yet.")
        spark, key = self.session(), self.table.key_columns
        inputs = {name: whole(spark, source, cursor.reads[source.name]) for name, source in self.sources.items()}
        versions = ", ".join(f"{source} at {at.version}" for source, at in sorted(cursor.reads.items()))
        try:
            rows = recomputed_rows(self.asset, inputs)
            table = TableVersion.of(spark, self.ref, head).rows()
            expected = fit(self.name, rows, table.schema, may_add=False)
            doing(f"comparing {self.name} with a full recompute")
            with heard(spark):
                if sample is not None and key:
                    drawn = of_sample(key, table, [read.source for read in inputs.values()], sample, self.seed)
                    expected, table = drawn.of(expected), drawn.of(table)
                return recompute(self.name, expected, table, key, versions)
        except Exception as error:
            reason = why_unreadable(error)
            if reason is None:
                raise
            return Finding.unavailable(
                f"There is nothing to compare with any more: not all of {versions} can be read. {reason}"
            )

    @property
    def name(self) -> str:
        return self.ref.name

    def session(self) -> SparkSession:
        return self.io_manager.session()

    @cached_property
    def log(self) -> Log:
        return self.ref.log(self.session)

    @cached_property
    def head(self) -> Head | None:
        return self.log.head()

    @cached_property
    def cursor(self) -> Cursor:
        return find_cursor(self.log, self.head, self.name)

    @property
    def _changes(self) -> set[str]:
        """The inputs that are read as changes."""
        return set() if self.asset is None else set(changes_of(self.asset))

    @property
    def _no_table(self) -> Finding:
        return Finding.unavailable(f"'{self.name}' has no table yet at {self.ref.location}.")

    def _unread(self, inputs: set[str]) -> Finding | tuple[Unread, ...]:
        """What the table has not read of its inputs, or why the log does not say."""
        cursor = self.cursor
        if self.head is None or not isinstance(cursor, Known):
            return Finding.unavailable(f"'{self.name}' has not read all its inputs yet.")
        read: list[Unread] = []
        for ref in (ref for name, ref in self.sources.items() if name in inputs):
            position = cursor.reads.get(ref.name)
            if position is None:
                return Finding.unavailable(f"'{self.name}' has not read '{ref.name}' yet.")
            of = unread(ref.log(self.session), ref.name, position)
            if of is None:
                return Finding(Grade.FAILED, f"'{self.name}' reads '{ref.name}', but no table is at {ref.location}.")
            read.append(of)
        return tuple(read)


def _drift(ref: TableRef, log: Log, since: int, head: Head) -> Drift | None:
    """What became of a table's columns since a version; None where the log cannot tell."""
    before, after = log.file_schema(since), log.file_schema(head.version)
    return None if before is None or after is None else Drift.between(ref.name, since, before, after)

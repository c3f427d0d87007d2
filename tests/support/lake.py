"""A small lakehouse for tests: real Delta tables, and assets as plain functions, without Dagster."""

import os
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from inspect import get_annotations
from logging import WARNING
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql.types import StructType

from lakehouse.commit.outcome import AlreadyApplied, Outcome, Unchanged
from lakehouse.cursor.standings import Standings, Ways
from lakehouse.dagster.code_location import write_kind
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.expect import Evaluation
from lakehouse.delta.log import Size
from lakehouse.delta.policy import Clock, Retry
from lakehouse.delta.table import Read, Table
from lakehouse.delta.text import literal, quote
from lakehouse.errors import UncomparedError
from lakehouse.materialization import Materialization, begin
from lakehouse.read.asset import Asset, UserRequest
from lakehouse.read.changes import Changes
from lakehouse.read.feed_trust import Source
from lakehouse.spark.progress import Evaluated, Message, Notice, listening
from lakehouse.spark.session import interpreting
from lakehouse.spark.table_version import TableRef, TableVersion
from lakehouse.writes.append import Append
from lakehouse.writes.merge import Merge
from lakehouse.writes.overwrite import Overwrite
from lakehouse.writes.write import Write
from tests.support import plain_tables

NO_WAIT = Clock(now=lambda: 0.0, sleep=lambda _: None, random=lambda: 0.0)


def aged(lake: "Lake", name: str, days: int = 10) -> None:
    """Makes the commits of a table look older; Delta goes by the modification times of their files."""
    then = time.time() - days * 86_400
    for file in (lake.root / name / "_delta_log").glob("*"):
        os.utime(file, (then, then))


def cleaned(lake: "Lake", name: str) -> int:
    """Commits until there is a checkpoint, and removes the log before it; the oldest version that is left."""
    while not (found := list((lake.root / name / "_delta_log").glob("*.checkpoint*.parquet"))):
        lake.sql(f"UPDATE {{{name}}} SET v = v + 1 WHERE id = 1")
    oldest = int(found[0].name.split(".")[0])
    for version in range(oldest):
        for file in (lake.root / name / "_delta_log").glob(f"*{version:020}*"):
            file.unlink()
    return oldest


def _parse(schema: str) -> StructType:
    return StructType.fromDDL(schema)


@dataclass
class Lake:
    """Tables below one root; an asset's parameters name the tables that it reads.

    Args:
        spark: The session.
        root: The directory of the tables.
        retry: The retry policy of every commit.
        keys: The declared key of each table that declares one.
        trust_key: Whether readers trust the declared keys of tables that no asset writes.
    """

    spark: SparkSession
    root: Path
    retry: Retry = Retry(attempts=4, wait_initial=0, wait_max=0)
    told: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    keys: dict[str, tuple[str, ...]] = field(default_factory=dict)
    trust_key: bool = False
    evaluations: tuple[Evaluation, ...] = ()

    def hear(self, notice: Notice) -> None:
        """A listener that keeps warnings in `told`, other messages in `said`, and the newest evaluations."""
        if isinstance(notice, Message):
            (self.told if notice.level >= WARNING else self.said).append(notice.text)
        if isinstance(notice, Evaluated):
            self.evaluations = notice.evaluations

    def ref(self, name: str) -> TableRef:
        return TableRef.at_path(name, str(self.root / name))

    def create(self, name: str, rows: Iterable[tuple[Any, ...]], schema: str, **properties: str) -> None:
        """Creates a table as another program would, with a change data feed."""
        if not properties and plain_tables.create(self.root / name, rows, _parse(schema)):
            return
        writer = self.values(rows, schema).write.format("delta")
        options = {"delta.enableChangeDataFeed": "true"} | {k.replace("__", "."): v for k, v in properties.items()}
        if "delta.columnMapping.mode" in options:  # Delta refuses rows in the commit that turns both on
            listed = ", ".join(f"'{k}' = '{v}'" for k, v in options.items())
            self.spark.sql(f"CREATE TABLE {self.ref(name).identifier} ({schema}) USING delta TBLPROPERTIES ({listed})")
            self.insert(name, rows)
            return
        writer.options(**options).save(str(self.root / name))

    def insert(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        if plain_tables.insert(self.root / name, rows):
            return
        schema = self.frame(name).schema
        self.values(rows, schema).write.format("delta").mode("append").save(str(self.root / name))

    def values(self, rows: Iterable[tuple[Any, ...]], schema: str | StructType) -> DataFrame:
        """Rows as SQL literals: no Python worker, one file."""
        kind = schema if isinstance(schema, StructType) else _parse(schema)
        width = ", ".join(
            f"CAST(col{i} AS {c.dataType.simpleString()}) AS {quote(c.name)}" for i, c in enumerate(kind, 1)
        )
        listed = list(rows)
        texts = [", ".join(literal(value) for value in row) for row in listed or [(None,) * len(kind)]]
        where = "" if listed else " WHERE false"
        return self.spark.sql(f"SELECT {width} FROM VALUES ({'), ('.join(texts)}){where}").coalesce(1)

    def sql(self, statement: str, **tables: str) -> list[Row]:
        """Runs SQL with `{name}` for a table of the lake; interpreted, which is faster for few rows than compiling."""
        names = {p.name: self.ref(p.name).identifier for p in self.root.iterdir() if p.is_dir()} | tables
        with interpreting(self.spark, Size(0, 0)):
            return self.spark.sql(statement.format(**names)).collect()

    def frame(self, name: str) -> DataFrame:
        return self.spark.read.table(self.ref(name).identifier)

    def rows(self, name: str) -> list[tuple[Any, ...]]:
        """The table's rows, sorted, as plain tuples in column order."""
        found = plain_tables.rows(self.root / name)
        return sorted((tuple(row) for row in self.frame(name).collect()) if found is None else found, key=repr)

    def exists(self, name: str) -> bool:
        return self.ref(name).log(lambda: self.spark).head() is not None

    def version(self, name: str) -> int:
        head = self.ref(name).log(lambda: self.spark).head()
        assert head is not None
        return head.version

    def commits(self, name: str) -> list[Commit]:
        """The table's commits, oldest first."""
        return sorted(self.ref(name).log(lambda: self.spark).commits(self.version(name)), key=lambda c: c.version)

    def begin(self, asset: Callable[..., Any], table: Table = Table(), **options: Any) -> Materialization:
        kinds = get_annotations(asset, eval_str=True)
        name = options.pop("name", asset.__name__)
        kind = write_kind(name, kinds["return"])
        described = Asset(
            name=name,
            table=table,
            ref=self.ref(name),
            past=kind.past,
            read_options=self._changes_of(asset, options.pop("reads", None)),
            inputs={name: name for name in kinds if name != "return"},
            code_version=options.pop("code_version", None),
            policy=table.policy,
            has_query=kind.has_query,
            follows_snapshot_inputs=kind.follows_snapshot_inputs,
        )
        asked = {part.name: options.pop(part.name) for part in fields(UserRequest) if part.name in options}
        return begin(
            lambda: self.spark, described, options.pop("run", uuid4().hex), request=UserRequest(**asked), **options
        )

    def _changes_of(self, asset: Callable[..., Any], reads: Mapping[str, Read] | None) -> dict[str, Read]:
        kinds = get_annotations(asset, eval_str=True)
        return {name: (reads or {}).get(name, Read()) for name, kind in kinds.items() if kind is Changes}

    def read(
        self, step: Materialization, asset: Callable[..., Any], reads: Mapping[str, Read] | None = None
    ) -> dict[str, Changes | DataFrame]:
        kinds = get_annotations(asset, eval_str=True)
        inputs: dict[str, Changes | DataFrame] = {}
        for parameter, kind in kinds.items():
            if parameter == "return":
                continue
            source = step.at_cut(self.source(parameter))
            if kind is Changes:
                inputs[parameter] = step.changes(source, (reads or {}).get(parameter, Read()), self.ref)
            else:
                inputs[parameter] = step.snapshot_input(source)
        return inputs

    def source(self, name: str) -> Source:
        ref = self.ref(name)
        log = ref.log(lambda: self.spark)
        head = log.head()
        assert head is not None, f"no table {name}"
        return Source(TableVersion.of(self.spark, ref, head), log, head, self.keys.get(name, ()), self.trust_key)

    def materialize(
        self,
        asset: Callable[..., Any],
        table: Table = Table(),
        *,
        reads: Mapping[str, Read] | None = None,
        retry: Retry | None = None,
        **options: Any,
    ) -> Outcome:
        """Runs an asset: reads, computes, commits; runs it again, as Dagster does, if all rows have to be compared."""
        try:
            return self._materialized(asset, table, reads, retry, options)
        except UncomparedError as error:
            self.told.append(error.reason)
            return self._materialized(asset, table, reads, retry, {**options, "compare_because": error.reason})

    def _materialized(
        self,
        asset: Callable[..., Any],
        table: Table,
        reads: Mapping[str, Read] | None,
        retry: Retry | None,
        options: Mapping[str, Any],
    ) -> Outcome:
        ways: Ways | None = (options := dict(options)).pop("ways", None)
        step = self.begin(asset, table, reads=reads, **options)
        if ways is not None:
            step.standings = Standings(ways, lambda name: self.ref(name).log(lambda: self.spark))
            step.agree()
        inputs = self.read(step, asset, reads)
        kind = get_annotations(asset, eval_str=True)["return"]
        foreseen = step.nothing_to_do()
        result = asset(**inputs)
        write: Write = Overwrite(result) if isinstance(result, DataFrame) else result
        rests = step.nothing_to_write(write) is not None
        with listening(self.hear):
            outcome = step.commit(write, retry or self.retry, NO_WAIT)
        if rests or (foreseen is not None and kind in (Append, Merge, Overwrite, DataFrame)):
            assert isinstance(outcome, Unchanged | AlreadyApplied), "a step with nothing to do has written"
        return outcome

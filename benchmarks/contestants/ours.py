"""A step as this project makes it, without Dagster: one materialization, from its position to its commit."""

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from inspect import get_annotations
from pathlib import Path
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness.data import KEY, Pair
from lakehouse import Changes, Merge, Retry, Table
from lakehouse.commit.execute import execute
from lakehouse.commit.outcome import Outcome
from lakehouse.cursor.definition import in_session
from lakehouse.dagster.code_location import write_kind
from lakehouse.delta.location import Location
from lakehouse.delta.partition_keys import Slice
from lakehouse.delta.table import Read
from lakehouse.difference.statements import MarkOnly
from lakehouse.materialization import Materialization, begin
from lakehouse.read.asset import Asset, UserRequest
from lakehouse.read.feed_reader import Feeds
from lakehouse.read.resolve import Source
from lakehouse.spark.progress import Notice, PhaseBegan, PhaseEnded, listening
from lakehouse.spark.session import settings_of_rows
from lakehouse.spark.table_version import TableRef, TableVersion

Laps = Callable[[str], AbstractContextManager[object]]


def untimed(_: str) -> AbstractContextManager[object]:
    return nullcontext()


def on_disk(path: Path) -> Location:
    return Location(str(path))


@dataclass(frozen=True, slots=True)
class Lake:
    """Tables below one root; an asset is a function whose parameters name the tables that it reads.

    Args:
        spark: The session.
        root: The directory of the tables.
        keys: The key of each table that has one.
        feeds: The feeds that one run has read so far, for its other assets.
        where: Gives the address by which the files of a directory are read and written.
        trust_key: Whether readers believe the keys of tables that no asset writes.
    """

    spark: SparkSession
    root: Path
    keys: dict[str, str | tuple[str, ...]]
    feeds: Feeds = field(default_factory=Feeds)
    where: Callable[[Path], Location] = on_disk
    trust_key: bool = False

    def materialize(
        self,
        asset: Callable[..., Any],
        table: Table,
        *,
        target: str | None = None,
        slice_: Slice | None = None,
        retry: Retry = Retry(),
        upto: int | None = None,
        lap: Laps = untimed,
    ) -> Outcome:
        """One run of an asset, with a lap for each phase; with `upto`, as if its sources ended at that version."""
        with lap("begin"):
            step = self.begin(asset, table, target=target, slice_=slice_)
        with lap("read changes"):
            inputs = self.read(step, asset, upto)
        with lap("asset's function"):
            write = asset(**inputs)
        with lap("commit"), phases_of_commit(lap):
            return step.commit(write, retry)

    def adopt(self, asset: Callable[..., Any], table: Table, *, upto: int | None = None, **options: Any) -> None:
        """Commits a position to a table that is known to hold the asset's result, so no rows are compared."""
        step = self.begin(asset, table, compare="the table was there before the asset", **options)
        self.read(step, asset, upto)
        run = step.run
        run = replace(run, definition=in_session(run.definition, settings_of_rows(self.spark)))
        execute(self.spark, MarkOnly(), run, run.mark(uuid4().hex, 0, compared=False))

    def begin(
        self,
        asset: Callable[..., Any],
        table: Table,
        *,
        target: str | None = None,
        slice_: Slice | None = None,
        compare: str | None = None,
    ) -> Materialization:
        name, kinds = asset.__name__, get_annotations(asset, eval_str=True)
        kind = write_kind(name, kinds["return"])
        described = Asset(
            name=name,
            table=table,
            ref=self._ref(target or name),
            past=kind.past,
            has_query=kind.has_query,
            follows_snapshot_inputs=kind.follows_snapshot_inputs,
            policy=table.policy,
            read_options={source: Read() for source, read in kinds.items() if read is Changes},
            inputs={source: source for source in kinds if source != "return"},
        )
        request = UserRequest(compare=compare)
        return begin(lambda: self.spark, described, uuid4().hex, slice=slice_, request=request, feeds=self.feeds)

    def read(
        self, step: Materialization, asset: Callable[..., Any], upto: int | None = None
    ) -> dict[str, Changes | DataFrame]:
        kinds = get_annotations(asset, eval_str=True)
        return {
            name: step.changes(self._source(name, upto), Read(), self._ref)
            if kind is Changes
            else step.snapshot_input(self._source(name, upto))
            for name, kind in kinds.items()
            if name != "return"
        }

    def _ref(self, name: str) -> TableRef:
        return TableRef.at(name, self.where(self.root / name))

    def _source(self, name: str, upto: int | None) -> Source:
        ref = self._ref(name)
        log = ref.log(lambda: self.spark)
        head = log.head()
        assert head is not None, f"no table {name}"
        head = head if upto is None else replace(head, version=upto)
        key = self.keys.get(name, ())
        key = (key,) if isinstance(key, str) else key
        return Source(TableVersion.of(self.spark, ref, head), log, head, key, self.trust_key)


def target(source: Changes) -> Merge:
    """The simplest incremental asset: the source's rows, by key."""
    touched = source.touched(KEY)
    return Merge(touched.rows, touched)


@dataclass
class Ours:
    """An asset that follows the source of a pair into its target."""

    spark: SparkSession
    name: str = "ours"
    table: Table = field(default_factory=lambda: Table(key=KEY))
    outcome: Outcome | None = None
    where: Callable[[Path], Location] = on_disk
    trust_key: bool = False

    def prepare(self, pair: Pair) -> None:
        self._lake(pair).adopt(self._asset(), self.table)

    def step(self, pair: Pair, lap: Laps = untimed) -> None:
        self.outcome = self._lake(pair).materialize(self._asset(), self.table, lap=lap)

    def _asset(self) -> Callable[[Changes], Merge]:
        def target(source: Changes) -> Merge:
            touched = source.touched(*self.table.key_columns)
            return Merge(touched.rows, touched)

        return target

    def _lake(self, pair: Pair) -> Lake:
        lake = Lake(self.spark, pair.root, {"source": self.table.key_columns}, where=self.where)
        return replace(lake, trust_key=self.trust_key)


def phases_of_commit(lap: Laps) -> AbstractContextManager[object]:
    """Measures the phases of a commit as laps."""
    if lap is untimed:
        return nullcontext()
    open_lap = ExitStack()

    def listen(notice: Notice) -> None:
        if isinstance(notice, PhaseBegan):
            open_lap.enter_context(lap(f"- {notice.phase}"))
        elif isinstance(notice, PhaseEnded):
            open_lap.close()

    return listening(listen)

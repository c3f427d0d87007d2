"""A step as this project makes it, without Dagster: one materialization, from its position to its commit."""

from collections.abc import Callable, Generator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from pyspark.sql import SparkSession

import lakehouse.commit
from benchmarks.data import KEY, Pair
from lakehouse import Changes, Merge, Retry, Table
from lakehouse.commit import Outcome
from lakehouse.ladder import Source
from lakehouse.materialization import Asset, Materialization
from lakehouse.read import Read
from lakehouse.statement import Touch, execute
from lakehouse.tables import Pinned, TableRef

Laps = Callable[[str], AbstractContextManager[object]]


def copy(source: Changes) -> Merge:
    """The simplest incremental asset: the source's rows, by key."""
    touched = source.touched(KEY)
    return Merge(touched.rows, touched)


@dataclass
class Ours:
    """An asset that follows the source of a pair into its target."""

    spark: SparkSession
    name: str = "ours"
    asset: Callable[[Changes], Merge] = copy
    table: Table = field(default_factory=lambda: Table(key=KEY))

    def prepare(self, pair: Pair) -> None:
        """Puts the position down: the target is known to equal the source, so nothing is compared."""
        step = self._begin(pair, compare="the table was there before the asset")
        step.changes(self._source(pair.source), Read(), self._no_archive)
        run = step.planned()
        execute(self.spark, Touch(), run, run.mark(uuid4().hex, 0))

    def step(self, pair: Pair, lap: Laps = lambda _: nullcontext()) -> Outcome:
        """One run of the asset, its phases told apart."""
        with lap("begin"):
            step = self._begin(pair)
        with lap("read changes"):
            changes = step.changes(self._source(pair.source), Read(), self._no_archive)
        with lap("asset's function"):
            write = self.asset(changes)
        with lap("commit"), _phases_of_commit(lap):
            return step.commit(write, Retry())

    def _begin(self, pair: Pair, compare: str | None = None) -> Materialization:
        ref = TableRef.at_path("target", str(pair.target))
        asset = Asset(name="target", table=self.table, ref=ref, appends=False, incremental=True)
        return Materialization(lambda: self.spark, asset, uuid4().hex, compare=compare)

    def _source(self, path: Path) -> Source:
        ref = TableRef.at_path("source", str(path))
        log = ref.log(lambda: self.spark)
        head = log.head()
        assert head is not None
        return Source(Pinned(self.spark, ref, head.table_id, head.version, None, (KEY,)), log, head)

    @staticmethod
    def _no_archive(asset: str) -> TableRef:
        raise LookupError(asset)


PHASES = {
    "plan": "- plan",
    "execute": "- execute",
    "find_cursor": "- look at the cursor",
    "_find_attempt": "- find in the log",
}


@contextmanager
def _phases_of_commit(lap: Laps) -> Generator[None]:
    """Laps around what `lakehouse.commit` calls, as far as it still calls them so."""

    def timed(phase: str, function: Callable[..., object]) -> Callable[..., object]:
        def call(*args: object, **options: object) -> object:
            with lap(phase):
                return function(*args, **options)

        return call

    called = {name: vars(lakehouse.commit)[name] for name in PHASES if name in vars(lakehouse.commit)}
    try:
        for name, function in called.items():
            setattr(lakehouse.commit, name, timed(PHASES[name], function))
        yield
    finally:
        for name, function in called.items():
            setattr(lakehouse.commit, name, function)

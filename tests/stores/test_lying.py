"""A store that lies: whatever it answers, nothing is lost, nothing is doubled, and every error message is true."""

import time
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame, SparkSession

from benchmarks.harness.gateway import Store
from lakehouse import Changes, Overwrite, Table, View
from lakehouse.commit.outcome import AlreadyApplied, Committed
from lakehouse.delta.policy import Retry
from lakehouse.errors import LakehouseError, StaleInputsError
from lakehouse.spark.table_version import TableRef
from tests.reliability.checker import Ack, Asset, behind, check, check_ledger
from tests.reliability.delta_files import Ledger, Row
from tests.reliability.laws import equals
from tests.reliability.pipeline import FIRST, SRC, STEPS, Step
from tests.stores.lying import STALE_SECONDS, Fault, Liar, Lie
from tests.support.for_each import for_each
from tests.support.lake import Lake

pytestmark = [pytest.mark.lies, pytest.mark.timeout(3600)]


def grouped(src: Changes) -> View:
    """The number of rows and their sum by k, as a view."""
    return View("SELECT k, count(*) AS n, sum(v) AS total FROM src GROUP BY k")


def whole(src: DataFrame) -> Overwrite:
    """All rows."""
    return Overwrite(src.select("id", "token"))


def _grouped(sources: Mapping[str, list[Row]]) -> list[Row]:
    groups = defaultdict[str, list[int]](list)
    for row in sources["src"]:
        groups[row["k"]].append(row["v"])
    return [{"k": k, "n": len(values), "total": sum(values)} for k, values in groups.items()]


def _narrowed(sources: Mapping[str, list[Row]]) -> list[Row]:
    return [{name: row[name] for name in ("id", "token")} for row in sources["src"]]


ALL = {name: STEPS[name] for name in ("current", "archive", "totals", "past")} | {
    "grouped": Step(grouped, Table(key="k"), "src", equals(_grouped)),
    "whole": Step(whole, Table(), "src", equals(_narrowed)),
}
"""A merge, an append, sums, a history, a view and a replacement."""
LONG = 100_000
"""The length of a token for a file of rows that is uploaded in parts."""


@dataclass
class StoredLake(Lake):
    """A lake in a bucket that is reached through the liar; `root` is the directory of its objects."""

    store: Store = field(kw_only=True)
    liar: Liar = field(kw_only=True)

    def ref(self, name: str) -> TableRef:
        bucket = self.root.relative_to(self.store.directory).as_posix()
        return TableRef.at(name, replace(self.store.at(""), address=f"s3a://{bucket}/{name}"))

    def is_made(self, name: str) -> bool:
        """Whether a table has a commit; waits until a store that lists late would list it."""
        first = self.root / name / "_delta_log" / f"{0:020}.json"
        if self.liar.lie is not None and self.liar.lie.fault is Fault.STALE_LISTING and first.exists():
            time.sleep(max(0.0, first.stat().st_mtime + STALE_SECONDS - time.time()))
        return first.exists()

    def create(self, name: str, rows: Iterable[tuple[Any, ...]], schema: str, **_: str) -> None:
        written = self.values(rows, schema).write.format("delta").option("delta.enableChangeDataFeed", "true")
        written.save(self.ref(name).location)

    def insert(self, name: str, rows: Iterable[tuple[Any, ...]]) -> None:
        schema = self.frame(name).schema
        self.values(rows, schema).write.format("delta").mode("append").save(self.ref(name).location)


@dataclass
class Told:
    """What the runs of a lake were told."""

    lake: StoredLake
    acks: list[Ack] = field(default_factory=list[Ack])
    unknown: list[str] = field(default_factory=list[str])
    errors: list[str] = field(default_factory=list[str])

    def run(self, step: Step, tries: int = 4) -> None:
        """Runs a step, and repeats it as often as Dagster would for new inputs.

        Raises:
            LakehouseError: The run failed with this error.
        """
        run = uuid4().hex
        try:
            outcome = self.lake.materialize(step.asset, step.table, run=run)
        except StaleInputsError:
            self.unknown.append(run)
            if tries == 1:
                raise
            self.run(step, tries - 1)
        except LakehouseError as error:
            self.errors.append(f"{step.name}: [{error.code}] {error}")
            if error.code == "UNKNOWN_OUTCOME":
                self.unknown.append(run)
            # There is no other writer. If the error says that nothing was written, the checker holds the run to that.
            elif "Nothing was written" not in str(error) or "keep the two writers apart" in str(error):
                raise AssertionError(f"{step.name} does not say what is true") from error
            raise
        else:
            match outcome:
                case Committed(commit=commit):
                    self.acks.append(Ack(step.name, run, commit.version))
                case AlreadyApplied(commit=commit):
                    self.acks.append(Ack(step.name, run, commit.version, own=False))
                case _:
                    pass

    def run_all(self, steps: Iterable[Step]) -> None:
        for step in steps:
            if self.lake.is_made(step.source):
                try:
                    self.run(step)
                except LakehouseError:
                    assert self.lake.liar.lie is not None, "the store tells the truth"


def assets(root: Path, steps: Iterable[Step]) -> list[Asset]:
    return [step.at(root) for step in steps if (root / step.name / "_delta_log" / f"{0:020}.json").exists()]


@for_each("fault", tuple(Fault))
def test_a_store_that_lies_loses_nothing_and_doubles_nothing(
    spark: SparkSession, lying_store: Store, liar: Liar, fault: Fault
) -> None:
    """For new tables and existing ones; with the fault once for each object, and with a fault that lasts."""
    root = lying_store.directory / "lying" / uuid4().hex[:8]
    root.mkdir(parents=True)
    lake = StoredLake(spark, root, Retry(attempts=2, wait_initial=0, wait_max=0), store=lying_store, liar=liar)
    ledger, told = Ledger(), Told(lake)
    steps = [*ALL.values()]
    lake.create("src", FIRST, SRC)
    if fault is Fault.COMPLETION_LOST:
        lake.insert("src", [(100 + n, "c", n, Random(n).randbytes(LONG // 2).hex()) for n in range(120)])
    for number, lasts in enumerate((False, False) if fault is Fault.STALE_LISTING else (True, False)):
        with liar.telling(Lie(fault, lasts), {"src"}):
            told.run_all(steps)
        assert liar.met, "no request met the fault"
        told.run_all(steps)
        found = assets(root, steps)
        assert len(found) == len(steps)
        assert [str(each) for each in (*check(found, told.acks, told.unknown), *behind(found))] == []
        assert check_ledger(ledger, *(asset.path for asset in found)) == []
        lake.sql(f"UPDATE {{src}} SET v = 60 - v, token = concat('{number}-', id) WHERE id % 2 = 0")
        lake.insert("src", [(10 + number, "b", number, f"{number}-new")])
    assert liar.overwritten == []

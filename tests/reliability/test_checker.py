"""The checker sees what each classic mistake does to the tables, and finds the library right in the same scenario."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import pytest

from lakehouse.errors import StaleInputsError
from tests.reliability.broken import FilteredFeed, LatestTwice, NettedAway, NoEpoch, Plain, SideFile, SourceVersion
from tests.reliability.broken_past import (
    ExtractWithoutEpoch,
    LatestExtractTwice,
    NewestAlone,
    PastInASideFile,
    PastWithoutEpoch,
    PlainExtracts,
    PlainPast,
)
from tests.reliability.checker import check
from tests.reliability.delta_files import History
from tests.reliability.pipeline import STEPS, assets, create, edit
from tests.support.interleave import before, raises
from tests.support.lake import NO_WAIT, Lake

pytestmark = pytest.mark.fault


class Pipeline(Protocol):
    name: str

    def begin(self) -> Callable[[], None]: ...
    def run(self) -> None: ...


@dataclass
class Ours:
    """The library, in the same scenario."""

    lake: Lake
    name: str

    def begin(self) -> Callable[[], None]:
        step = STEPS[self.name]
        run = self.lake.begin(step.asset, step.table)
        write = step.asset(**self.lake.read(run, step.asset))

        def commit() -> None:
            try:
                run.commit(write, self.lake.retry, NO_WAIT)
            except StaleInputsError:
                self.run()  # as the IO manager does, by letting Dagster run the step again

        return commit

    def run(self) -> None:
        self.begin()()


class Died(BaseException):
    """Simulates the end of the process: nothing in a pipeline handles it."""


def dies_behind_its_commit(lake: Lake, pipeline: Pipeline) -> None:
    """The commit is durable, and the process ends before it can do anything else."""
    pipeline.run()
    edit(lake, 0)
    with before("find in the log", raises(Died())), pytest.raises(Died):
        pipeline.run()
    pipeline.run()


def restored(lake: Lake, pipeline: Pipeline) -> None:
    pipeline.run()
    edit(lake, 0)
    pipeline.run()
    lake.sql(f"RESTORE TABLE {{{pipeline.name}}} TO VERSION AS OF 0")
    edit(lake, 1)
    pipeline.run()


def overlapping(lake: Lake, pipeline: Pipeline) -> None:
    """Two runs start from the same position; the second has read one version more."""
    pipeline.run()
    edit(lake, 0)
    first = pipeline.begin()
    edit(lake, 1)
    second = pipeline.begin()
    first()
    second()
    pipeline.run()


def late(lake: Lake, pipeline: Pipeline) -> None:
    """Two runs start from the same position; the one that has read less commits last."""
    pipeline.run()
    edit(lake, 0)
    first = pipeline.begin()
    edit(lake, 1)
    second = pipeline.begin()
    second()
    first()
    pipeline.run()


def overtaken(lake: Lake, pipeline: Pipeline) -> None:
    """The source moves on between the read and the commit."""
    pipeline.run()
    edit(lake, 0)
    commit = pipeline.begin()
    edit(lake, 1)
    commit()
    edit(lake, 3)
    pipeline.run()


def leaves_the_filter(lake: Lake, pipeline: Pipeline) -> None:
    pipeline.run()
    lake.sql("UPDATE {src} SET v = 99, token = 'leaves' WHERE id = 1")
    pipeline.run()


def changed_twice(lake: Lake, pipeline: Pipeline) -> None:
    """A row is changed twice, and deleted and inserted anew, within one range."""
    pipeline.run()
    for v in (1, 2):
        lake.sql(f"UPDATE {{src}} SET v = {v}, token = 'change {v}' WHERE id = 1")
    lake.sql("DELETE FROM {src} WHERE id = 2")
    lake.insert("src", [(2, "a", 7, "anew")])
    pipeline.run()


def replaced_row(lake: Lake, pipeline: Pipeline) -> None:
    """A row is deleted and inserted anew within one range."""
    pipeline.run()
    lake.sql("DELETE FROM {src} WHERE id = 1")
    lake.insert("src", [(1, "a", 7, "anew")])
    pipeline.run()


@dataclass(frozen=True)
class Mistake:
    """A broken pipeline, the scenario that shows it, the table that it keeps, and the rules that must see it."""

    pipeline: type[Plain]
    scenario: Callable[[Lake, Pipeline], None]
    table: str
    rules: frozenset[str]


MISTAKES = {
    "cursor in a side file": Mistake(SideFile, dies_behind_its_commit, "archive", frozenset({"K3", "K4"})),
    "source version as txnVersion, RESTORE": Mistake(SourceVersion, restored, "archive", frozenset({"K3", "K4"})),
    "source version as txnVersion, overlap": Mistake(
        SourceVersion, overlapping, "archive", frozenset({"K1", "K3", "K4"})
    ),
    "no epoch": Mistake(NoEpoch, overlapping, "archive", frozenset({"K1", "K2", "K3", "K4"})),
    "latest read twice": Mistake(LatestTwice, overtaken, "archive", frozenset({"K3", "K4"})),
    "feed filtered before the keys": Mistake(FilteredFeed, leaves_the_filter, "current", frozenset({"K3"})),
    "insert and delete netted away": Mistake(NettedAway, replaced_row, "current", frozenset({"K3"})),
    "history, no epoch": Mistake(PastWithoutEpoch, overlapping, "past", frozenset({"K1", "K2", "K3", "K4"})),
    "history, cursor in a side file": Mistake(PastInASideFile, dies_behind_its_commit, "past", frozenset({"K3", "K4"})),
    "history, only the newest change": Mistake(NewestAlone, changed_twice, "past", frozenset({"K3", "K4"})),
    "extract, no epoch": Mistake(ExtractWithoutEpoch, late, "kept", frozenset({"K1", "K2", "K5"})),
    "extract, latest read twice": Mistake(LatestExtractTwice, overtaken, "kept", frozenset({"K3"})),
}


def rules(lake: Lake) -> dict[str, list[str]]:
    """The sentences of each broken rule."""
    found: dict[str, list[str]] = {}
    for violation in check(assets(lake.root)):
        found.setdefault(violation.rule, []).append(violation.sentence)
    return found


@pytest.mark.parametrize("name", MISTAKES)
def test_a_classic_mistake_is_seen(lake: Lake, name: str) -> None:
    mistake = MISTAKES[name]
    create(lake)
    mistake.scenario(lake, mistake.pipeline(lake, mistake.table))
    found = rules(lake)
    assert mistake.rules <= found.keys(), found


RIGHT = {"archive": Plain, "current": Plain, "past": PlainPast, "kept": PlainExtracts}
"""The pipeline without a mistake that keeps each table."""


@pytest.mark.parametrize("ours", [True, False], ids=["ours", "the broken one without its mistake"])
@pytest.mark.parametrize("name", MISTAKES)
def test_the_same_scenario_is_clean_without_the_mistake(lake: Lake, name: str, *, ours: bool) -> None:
    mistake = MISTAKES[name]
    create(lake)
    pipeline = Ours if ours else RIGHT[mistake.table]
    mistake.scenario(lake, pipeline(lake, mistake.table))
    assert rules(lake) == {}


def test_deletion_vectors_are_read_as_spark_reads_them(lake: Lake) -> None:
    lake.create("src", [], "id int, v int", **{"delta.enableDeletionVectors": "true"})
    lake.spark.range(0, 20_000, 1, 1).selectExpr("int(id) AS id", "int(id) AS v").write.format("delta").mode(
        "append"
    ).save(str(lake.root / "src"))
    lake.sql("DELETE FROM {src} WHERE id BETWEEN 100 AND 9000 OR id % 7 = 0")
    lake.sql("UPDATE {src} SET v = -1 WHERE id % 1000 = 1")
    history = History(lake.root / "src")
    entry = history.entries[history.newest]
    assert any(add.get("deletionVector") for add in entry.files.values()), "the table has vectors"
    assert sorted((row["id"], row["v"]) for row in history.rows(history.newest)) == lake_rows(lake)


def lake_rows(lake: Lake) -> list[tuple[int, int]]:
    return sorted((row.id, row.v) for row in lake.frame("src").collect())

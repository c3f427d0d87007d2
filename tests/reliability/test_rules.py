"""Each rule of the checker, on tables written by hand: it finds what is wrong, and nothing else."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.reliability.checker import Ack, Asset, behind, check, check_ledger
from tests.reliability.delta_files import Ledger, Row, log_files
from tests.reliability.laws import END, START, appends, continued, differs
from tests.support.for_each import for_each

SCHEMA = json.dumps(
    {"type": "struct", "fields": [{"name": "token", "type": "string", "nullable": True, "metadata": {}}]}
)


@dataclass
class Written:
    """A Delta table, written entry by entry."""

    path: Path
    version: int = -1
    metadata: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def commit(
        self, *tokens: str, mark: dict[str, Any] | None = None, txn: tuple[str, int] | None = None, **info: Any
    ) -> None:
        """Commits a row for each token."""
        self.version += 1
        (self.path / "_delta_log").mkdir(parents=True, exist_ok=True)
        actions: list[dict[str, Any]] = []
        if self.version == 0:
            actions.append({"metaData": {"id": f"id of {self.path.name}", "schemaString": SCHEMA}})
        if mark is not None:
            info["userMetadata"] = json.dumps({"lakehouse": mark})
        actions.append({"commitInfo": {"operation": "WRITE"} | info})
        if txn is not None:
            actions.append({"txn": {"appId": txn[0], "version": txn[1]}})
        if tokens:
            pq.write_table(pa.table({"token": list(tokens)}), self.path / f"{self.version}.parquet")
            actions.append({"add": {"path": f"{self.version}.parquet", "partitionValues": {}}})
        entry = self.path / "_delta_log" / f"{self.version:020}.json"
        entry.write_text("\n".join(map(json.dumps, actions)))


@dataclass
class Tables:
    """A source of four versions and a table that appends its tokens."""

    root: Path
    src: Written = field(init=False)
    log: Written = field(init=False)

    def __post_init__(self) -> None:
        self.src, self.log = Written(self.root / "src"), Written(self.root / "log")
        for token in "abcd":
            self.src.commit(token)

    def own(self, epoch: int, upto: int, *tokens: str, txn: int | None = None, **change: Any) -> None:
        """An own commit, which is right unless `txn` or `change` alters something in it."""
        base = change.pop("base", self.log.version)
        body = {"asset": "log", "partition": None, "generation": "0", "epoch": epoch, "run": f"run-{epoch}"}
        reads = {"src": {"table": "id of src", "version": upto}}
        mark = body | {"attempt": f"attempt-{epoch}", "base": base, "reads": reads} | change
        self.log.commit(*tokens, mark=mark, txn=(f"log:{mark['generation']}", epoch if txn is None else txn))

    @property
    def asset(self) -> Asset:
        return Asset("log", self.log.path, {"src": self.src.path}, appends(_new), "token")

    def rules(self, acks: list[Ack] | None = None, died: list[str] | None = None) -> set[str]:
        return {violation.rule for violation in check([self.asset], acks or [], died or [])}


def _new(before: list[Row], after: list[Row], _: int) -> list[Row]:
    return [row for row in after if row not in before]


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(tmp_path)


def test_a_right_chain_is_clean(tables: Tables) -> None:
    tables.own(1, 0, "a")
    tables.log.commit(operation="OPTIMIZE")
    tables.own(2, 2, "b", "c")
    tables.own(3, 3, "d")
    acks = [Ack("log", "run-1", 0), Ack("log", "twin", 2, own=False), Ack("log", "run-3", 3)]
    assert tables.rules(acks, died=["run-2"]) == set()
    assert behind([tables.asset]) == []


def overlap(tables: Tables) -> None:
    tables.own(2, 1, "b")
    tables.own(3, 2, "c", base=0)


def goes_back(tables: Tables) -> None:
    tables.own(2, 3, "b", "c", "d")
    tables.own(3, 2)


def beyond_the_source(tables: Tables) -> None:
    tables.own(2, 9, "b", "c", "d")


def another_source(tables: Tables) -> None:
    tables.own(2, 1, "b", reads={"src": {"table": "the id of a table that was dropped", "version": 1}})


def epoch_skipped(tables: Tables) -> None:
    tables.own(3, 1, "b")


def epoch_of_another_number(tables: Tables) -> None:
    tables.own(2, 1, "b", txn=1)


def no_mark(tables: Tables) -> None:
    tables.log.commit("b", txn=("log:0", 2))


def lost(tables: Tables) -> None:
    tables.own(2, 2, "c")


def twice(tables: Tables) -> None:
    tables.own(2, 1, "b", "a")


def rows_of_an_optimize(tables: Tables) -> None:
    tables.log.commit("z", operation="OPTIMIZE")


@pytest.mark.parametrize(
    ("broken", "rules"),
    [
        (overlap, {"K1"}),
        (goes_back, {"K5", "K3", "K4"}),
        (beyond_the_source, {"K5"}),
        (another_source, {"K1", "K3"}),
        (epoch_skipped, {"K2"}),
        (epoch_of_another_number, {"K2"}),
        (no_mark, {"K2"}),
        (lost, {"K3", "K4"}),
        (twice, {"K3", "K4"}),
        (rows_of_an_optimize, {"K3", "K4"}),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_each_rule_is_seen_broken(tables: Tables, broken: Callable[[Tables], None], rules: set[str]) -> None:
    tables.own(1, 0, "a")
    assert tables.rules() == set()
    broken(tables)
    assert tables.rules() == rules


@pytest.mark.parametrize("extract", ["int 1", "date 2026-01-02", None])
def test_an_extract_that_is_not_the_newest_one_delivered_is_seen(tables: Tables, extract: str | None) -> None:
    asset = replace(tables.asset, extract=len)  # an extract's number is the number of rows of its source
    tables.own(1, 0, "a", extract="int 1")
    assert check([asset]) == []
    tables.own(2, 1, "b", extract=extract)
    assert [violation.rule for violation in check([asset])] == ["K5"]


FIRST, SECOND, THIRD = (
    {"id": 1, "k": "a", START: 1, END: 2},
    {"id": 1, "k": "b", START: 2, END: 3},
    {"id": 2, "k": "a"},
)
HISTORY = [FIRST, SECOND, THIRD | {START: 2, END: None}]


@for_each(
    "rows",
    [
        HISTORY[1:],
        [*HISTORY, FIRST],
        [*HISTORY, SECOND | {START: 1}],
        [FIRST, SECOND | {END: None}, HISTORY[2]],
        [FIRST | {END: 3}, SECOND, HISTORY[2]],
        [*HISTORY, THIRD | {START: 3, END: None}],
    ],
)
def test_a_history_that_is_not_the_fold_of_its_states_is_seen(rows: list[Row]) -> None:
    expected: list[Row] = []
    for at, state in ((1, [{"id": 1, "k": "a"}]), (2, [{"id": 1, "k": "b"}, THIRD]), (3, [THIRD])):
        expected = continued(expected, state, at, ["k"])
    assert differs(expected, HISTORY) is None
    assert differs(expected, rows) is not None


def test_an_acknowledgement_that_is_not_in_the_log_is_seen(tables: Tables) -> None:
    tables.own(1, 0, "a")
    assert tables.rules([Ack("log", "run-1", 0)]) == set()
    for acks in ([Ack("log", "run-9", 0)], [Ack("log", "run-1", 5)], [Ack("log", "run-1", 0), Ack("log", "run-1", 0)]):
        assert tables.rules(acks) == {"K7"}


def test_a_commit_of_a_living_run_that_nobody_was_told_of_is_seen(tables: Tables) -> None:
    tables.own(1, 0, "a")
    tables.own(2, 1, "b")
    acks = [Ack("log", "run-1", 0)]
    assert tables.rules(acks) == {"K7"}
    assert tables.rules(acks, died=["run-2"]) == set()


def test_a_log_entry_that_is_written_twice_or_taken_away_is_seen(tables: Tables) -> None:
    tables.own(1, 0, "a")
    ledger = Ledger()
    assert check_ledger(ledger, tables.log.path) == []
    (entry,) = log_files(tables.log.path)
    entry.write_text(entry.read_text().replace("run-1", "run-2"))
    assert [v.rule for v in check_ledger(ledger, tables.log.path)] == ["K6"]
    entry.unlink()
    assert [v.rule for v in check_ledger(ledger, tables.log.path)] == ["K6"]


def test_a_hole_in_the_log_is_seen(tables: Tables) -> None:
    tables.own(1, 0, "a")
    tables.own(2, 1, "b")
    tables.own(3, 2, "c")
    log_files(tables.log.path)[1].unlink()
    assert "K6" in tables.rules()


def test_changes_that_no_run_found_are_seen(tables: Tables) -> None:
    tables.own(1, 2, "a", "b", "c")
    assert tables.rules() == set()
    assert [violation.rule for violation in behind([tables.asset])] == ["K8"]

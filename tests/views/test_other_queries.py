"""A text, or a value in it, that differs from the last commit is noticed, even if no digest of the code contains it."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse import Changes, Policy, Table, View
from lakehouse.commit.outcome import Outcome, Unchanged
from lakehouse.errors.views import ViewError
from tests.support.lake import Lake
from tests.support.model import SRC

OTHER = "its query, or a value in it, is another than at its last commit"


@dataclass
class Kept:
    """A view whose text is in a file next to the code, and whose value is an attribute of a resource."""

    lake: Lake
    text: str = "SELECT id, v FROM src WHERE v > :least"
    least: int = 3
    code_version: str | None = None
    _said: int = field(default=0, init=False)

    def run(self, policy: Policy = Policy()) -> Outcome:
        def kept(src: Changes) -> View:
            return View(self.text, {"least": self.least})

        self._said = len(self.lake.said)
        return self.lake.materialize(kept, Table(key="id", policy=policy), code_version=self.code_version)

    @property
    def computed(self) -> str:
        """What the last run reported that it computed."""
        said = [line for line in self.lake.said[self._said :] if " computes " in line]
        return said[-1] if said else ""

    def is_its_query(self) -> bool:
        text = self.text.replace("src", "{src}").replace(":least", str(self.least))
        return self.lake.rows("kept") == sorted(map(tuple, self.lake.sql(text)), key=repr)

    def change_a_row(self) -> None:
        self.lake.insert("src", [(100 + self.lake.version("src"), "g1", 50)])


@pytest.fixture
def kept(lake: Lake) -> Kept:
    lake.create("src", [(i, f"g{i % 4}", i) for i in range(12)], SRC)
    kept = Kept(lake)
    kept.run()
    return kept


CHANGES: dict[str, dict[str, Any]] = {
    "a value": {"least": 5},
    "the text": {"text": "SELECT id, v + 1 AS v FROM src WHERE v > :least"},
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("moves", [False, True], ids=["no row changed", "a row changed"])
def test_another_query_is_noticed(kept: Kept, change: str, *, moves: bool) -> None:
    for name, value in CHANGES[change].items():
        setattr(kept, name, value)
    if moves:
        kept.change_a_row()
    with pytest.raises(ViewError, match=f"because {OTHER}") as refused:
        kept.run(Policy(refresh="strict"))
    assert refused.value.code == "VIEW_NOT_INCREMENTAL"
    kept.run()
    assert kept.computed == f"kept computes all rows, because {OTHER}."
    assert kept.is_its_query()
    assert isinstance(kept.run(Policy(refresh="strict")), Unchanged)


def test_a_value_that_changes_no_row_is_noticed_once(kept: Kept) -> None:
    kept.text = "SELECT id, v FROM src WHERE v > :least AND v > 2"
    assert kept.run().commit.is_quiet  # type: ignore[union-attr]
    assert isinstance(kept.run(), Unchanged)


def test_another_layout_of_the_text_is_the_same_query(kept: Kept) -> None:
    kept.text = "select id, v\n  from src -- all that is large\n  where v > :least"
    assert isinstance(kept.run(Policy(refresh="strict")), Unchanged)
    kept.change_a_row()
    kept.run(Policy(refresh="strict"))
    assert "touched keys" in kept.computed and kept.is_its_query()


@pytest.mark.parametrize("policy", [Policy(on_new_code="ignore"), Policy(on_new_code="warn")], ids=["ignore", "warn"])
def test_a_policy_that_lets_rows_of_other_code_stand_lets_those_of_another_text_stand(
    kept: Kept, policy: Policy
) -> None:
    kept.text = "SELECT id, v + 1 AS v FROM src WHERE v > :least"
    assert isinstance(kept.run(policy), Unchanged)
    kept.change_a_row()
    kept.run(policy)
    assert "touched keys" in kept.computed
    assert (11, 11) in kept.lake.rows("kept")


def test_a_code_version_stands_for_the_text(kept: Kept) -> None:
    kept.code_version = "1"
    kept.run()
    kept.text = "SELECT id, v + 1 AS v FROM src WHERE v > :least"
    kept.change_a_row()
    kept.run()
    assert "touched keys" in kept.computed


@pytest.mark.slow
def test_rows_of_a_snapshot_input_are_no_reason_to_compute_and_its_columns_are(lake: Lake) -> None:
    def named(src: Changes, dim: DataFrame) -> View:
        return View("SELECT id, name FROM src NATURAL JOIN dim")

    lake.create("src", [(1, "a", 10), (2, "b", 20)], SRC)
    lake.create("dim", [("a", "x"), ("b", "y")], "k STRING, name STRING")
    by_id = Table(key="id")
    lake.materialize(named, by_id)
    lake.sql("UPDATE {dim} SET name = 'z' WHERE k = 'b'")
    assert isinstance(lake.materialize(named, by_id), Unchanged)
    assert lake.rows("named") == [(1, "x"), (2, "y")]
    lake.sql("ALTER TABLE {dim} ADD COLUMNS (v INT)")
    lake.sql("UPDATE {dim} SET v = 10 WHERE k = 'a'")
    lake.materialize(named, by_id)
    assert lake.rows("named") == [(1, "x")]
    assert isinstance(lake.materialize(named, by_id), Unchanged)

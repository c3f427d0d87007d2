"""A run that is about to commit, and its commits in the log afterwards: for the tests with rivals."""

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from lakehouse import Append, Changes, Merge, Overwrite, Table
from lakehouse.commit.outcome import Committed, Outcome
from lakehouse.cursor.mark import Mark
from lakehouse.materialization import Materialization
from lakehouse.writes.write import Write
from tests.support.lake import Lake

SRC = "id int, g string, v int"
KEYED = Table(key="id")


def copy(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def log(src: Changes) -> Append:
    return Append(src.log().select("id", "v", "change_type"))


def whole(src: DataFrame) -> Overwrite:
    return Overwrite(src)


COPIED = [(1, "a", 11), (3, "a", 30), (4, "c", 40)]
"""The rows of `copy` after a run in `moved_lake` has committed."""


def ready(
    lake: Lake, asset: Callable[..., Any] = copy, table: Table = KEYED, **options: Any
) -> tuple[Materialization, Write]:
    """A run that has read its inputs and called its asset, and has yet to commit; and its write."""
    step = lake.begin(asset, table, **options)
    return step, asset(**lake.read(step, asset))


def committed(outcome: Outcome) -> Committed:
    assert isinstance(outcome, Committed), outcome
    return outcome


def own(lake: Lake, step: Materialization) -> list[int]:
    """The versions that carry the run's mark."""
    marks = [(commit.version, Mark.from_json(commit.user_metadata)) for commit in lake.commits(step.asset.name)]
    return [version for version, mark in marks if mark is not None and mark.run == step.run.run_id]

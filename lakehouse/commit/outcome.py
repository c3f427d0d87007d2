"""What became of a write: the closed set of outcomes."""

from dataclasses import dataclass
from typing import TypeAlias

from lakehouse.commit.rivals import LostAttempt
from lakehouse.cursor.mark import Mark
from lakehouse.delta.commit_info import Commit
from lakehouse.difference.statements import Statement


@dataclass(frozen=True, slots=True)
class Committed:
    """The write is in the table, as `commit`.

    Args:
        commit: The commit.
        mark: Its mark.
        statement: How it was written.
        lost: The attempts before it that were lost to a rival.
        recovered: Whether the statement failed, and its commit was found in the log all the same.
        left_out: How many rows of the result lie in no partition of the run; None if they were not counted.
    """

    commit: Commit
    mark: Mark
    statement: Statement
    lost: tuple[LostAttempt, ...] = ()
    recovered: bool = False
    left_out: int | None = None


@dataclass(frozen=True, slots=True)
class AlreadyApplied:
    """Another run, or an earlier attempt that was declared dead, had committed the same changes."""

    mark: Mark
    commit: Commit
    lost: tuple[LostAttempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Unchanged:
    """There was nothing to commit; the table stays at `version`."""

    version: int


@dataclass(frozen=True, slots=True)
class NothingToDo:
    """No source held changes, so no row was computed and Spark was not asked; the table stays at `version`."""

    version: int


Outcome: TypeAlias = Committed | AlreadyApplied | Unchanged

"""What became of a write: the closed set of outcomes."""

from dataclasses import dataclass
from typing import TypeAlias

from lakehouse.commit.rivals import LostAttempt
from lakehouse.cursor.mark import Mark
from lakehouse.log.commit_info import Commit
from lakehouse.write.statements import Statement


@dataclass(frozen=True, slots=True)
class Committed:
    """The write is in the table, as `commit`."""

    commit: Commit
    statement: Statement
    lost: tuple[LostAttempt, ...] = ()
    recovered: bool = False


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

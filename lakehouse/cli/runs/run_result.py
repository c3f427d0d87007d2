"""What became of a run and of each of its assets, as values."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any


class AssetEnd(Enum):
    """How an asset of a run ended."""

    WRITTEN = "written"
    UNCHANGED = "unchanged"
    FAILED = "failed"
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True)
class AssetResult:
    """What became of one asset.

    Args:
        asset: Its key, the parts joined by "/".
        end: How it ended.
        version: The version of its table; None if it has no table, or if nothing says it.
        inserted: How many rows were inserted; None if nothing says it. So for the other two.
        updated: How many were updated.
        deleted: How many were deleted.
        seconds: How long its step took; None if it did not end.
        problem: Why it failed, as sentences; None if it did not.
        stack: Where the error was raised, as Python prints it; empty if it did not fail.
    """

    asset: str
    end: AssetEnd
    version: int | None = None
    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    seconds: float | None = None
    problem: str | None = None
    stack: str = ""


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A check of the run that was not passed.

    Args:
        asset: The asset that was checked.
        name: The name of the check.
        why: What it says; empty if it says nothing.
        is_error: Whether its severity is that of an error, and not of a warning.
    """

    asset: str
    name: str
    why: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class RunResult:
    """What became of a run.

    Args:
        run: Its id; None if there was nothing to run.
        is_here: Whether this process executed it, and not Dagster's queue.
        succeeded: Whether Dagster calls it a success.
        assets: Its assets, in the order in which they ended.
        checks: How many checks it made.
        failed_checks: Those that were not passed.
        seconds: How long it took.
    """

    run: str | None
    is_here: bool
    succeeded: bool
    assets: tuple[AssetResult, ...]
    checks: int
    failed_checks: tuple[FailedCheck, ...]
    seconds: float

    def as_document(self) -> dict[str, Any]:
        """The result as dictionaries, lists, texts and numbers."""
        assets = [{**asdict(each), "end": each.end.value} for each in self.assets]
        return {**asdict(self), "assets": assets}

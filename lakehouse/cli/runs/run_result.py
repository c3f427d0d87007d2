"""What a run is asked for, and what became of it and of each of its assets, as values."""

from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, get_args

from lakehouse.cli.command import UsageError
from lakehouse.errors import ALLOW, FULL_REFRESH, GO_ON_FROM, RESTATE_FROM, Allowed

ALLOWED: tuple[Allowed, ...] = get_args(Allowed)
"""What `--allow` takes; the same words as the run tag takes."""


@dataclass(frozen=True, slots=True)
class RunRequest:
    """One run.

    Args:
        assets: The keys of its assets, their parts joined by "/".
        partition: The partition; None if the assets have none.
        full_refresh: Whether everything is computed, and the rows that differ are written.
        go_on_from: The version of the source after which an `Append` continues; `now` of a history.
        restate_from: The time, or the version of an extract, from which on a history is restated.
        allow: What is let through once: an extract, or a result that changes much of its table.
        checks: Whether the checks that read whole tables are made as well.

    Raises:
        UsageError: An option that is about one asset stands beside several.
    """

    assets: tuple[str, ...]
    partition: str | None = None
    full_refresh: bool = False
    go_on_from: str | None = None
    restate_from: str | None = None
    allow: tuple[str, ...] = ()
    checks: bool = False

    def __post_init__(self) -> None:
        of_one = {"--go-on-from": self.go_on_from, "--restate-from": self.restate_from, "--allow": self.allow}
        named = [option for option, value in of_one.items() if value]
        if named and len(self.assets) > 1:
            raise UsageError(f"{named[0]} is about one asset, and {len(self.assets)} are named. Run them one by one.")

    @property
    def tags(self) -> dict[str, str]:
        """The run tags."""
        from lakehouse.dagster.run_tags import CHECKS

        asset = self.assets[0]
        tags = {
            FULL_REFRESH: ",".join(self.assets) if self.full_refresh else None,
            GO_ON_FROM + asset: self.go_on_from,
            RESTATE_FROM + asset: self.restate_from,
            ALLOW + asset: ",".join(self.allow) or None,
            CHECKS: "true" if self.checks else None,
        }
        return {tag: value for tag, value in tags.items() if value is not None}


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

"""What a run is asked for, and what became of each of its assets, by its events in Dagster's log."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import dagster as dg


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a run is asked for.

    Args:
        assets: The keys of its assets, their parts joined by "/".
        partition: The partition; None if the assets have none.
        tags: The run tags that its other options stand for.
    """

    assets: tuple[str, ...]
    partition: str | None
    tags: dict[str, str]


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
        version: The version of its table; None if it has no table, or if it is not known.
        inserted: How many rows were inserted; None if it is not known.
        updated: How many rows were updated; None if it is not known.
        deleted: How many rows were deleted; None if it is not known.
        seconds: How long its step took; None if it did not end.
        waits_for: The inputs for which it waits until they agree, as a clause; None if it waits for none.
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
    waits_for: str | None = None
    problem: str | None = None
    stack: str = ""


@dataclass(frozen=True, slots=True)
class FailedCheck:
    """A check of the run that was not passed."""

    asset: str
    name: str
    why: str
    is_error: bool


@dataclass(frozen=True, slots=True)
class RunResult:
    """What became of a run."""

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


_AGAIN = 0.3
"""Seconds after which the log is read again."""


@dataclass
class RunLog:
    """Collects the results of a run from its events.

    Args:
        assets_of: The assets of each step, by its key.
        hear: Receives each result as it comes, and each check that is not passed.
    """

    assets_of: Mapping[str, tuple[str, ...]]
    hear: Callable[[AssetResult | FailedCheck], None]
    results: list[AssetResult] = field(default_factory=list[AssetResult], init=False)
    failed: list[FailedCheck] = field(default_factory=list[FailedCheck], init=False)
    checks: int = field(default=0, init=False)
    steps: dict[str, str] = field(default_factory=dict[str, str], init=False)
    """The last message of each step that is under way, by the key of the step."""

    def add(self, entry: "dg.EventLogEntry") -> None:
        """Takes one entry of the log."""
        from dagster import DagsterEventType

        step = entry.step_key or ""
        if not entry.is_dagster_event:
            if step in self.steps:
                self.steps[step] = entry.user_message
            return
        event = entry.get_dagster_event()
        match event.event_type:
            case DagsterEventType.STEP_START if step in self.assets_of:
                self.steps[step] = ""
            case DagsterEventType.ASSET_MATERIALIZATION:
                self._add(_result_of(event.materialization))
            case DagsterEventType.STEP_FAILURE:
                ended = {result.asset for result in self.results}
                for asset in self.assets_of.get(step, ()):
                    if asset not in ended:
                        self._add(_failure_of(asset, event))
            case DagsterEventType.ASSET_CHECK_EVALUATION:
                self._check(event.asset_check_evaluation_data)
            case _:
                pass
        if event.event_type in (DagsterEventType.STEP_SUCCESS, DagsterEventType.STEP_FAILURE):
            self.steps.pop(step, None)

    def end(self) -> None:
        """Adds the assets whose steps Dagster did not start, because it emits no event about them."""
        ended = {result.asset for result in self.results}
        for asset in (asset for assets in self.assets_of.values() for asset in assets):
            if asset not in ended:
                self._add(AssetResult(asset, AssetEnd.NOT_RUN, problem="the run ended before its step began"))

    def _add(self, result: AssetResult) -> None:
        self.results.append(result)
        self.hear(result)

    def _check(self, evaluation: "dg.AssetCheckEvaluation") -> None:
        from dagster import AssetCheckSeverity

        self.checks += 1
        if not evaluation.passed:
            is_error = evaluation.severity is AssetCheckSeverity.ERROR
            asset = evaluation.asset_key.to_user_string()
            check = FailedCheck(asset, evaluation.check_name, evaluation.description or "", is_error)
            self.failed.append(check)
            self.hear(check)


def _result_of(materialization: "dg.AssetMaterialization") -> AssetResult:
    facts = {name: value.value for name, value in materialization.metadata.items()}
    counts = [_number(facts.get(name)) for name in ("inserted", "updated", "deleted")]
    is_unchanged, seconds = counts == [0, 0, 0], facts.get("seconds")
    return AssetResult(
        materialization.asset_key.to_user_string(),
        AssetEnd.UNCHANGED if is_unchanged else AssetEnd.WRITTEN,
        _number(facts.get("version")),
        *counts,
        seconds=seconds if isinstance(seconds, float) else None,
        waits_for=None if (waits := facts.get("waits_for")) is None else str(waits),
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def _failure_of(asset: str, event: "dg.DagsterEvent") -> AssetResult:
    failure = event.step_failure_data
    described = failure.user_failure_data
    error = failure.error
    while error is not None and error.cause is not None:
        error = error.cause
    if error is not None and error.cls_name == "DagsterExecutionInterruptedError":
        why = "it was interrupted. The next run finds out whether its commit was made, and goes on from there"
        return AssetResult(asset, AssetEnd.FAILED, problem=why)
    if described is not None and described.description:
        return AssetResult(asset, AssetEnd.FAILED, problem=described.description)
    if error is None:
        return AssetResult(asset, AssetEnd.FAILED, problem="Dagster says nothing of the error")
    return AssetResult(asset, AssetEnd.FAILED, problem=error.message.strip(), stack="".join(error.stack))


def follow(instance: "dg.DagsterInstance", run: str, log: RunLog, is_over: Callable[[], bool]) -> None:
    """Hands the events of a run to its log until the run is over."""
    for entry in _entries(instance, run, is_over):
        log.add(entry)
    log.end()


def _entries(instance: "dg.DagsterInstance", run: str, is_over: Callable[[], bool]) -> "Iterator[dg.EventLogEntry]":
    cursor = None
    while True:
        over = is_over()
        page = instance.get_records_for_run(run, cursor=cursor)
        yield from (record.event_log_entry for record in page.records)
        cursor = page.cursor
        if over and not page.has_more:
            return
        if not page.has_more:
            time.sleep(_AGAIN)

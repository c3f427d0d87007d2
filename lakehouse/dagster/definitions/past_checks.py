"""When a check was last made, and what it found, by Dagster's event log."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import dagster as dg
from dagster._core.storage.asset_check_execution_record import AssetCheckExecutionRecordStatus as Status

from lakehouse.dagster.definitions.findings import DIFFERING

CHECK = "equals_full_recompute"
"""The name in Dagster of the check "recompute"; the others have their own."""
LEFT_OUT = "last checked"
"""Metadata of an evaluation that repeats what is known, because its run left the check out: when the check was made."""
NEVER = "never"
PARTITION, PART = "partition", "part of the keys"
"""Figures of a comparison with a recompute: what was compared."""
_ENDED = {Status.SUCCEEDED, Status.FAILED}
_PAGE, _PAGES = 200, 50


@dataclass(frozen=True, slots=True)
class MadeCheck:
    """A check that was made.

    Args:
        at: When, in seconds since the epoch.
        evaluation: What it found.
    """

    at: float
    evaluation: dg.AssetCheckEvaluation

    def text(self, name: str) -> str | None:
        """The text of a name among its figures; None if there is none."""
        value = self.evaluation.metadata.get(name)
        return value.value if isinstance(value, dg.TextMetadataValue) else None

    @property
    def differs(self) -> bool:
        """Whether a comparison found rows that differ."""
        differing = self.evaluation.metadata.get(DIFFERING)
        return differing is not None and differing.value != 0

    @property
    def is_comparison(self) -> bool:
        """Whether the table was compared with a recompute. If not, the check found a reason why that is impossible."""
        return DIFFERING in self.evaluation.metadata


def made(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> Iterator[MadeCheck]:
    """The times that a check was made, the newest first; the newest 10,000 evaluations are looked at."""
    cursor, storage = None, instance.event_log_storage
    for _ in range(_PAGES):
        records = storage.get_asset_check_execution_history(check, limit=_PAGE, cursor=cursor, status=_ENDED)
        for record in records:
            evaluation = record.evaluation
            if evaluation is None or record.event is None:
                continue
            last = evaluation.metadata.get(LEFT_OUT)
            if isinstance(last, dg.TextMetadataValue):  # it was not made in that run
                if last.value == NEVER:
                    return
                continue
            at = last.value if isinstance(last, dg.TimestampMetadataValue) else record.event.timestamp
            yield MadeCheck(at, evaluation)
        if len(records) < _PAGE:
            return
        cursor = records[-1].id


def last_made(instance: dg.DagsterInstance, check: dg.AssetCheckKey) -> MadeCheck | None:
    """The last time that a check was made; None if it never was."""
    return next(made(instance, check), None)


def last_compared(instance: dg.DagsterInstance, asset: dg.AssetKey) -> MadeCheck | None:
    """The last time that a table was compared with a recompute; None if it never was."""
    return next((check for check in made(instance, dg.AssetCheckKey(asset, CHECK)) if check.is_comparison), None)


def longest_waiting(partitions: Sequence[str], past: Iterable[MadeCheck]) -> str | None:
    """The partition whose check is oldest, or one that was never checked; None if there are no partitions.

    Args:
        partitions: The partitions.
        past: The checks that were made, the newest first.
    """
    waiting = dict.fromkeys(partitions)
    for check in past:
        if len(waiting) <= 1:
            break
        waiting.pop(check.text(PARTITION) or "", None)
    return next(iter(waiting), None)


def differing(past: Iterable[MadeCheck]) -> dict[str, MadeCheck]:
    """The partitions that differed from a recompute when they were compared last, each with that comparison.

    Args:
        past: The checks that were made, the newest first.
    """
    latest = dict[str, MadeCheck]()
    for check in past:
        partition = check.text(PARTITION)
        if partition is not None and check.is_comparison:
            latest.setdefault(partition, check)
    return {partition: check for partition, check in latest.items() if check.differs}

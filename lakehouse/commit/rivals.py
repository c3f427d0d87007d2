"""Rivals: the conflict of an attempt that did not commit, what rivals changed, and which came just before a commit."""

import re
from dataclasses import dataclass
from enum import Enum

from pyspark.sql import SparkSession

from lakehouse.commit.superseded import commits_of_other_application_ids, has_read_further
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.since_base import BaseReverted, judge_base
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.expect import SUFFIX
from lakehouse.delta.log import Log
from lakehouse.errors import StaleInputsError
from lakehouse.read.run import Run
from lakehouse.spark.diagnosis import Evidence, Meaning, causes, said_by
from lakehouse.spark.driver_rows import is_empty
from lakehouse.spark.table_version import TableVersion
from lakehouse.writes.write import Write


class ConflictKind(Enum):
    """The closed set of meanings that a failed commit can have."""

    FILES = "a rival changed files that this write had read"
    SAME_ASSET = "another run of this asset committed"
    METADATA = "the table's schema or properties were changed"
    PROTOCOL = "the table was created or upgraded by a rival"
    UNKNOWN = "the outcome is not known"
    NOT_A_CONFLICT = "not a conflict"


_BY_CLASS = {
    "ConcurrentAppendException": ConflictKind.FILES,
    "ConcurrentDeleteReadException": ConflictKind.FILES,
    "ConcurrentDeleteDeleteException": ConflictKind.FILES,
    "ConcurrentTransactionException": ConflictKind.SAME_ASSET,
    "MetadataChangedException": ConflictKind.METADATA,
    "ProtocolChangedException": ConflictKind.PROTOCOL,
    "ConcurrentWriteException": ConflictKind.UNKNOWN,
}
_BY_CONDITION = {
    "DELTA_CONCURRENT_APPEND": ConflictKind.FILES,
    "DELTA_CONCURRENT_DELETE_READ": ConflictKind.FILES,
    "DELTA_CONCURRENT_DELETE_DELETE": ConflictKind.FILES,
    "DELTA_CONCURRENT_TRANSACTION": ConflictKind.SAME_ASSET,
    "DELTA_METADATA_CHANGED": ConflictKind.METADATA,
    "DELTA_PROTOCOL_CHANGED": ConflictKind.PROTOCOL,
    "DELTA_CONCURRENT_WRITE": ConflictKind.UNKNOWN,
    "DELTA_MAX_COMMIT_RETRIES_EXCEEDED": ConflictKind.UNKNOWN,
    "DELTA_CANNOT_CREATE_LOG_PATH": ConflictKind.NOT_A_CONFLICT,
    "TABLE_OR_VIEW_ALREADY_EXISTS": ConflictKind.PROTOCOL,
    "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION": ConflictKind.PROTOCOL,
    "DELTA_TABLE_ALREADY_EXISTS": ConflictKind.PROTOCOL,
    "DELTA_PATH_EXISTS": ConflictKind.PROTOCOL,
}
_OUTCOME_UNKNOWN = {Meaning.ANSWER_LOST, Meaning.ROWS_LOST}
"""After these the log is searched for the attempt, and the write is planned again from its inputs."""
_PARTITION = re.compile(r"partition(?:\(s\))? (\[[^\]]+\])")
_METADATA_DOMAIN = "conflicting metadata domain"


@dataclass(frozen=True, slots=True)
class Conflict:
    """What Delta said about a commit that failed."""

    kind: ConflictKind
    partition: str | None = None
    condition: str | None = None

    @property
    def is_of_a_rival(self) -> bool:
        """Whether another writer's commit came first, so that nothing was written."""
        match self.kind:
            case ConflictKind.FILES | ConflictKind.SAME_ASSET | ConflictKind.METADATA | ConflictKind.PROTOCOL:
                return True
            case ConflictKind.UNKNOWN | ConflictKind.NOT_A_CONFLICT:
                return False


def classify(error: BaseException) -> Conflict:
    """What an exception from a write means. The first cause with a known meaning decides."""
    is_unknown = False
    first_condition: str | None = None
    for cause in causes(error):
        evidence = Evidence.of(cause)
        first_condition = first_condition or evidence.condition
        kind = _BY_CLASS.get(type(cause).__name__) or _BY_CONDITION.get((evidence.condition or "").split(".")[0])
        if kind is None and evidence.of_the_asset:
            break
        kind = kind or _named_in(evidence.sentence)
        if kind is ConflictKind.SAME_ASSET and _METADATA_DOMAIN in evidence.sentence:
            kind = ConflictKind.METADATA
        if kind is not None:
            return Conflict(kind, _partition(evidence.sentence), evidence.condition)
        is_unknown = is_unknown or not said_by(cause).keys().isdisjoint(_OUTCOME_UNKNOWN)
    return Conflict(ConflictKind.UNKNOWN if is_unknown else ConflictKind.NOT_A_CONFLICT, condition=first_condition)


def _named_in(text: str) -> ConflictKind | None:
    """The conflict that a text names: in a Py4J or Spark wrapper the class survives only as text."""
    for name, kind in _BY_CLASS.items():
        if f"io.delta.exceptions.{name}" in text or f"org.apache.spark.sql.delta.{name}" in text:
            return kind
    for prefix, kind in _BY_CONDITION.items():
        if f"[{prefix}]" in text or f"[{prefix}." in text:
            return kind
    return None


def _partition(text: str) -> str | None:
    match = _PARTITION.search(text)
    return None if match is None else match.group(1)


class Changed(Enum):
    """Whether a rival changed rows that this write is about."""

    OTHER_ROWS = "other rows"
    SAME_ROWS = "the same rows"
    UNKNOWN = "rows that the log does not name"


@dataclass(frozen=True, slots=True)
class LostAttempt:
    """One attempt that did not commit.

    Args:
        table: The table: that of the asset, or its quarantine.
        conflict: What Delta said about it.
        rivals: The commits that came first, newest first.
        changed: Whether they changed the same rows.
        seconds: How long it took.
        message: The error's first line, if the error need not come from a rival.
    """

    table: str
    conflict: Conflict
    rivals: tuple[Commit, ...]
    changed: Changed
    seconds: float
    message: str = ""


def changed_by(spark: SparkSession, run: Run, write: Write, rivals: tuple[Commit, ...]) -> Changed:
    """Whether the rivals changed rows in the part of the table that this write is about."""
    with_rows = [rival.version for rival in rivals if not rival.is_quiet]
    if not with_rows:
        return Changed.OTHER_ROWS if rivals else Changed.UNKNOWN
    head = run.ref.log(lambda: spark).head()
    if head is None or not head.keeps_feed:
        return Changed.UNKNOWN
    try:
        changed = TableVersion.of(spark, run.ref, head).feed(min(with_rows), max(with_rows))
        changed = write.restrict_feed(run, changed)
        within = run.within(changed.schema)
        if within is not None:
            changed = changed.where(within)
        return Changed.OTHER_ROWS if is_empty(changed) else Changed.SAME_ROWS
    except Exception:  # the rivals' changes are gone, or Spark is: the next attempt shows whether that matters
        return Changed.UNKNOWN


def is_disputed(run: Run, changed: Changed) -> bool:
    """Whether two writers may disagree about a row and the table forbids that one overrules the other."""
    return changed is not Changed.OTHER_ROWS and run.asset.policy.same_rows == "fail"


def describe(attempt: LostAttempt) -> str:
    """The rivals of a lost attempt, in words."""
    if not attempt.rivals:
        message = f"; Spark said: {attempt.message}" if attempt.message else ""
        return f"a writer that left no commit in the log ({attempt.conflict.kind.value}{message})"
    newest = attempt.rivals[0]
    others = f" and {len(attempt.rivals) - 1} more" if len(attempt.rivals) > 1 else ""
    partition = f" in {attempt.conflict.partition}" if attempt.conflict.partition else ""
    where = f" of '{attempt.table}'" if attempt.table.endswith(SUFFIX) else ""
    version = f"version {newest.version}{where}"
    return f"{newest.operation} ({version}){others}{partition}, which changed {attempt.changed.value}"


def sentence(run: Run, attempt: LostAttempt, number: int) -> str:
    """The line about the attempt in the run's log."""
    return f"Attempt {number} to commit {run.name} lost to {describe(attempt)}."


def advice(run: Run, attempt: LostAttempt) -> str:
    """What to do about the last attempt that was lost."""
    if not attempt.rivals and attempt.message:
        return "No rival is in the table's log, so look for the cause in what Spark said."
    if attempt.rivals and is_disputed(run, attempt.changed):
        return f"It changed {attempt.changed.value}, and on_same_rows='fail': decide which of the two owns the rows."
    return (
        "Run it again, or keep the two writers apart: give them one Dagster pool, or partition the table so that "
        "they write different partitions."
    )


def rivals_before(log: Log, run: Run, mark: Mark, own: Commit) -> tuple[Commit, ...]:
    """The rivals just before the run's commit whose rows may make it necessary to compare the write once more.

    A commit whose position the next run would not believe is refused, and so is one with older inputs than the rival.

    Raises:
        StaleInputsError (OVERTAKEN): The rival is a run of the same asset.
        StaleInputsError (ROLLED_BACK): The table was restored or emptied, so the run's position does not hold.
    """
    # Mostly nothing lies between. The log is not read then, so it cannot fail a step that has written.
    between = log.commits(own.version - 1, mark.base + 1) if mark.base + 1 < own.version else ()
    base = judge_base(between, own, mark)
    others = tuple(commits_of_other_application_ids(base.rivals, run))
    is_lost = isinstance(base, BaseReverted) and bool(run.changes)
    for other in others:
        if is_lost or has_read_further(other, run):
            raise StaleInputsError.overtaken(run.name, other.mark.run, other.version, written=own.version)
    if is_lost:
        raise StaleInputsError.rolled_back(run.name, own.version)
    return base.rivals if mark.compared else ()

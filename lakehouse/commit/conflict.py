"""What a failed write means for the commit: each conflict of Delta, by its class and by its condition.

Delta's seven conflict classes share no base in Python and carry no condition in classic mode. Pinned by
tests/upstream.
"""

import re
from dataclasses import dataclass
from enum import Enum

from lakehouse.spark.diagnosis import Meaning, said_by
from lakehouse.spark.evidence import Evidence, causes


class ConflictKind(Enum):
    """The closed set of answers that a failed commit can have."""

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
    """What Delta said about a commit that failed.

    Args:
        kind: What it means.
        partition: The rival's partition ("[day=2013-01-01]"), if the message names it.
        condition: Delta's or Spark's error condition.
    """

    kind: ConflictKind
    partition: str | None = None
    condition: str | None = None


def classify(error: BaseException) -> Conflict:
    """What an exception from a write means. The first cause that says something decides."""
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

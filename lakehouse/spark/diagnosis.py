"""What an exception of Spark or Delta means for a commit.

Delta's seven conflict classes share no base in Python and carry no condition in classic mode, and they arrive
wrapped in Spark, Py4J or streaming errors; so the causes are walked and the texts are read, once, here. TableVersion
by tests/upstream.

A text is evidence only where Spark, Delta or the wire wrote it: what an asset's own expression or function says
(a UDF's traceback, `raise_error`, a value that cannot be cast) may contain any word and means nothing here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import Any


class Kind(Enum):
    """The closed set of answers that a failed commit can have."""

    FILES = "a rival changed files that this write had read"
    SAME_ASSET = "another run of this asset committed"
    METADATA = "the table's schema or properties were changed"
    PROTOCOL = "the table was created or upgraded by a rival"
    UNKNOWN = "the outcome is not known"
    NOT_A_CONFLICT = "not a conflict"


_BY_CLASS = {
    "ConcurrentAppendException": Kind.FILES,
    "ConcurrentDeleteReadException": Kind.FILES,
    "ConcurrentDeleteDeleteException": Kind.FILES,
    "ConcurrentTransactionException": Kind.SAME_ASSET,
    "MetadataChangedException": Kind.METADATA,
    "ProtocolChangedException": Kind.PROTOCOL,
    "ConcurrentWriteException": Kind.UNKNOWN,
}
_BY_CONDITION = {
    "DELTA_CONCURRENT_APPEND": Kind.FILES,
    "DELTA_CONCURRENT_DELETE_READ": Kind.FILES,
    "DELTA_CONCURRENT_DELETE_DELETE": Kind.FILES,
    "DELTA_CONCURRENT_TRANSACTION": Kind.SAME_ASSET,
    "DELTA_METADATA_CHANGED": Kind.METADATA,
    "DELTA_PROTOCOL_CHANGED": Kind.PROTOCOL,
    "DELTA_CONCURRENT_WRITE": Kind.UNKNOWN,
    "DELTA_MAX_COMMIT_RETRIES_EXCEEDED": Kind.UNKNOWN,
    "DELTA_CANNOT_CREATE_LOG_PATH": Kind.NOT_A_CONFLICT,
    "TABLE_OR_VIEW_ALREADY_EXISTS": Kind.PROTOCOL,
    "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION": Kind.PROTOCOL,
    "DELTA_TABLE_ALREADY_EXISTS": Kind.PROTOCOL,
    "DELTA_PATH_EXISTS": Kind.PROTOCOL,
}
_LOST_ANSWER = re.compile(
    r"Py4JNetworkError|Connection reset|Connection refused|Answer from Java side is empty|StatusCode\.UNAVAILABLE|"
    r"StatusCode\.DEADLINE_EXCEEDED|Stream removed|Socket closed|RST_STREAM|FileAlreadyExistsException|"
    r"RemoteFileChangedException|java\.io\.(?:IO|EOF|InterruptedIO)Exception|java\.net\.\w+Exception|"
    r"\bAWS\w*IOException|TimeoutException|CommitFailedException|SESSION_CLOSED|INVALID_HANDLE|"
    r"SparkContext was shut down|stopped SparkContext|RetriesExceeded",
)
_WIRE = frozenset({"pyspark", "py4j", "grpc", "delta"})
_PYTHON = re.compile(r"[\w.]*python\.PythonException|Traceback \(most recent call last\)")
_OF_THE_ASSET = re.compile(r"SQLSTATE: (?:21|22|23|38|39|42|P0)")
"""SQL's classes for faults of data, constraints, functions and names: they come with the expression."""
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+)(?:\.([A-Z0-9_]+))?\]")
_PARTITION = re.compile(r"partition(?:\(s\))? (\[[^\]]+\])")
_METADATA_DOMAIN = "conflicting metadata domain"


@dataclass(frozen=True, slots=True)
class Conflict:
    """What Delta said about a commit that failed.

    Args:
        kind: What it means.
        partition: The rival's partition ("[day=2013-01-01]"), where the message names it.
        condition: Delta's or Spark's error condition.
    """

    kind: Kind
    partition: str | None = None
    condition: str | None = None


def classify(error: BaseException) -> Conflict:
    """What an exception from a write means; the first cause that says anything decides."""
    answer_lost = False
    first_condition: str | None = None
    for cause in causes(error):
        text, of_the_asset = _evidence(cause)
        condition = _condition(cause, text)
        first_condition = first_condition or condition
        kind = _BY_CLASS.get(type(cause).__name__) or _BY_CONDITION.get((condition or "").split(".")[0])
        if kind is None and of_the_asset:
            break
        kind = kind or _named_in(text)
        if kind is Kind.SAME_ASSET and _METADATA_DOMAIN in text:
            kind = Kind.METADATA
        if kind is not None:
            return Conflict(kind, _partition(text), condition)
        answer_lost = answer_lost or _lost_the_answer(cause, text)
    return Conflict(Kind.UNKNOWN if answer_lost else Kind.NOT_A_CONFLICT, condition=first_condition)


_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and all of its causes, outermost first, each once."""
    seen: set[int] = set()
    queue: list[Any] = [error]
    while queue:
        current = queue.pop(0)
        if not isinstance(current, BaseException) or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        queue += [current.__cause__, getattr(current, "_cause", None), current.__context__]
        if isinstance(current, BaseExceptionGroup):
            queue += current.exceptions  # pyright: ignore[reportUnknownMemberType]


def message(error: BaseException) -> str:
    """The exception's own sentence, without a JVM stack trace where the class keeps it apart."""
    description = getattr(error, "_desc", None)
    if description:
        return str(description)
    try:
        return str(error)
    except Exception:  # Py4J and PySpark ask the JVM for the text, and the JVM may be what was lost.
        return f"{type(error).__name__}{error.args}"


def first_line(error: BaseException) -> str:
    """The line that says what went wrong, for a message of ours: of a Python function its own, of a JVM the deepest."""
    text = message(error).strip()
    python = _TRACEBACK.search(text)
    if python is not None:
        return python.group(1)[:400]
    lines = text.splitlines() or [type(error).__name__]
    if lines[0].startswith("An error occurred while calling"):
        lines = [line.split(": ", 1)[1] for line in lines if line.startswith((": ", "Caused by: "))][-1:] or lines
    return lines[0][:400]


def _condition(error: BaseException, text: str) -> str | None:
    getter = getattr(error, "getCondition", None)
    try:
        condition = getter() if callable(getter) else None
    except Exception:  # It asks the JVM.
        condition = None
    if isinstance(condition, str):
        return condition
    found = _CONDITION.search(text)
    return None if found is None else ".".join(part for part in found.groups() if part)


def is_of_the_asset(error: BaseException) -> bool:
    """Whether Spark says that the asset's own expression or function failed."""
    return any(_evidence(cause)[1] for cause in causes(error))


def _evidence(error: BaseException) -> tuple[str, bool]:
    """What Spark, Delta or the wire say, and whether they say that the asset's own expression or function failed."""
    if type(error).__name__ == "PythonException":
        return "", True
    if type(error).__module__.split(".", maxsplit=1)[0] not in _WIRE:
        return "", False
    text = message(error)
    python = _PYTHON.search(text)
    return (text, _OF_THE_ASSET.search(text) is not None) if python is None else (text[: python.start()], True)


def _lost_the_answer(error: BaseException, text: str) -> bool:
    if isinstance(error, (ConnectionError, TimeoutError)):
        return True
    return _LOST_ANSWER.search(f"{type(error).__name__}: {text}") is not None


def _named_in(text: str) -> Kind | None:
    """The conflict that a text names: in a Py4J or Spark wrapper the class survives only as text."""
    for name, kind in _BY_CLASS.items():
        if f"io.delta.exceptions.{name}" in text or f"org.apache.spark.sql.delta.{name}" in text:
            return kind
    for prefix, kind in _BY_CONDITION.items():
        if f"[{prefix}]" in text or f"[{prefix}." in text:
            return kind
    return None


def _partition(text: str) -> str | None:
    found = _PARTITION.search(text)
    return None if found is None else found.group(1)

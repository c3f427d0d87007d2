"""What errors of Spark, Delta or the connection mean.

First the evidence: the causes of an exception, its own sentence, and whose words it contains. Then the meanings, as
rows of a table: a pattern of the text, and what it means.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

_WIRE = frozenset({"pyspark", "py4j", "grpc", "delta"})
_PYTHON = re.compile(r"[\w.]*python\.PythonException|Traceback \(most recent call last\)")
_OF_THE_ASSET = re.compile(r"SQLSTATE: (?:21|22|23|38|39|42(?!501)|P0)")
"""SQL's classes for faults of data, constraints, functions and names: they come from the expression. 42501 is a
privilege that the user lacks."""
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]+)(?:\.([A-Z0-9_]+))?\]")
_SHOWS_TRACE = "_display_stacktrace"
"""The attribute of an exception of Spark Connect that decides whether its text ends with the JVM's stack trace."""
_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ \t].*\n)+(\S.*)")


@dataclass(frozen=True, slots=True)
class Evidence:
    """What one exception says, without the asset's own words."""

    sentence: str
    trace: str
    condition: str | None
    of_the_asset: bool

    @classmethod
    def of(cls, error: BaseException) -> "Evidence":
        sentence, of_the_asset = _spoken(error, message(error))
        trace, _ = _spoken(error, _text(error))
        return cls(sentence, trace, _condition(error, sentence), of_the_asset)


def causes(error: BaseException) -> Iterator[BaseException]:
    """The exception and all of its causes, outermost first, each once."""
    visited: set[int] = set()
    queue: list[Any] = [error]
    while queue:
        current = queue.pop(0)
        if not isinstance(current, BaseException) or id(current) in visited:
            continue
        visited.add(id(current))
        yield current
        queue += [current.__cause__, getattr(current, "_cause", None), current.__context__]
        if isinstance(current, BaseExceptionGroup):
            queue += current.exceptions  # pyright: ignore[reportUnknownMemberType]


def message(error: BaseException) -> str:
    """The exception's own sentence, without the JVM's stack trace where the class keeps that apart."""
    description = getattr(error, "_desc", None)
    return str(description) if description else _text(error)


def first_line(error: BaseException) -> str:
    """The line that says what went wrong, for a message: a Python function's line, or a JVM's deepest line."""
    text = message(error).strip()
    python = _TRACEBACK.search(text)
    if python is not None:
        return python.group(1)[:400]
    lines = text.splitlines() or [type(error).__name__]
    if lines[0].startswith("An error occurred while calling"):
        lines = [line.split(": ", 1)[1] for line in lines if line.startswith((": ", "Caused by: "))][-1:] or lines
    return lines[0][:400]


def without_jvm_trace(error: BaseException) -> None:
    """Leaves the JVM's stack trace out of the text of an error and of its causes, where Spark Connect keeps it apart.

    The asset's expression is at fault, and no line of the JVM's trace is about that expression.
    """
    for cause in causes(error):
        if hasattr(cause, _SHOWS_TRACE):
            setattr(cause, _SHOWS_TRACE, False)


def is_of_the_asset(error: BaseException) -> bool:
    """Whether Spark says that the asset's own expression or function failed."""
    return any(Evidence.of(cause).of_the_asset for cause in causes(error))


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # Py4J and PySpark ask the JVM for the text, and the JVM may be what was lost.
        return f"{type(error).__name__}{error.args}"


def _spoken(error: BaseException, text: str) -> tuple[str, bool]:
    """The part of a text that Spark, Delta or the wire wrote, and whether it blames the asset's own expression."""
    if type(error).__name__ == "PythonException":
        return "", True
    if type(error).__module__.split(".", maxsplit=1)[0] not in _WIRE:
        return "", False
    text = f"{type(error).__name__}: {text}"  # the name of some classes says everything
    python = _PYTHON.search(text)
    return (text, _OF_THE_ASSET.search(text) is not None) if python is None else (text[: python.start()], True)


def _condition(error: BaseException, text: str) -> str | None:
    getter = getattr(error, "getCondition", None)
    try:
        condition = getter() if callable(getter) else None
    except Exception:  # It asks the JVM.
        condition = None
    if isinstance(condition, str):
        return condition
    match = _CONDITION.search(text)
    return None if match is None else ".".join(part for part in match.groups() if part)


class Meaning(Enum):
    """The closed set of meanings that this library needs to know."""

    FEED_GONE = "the change data feed of these versions cannot be read"
    VECTORS_TOO_LARGE = "a commit's deletion vectors are too large for the feed"
    VERSION_EXPIRED = "the version is older than the retention of its files"
    FILE_GONE = "a file that a version names is not there"
    FILE_REFUSED = "a file is there, and the system does not give it"
    LOG_BROKEN = "a commit is missing in the table's log"
    TABLE_MISSING = "there is no Delta table of this name, or at this path"
    IS_VIEW = "the name is that of a view"
    NO_SCHEMA = "there is no such schema, or no such catalog"
    CATALOG_COMMITS = "only the catalog may commit to the table"
    FEATURE_UNSUPPORTED = "this Delta does not know a feature of the table"
    NAME_TAKEN = "the table, or its directory, was there before"
    ISOLATION_REFUSED = "this Delta creates tables with Serializable only"
    SESSION_ENDED = "the server no longer has the session, or the rows belong to another one"
    ROWS_LOST = "rows that were computed for the write were lost with the executor that had them"
    OTHER_JARS = "a jar needs what is not on the class path, as where it is for another version of Spark"
    OF_CLASSIC_SPARK = "a function or a column was made for classic Spark, and there is no classic Spark"
    EXECUTOR_LOST = "an executor was lost"
    ANSWER_LOST = "whether the statement was carried out is not known"


SENTENCES: tuple[tuple[str, Meaning], ...] = (
    (
        r"\((?:Permission denied|Read-only file system|Too many open files|No space left on device)\)",
        Meaning.FILE_REFUSED,
    ),
    (r"\bAccess(?:Denied|Control)Exception\b", Meaning.FILE_REFUSED),
    (r"DELTA_(?:TRUNCATED_TRANSACTION_LOG|LOG_FILE_NOT_FOUND|VERSIONS_NOT_CONTIGUOUS)", Meaning.LOG_BROKEN),
    (r"TABLE_OR_VIEW_NOT_FOUND|\bPATH_(?:DOES_NOT_EXIST|NOT_FOUND)", Meaning.TABLE_MISSING),
    (r"DELTA_(?:MISSING_DELTA_TABLE|TABLE_NOT_FOUND|PATH_DOES_NOT_EXIST|TABLE_ONLY_OPERATION)", Meaning.TABLE_MISSING),
    (r"EXPECT_TABLE_NOT_VIEW", Meaning.IS_VIEW),
    # Spark takes a catalog that it does not know for a schema of the catalog that it has.
    (r"SCHEMA_NOT_FOUND|CATALOG_NOT_FOUND|REQUIRES_SINGLE_PART_NAMESPACE", Meaning.NO_SCHEMA),
    (r"is not a Delta table|DELTA_NOT_A_DELTA_TABLE", Meaning.TABLE_MISSING),
    (r"DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED|Couldn't locate commit coordinator", Meaning.CATALOG_COMMITS),
    (r"DELTA_UNSUPPORTED_FEATURES_FOR_(?:READ|WRITE)", Meaning.FEATURE_UNSUPPORTED),
    # Spark's condition if the directory or name was there before the statement, Delta's if it was filled since.
    (r"TABLE_OR_VIEW_ALREADY_EXISTS|DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", Meaning.NAME_TAKEN),
    (r"must be Serializable", Meaning.ISOLATION_REFUSED),
    (r"\[(?:NO_ACTIVE_SESSION|SESSION_NOT_SAME|INVALID_HANDLE\.SESSION_[A-Z]+)\]", Meaning.SESSION_ENDED),
    (r"\[SESSION_OR_CONTEXT_NOT_EXISTS\]", Meaning.OF_CLASSIC_SPARK),
    (r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND", Meaning.ROWS_LOST),
    (r"\b(?:NoClassDefFound|NoSuch(?:Method|Field)|AbstractMethod|IncompatibleClassChange)Error\b", Meaning.OTHER_JARS),
    (r"ExecutorLostFailure|FetchFailed|Executor heartbeat timed out", Meaning.EXECUTOR_LOST),
    (r"Py4JNetworkError|Answer from Java side is empty", Meaning.ANSWER_LOST),
    (r"Connection re(?:set|fused)|Socket closed|Stream removed|RST_STREAM|RetriesExceeded", Meaning.ANSWER_LOST),
    (r"StatusCode\.(?:UNAVAILABLE|DEADLINE_EXCEEDED)|SESSION_CLOSED|INVALID_HANDLE", Meaning.ANSWER_LOST),
    (r"SparkContext was shut down|stopped SparkContext", Meaning.ANSWER_LOST),
    (r"FileAlreadyExistsException|RemoteFileChangedException|CommitFailedException", Meaning.ANSWER_LOST),
    (r"java\.io\.(?:IO|EOF|InterruptedIO)Exception|java\.net\.\w+Exception", Meaning.ANSWER_LOST),
    (r"\bAWS\w*IOException|TimeoutException", Meaning.ANSWER_LOST),
    # S3: another request for the object is under way, or changed it; too many requests; an error of the store.
    (r"\bService: S3, Status Code: (?:409|412|429|5\d\d)\b", Meaning.ANSWER_LOST),
)
"""Patterns of an error's own sentence."""
TRACES: tuple[tuple[str, Meaning], ...] = (
    (r"DELTA_MISSING_CHANGE_DATA|DELTA_CHANGE_TABLE_FEED_DISABLED", Meaning.FEED_GONE),
    (r"DELTA_CHANGE_DATA_FEED_INCOMPATIBLE|PARQUET_COLUMN_DATA_TYPE_MISMATCH", Meaning.FEED_GONE),
    (r"DELTA_VERSION_NOT_FOUND|DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA", Meaning.FEED_GONE),
    (r"_change_data/|inline deletion vector", Meaning.FEED_GONE),
    # delta-io/delta#5662: the feed puts a vector into a text of at most 64 KB.
    (r"encoded string .*too long|UTFDataFormatException", Meaning.VECTORS_TOO_LARGE),
    (r"DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION", Meaning.VERSION_EXPIRED),
    (r"FAILED_READ_FILE\.FILE_NOT_EXIST|DELTA_FILE_NOT_FOUND", Meaning.FILE_GONE),
    (r"FAILED_READ_FILE\.NO_HINT.*FileNotFound|java\.io\.FileNotFoundException", Meaning.FILE_GONE),
)
"""Patterns that count even if only the Java stack trace below the sentence contains them."""
_UNSUPPORTED = re.compile(r"unsupported by [^:]*: ([\w, -]*\w)")
_NO_MODULE = re.compile(r"ModuleNotFoundError: No module named '([^']+)'")
_UNREAD = re.compile(r"\[FAILED_READ_FILE(?:\.[A-Z_]+)?\] (.*?)(?:\s*SQLSTATE: \w+)?$", re.MULTILINE)
_CAUSED_BY = re.compile(r"^Caused by: [\w.$]+: (?:\[[A-Z_.]+\] )?(.*?)(?:\s*SQLSTATE: \w+)?$", re.MULTILINE)
_HANDLED = "During handling of the above exception"
TEMPORARY = (Meaning.VERSION_EXPIRED, Meaning.EXECUTOR_LOST, Meaning.ROWS_LOST, Meaning.ANSWER_LOST)
"""The closed list of meanings after which the next try may succeed. A version has expired only for this run: the next
run pins a newer one."""
_BY_CONDITION_ALONE = {*TEMPORARY, Meaning.FILE_GONE}
"""Meanings that an error of Delta has only by its condition, because the rest of its text may quote anything."""
_REFUSES = ("DELTA_", "INSUFFICIENT_PERMISSIONS")
"""The prefixes of the conditions by which Delta, or a catalog with grants, refuses something."""
_REFUSAL = re.compile(
    r"\[((?:DELTA_|INSUFFICIENT_PERMISSIONS)[A-Z0-9_]*)(?:\.([A-Z0-9_]+))?\] "
    r"(.*?)(?=\s*(?:SQLSTATE:|\n\s*at |\n\s*JVM stacktrace|\Z))",
    re.DOTALL,
)
_UNREADABLE = (Meaning.FEED_GONE, Meaning.VERSION_EXPIRED, Meaning.LOG_BROKEN, Meaning.FILE_GONE)


class OtherFieldsError(Exception):
    """Rows whose fields within a column differ from the source's: a cast would match them by place, not by name."""

    def __init__(self, column: str) -> None:
        self.column = column
        super().__init__(f"the fields within column {column} were changed")


class RowsNotKeptError(Exception):
    """Rows that a plan would read as other rows, and that can be kept neither by Spark nor at the driver."""

    def __init__(self) -> None:
        super().__init__("several feeds of a table by name are too many rows for a platform that keeps none")


@dataclass(frozen=True, slots=True)
class _Row:
    pattern: re.Pattern[str]
    meaning: Meaning
    in_trace: bool

    def found_in(self, evidence: Evidence) -> str | None:
        """The words that match; in an error that comes from the asset's expression only the condition counts."""
        condition = evidence.condition or ""
        by_condition = condition.startswith("DELTA_") and self.meaning in _BY_CONDITION_ALONE
        alone = evidence.of_the_asset or by_condition
        match = self.pattern.search(condition if alone else evidence.sentence)
        if match is None and self.in_trace and not alone:
            match = self.pattern.search(evidence.trace)
        return None if match is None else match.group(0)


_ROWS = tuple(
    _Row(re.compile(pattern, re.DOTALL), meaning, table is TRACES)
    for table in (SENTENCES, TRACES)
    for pattern, meaning in table
)


def said_by(error: BaseException) -> Mapping[Meaning, str]:
    """What one exception means, without its causes: each meaning with the words that show it."""
    evidence = Evidence.of(error)
    meanings: dict[Meaning, str] = {}
    if isinstance(error, ConnectionError | TimeoutError):
        meanings[Meaning.ANSWER_LOST] = type(error).__name__
    for row in _ROWS:
        words = row.found_in(evidence)
        if words is not None:
            meanings.setdefault(row.meaning, f"{words} ({first_line(error)[:160]})")
    return meanings


def diagnose(error: BaseException) -> Mapping[Meaning, str]:
    """What an exception and its causes mean; if several have one meaning, with the words of the outermost."""
    meanings: dict[Meaning, str] = {}
    for cause in causes(error):
        meanings = {**said_by(cause), **meanings}
    return meanings


def why_temporary(error: BaseException) -> str | None:
    """Why another try may succeed; None if nothing indicates that."""
    meanings = diagnose(error)
    return next((meaning.value for meaning in TEMPORARY if meaning in meanings), None)


@dataclass(frozen=True, slots=True)
class Refusal:
    """What Delta, or a catalog with grants, has refused."""

    condition: str
    sentence: str


def refusal(error: BaseException) -> Refusal | None:
    """The refusal of Delta or a catalog, if an exception or one of its causes is one."""
    for cause in causes(error):
        evidence = Evidence.of(cause)
        is_refusal = (evidence.condition or "").startswith(_REFUSES)
        if evidence.of_the_asset and not is_refusal:  # the asset's own words may name any condition
            continue
        words = _REFUSAL.search(message(cause) if is_refusal else evidence.trace)
        if words is not None:
            name, part, sentence = words.groups()
            return Refusal(f"{name}.{part}" if part else name, " ".join(sentence.split())[:400])
        if is_refusal:
            return Refusal(str(evidence.condition), first_line(cause))
    return None


def unsupported_features(error: BaseException) -> str:
    """The table features that Spark's Delta does not know, as its error lists them."""
    names = _UNSUPPORTED.search(message(error))
    return first_line(error) if names is None else names.group(1)


def missing_module(error: BaseException) -> str | None:
    """The module that a Python function needs and Spark's Python cannot import; None if that is not the error."""
    if not is_of_the_asset(error) or _HANDLED in message(error):  # the function went on without it
        return None
    missing = _NO_MODULE.match(first_line(error))
    return None if missing is None else missing.group(1)


def unread_file(error: BaseException) -> str | None:
    """What Spark says of a file that it cannot read, and of what is wrong in it; None if that is not the error."""
    for cause in causes(error):
        evidence = Evidence.of(cause)
        words = _UNREAD.search(evidence.trace)
        if words is not None and (evidence.condition or "").startswith("FAILED_READ_FILE"):
            return " ".join(dict.fromkeys((words.group(1), *_CAUSED_BY.findall(evidence.trace))))[:800]
    return None


def why_unreadable(error: BaseException) -> str | None:
    """Why the feed, or an old version, cannot be read; None if the error means something else."""
    if isinstance(error, OtherFieldsError | RowsNotKeptError):
        return str(error)
    meanings = diagnose(error)
    # Java also says "not found" if the process may not read the file, or cannot write it.
    if Meaning.FILE_REFUSED in meanings:
        return None
    if Meaning.VECTORS_TOO_LARGE in meanings:
        return Meaning.VECTORS_TOO_LARGE.value
    return next((meanings[meaning] for meaning in _UNREADABLE if meaning in meanings), None)

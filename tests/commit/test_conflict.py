"""What a failed commit means: each Delta conflict, however it is wrapped, and errors that only look like a conflict."""

import re
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.commit.rivals import Changed, Conflict, ConflictKind, LostAttempt, classify, describe
from lakehouse.delta.commit_info import Commit
from lakehouse.spark.diagnosis import causes, first_line, message
from tests.support.for_each import for_each
from tests.support.spark_errors import CONNECT, DELTA, GRPC, PY4J, SPEAKERS, TRACEBACK, py4j, raised

APPEND = (
    "[DELTA_CONCURRENT_APPEND.WITH_PARTITION_HINT] Transaction conflict detected. a concurrent MERGE added data to table "
    "delta.`/lake/flights` committed at version 118. The concurrent operation modified data in the partition "
    "[day=2013-01-01] that should have been read by this operation. Please retry the operation. SQLSTATE: 2D521"
)
DELETE_READ = (
    "[DELTA_CONCURRENT_DELETE_READ.WITHOUT_HINT] Transaction conflict detected, a concurrent OPTIMIZE deleted data from "
    "table delta.`/lake/flights` (committed at version 7) that this transaction read. SQLSTATE: 2D521"
)
DELETE_DELETE = DELETE_READ.replace("DELETE_READ", "DELETE_DELETE")
COMMIT = 'Conflicting commit: {"timestamp":1,"operation":"SET TBLPROPERTIES","readVersion":4,"isBlindAppend":true}'
TRANSACTION = (
    f"[DELTA_CONCURRENT_TRANSACTION] ConcurrentTransactionException: This error occurs when\n{COMMIT} SQLSTATE: 2D521"
)
METADATA = f"[DELTA_METADATA_CHANGED] MetadataChangedException: The metadata of the Delta table was changed.\n{COMMIT}"
PROTOCOL = (
    f"[DELTA_PROTOCOL_CHANGED] ProtocolChangedException: The protocol version of the Delta table was changed.\n{COMMIT}"
)
WRITE = f"[DELTA_CONCURRENT_WRITE] ConcurrentWriteException: A concurrent transaction has written new data.\n{COMMIT}"
DOMAIN = "A conflicting metadata domain delta.clustering is added."

CONFLICTS = [
    ("ConcurrentAppendException", APPEND, ConflictKind.FILES),
    ("ConcurrentDeleteReadException", DELETE_READ, ConflictKind.FILES),
    ("ConcurrentDeleteDeleteException", DELETE_DELETE, ConflictKind.FILES),
    ("ConcurrentTransactionException", TRANSACTION, ConflictKind.SAME_ASSET),
    ("ConcurrentTransactionException", DOMAIN, ConflictKind.METADATA),
    ("MetadataChangedException", METADATA, ConflictKind.METADATA),
    ("ProtocolChangedException", PROTOCOL, ConflictKind.PROTOCOL),
    ("ConcurrentWriteException", WRITE, ConflictKind.UNKNOWN),
]
WRAPPINGS: dict[str, Callable[[str, str], BaseException]] = {
    "its own class": lambda name, text: raised(name, text, module=DELTA),
    "a Connect class": lambda name, text: raised(name, text, module="delta.connect.exceptions"),
    "a Py4J error, as text": lambda name, text: py4j(f"io.delta.exceptions.{name}: {text}\n\tat org.apache.spark.Foo"),
    "a Spark error, as text": lambda name, text: raised(
        "SparkException", f"Job aborted. Caused by: io.delta.exceptions.{name}: {text}"
    ),
    "a streaming query's error": lambda name, text: raised(
        "StreamingQueryException",
        f"[STREAM_FAILED] Query [id = x] terminated with exception: io.delta.exceptions.{name}: {text} SQLSTATE: XXKST",
        condition="STREAM_FAILED",
    ),
    "the `_cause` of a Spark error": lambda name, text: raised(
        "SparkException", "Job aborted.", cause=raised(name, text, module=DELTA)
    ),
    "the cause of a library's error": lambda name, text: caused_by(
        RuntimeError("write failed"), raised(name, text, module=DELTA)
    ),
    "the context of another error": lambda name, text: in_context_of(
        ValueError("clean-up failed"), raised(name, text, module=DELTA)
    ),
    "a group": lambda name, text: ExceptionGroup("several", [ValueError("x"), raised(name, text, module=DELTA)]),
}


def caused_by(error: BaseException, cause: BaseException) -> BaseException:
    error.__cause__ = cause
    return error


def in_context_of(error: BaseException, context: BaseException) -> BaseException:
    error.__context__ = context
    return error


@for_each("wrapped", WRAPPINGS.values())
@for_each("name, text, kind", CONFLICTS)
def test_a_conflict_is_recognised_in_every_wrapping(
    wrapped: Callable[[str, str], BaseException], name: str, text: str, kind: ConflictKind
):
    assert classify(wrapped(name, text)).kind is kind


@for_each("name, kind", {name: kind for name, text, kind in CONFLICTS if text != DOMAIN}.items())
def test_a_conflict_is_recognised_by_its_class_alone(name: str, kind: ConflictKind):
    assert classify(raised(name, "", module="delta.connect.exceptions")) == Conflict(kind)


@for_each(
    "condition, kind",
    [
        ("DELTA_CONCURRENT_APPEND.WITHOUT_HINT", ConflictKind.FILES),
        ("DELTA_CONCURRENT_DELETE_READ.WITH_PARTITION_HINT", ConflictKind.FILES),
        ("DELTA_CONCURRENT_DELETE_DELETE", ConflictKind.FILES),
        ("DELTA_CONCURRENT_TRANSACTION", ConflictKind.SAME_ASSET),
        ("DELTA_METADATA_CHANGED", ConflictKind.METADATA),
        ("DELTA_PROTOCOL_CHANGED", ConflictKind.PROTOCOL),
        ("DELTA_CONCURRENT_WRITE", ConflictKind.UNKNOWN),
        ("DELTA_MAX_COMMIT_RETRIES_EXCEEDED", ConflictKind.UNKNOWN),
        ("TABLE_OR_VIEW_ALREADY_EXISTS", ConflictKind.PROTOCOL),
        ("DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION", ConflictKind.PROTOCOL),
        ("DELTA_TABLE_ALREADY_EXISTS", ConflictKind.PROTOCOL),
        ("DELTA_PATH_EXISTS", ConflictKind.PROTOCOL),
    ],
)
@for_each("knows", [True, False])
def test_a_conflict_is_recognised_by_its_condition(condition: str, kind: ConflictKind, *, knows: bool):
    text = f"[{condition}] Something happened. SQLSTATE: 42P07"
    error = raised("AnalysisException", text, module=CONNECT, condition=condition if knows else None)
    assert classify(error) == Conflict(kind, condition=condition)


def test_a_conflict_names_the_partition_where_delta_does():
    of_files = classify(raised("ConcurrentAppendException", APPEND, module=DELTA))
    assert of_files.partition == "[day=2013-01-01]"
    assert of_files.condition == "DELTA_CONCURRENT_APPEND.WITH_PARTITION_HINT"
    assert classify(raised("ConcurrentDeleteReadException", DELETE_READ, module=DELTA)).partition is None


LOST = [
    ConnectionResetError("[Errno 104] Connection reset by peer"),
    ConnectionRefusedError(111, "Connection refused"),
    BrokenPipeError(),
    TimeoutError("timed out"),
    raised("Py4JNetworkError", "Answer from Java side is empty", module=PY4J),
    py4j("java.io.IOException: No space left on device"),
    py4j("org.apache.hadoop.fs.FileAlreadyExistsException: 00000000000000000118.json"),
    py4j("java.net.SocketTimeoutException: Read timed out"),
    py4j(
        "org.apache.hadoop.fs.s3a.AWSStatus500Exception: x\nCaused by: org.apache.hadoop.fs.s3a.AWSClientIOException: y"
    ),
    *(
        py4j(f"org.apache.hadoop.fs.s3a.AWSBadRequestException: x (Service: S3, Status Code: {code}, Request ID: null)")
        for code in (409, 412, 429, 500, 503)
    ),
    raised("SparkException", "Job 7 cancelled because SparkContext was shut down"),
    raised("_MultiThreadedRendezvous", "status = StatusCode.UNAVAILABLE, details = 'Socket closed'", module=GRPC),
    raised("SparkConnectGrpcException", "<_InactiveRpcError ... StatusCode.UNAVAILABLE", module=CONNECT),
    raised("SparkConnectGrpcException", "[INVALID_HANDLE.SESSION_CLOSED] x SQLSTATE: HY000", module=CONNECT),
    raised("RetriesExceeded", "", module="pyspark.errors.exceptions.base"),
]


@for_each("error", LOST)
def test_a_lost_answer_says_nothing_about_the_outcome(error: Exception):
    assert classify(error).kind is ConflictKind.UNKNOWN
    assert classify(caused_by(RuntimeError("write failed"), error)).kind is ConflictKind.UNKNOWN
    assert classify(caused_by(error, RuntimeError("and why"))).kind is ConflictKind.UNKNOWN


def test_a_conflict_behind_a_lost_answer_is_the_conflict():
    lost = py4j("java.io.IOException: x")
    assert (
        classify(caused_by(lost, raised("ConcurrentAppendException", APPEND, module=DELTA))).kind is ConflictKind.FILES
    )


WORDS = [
    "java.io.IOException",
    "Connection refused",
    "io.delta.exceptions.ConcurrentAppendException: x",
    "[DELTA_CONCURRENT_APPEND] x",
    "[TABLE_OR_VIEW_ALREADY_EXISTS] x",
    DOMAIN,
    "FileAlreadyExistsException",
    APPEND,
]


@for_each("words", WORDS)
@for_each("speaker", SPEAKERS.values())
def test_the_assets_own_words_are_no_evidence(speaker: Callable[[str], BaseException], words: str):
    """Such an error would be raised again: to try eight times and call it a conflict helps no user."""
    assert classify(speaker(words)).kind is ConflictKind.NOT_A_CONFLICT


@given(st.lists(st.sampled_from([*WORDS, TRACEBACK, "SQLSTATE: 2D521", "'", "\n"]), max_size=4).map(" ".join))
def test_whatever_an_asset_says_is_no_conflict(text: str):
    assert classify(RuntimeError(text)).kind is ConflictKind.NOT_A_CONFLICT
    assert classify(raised("PythonException", text)).kind is ConflictKind.NOT_A_CONFLICT


def test_what_is_no_conflict_keeps_its_condition_for_the_message():
    error = raised(
        "AnalysisException", "[DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012", condition="DIVIDE_BY_ZERO"
    )
    assert classify(caused_by(RuntimeError("x"), error)) == Conflict(
        ConflictKind.NOT_A_CONFLICT, condition="DIVIDE_BY_ZERO"
    )


def test_an_answer_lost_while_an_older_fault_was_handled_is_lost():
    lost = raised("SparkConnectGrpcException", "StatusCode.UNAVAILABLE", module=CONNECT)
    assert classify(in_context_of(lost, raised("PythonException", "x"))).kind is ConflictKind.UNKNOWN


def test_each_cause_is_looked_at_once_though_they_refer_to_each_other():
    one, other = RuntimeError("one"), RuntimeError("other")
    one.__cause__, other.__cause__ = other, one
    assert list(causes(one)) == [one, other]
    assert classify(one).kind is ConflictKind.NOT_A_CONFLICT


class Mute(Exception):  # noqa: N818
    """Like the errors of Py4J and PySpark when the JVM that holds their text is gone."""

    __module__ = PY4J

    def __str__(self) -> str:
        raise ConnectionRefusedError

    def getCondition(self) -> str:  # noqa: N802
        raise ConnectionRefusedError


def test_an_exception_whose_text_went_down_with_the_jvm_is_still_classified():
    assert classify(caused_by(Mute("o42"), ConnectionResetError())).kind is ConflictKind.UNKNOWN
    assert classify(Mute("o42")).kind is ConflictKind.NOT_A_CONFLICT
    assert first_line(Mute("o42")) == "Mute('o42',)"


def test_a_message_is_the_first_line_and_no_stack_trace():
    error = raised("ConcurrentAppendException", f"{APPEND}\n\tat org.apache.spark.Foo")
    assert first_line(error) == APPEND[:400]
    assert "JVM stacktrace" not in message(error)
    assert first_line(RuntimeError()) == "RuntimeError"
    assert first_line(RuntimeError("\n\n  second  \nthird")) == "second  "
    assert re.fullmatch("x{400}", first_line(RuntimeError("x" * 5000)))


@for_each("table", ["copies", "copies_quarantine"])
def test_a_lost_attempt_says_of_which_table_a_version_is_if_that_is_a_quarantine(table: str) -> None:
    rival = Commit(5, 1000, "OPTIMIZE")
    lost = LostAttempt(table, Conflict(ConflictKind.FILES), (rival,), Changed.OTHER_ROWS, 1.0)
    where = "" if table == "copies" else " of 'copies_quarantine'"
    assert describe(lost).startswith(f"OPTIMIZE (version 5{where}), which changed ")

"""What an error means: each row of the table has an example, and an asset's own words have no meaning."""

import re
from collections.abc import Callable

from pyspark.errors.exceptions.connect import AnalysisException

from lakehouse.spark.diagnosis import (
    SENTENCES,
    TRACES,
    Meaning,
    OtherFieldsError,
    diagnose,
    said_by,
    why_unreadable,
    without_jvm_trace,
)
from tests.support.for_each import for_each
from tests.support.spark_errors import CLASSIC, CONNECT, PY4J, SPEAKERS, py4j, raised

ROWS = dict((*SENTENCES, *TRACES))
EXAMPLES = [
    "java.io.FileNotFoundException: /lake/t/part-0.parquet (Permission denied)",
    "java.io.FileNotFoundException: /lake/t/part-0.parquet (Read-only file system)",
    "java.io.FileNotFoundException: /lake/t/part-0.parquet (Too many open files)",
    "java.io.FileNotFoundException: /lake/t/part-0.parquet (No space left on device)",
    "java.nio.file.AccessDeniedException: s3a://lake/t/_delta_log: getFileStatus: S3Exception: Forbidden",
    "org.apache.hadoop.security.AccessControlException: Permission denied: user=a, access=READ, inode=/lake/t",
    "[DELTA_TRUNCATED_TRANSACTION_LOG] Unable to reconstruct state at version 9. SQLSTATE: 42K03",
    "[DELTA_LOG_FILE_NOT_FOUND] Unable to retrieve the delta log files. SQLSTATE: 42K03",
    "[DELTA_VERSIONS_NOT_CONTIGUOUS] Versions (3, 5) are not contiguous. SQLSTATE: KD00C",
    "[TABLE_OR_VIEW_NOT_FOUND] The table or view `t` cannot be found. SQLSTATE: 42P01",
    "[PATH_NOT_FOUND] Path does not exist: file:/lake/t. SQLSTATE: 42K03",
    "[PATH_DOES_NOT_EXIST] Path does not exist: file:/lake/t. SQLSTATE: 42K03",
    "[DELTA_MISSING_DELTA_TABLE] t is not there. SQLSTATE: 42P01",
    "[DELTA_TABLE_NOT_FOUND] Delta table t does not exist. SQLSTATE: 42P01",
    "[DELTA_PATH_DOES_NOT_EXIST] /lake/t does not exist. SQLSTATE: 42K03",
    "[DELTA_TABLE_ONLY_OPERATION] t: DESCRIBE DETAIL is for Delta tables. SQLSTATE: 0AKDD",
    "[EXPECT_TABLE_NOT_VIEW.NO_ALTERNATIVE] 'DESCRIBE DETAIL' expects a table but `v` is a view. SQLSTATE: 42809",
    "[SCHEMA_NOT_FOUND] The schema `spark_catalog`.`shop` cannot be found. SQLSTATE: 42704",
    "[CATALOG_NOT_FOUND] The catalog `main` not found. SQLSTATE: 42P08",
    "[REQUIRES_SINGLE_PART_NAMESPACE] spark_catalog requires a single-part namespace, but got `main`.`shop`. SQLSTATE: 42K05",
    "[DELTA_PATH_BASED_ACCESS_TO_CATALOG_MANAGED_TABLE_BLOCKED] Path-based access is not allowed. SQLSTATE: KD00G",
    "java.lang.IllegalStateException: Couldn't locate commit coordinator for: `spark_catalog`.`shop`.`t`",
    '[DELTA_UNSUPPORTED_FEATURES_FOR_READ] Table "t" has features that are unsupported by Delta Lake "4.4.0": x. SQLSTATE: 56038',
    "`/lake/t` is not a Delta table.",
    "[DELTA_NOT_A_DELTA_TABLE] t is none. SQLSTATE: 42K03",
    "[TABLE_OR_VIEW_ALREADY_EXISTS] Cannot create table `t`. SQLSTATE: 42P07",
    "[DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION] Cannot create table. SQLSTATE: 42601",
    "[DELTA_INVALID_ISOLATION_LEVEL] delta.isolationLevel must be Serializable",
    "[NO_ACTIVE_SESSION] No active Spark session found. SQLSTATE: HY000",
    "[SESSION_NOT_SAME] Both Datasets must belong to the same session. SQLSTATE: HY000",
    "[INVALID_HANDLE.SESSION_NOT_FOUND] The handle is invalid. SQLSTATE: HY000",
    "[SESSION_OR_CONTEXT_NOT_EXISTS] SparkContext or SparkSession should be created first.",
    "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_452_0 not found! SQLSTATE: 56000",
    "java.lang.NoClassDefFoundError: org/apache/spark/sql/connector/catalog/Changelog",
    "java.lang.NoSuchMethodError: 'void org.apache.spark.internal.LogKey.$init$(org.apache.spark.internal.LogKey)'",
    "java.lang.NoSuchFieldError: x",
    "java.lang.AbstractMethodError: x",
    "java.lang.IncompatibleClassChangeError: x",
    "Task 0 failed 4 times: ExecutorLostFailure (executor 1 exited caused by one of the running tasks)",
    "ShuffleMapStage 2 has failed: org.apache.spark.shuffle.FetchFailedException",
    "Executor heartbeat timed out after 125000 ms",
    "Py4JNetworkError: x",
    "Answer from Java side is empty",
    "Connection reset by peer",
    "Connection refused",
    "Socket closed",
    "Stream removed",
    "Received RST_STREAM",
    "RetriesExceeded",
    "status = StatusCode.UNAVAILABLE",
    "status = StatusCode.DEADLINE_EXCEEDED",
    "SESSION_CLOSED",
    "INVALID_HANDLE",
    "Job 7 cancelled because SparkContext was shut down",
    "Cannot call methods on a stopped SparkContext",
    "org.apache.hadoop.fs.FileAlreadyExistsException: 00000000000000000118.json",
    "org.apache.hadoop.fs.s3a.RemoteFileChangedException: x",
    "io.delta.storage.commit.CommitFailedException: x",
    "java.io.IOException: x",
    "java.io.EOFException: x",
    "java.io.InterruptedIOException: x",
    "java.net.SocketTimeoutException: Read timed out",
    "org.apache.hadoop.fs.s3a.AWSClientIOException: x",
    "software.amazon.awssdk.services.s3.model.S3Exception: ConditionalRequestConflict (Service: S3, Status Code: 409, x)",
    "java.util.concurrent.TimeoutException: x",
    "[DELTA_MISSING_CHANGE_DATA] Error getting change data for range [1 , 2]. SQLSTATE: KD002",
    "[DELTA_CHANGE_TABLE_FEED_DISABLED] Cannot read it. SQLSTATE: 42807",
    "[DELTA_CHANGE_DATA_FEED_INCOMPATIBLE_SCHEMA_CHANGE] Retrieving table changes. SQLSTATE: 0AKDC",
    "[FAILED_READ_FILE.PARQUET_COLUMN_DATA_TYPE_MISMATCH] Error while reading file. SQLSTATE: KD001",
    "[DELTA_VERSION_NOT_FOUND] Cannot time travel. SQLSTATE: 22003",
    "[DELTA_REMOVE_FILE_CDC_MISSING_EXTENDED_METADATA] x. SQLSTATE: 42KD1",
    "File file:/lake/t/_change_data/cdc-0.parquet is not a Parquet file",
    "Can't read an inline deletion vector",
    "encoded string (abc...) too long: 70000 bytes",
    "java.io.UTFDataFormatException: x",
    "[DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION] Cannot time travel beyond. SQLSTATE: 0AKDC",
    "[FAILED_READ_FILE.FILE_NOT_EXIST] Error while reading file. SQLSTATE: KD001",
    "[DELTA_FILE_NOT_FOUND] File path file:/lake/t/part-0. SQLSTATE: 42K03",
    "[FAILED_READ_FILE.NO_HINT] Error while reading file.\nCaused by: FileNotFound",
    "java.io.FileNotFoundException: File file:/lake/t/part-0.parquet does not exist",
]


def _alternatives(pattern: str) -> list[str]:
    """The alternatives in a row's pattern, each as a pattern of its own."""
    depth, words = 0, [""]
    for letter in pattern:
        depth += {"(": 1, ")": -1}.get(letter, 0)
        words = [*words, ""] if letter == "|" and depth == 0 else [*words[:-1], words[-1] + letter]
    return words


@for_each("words, meaning", [(w, m) for p, m in ROWS.items() for w in _alternatives(p)])
def test_each_row_is_met_by_an_example_that_means_what_the_row_says(words: str, meaning: Meaning):
    met = [text for text in EXAMPLES if re.search(words, text, re.DOTALL)]
    assert met
    for text in met:
        for error in (raised("SparkException", text), raised("X", text, module=CONNECT), py4j(text)):
            assert meaning in diagnose(error)


@for_each("text", EXAMPLES)
def test_each_example_is_of_a_row(text: str):
    assert diagnose(py4j(text))


@for_each("speaker", SPEAKERS.values())
def test_the_assets_own_words_say_nothing(speaker: Callable[[str], BaseException]):
    assert [text for text in EXAMPLES if diagnose(speaker(text))] == []


def test_a_file_that_is_gone_may_show_in_the_stack_trace_alone_and_a_lost_answer_may_not():
    class TracedError(Exception):
        __module__ = CLASSIC
        _desc = "Job aborted."

        def __str__(self) -> str:
            return "Job aborted.\nCaused by: java.io.FileNotFoundException: x\nCaused by: java.io.IOException: y"

    assert list(diagnose(TracedError())) == [Meaning.FILE_GONE]


def test_what_a_cause_says_is_the_errors_own_only_where_the_causes_are_asked():
    outer = raised("SparkException", "Job aborted.", cause=py4j("[DELTA_MISSING_CHANGE_DATA] x"))
    assert Meaning.FEED_GONE in diagnose(outer) and not said_by(outer)


@for_each(
    "text, why",
    [
        ("java.io.FileNotFoundException: /lake/_change_data/part-0 (Permission denied)", None),
        ("java.nio.file.AccessDeniedException: s3a://lake/t/_change_data/part-0: Forbidden", None),
        ("java.io.UTFDataFormatException: x", Meaning.VECTORS_TOO_LARGE.value),
        ("[DELTA_MISSING_CHANGE_DATA] x", "DELTA_MISSING_CHANGE_DATA ([DELTA_MISSING_CHANGE_DATA] x)"),
        ("[DIVIDE_BY_ZERO] x", None),
    ],
)
def test_why_a_feed_cannot_be_read_is_said_unless_a_right_is_missing(text: str, why: str | None):
    assert why_unreadable(raised("Py4JError", text, module=PY4J)) == why


def test_other_fields_within_a_column_are_a_reason():
    assert why_unreadable(OtherFieldsError("c")) == "the fields within column c were changed"


def test_the_text_of_an_error_can_leave_the_jvm_s_stack_trace_out() -> None:
    cause = AnalysisException(
        "[UNRESOLVED_COLUMN] amont",
        server_stacktrace="\tat org.apache.spark.X(Y.scala:1)",
        display_server_stacktrace=True,
    )
    error = ValueError("outside")
    error.__cause__ = cause
    assert "at org.apache.spark" in str(cause)
    without_jvm_trace(error)
    assert str(cause) == "[UNRESOLVED_COLUMN] amont"

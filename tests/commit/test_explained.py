"""How an error of Spark or Delta is explained: only those of a closed list are called temporary and tried again."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import cycle
from typing import Any
from zipfile import ZipFile

from lakehouse.commit.failed_plan import explain_error
from lakehouse.commit.rivals import ConflictKind, classify
from lakehouse.server.jars import DIRECTORY, delta_jars
from lakehouse.spark.diagnosis import TEMPORARY
from tests.commit.test_situation import READING
from tests.spark.test_diagnosis import EXAMPLES
from tests.support.for_each import for_each
from tests.support.spark_errors import CLASSIC, CONNECT, DELTA, SPEAKERS, py4j, raised

RUN = replace(READING, changes=())

CONFLICTS = {
    "DELTA_CONCURRENT_APPEND",
    "DELTA_CONCURRENT_DELETE_READ",
    "DELTA_CONCURRENT_DELETE_DELETE",
    "DELTA_CONCURRENT_TRANSACTION",
    "DELTA_CONCURRENT_WRITE",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "DELTA_MAX_COMMIT_RETRIES_EXCEEDED",
    "DELTA_CREATE_TABLE_WITH_NON_EMPTY_LOCATION",
    "DELTA_TABLE_ALREADY_EXISTS",
    "DELTA_PATH_EXISTS",
}
"""The conditions after which a run looks at the table and plans once more, because a rival may have committed."""
FILES_GONE = {"DELTA_FILE_NOT_FOUND"}
"""The conditions of a file that VACUUM may have removed: the next run reads a newer version."""
EXPIRED = {"DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"}
"""The condition of a version that expired while it was read: the next run pins a newer version."""
WRAPPED: dict[str, Callable[[str, str], BaseException]] = {
    "Delta's own class": lambda condition, text: raised("DeltaError", text, module=DELTA, condition=condition),
    "a Connect class": lambda condition, text: raised("SparkException", text, module=CONNECT, condition=condition),
    "a classic class without a condition": lambda _, text: raised("UnknownException", text),
    "a Py4J error": lambda _, text: py4j(f"org.apache.spark.sql.delta.DeltaAnyException: {text}"),
    "the cause of a failed task": lambda condition, text: raised(
        "SparkException",
        "[TASK_WRITE_FAILED] Task failed while writing rows.",
        condition="TASK_WRITE_FAILED",
        cause=raised("UnknownException", text, module=CLASSIC, condition=condition),
    ),
}
QUOTED = [text for text in EXAMPLES if not text.startswith("[") and "(" not in text]
"""Texts that Delta's sentence may quote from a value, a path or another error, and that mean something elsewhere."""


def conditions() -> dict[str, str]:
    """Every error condition of this Delta with its SQLSTATE; conditions of subclasses have their full names."""
    jar = DIRECTORY / delta_jars()[0].file_name  # next to those for other versions of Spark
    known: dict[str, Any] = json.loads(ZipFile(jar).read("error/delta-error-classes.json"))

    def named() -> Iterator[tuple[str, str]]:
        for name, what in known.items():
            yield name, what.get("sqlState", "")
            for part in what.get("subClass", {}):
                yield f"{name}.{part}", what.get("sqlState", "")

    return {name: state for name, state in named() if name.startswith("DELTA_")}


CONDITIONS = conditions()


@for_each("wrapped", WRAPPED.values())
def test_a_condition_of_delta_is_permanent_unless_it_is_in_the_closed_list(
    wrapped: Callable[[str, str], BaseException],
) -> None:
    for (condition, state), quoted in zip(CONDITIONS.items(), cycle(QUOTED), strict=False):
        name = condition.split(".")[0]
        error = wrapped(condition, f"[{condition}] It is about {quoted}. SQLSTATE: {state}")
        assert isinstance(error, Exception)
        kind = classify(error).kind
        assert (kind is not ConflictKind.NOT_A_CONFLICT) == (name in CONFLICTS), condition
        if name in CONFLICTS:
            continue
        told = explain_error(RUN, error)
        assert told.is_temporary == (name in FILES_GONE | EXPIRED), (condition, told)
        if name in FILES_GONE:
            assert told.code == "MISSING_FILE"
        elif name in EXPIRED:
            assert told.code == "COMPUTE"
        else:
            assert told.code == "DELTA_REFUSED", (condition, told)
            assert told.condition == condition and RUN.ref.identifier in str(told) and quoted[:20] in str(told)
            assert "temporary" not in str(told) and "again" not in str(told) and "expression" not in str(told)


def test_the_closed_list_is_of_conditions_that_this_delta_has() -> None:
    assert {condition.split(".")[0] for condition in CONDITIONS} >= CONFLICTS | FILES_GONE | EXPIRED


@for_each("meaning", TEMPORARY)
def test_each_temporary_cause_is_named_in_the_sentence(meaning: Any) -> None:
    texts = {
        "VERSION_EXPIRED": "[DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION] x SQLSTATE: 0AKDC",
        "EXECUTOR_LOST": "Job aborted due to stage failure: ExecutorLostFailure (executor 1 exited). Reason: killed",
        "ROWS_LOST": "[CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND] Checkpoint block rdd_452_0 not found! SQLSTATE: 56000",
        "ANSWER_LOST": "Connection reset by peer",
    }
    told = explain_error(RUN, raised("SparkException", texts[meaning.name]))
    assert told.code == "COMPUTE" and meaning.value in str(told) and told.is_temporary


@for_each(
    "error",
    [
        raised("SparkException", "[INTERNAL_ERROR] x SQLSTATE: XX000"),
        OverflowError("can't convert negative int to unsigned"),
        raised("SparkException", "java.io.FileNotFoundException: /lake/t/part-0.parquet (No space left on device)"),
    ],
)
def test_what_nobody_knows_is_neither_called_temporary_nor_blamed_on_the_asset(error: Exception) -> None:
    told = explain_error(RUN, error)
    assert told.code == "UNEXPLAINED" and not told.is_temporary
    assert "temporary" not in str(told) and "run it again" not in str(told)


MALFORMED = """[FAILED_READ_FILE.NO_HINT] Encountered error while reading file file:///in/orders.csv.  SQLSTATE: KD001
\tat org.apache.spark.Foo(Bar.scala:1)
Caused by: org.apache.spark.SparkException: [MALFORMED_RECORD_IN_PARSING.WITHOUT_SUGGESTION] Malformed records are \
detected in record parsing: [null,3].
Parse Mode: FAILFAST. To process malformed records as null result, try the option 'PERMISSIVE'.  SQLSTATE: 22023
\t... 22 more
Caused by: java.lang.NumberFormatException: For input string: "x7"
"""
"""What Spark says of a row of a CSV file that does not fit the columns."""


@for_each(
    "error",
    [
        py4j(f"org.apache.spark.SparkException: {MALFORMED}"),
        raised("SparkException", MALFORMED, module=CONNECT, condition="FAILED_READ_FILE.NO_HINT"),
    ],
)
def test_a_file_that_cannot_be_read_is_the_cause_and_not_the_expression(error: Exception) -> None:
    told = explain_error(RUN, error)
    assert told.code == "UNREADABLE_FILE" and "expression" not in str(told) and "Bar.scala" not in str(told)
    for words in ("reading file file:///in/orders.csv. Malformed", "parsing: [null,3]. For", 'input string: "x7".'):
        assert words in str(told)


@for_each("name", [name for name in SPEAKERS if name not in ("Python on the driver", "a library")])
def test_what_the_asset_says_is_its_own_and_not_delta_s(name: str) -> None:
    error = SPEAKERS[name]("[DELTA_CANNOT_MODIFY_APPEND_ONLY] x")
    assert isinstance(error, Exception)
    assert explain_error(RUN, error).code == ("DELTA_REFUSED" if name == "a constraint" else "PLAN")


def test_a_constraint_is_named_with_the_values_that_break_it() -> None:
    said = (
        "org.apache.spark.sql.delta.schema.DeltaInvariantViolationException: [DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK "
        "constraint small (v < 100) violated by row with values:\n - v : 1000\n\tat org.apache.spark.Foo(Bar.scala:1)"
    )
    told = str(explain_error(RUN, py4j(said)))
    assert "CHECK constraint small (v < 100) violated by row with values: - v : 1000." in told
    assert "ALTER TABLE delta.`/copies` DROP CONSTRAINT <name>" in told and "Bar.scala" not in told

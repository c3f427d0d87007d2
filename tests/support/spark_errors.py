"""Exceptions as PySpark, Py4J and Delta raise them, and the ways in which an asset's own words get into one."""

from collections.abc import Callable
from typing import Any

DELTA = "delta.exceptions.captured"
CLASSIC = "pyspark.errors.exceptions.captured"
CONNECT = "pyspark.errors.exceptions.connect"
PY4J = "py4j.protocol"
GRPC = "grpc._channel"


def raised(
    name: str, text: str = "", *, module: str = CLASSIC, condition: str | None = None, cause: Any = None
) -> Exception:
    """An exception like PySpark's: classic classes keep the text in `_desc` and only sometimes have a condition."""

    def condition_(_: Exception) -> str | None:
        return condition

    members: dict[str, Any] = {"__module__": module, "getCondition": condition_, "_cause": cause}
    if module in (DELTA, CLASSIC):
        members |= {
            "_desc": text,
            "__str__": lambda self: f"{self._desc}\n\nJVM stacktrace:\njava.io.IOException: noise",
        }
    return type(name, (Exception,), members)(text)


def py4j(text: str) -> Exception:
    return raised("Py4JJavaError", f"An error occurred while calling o42.sql.\n: {text}", module=PY4J)


TRACEBACK = 'Traceback (most recent call last):\n  File "udf.py", line 3\nConnectionRefusedError: '
SPEAKERS: dict[str, Callable[[str], BaseException]] = {
    "Python on the driver": ValueError,
    "a library": type("ApiError", (Exception,), {"__module__": "partner.client"}),
    "a Python function, classic": lambda words: raised(
        "PythonException", f"An exception was thrown. {TRACEBACK}{words}"
    ),
    "a Python function, Connect": lambda words: raised("PythonException", f"{TRACEBACK}{words}", module=CONNECT),
    "a Python function in a failed job": lambda words: py4j(
        f"org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 3.0 failed 1 times: "
        f"org.apache.spark.api.python.PythonException: {TRACEBACK}{words}"
    ),
    "raise_error": lambda words: raised(
        "SparkRuntimeException", f"[USER_RAISED_EXCEPTION] {words} SQLSTATE: P0001", condition="USER_RAISED_EXCEPTION"
    ),
    "raise_error in a failed job": lambda words: py4j(
        f"org.apache.spark.SparkRuntimeException: [USER_RAISED_EXCEPTION] {words} SQLSTATE: P0001"
    ),
    "a value that is no number": lambda words: raised(
        "NumberFormatException",
        f"[CAST_INVALID_INPUT] The value '{words}' of the type STRING cannot be cast. SQLSTATE: 22018",
    ),
    "a column that is not there": lambda words: raised(
        "AnalysisException",
        f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] `{words}` cannot be resolved. SQLSTATE: 42703",
        module=CONNECT,
        condition="UNRESOLVED_COLUMN.WITH_SUGGESTION",
    ),
    "a Java function": lambda words: raised("SparkException", f"[FAILED_EXECUTE_UDF] {words} SQLSTATE: 39000"),
    "a constraint": lambda words: raised(
        "SparkException", f"[DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] {words} SQLSTATE: 23001"
    ),
}

"""What a session can do, of what not every platform allows: found out at the first refusal, and then remembered.

A platform that governs Spark may not allow a separate session for a statement, a global view, a setting, or rows that
are kept between two statements. Everything is tried as if it were allowed, so a session that can do all pays nothing.
"""

from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any
from uuid import uuid4
from weakref import WeakKeyDictionary

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from lakehouse.delta.text import quote
from lakehouse.errors import LakehouseError
from lakehouse.spark.diagnosis import Meaning, diagnose, first_line
from lakehouse.spark.progress import Message, tell
from lakehouse.spark.session import session_of_its_own

USER_METADATA = "spark.databricks.delta.commitInfo.userMetadata"
_TXN = "spark.databricks.delta.write.txn"
_LOST = {Meaning.SESSION_ENDED, Meaning.ANSWER_LOST, Meaning.EXECUTOR_LOST}


@dataclass(frozen=True, slots=True)
class Abilities:
    """The platform's words where a session is refused something; None where it is allowed.

    Args:
        statements: A separate session for a statement, with the transaction as settings and the rows as a view: so a
            `CREATE`, `MERGE` or `DELETE` carries its transaction. A write of rows has options for that.
        checkpoints: Rows that Spark keeps once they are computed.
    """

    statements: str | None = None
    checkpoints: str | None = None


class RefusedStatementError(Exception):
    """The platform allows no SQL statement with a transaction. None was sent, and the write is planned again."""


_refusals: WeakKeyDictionary[SparkSession, Abilities] = WeakKeyDictionary()


def abilities(spark: SparkSession) -> Abilities:
    """What is known about a session; everything counts as allowed until it is refused."""
    return _refusals.get(spark, Abilities())


@contextmanager
def handed_over(
    rows: DataFrame, application_id: str, epoch: int, user_metadata: str
) -> Generator[tuple[SparkSession, str]]:
    """A session for one statement, with its transaction set, and the name under which it sees the rows.

    Raises:
        RefusedStatementError: The platform does not allow it.
    """
    with ExitStack() as stack:
        try:
            given = _hand_over(stack, rows, application_id, epoch, user_metadata)
        except Exception as error:
            why = why_no_statements(rows.sparkSession)
            if why is None:
                raise
            _refusals[rows.sparkSession] = replace(abilities(rows.sparkSession), statements=why)
            instead = "Tables are created and changed by writes of rows, whose options carry the transaction"
            tell(Message(f"Spark refuses a session for one statement ({why}). {instead}."))
            raise RefusedStatementError(why) from error
        yield given


def keep(rows: DataFrame) -> DataFrame:
    """The rows, computed and kept; the same plan where the platform keeps no rows."""
    spark = rows.sparkSession
    if abilities(spark).checkpoints is not None:
        return rows
    try:
        return rows.localCheckpoint()
    except PySparkException:
        why = why_no_checkpoints(spark)
        if why is None:
            raise
        _refusals[spark] = replace(abilities(spark), checkpoints=why)
        tell(Message(f"Spark keeps no computed rows ({why}). Each statement that reads many rows computes them."))
        return rows


def why_no_statements(spark: SparkSession) -> str | None:
    """Why a statement cannot have a session, settings and a view; None if it can."""

    def attempt() -> None:
        with ExitStack() as stack:
            own, view = _hand_over(stack, spark.range(1), "lakehouse", 1, "{}")
            own.read.table(view).collect()

    return _why_refused(attempt)


def why_no_checkpoints(spark: SparkSession) -> str | None:
    """Why computed rows cannot be kept; None if they can."""
    return _why_refused(lambda: spark.range(1).localCheckpoint())


def _why_refused(attempt: Callable[[], object]) -> str | None:
    """The platform's words; None if it refuses nothing. Raises the error of a lost connection, which is no answer."""
    try:
        attempt()
    except Exception as error:
        if is_lost(error):
            raise
        # PySpark lets an error of gRPC through where it clones a session.
        details: Any = getattr(error, "details", None)
        return str(details()) if callable(details) else first_line(error)
    return None


def is_lost(error: Exception) -> bool:
    """Whether an error comes from a lost connection, and so shows nothing about what a session can do."""
    return isinstance(error, LakehouseError) or bool(_LOST & diagnose(error).keys())


def _hand_over(
    stack: ExitStack, rows: DataFrame, application_id: str, epoch: int, user_metadata: str
) -> tuple[SparkSession, str]:
    view = f"lakehouse_{uuid4().hex}"
    transaction = {f"{_TXN}AppId": application_id, f"{_TXN}Version": str(epoch), USER_METADATA: user_metadata}
    own = stack.enter_context(session_of_its_own(rows.sparkSession, transaction))
    rows.createOrReplaceGlobalTempView(view)
    stack.callback(rows.sparkSession.catalog.dropGlobalTempView, view)
    return own, f"global_temp.{quote(view)}"

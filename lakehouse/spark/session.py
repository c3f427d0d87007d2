"""Sessions that nothing else uses, the settings that each needs, and small work without compiled code."""

from collections.abc import Generator, Mapping
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from copy import copy
from typing import Any
from uuid import uuid4

from pyspark.errors import AnalysisException, PySparkException
from pyspark.logger import PySparkLogger
from pyspark.sql import SparkSession
from pyspark.sql.types import DecimalType, StructType

from lakehouse.delta.limits import limits
from lakehouse.delta.log import Size
from lakehouse.delta.text import quote
from lakehouse.spark.progress import watching

REQUIRED = {
    # Spark 4.2.0 waits for ever where a plain Python function reads the columns of a scan (SPARK-58241).
    "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled": "false",
}
"""Settings that each session needs; all of them can be set on a running session."""


FACTORY_MODE = "spark.sql.codegen.factoryMode"


@contextmanager
def interpreting(spark: SparkSession, size: Size | None) -> Generator[None]:
    """Makes Spark interpret what happens within, if the tables are small. A user's own setting in the session stays.

    `size` is that of all tables that are read or written; None if it is not known.
    """
    little = Size(limits().interpreted_rows, limits().interpreted_bytes)
    if size is None or not size.fits(little) or not _begun(spark):
        yield
        return
    try:
        yield
    finally:
        with suppress(Exception):  # a lost session has no settings, and the error within must still be seen
            spark.conf.unset(FACTORY_MODE)


def _begun(spark: SparkSession) -> bool:
    """Whether Spark interprets from now on; not against a user's own setting, nor in a session that has ended.

    The error of an ended session is explained if the work within raises it; raised here, it would be Spark's own.
    """
    with suppress(PySparkException):
        if spark.conf.get(FACTORY_MODE, None) is None:
            spark.conf.set(FACTORY_MODE, "NO_CODEGEN")
            return True
    return False


RELEASED_WITHIN = 10
"""For how many seconds `let_results_go` waits."""
ZONE = "spark.sql.session.timeZone"
_UTC = frozenset(["UTC", "Etc/UTC", "GMT", "Z", "+00:00"])
DECIDE_ROWS = {
    "spark.databricks.delta.insert.preserveNullSourceStructs": "true",
    "spark.sql.analyzer.lowerEmptyGroupingSetToGlobalAggregate.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.relationPrecedence": "false",
    "spark.sql.avro.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.caseSensitive": "false",
    "spark.sql.charAsVarchar": "false",
    "spark.sql.chunkBase64String.enabled": "true",
    "spark.sql.csv.parser.columnPruning.enabled": "true",
    "spark.sql.decimalOperations.allowPrecisionLoss": "true",
    "spark.sql.execution.arrow.maxRecordsPerOutputBatch": "-1",
    "spark.sql.execution.pyspark.binaryAsBytes": "true",
    "spark.sql.function.concatBinaryAsString": "false",
    "spark.sql.function.eltOutputAsString": "false",
    "spark.sql.functionResolution.sessionOrder": "second",
    "spark.sql.groupByAliases": "true",
    "spark.sql.groupByOrdinal": "true",
    "spark.sql.icu.caseMappings.enabled": "true",
    "spark.sql.json.enableExactStringParsing": "true",
    "spark.sql.json.enablePartialResults": "true",
    "spark.sql.jsonGenerator.ignoreNullFields": "true",
    "spark.sql.jsonGenerator.writeNullIfWithDefaultValue": "true",
    "spark.sql.lateralColumnAlias.enableImplicitResolution": "true",
    "spark.sql.mapKeyDedupPolicy": "EXCEPTION",
    "spark.sql.optimizer.decorrelateExistsSubqueryLegacyIncorrectCountHandling.enabled": "false",
    "spark.sql.optimizer.decorrelateInnerQuery.enabled": "true",
    "spark.sql.optimizer.mapLookupHashThreshold": "1000",
    "spark.sql.optimizer.maxIterations": "100",
    "spark.sql.orderByOrdinal": "true",
    "spark.sql.parquet.binaryAsString": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
    "spark.sql.parquet.int96AsTimestamp": "true",
    "spark.sql.parquet.int96RebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.int96TimestampConversion": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.preserveCharVarcharTypeInfo": "false",
    "spark.sql.readSideCharPadding": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "true",
    "spark.sql.storeAssignmentPolicy": "ANSI",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.variable.substitute": "true",
    "spark.sql.variant.allowDuplicateKeys": "false",
}
"""Settings of a session, with Spark's defaults; with other values, a query of the same rows may give other rows."""
FORMER_BEHAVIOUR = "spark.sql.legacy."
"""The prefix of settings that bring back what an earlier Spark did."""


def setting(spark: SparkSession, name: str) -> str | None:
    """A setting that Spark, or a library that it has loaded, has declared; None if it is not declared."""
    try:
        return spark.conf.get(name)
    except PySparkException:
        return None


def why_sums_may_be_lost(spark: SparkSession, schema: StructType) -> str | None:
    """Why a sum in one of the columns may become NULL, as a clause; None if each fits its type or fails."""
    kinds = [field.dataType for field in schema.fields if isinstance(field.dataType, DecimalType)]
    if setting(spark, "spark.sql.ansi.enabled") == "true" or all(kind.precision < 38 for kind in kinds):
        return None
    return "without ANSI mode, a sum that does not fit its type is NULL"


_WRITERS_OF_ERRORS = ("DataFrameQueryContextLogger", "SQLQueryContextLogger")


def prepare(spark: SparkSession) -> tuple[str, ...]:
    """Gives a session the required settings that it lacks, and ends PySpark's own writing of errors to the terminal.

    PySpark writes each error of a plan as a document of JSON with its stack before it raises the error, which contains
    the same, and which a run explains.

    Returns:
        The settings that the platform refuses to change, as `name=value`.
    """
    for name in _WRITERS_OF_ERRORS:
        PySparkLogger.getLogger(name).disabled = True
    refused: list[str] = []
    for name, value in REQUIRED.items():
        try:
            if spark.conf.get(name, None) != value:
                spark.conf.set(name, value)
        except PySparkException:
            refused.append(f"{name}={value}")
    return tuple(refused)


def settings_of_rows(spark: SparkSession) -> dict[str, str]:
    """The settings of a session that decide rows: its time zone, and those that differ from Spark's defaults."""
    zone = spark.conf.get(ZONE, "UTC") or "UTC"
    given = spark.conf.getAll
    listed = {name: given.get(name, default) for name, default in DECIDE_ROWS.items()}
    former = {name: value for name, value in given.items() if name.startswith(FORMER_BEHAVIOUR)}
    other = {name: value for name, value in listed.items() if value.lower() != DECIDE_ROWS[name].lower()}
    return {ZONE: "UTC" if zone in _UTC else zone, **other, **former}


def is_connect(spark: SparkSession) -> bool:
    """Whether the session is Spark Connect's, which analyzes a plan as a whole and each time that it is used."""
    return not hasattr(spark, "newSession")


@contextmanager
def session_of_its_own(spark: SparkSession, settings: Mapping[str, str] = {}) -> Generator[SparkSession]:
    """A separate session like this one, with more settings.

    Classic Spark has `newSession`, which knows only defaults; Connect has clones.
    """
    if not is_connect(spark):
        own = spark.newSession()
        _follow(own, spark)
        _use(own, spark)
        _set(own, settings)
        yield own  # stopping it would stop Spark; it ends with its last reference
        return
    clone = _clone(spark)
    try:
        if not hasattr(spark, "cloneSession"):
            _follow(clone, spark)
        _use(clone, spark)  # a clone has the settings, but begins in the default catalog
        _set(clone, settings)
        with watching(clone):
            yield clone
    finally:
        _end(clone)


def _set(own: SparkSession, settings: Mapping[str, str]) -> None:
    for name, value in settings.items():
        own.conf.set(name, value)


def _clone(spark: Any) -> Any:
    """Another session of a Connect server, a clone of this one; Spark 4.0 has no clones, so it begins a new session."""
    if hasattr(spark, "cloneSession"):
        return spark.cloneSession()
    way = copy(spark.client._builder)  # noqa: SLF001
    way._params = {**way._params, way.PARAM_SESSION_ID: str(uuid4())}  # noqa: SLF001
    return type(spark)(way, spark.client._user_id)  # noqa: SLF001


def _follow(own: SparkSession, spark: SparkSession) -> None:
    """Copies to a new session what was set on another since it began: storage keys, catalog, code generation."""
    new = own.conf.getAll
    for key, value in spark.conf.getAll.items():
        if new.get(key) != value:
            with suppress(AnalysisException):  # it is the platform's own, and no user has set it
                own.conf.set(key, value)


def _use(own: SparkSession, spark: SparkSession) -> None:
    """Sets the catalog and the database of another session."""
    catalog, database = spark.catalog.currentCatalog(), spark.catalog.currentDatabase()
    if (catalog, database) != ("spark_catalog", "default"):
        # As a statement: Delta's catalog keeps the session that is active when it is loaded, and with it the
        # transaction. Asking `own.catalog` would load it while the other session is active. Spark returns the database
        # quoted; it may have several levels, or none.
        own.sql(f"USE {'.'.join(filter(None, (quote(catalog), database)))}").collect()


def let_results_go(client: Any) -> None:
    """Waits until a Connect server has let go of the results that were read, which PySpark requests in threads.

    If the session is released first, the server refuses these requests, and PySpark logs each as a failure.
    """
    requests: Any = getattr(client, "_release_futures", ())
    wait(requests, timeout=RELEASED_WITHIN)


def _end(session: Any) -> None:
    """Releases a Connect session, which its server would keep for an hour.

    Not by `stop()`, which ends Spark itself if Spark has started the server (`spark.api.mode=connect`). And not by
    `client.close()`, which in PySpark 4.0 and 4.1 ends the threads of all sessions of this process: a query of another
    session then fails ("cannot schedule new futures after shutdown"), or waits for ever if the garbage collector
    closes a session while such a thread begins. So the session keeps no client that could be closed later.
    """
    client = session.client
    let_results_go(client)
    with suppress(Exception):
        client.release_session()
    with suppress(Exception):
        client._channel.close()  # noqa: SLF001
        client._closed = True  # noqa: SLF001
        session._client = None  # noqa: SLF001

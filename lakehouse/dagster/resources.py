"""The Spark session as a Dagster resource, and checks that jars, server and client are for one version of Spark."""

import os
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from importlib.metadata import version
from pathlib import Path
from typing import Any, cast

import dagster as dg
import pyspark
from dagster_pyspark import LazyPySparkResource
from pydantic import Field, PrivateAttr
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.delta.location import Location
from lakehouse.errors import DefinitionError, LakehouseError, SetupError
from lakehouse.server.jars import class_path, delta_jars
from lakehouse.server.lifecycle import Server
from lakehouse.server.settings import DELTA, OF_THIS_MACHINE, RULES, Rule, local_settings, refuse_secrets, refuse_unsafe
from lakehouse.server.versions import give_jar, refuse_other_client, refuse_other_jars, refuse_untested, untested_build
from lakehouse.spark.diagnosis import Meaning, diagnose, first_line
from lakehouse.spark.session import is_connect


def value_of(text: str) -> str:
    """A field's value. Dagster resolves an environment variable only in runs; for sensors and commands it is done here.

    Raises:
        DefinitionError: The variable is not set.
    """
    if not isinstance(text, dg.EnvVar):
        return text
    value = text.get_value()
    if value is None:
        raise DefinitionError(f"A resource names the environment variable {text.env_var_name}. It is not set: set it.")
    return value


def refuse_unfit(session: SparkSession) -> tuple[str, ...]:
    """Refuses a session whose Spark, client and Delta are not tested together.

    Returns:
        The builds among them that are a vendor's and were not tested.

    Raises:
        SetupError (VERSION): Its Spark, or its Delta, is not a tested version.
        SetupError (OTHER_SPARK): Its client, or Delta's jars, are for another minor version of Spark.
    """
    spark = session.version
    builds = [untested_build("Spark", spark, lambda: _is_databricks(session))]
    if is_connect(session):
        refuse_other_client(spark, pyspark.__version__)
    with as_other_jars(spark):
        settings = session.conf.getAll
        refuse_other_jars(spark, settings)
        path = settings.get("spark.driver.extraClassPath", "")
        if builds == [None] and path.startswith(class_path(jars=delta_jars(spark))):
            return ()  # the pinned jars, checked when Spark was started
        delta = version_of_delta(session)
    if delta is not None:
        builds.append(untested_build("Delta", delta))
    return tuple(build for build in builds if build is not None)


def _is_databricks(session: SparkSession) -> bool:
    """Whether a session is one of Databricks, whose Spark has the version numbers of the open-source Spark."""
    try:
        session.sql("SELECT current_version().dbr_version").collect()
    except Exception:
        return False
    return True


@contextmanager
def as_other_jars(spark: str) -> Generator[None]:
    """Turns Spark's error about jars that do not fit it into a `SetupError`, while a session starts or is queried.

    Raises:
        SetupError (OTHER_SPARK): The jars do not fit.
    """
    try:
        yield
    except LakehouseError:
        raise
    except Exception as error:
        if Meaning.OTHER_JARS not in diagnose(error):
            raise
        problem = f"Delta's jars on the class path are for another Spark than {spark} ({first_line(error)})"
        raise SetupError.other_spark(problem, give_jar(spark)) from error


def version_of_delta(session: SparkSession) -> str | None:
    """The version of a session's Delta; None if Spark cannot name it, as on a platform with its own build of Delta."""
    try:
        (row,) = session.sql("SELECT java_method('io.delta.package', 'VERSION')").collect()
    except Exception as error:
        if Meaning.OTHER_JARS in diagnose(error):
            raise
        return None
    return str(row[0])


IDLE = 900
"""Seconds without use after which a server ends, unless another number is given."""
_PACKAGES, _EXTENSIONS = "spark.jars.packages", "spark.sql.extensions"
_NO_REMOTE = (
    "Spark would run on another machine, where the tables of this one are not. Unset it, or use ClusterSpark instead "
    "of LocalSpark (this project's own: LAKEHOUSE_ENV=cluster)."
)
_NO_DELTA = "ClusterSpark(delta=True) needs delta-spark: pip install 'dagster-delta-lakehouse[cluster]'."


class Where(Enum):
    """Where the JVM of a local lakehouse runs: in one server for all processes, or inside the only process."""

    SERVER = "server"
    PROCESS = "process"


class ClusterSpark(dg.ConfigurableResource[Any]):
    """The session of a cluster: its own defaults, or the server at SPARK_REMOTE, with `spark_config` on top.

    Args:
        spark_config: Your own settings.
        delta: Whether a classic session fetches the jars of Delta that the package `delta-spark` names, for a cluster
            that does not bring them: `pip install 'dagster-delta-lakehouse[cluster]'`.
    """

    spark_config: dict[str, Any] = Field(default={})
    delta: bool = False
    _session: LazyPySparkResource | None = PrivateAttr(default=None)

    @property
    def spark_session(self) -> SparkSession:
        """The session, started when it is first used; a new one if the server has ended it.

        Raises:
            SetupError (UNSAFE_SETTING): A setting, given here or the cluster's own, that could lose rows unnoticed.
            SetupError (NOT_INSTALLED): `delta` is set and the package is missing.
            SetupError (VARIABLE): `delta` is set, and so is SPARK_REMOTE, whose server has its own jars.
            SetupError (VERSION): Spark, or Delta, is not a tested version.
            SetupError (OTHER_SPARK): The client of a Connect server, or Delta's jars, are for another version of Spark.
        """
        if self._session is not None:
            session = cast("SparkSession", self._session.spark_session)
            if _answers(session):
                return session
            with suppress(Exception):
                cast("Any", session).release_session_on_close = False  # the server is gone
                session.stop()
            self._session = None
        _refuse(self.spark_config)
        settings = with_delta(self.spark_config) if self.delta else self.spark_config
        refuse_other_jars(pyspark.__version__, settings)
        with as_other_jars(pyspark.__version__):
            resource = _connect(settings)
        refuse_unfit(resource.spark_session)
        refuse_unsafe(resource.spark_session.conf.getAll)
        self._session = resource
        return resource.spark_session


def _connect(settings: Mapping[str, Any]) -> LazyPySparkResource:
    """The process's session, or a new one.

    After a restart of its server, PySpark may return the old session once more. A first request shows whether that
    session is dead; PySpark then makes another.
    """
    resource = LazyPySparkResource(spark_config=dict(settings))
    try:
        if _answers(resource.spark_session):
            return resource
    except PySparkException as error:
        if Meaning.SESSION_ENDED not in diagnose(error):
            raise
    return LazyPySparkResource(spark_config=dict(settings))


class LocalSpark(dg.ConfigurableResource[Any]):
    """Spark on this machine, with its own Java and jars. Only one JVM at a time has the root, wherever the JVM runs.

    Args:
        root: The directory of the tables.
        spark_config: Your own settings, on top of those that the library brings.
        where: Whether the processes share a server or this process has a JVM of its own.
        idle: Seconds without use after which the server ends.
    """

    root: str
    spark_config: dict[str, Any] = Field(default={})
    where: Where = Where.SERVER
    idle: float = Field(default=IDLE, gt=0)
    _session: SparkSession | None = PrivateAttr(default=None)

    @property
    def spark_session(self) -> SparkSession:
        """The session; a new one if its server is gone.

        Raises:
            SetupError (SERVER): Another JVM has the root, or the server cannot be started.
            SetupError (NOT_INSTALLED): Java or Delta's jars are missing.
            SetupError (UNSAFE_SETTING): A setting that could lose rows unnoticed.
            SetupError (VARIABLE): SPARK_REMOTE is set.
        """
        _refuse(self.spark_config, RULES + OF_THIS_MACHINE)
        if remote := os.environ.get("SPARK_REMOTE"):
            raise SetupError.variable("SPARK_REMOTE", remote, _NO_REMOTE)
        session = self._start()
        if session is not self._session:
            refuse_unsafe(session.conf.getAll, RULES + OF_THIS_MACHINE)
            self._session = session
        return session

    @property
    def directory(self) -> Path:
        """The root as an absolute path; the branch's, if the process works on a branch."""
        return Path(Location.of_root(value_of(self.root)).path)

    def _start(self) -> SparkSession:
        root = self.directory
        settings = local_settings(root) | self.spark_config
        # Imported only when used: loading the code location needs neither module.
        match self.where:
            case Where.SERVER:
                from lakehouse.server.connect import session_on

                return session_on(Server(root, settings, self.idle))
            case Where.PROCESS:
                from lakehouse.server.in_process import session_in_process

                return session_in_process(root, settings)


def with_delta(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings with which a classic session fetches and loads the jars of Delta that delta-spark names.

    Args:
        settings: The user's settings, which win; the packages and extensions that they name are loaded too.
    """
    remote = os.environ.get("SPARK_REMOTE")
    if remote:
        raise SetupError.variable("SPARK_REMOTE", remote, "a server brings Delta's jars itself. Leave delta=True out.")
    try:
        from delta import configure_spark_with_delta_pip  # pyright: ignore[reportUnknownVariableType]
    except ImportError:
        raise SetupError.not_installed(_NO_DELTA) from None
    refuse_untested("Delta", version("delta-spark"))
    refuse_untested("Spark", version("pyspark"))
    builder = cast("Any", configure_spark_with_delta_pip(SparkSession.builder, _names_in(settings.get(_PACKAGES))))
    extensions = dict.fromkeys([DELTA[_EXTENSIONS], *_names_in(settings.get(_EXTENSIONS))])
    both = {_PACKAGES: builder._options[_PACKAGES], _EXTENSIONS: ",".join(extensions)}  # noqa: SLF001
    return {**DELTA, **settings, **both}


def _names_in(value: object) -> list[str]:
    return [name for name in str(value or "").split(",") if name]


def _answers(session: SparkSession) -> bool:
    try:
        session.conf.get("spark.sql.session.timeZone")
    except Exception:
        return False
    return True


def _refuse(settings: Mapping[str, str], rules: Sequence[Rule] = RULES) -> None:
    """Refuses unsafe settings, and secrets in settings, before a session has been started."""
    refuse_unsafe(settings, rules)
    refuse_secrets(settings)

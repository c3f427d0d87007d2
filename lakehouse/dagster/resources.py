"""The Spark session as a Dagster resource, built on dagster-pyspark's.

A process has one session: every resource object gives the same one, and none stops it, because Dagster makes two
objects of a resource that is used at two places and tears each down on its own.
"""

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import Enum
from pathlib import Path
from typing import Any, cast

from dagster_pyspark import LazyPySparkResource
from pydantic import Field
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.dagster.variables import value_of
from lakehouse.server.errors import VariableError
from lakehouse.server.lifecycle import Server
from lakehouse.server.safety import OF_THIS_MACHINE, RULES, Rule, refuse_secrets, refuse_unsafe
from lakehouse.server.settings import local_settings
from lakehouse.spark.diagnosis import Meaning, diagnose

IDLE = 900
"""Seconds without use after which a server ends, unless said otherwise."""


class Where(Enum):
    """Where a local lakehouse's JVM is: one server for all processes, or inside the one process that there is."""

    SERVER = "server"
    PROCESS = "process"


class ClusterSpark(LazyPySparkResource):
    """The session of a cluster: its own defaults, or the server at SPARK_REMOTE, with `spark_config` on top."""

    spark_config: dict[str, Any] = Field(default={})

    @property
    def spark_session(self) -> SparkSession:
        """The session, started when it is first asked for; a new one where the server has ended it.

        Raises:
            UnsafeSettingError: A setting, given here or the cluster's own, that could lose rows unnoticed.
        """
        if self._spark_session is not None:
            if _answers(self._spark_session):
                return self._spark_session
            with suppress(Exception):
                cast("Any", self._spark_session).release_session_on_close = False  # nobody is there to take leave of
                self._spark_session.stop()
            self._spark_session = None
        _refuse(self.spark_config)
        session = self._connected()
        try:
            refuse_unsafe(session.conf.getAll)
        except BaseException:
            self._spark_session = None
            raise
        return session

    def _connected(self) -> SparkSession:
        """The process's session, or a new one: where its server restarted, PySpark gives the dead one out once more.

        The dead one is only noticed when it is asked something, after which PySpark makes another.
        """
        try:
            session = super().spark_session
        except PySparkException as error:
            if Meaning.SESSION_ENDED not in diagnose(error):
                raise
        else:
            if _answers(session):
                return session
        self._spark_session = None
        return super().spark_session


class LocalSpark(LazyPySparkResource):
    """Spark on this machine, on its own Java and jars. One JVM at a time has the root, wherever it is.

    Args:
        root: The directory of the tables.
        spark_config: Settings of yours, on top of those that the library brings.
        where: Whether the processes share a server or this one has a JVM of its own.
        idle: After how many seconds without use the server ends.
    """

    root: str
    spark_config: dict[str, Any] = Field(default={})
    where: Where = Where.SERVER
    idle: float = Field(default=IDLE, gt=0)

    @property
    def spark_session(self) -> SparkSession:
        """The session; a new one where its server has gone.

        Raises:
            ServerError: Another JVM has the root, or the server cannot be started.
            NotInstalledError: Java or Delta's jars are missing.
            UnsafeSettingError: A setting that could lose rows unnoticed.
            VariableError: SPARK_REMOTE is set.
        """
        _refuse(self.spark_config, RULES + OF_THIS_MACHINE)
        _refuse_remote(os.environ.get("SPARK_REMOTE"))
        session = self._started()
        if session is not self._spark_session:
            refuse_unsafe(session.conf.getAll, RULES + OF_THIS_MACHINE)
            self._spark_session = session
        return session

    @property
    def directory(self) -> Path:
        """The root as an absolute path."""
        return Path(value_of(self.root)).expanduser().absolute()

    def _started(self) -> SparkSession:
        root = self.directory
        settings = local_settings(root) | self.spark_config
        # Imported by what needs it: loading the code location needs neither.
        match self.where:
            case Where.SERVER:
                from lakehouse.server.connect import session_on

                return session_on(Server(root, settings, self.idle))
            case Where.PROCESS:
                from lakehouse.server.in_process import session_in_process

                return session_in_process(root, settings)


def _answers(session: SparkSession) -> bool:
    try:
        session.conf.get("spark.sql.session.timeZone")
    except Exception:
        return False
    return True


def _refuse(settings: Mapping[str, str], rules: Sequence[Rule] = RULES) -> None:
    """What is checked while no session has been started yet."""
    refuse_unsafe(settings, rules)
    refuse_secrets(settings)


def _refuse_remote(remote: str | None) -> None:
    if remote:
        raise VariableError(
            "SPARK_REMOTE",
            remote,
            "Spark would run on another machine, where the tables of this one are not. Unset it, or use ClusterSpark "
            "instead of LocalSpark (this project's own: LAKEHOUSE_ENV=cluster).",
        )

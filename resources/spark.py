"""The Spark session as a Dagster resource, built on dagster-pyspark's.

A process has one session: every resource object gives the same one (`getOrCreate`), and none stops it, because
Dagster makes two objects of a resource that is used at two places and tears each down on its own.
"""

import os
import sys
from pathlib import Path

import pyspark
from dagster_pyspark import LazyPySparkResource
from pyspark.sql import SparkSession

from resources.errors import NotInstalledError, VariableError
from resources.jars import jars_problem
from resources.java import java_problem
from resources.safety import refuse_secrets, refuse_unsafe


class ClusterSpark(LazyPySparkResource):
    """The session of a cluster: its own defaults, or the server at SPARK_REMOTE, with `spark_config` on top."""

    @property
    def spark_session(self) -> SparkSession:
        """The session, started when it is first asked for.

        Raises:
            UnsafeSettingError: A setting, given here or the cluster's own, that could lose rows unnoticed.
        """
        if self._spark_session is not None:
            return self._spark_session
        self._prepare()
        session: SparkSession = super().spark_session
        try:
            refuse_unsafe(session.conf.getAll)
        except BaseException:
            self._spark_session = None
            raise
        return session

    def _prepare(self) -> None:
        """What is checked while no session has been started yet."""
        refuse_unsafe(self.spark_config)
        refuse_secrets(self.spark_config)


class LocalSpark(ClusterSpark):
    """Spark inside this process, on the Java and the jars of this machine."""

    def _prepare(self) -> None:
        super()._prepare()
        if remote := os.environ.get("SPARK_REMOTE"):
            raise VariableError(
                "SPARK_REMOTE",
                remote,
                "Spark would run on another machine, where the tables of this one are not. Unset it, or set "
                "LAKEHOUSE_ENV to cluster.",
            )
        for problem in (java_problem(), jars_problem()):
            if problem is not None:
                raise NotInstalledError(problem)
        _stay_at_home()


def _stay_at_home() -> None:
    """Makes Spark start as the lock file has it, whatever other Spark this machine is set up for."""
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    for variable in ("SPARK_CONF_DIR", "PYSPARK_SUBMIT_ARGS"):
        os.environ.pop(variable, None)

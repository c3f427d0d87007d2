"""Where the lakehouse runs: one function for each environment, chosen by LAKEHOUSE_ENV.

| LAKEHOUSE_ENV | tables | Spark |
|---|---|---|
| local (default) | LAKEHOUSE_ROOT, or lake/ next to this package | on this machine: see `local` |
| cluster | LAKEHOUSE_ROOT, which it shares with its executors | the cluster's: see `cluster` |
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lakehouse import DeltaIOManager, Policy
from lakehouse.dagster.resources import IDLE, ClusterSpark, LocalSpark, Where
from lakehouse.delta.location import scheme_of
from lakehouse.errors import SetupError
from lakehouse.server.settings import EVERYWHERE

PROJECT = Path(__file__).parents[1]


def environment(variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The resources of this environment, for `dg.Definitions(resources=...)`: `io_manager` and `spark`.

    Raises:
        SetupError (VARIABLE): A variable is missing, or its value is not known.
    """
    name = variables.get("LAKEHOUSE_ENV") or "local"
    if name not in ENVIRONMENTS:
        raise SetupError.variable(
            "LAKEHOUSE_ENV", name, f"there is no such environment. Use {' or '.join(ENVIRONMENTS)}."
        )
    return ENVIRONMENTS[name](variables)


def local(variables: Mapping[str, str]) -> dict[str, Any]:
    """Tables in a directory of this machine, and Spark on the same machine.

    LAKEHOUSE_SPARK chooses where its JVM is: `server` (default), which all processes share, or `process`, a JVM of this
    process alone. LAKEHOUSE_SPARK_IDLE: after how many seconds without use the server ends, by default 900.
    LAKEHOUSE_SPARK_SETTINGS, a JSON object, adds settings.
    """
    root = local_root(variables)
    settings = _settings(variables)
    spark = LocalSpark(root=str(root), spark_config=settings, where=_where(variables), idle=_idle(variables))
    return _resources(spark, str(root))


def cluster(variables: Mapping[str, str]) -> dict[str, Any]:
    """Tables where the whole cluster sees them, Spark as the cluster has it.

    With SPARK_REMOTE (sc://...) Spark is the Connect server there; without it, Spark is the session that this machine's
    own Spark defaults give, as on Databricks or under spark-submit. Either has to bring Delta: its jar,
    `spark.sql.extensions` and `spark.sql.catalog.spark_catalog`. LAKEHOUSE_SPARK_SETTINGS, in JSON, adds settings.
    """
    root = variables.get("LAKEHOUSE_ROOT")
    if not root:
        raise SetupError.variable(
            "LAKEHOUSE_ROOT", None, "a cluster's tables need one. Set it to, say, s3a://bucket/lake."
        )
    if scheme_of(root) in (None, "file"):
        problem = (
            "it names files of this machine, where two JVMs can overwrite each other's commits, and no lock reaches "
            "those of a cluster. Give a root with its scheme (s3a://bucket/lake, hdfs://..., dbfs:/...)."
        )
        raise SetupError.variable("LAKEHOUSE_ROOT", root, problem)
    return _resources(ClusterSpark(spark_config=EVERYWHERE | _settings(variables)), root.rstrip("/"))


ENVIRONMENTS: dict[str, Callable[[Mapping[str, str]], dict[str, Any]]] = {"local": local, "cluster": cluster}


def local_root(variables: Mapping[str, str] = os.environ) -> Path:
    """The directory of the local tables.

    Raises:
        SetupError (VARIABLE): It is not a directory, or cannot be written.
    """
    return _directory(variables.get("LAKEHOUSE_ROOT"))


def declare_api() -> None:
    """Tells PySpark that Connect will be used: `@F.udf` above a function in a module asks before any session starts."""
    # `environment`, which everything that starts Spark calls, refuses a value that is not known.
    is_local = (os.environ.get("LAKEHOUSE_ENV") or "local") == "local"
    local_server = is_local and os.environ.get("LAKEHOUSE_SPARK") != Where.PROCESS.value
    if local_server or os.environ.get("SPARK_REMOTE"):
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"


def _where(variables: Mapping[str, str]) -> Where:
    given = variables.get("LAKEHOUSE_SPARK") or Where.SERVER.value
    try:
        return Where(given)
    except ValueError:
        allowed = " or ".join(where.value for where in Where)
        raise SetupError.variable("LAKEHOUSE_SPARK", given, f"Spark can be nowhere else. Use {allowed}.") from None


def _idle(variables: Mapping[str, str]) -> float:
    given = variables.get("LAKEHOUSE_SPARK_IDLE") or str(IDLE)
    if not given.isdecimal() or int(given) == 0:
        raise SetupError.variable("LAKEHOUSE_SPARK_IDLE", given, "it is not a number of seconds. Use, say, 900.")
    return int(given)


def _resources(spark: ClusterSpark | LocalSpark, root: str) -> dict[str, Any]:
    return {"io_manager": DeltaIOManager(spark=spark, root=root, policy=Policy(inputs="agree")), "spark": spark}


def _directory(given: str | None) -> Path:
    """The root as an absolute path that can be written."""
    if given and scheme_of(given) is not None:
        problem = "LAKEHOUSE_ENV is local, whose tables are in a directory. Give one, or set LAKEHOUSE_ENV to cluster."
        raise SetupError.variable("LAKEHOUSE_ROOT", given, problem)
    root = Path(given).expanduser().absolute() if given else PROJECT / "lake"
    existing = next(path for path in (root, *root.parents) if path.exists())
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        problem = f"{existing} is not a directory that can be written. Give one that can, or correct its permissions."
        raise SetupError.variable("LAKEHOUSE_ROOT", str(root), problem)
    return root


def _settings(variables: Mapping[str, str]) -> dict[str, str]:
    try:
        return TypeAdapter(dict[str, str]).validate_json(variables.get("LAKEHOUSE_SPARK_SETTINGS") or "{}")
    except ValidationError:
        problem = 'it is not a JSON object of strings. Write it as {"spark.executor.memory": "4g"}.'
        # Neither the value nor pydantic's error, which quotes it: there may be a secret in it.
        raise SetupError.variable("LAKEHOUSE_SPARK_SETTINGS", "...", problem) from None

"""Where the lakehouse runs: one function an environment, chosen by LAKEHOUSE_ENV.

| LAKEHOUSE_ENV | tables | Spark |
|---|---|---|
| local (default) | LAKEHOUSE_ROOT, or lake/ beside this package | inside this process |
| cluster | LAKEHOUSE_ROOT, which it shares with its executors | the cluster's: see `cluster` |
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from lakehouse import DeltaIOManager, Retry
from resources.errors import VariableError
from resources.settings import EVERYWHERE, local_settings
from resources.spark import ClusterSpark, LocalSpark

PROJECT = Path(__file__).parent.parent


def environment(variables: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """The resources of this environment, for `dg.Definitions(resources=...)`: `io_manager` and `spark`.

    Raises:
        VariableError: A variable that is missing or means nothing.
    """
    name = variables.get("LAKEHOUSE_ENV") or "local"
    if name not in ENVIRONMENTS:
        raise VariableError("LAKEHOUSE_ENV", name, f"there is no such environment. Use {' or '.join(ENVIRONMENTS)}.")
    return ENVIRONMENTS[name](variables)


def local(variables: Mapping[str, str]) -> dict[str, Any]:
    """Tables in a directory of this machine, Spark inside the process."""
    root = _directory(variables.get("LAKEHOUSE_ROOT"))
    return _resources(LocalSpark(spark_config=local_settings(root)), str(root))


def cluster(variables: Mapping[str, str]) -> dict[str, Any]:
    """Tables where the whole cluster sees them, Spark as the cluster has it.

    With SPARK_REMOTE (sc://...) Spark is the Connect server there; without it, the session that this machine's own
    Spark defaults give, Databricks' and spark-submit's among them. Either brings Delta: its jar, `spark.sql.extensions`
    and `spark.sql.catalog.spark_catalog`. LAKEHOUSE_SPARK_SETTINGS, a JSON object, adds settings.
    """
    root = variables.get("LAKEHOUSE_ROOT")
    if not root:
        raise VariableError("LAKEHOUSE_ROOT", None, "a cluster's tables need one. Set it to, say, s3a://bucket/lake.")
    return _resources(ClusterSpark(spark_config=EVERYWHERE | _settings(variables)), root.rstrip("/"))


ENVIRONMENTS: dict[str, Callable[[Mapping[str, str]], dict[str, Any]]] = {"local": local, "cluster": cluster}


def _resources(spark: ClusterSpark, root: str) -> dict[str, Any]:
    return {"io_manager": DeltaIOManager(spark=spark, root=root, conflicts=Retry()), "spark": spark}


def _directory(given: str | None) -> Path:
    """The root as an absolute path that can be written."""
    if given and "://" in given:
        problem = "LAKEHOUSE_ENV is local, whose tables are in a directory. Give one, or set LAKEHOUSE_ENV to cluster."
        raise VariableError("LAKEHOUSE_ROOT", given, problem)
    root = Path(given).expanduser().absolute() if given else PROJECT / "lake"
    there = next(path for path in (root, *root.parents) if path.exists())
    if not there.is_dir() or not os.access(there, os.W_OK | os.X_OK):
        problem = f"{there} is not a directory that can be written. Give one that can, or correct its permissions."
        raise VariableError("LAKEHOUSE_ROOT", str(root), problem)
    return root


def _settings(variables: Mapping[str, str]) -> dict[str, str]:
    try:
        return TypeAdapter(dict[str, str]).validate_json(variables.get("LAKEHOUSE_SPARK_SETTINGS") or "{}")
    except ValidationError:
        problem = 'it is not a JSON object of strings. Write it as {"spark.executor.memory": "4g"}.'
        # Neither the value nor pydantic's error, which quotes it: there may be a secret in it.
        raise VariableError("LAKEHOUSE_SPARK_SETTINGS", "...", problem) from None

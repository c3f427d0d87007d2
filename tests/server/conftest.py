"""What a process finds that cannot start Spark."""

import pytest
from pyspark import SparkContext

from lakehouse.server import in_process, lifecycle


@pytest.fixture
def wrong_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta's jars are not those that are pinned, and cannot be fetched."""
    # The jars of this environment are those of every other test that runs beside this one.
    for module in (in_process, lifecycle):
        monkeypatch.setattr(module, "fetch", lambda: "The jars are wrong.")


@pytest.fixture
def no_session_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session of this process is running."""
    # The session of the tests is, and to end it would end it for all of them.
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)

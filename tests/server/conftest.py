"""Fixtures for a process that cannot start Spark."""

import pytest
from pyspark import SparkContext

from lakehouse.server import in_process, lifecycle


@pytest.fixture
def wrong_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    """Delta's jars are not the pinned ones, and cannot be fetched."""
    # All other tests that run at the same time use the jars of this environment.
    for module in (in_process, lifecycle):
        monkeypatch.setattr(module, "fetch", lambda: "The jars are wrong.")


@pytest.fixture
def no_session_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No session of this process is running."""
    # The session of the tests is running, and to end it would end it for all of them.
    monkeypatch.setattr(SparkContext, "_active_spark_context", None)

"""What a step asks of a server, in calls: each is a round trip, and a call for a schema also analyzes a plan."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from benchmarks.contestants.ours import Ours
from benchmarks.harness import data
from lakehouse.commit.outcome import Committed
from lakehouse.spark.session import is_connect
from tests.laws.test_cost import paired

pytestmark = pytest.mark.served


@pytest.mark.slow
def test_a_step_asks_a_server_for_few_schemas(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_connect(spark):
        pytest.skip("classic Spark knows a frame's columns when it has made it")
    pair, ours, asked = paired(spark, tmp_path, 1), Ours(spark), list[object]()
    # Calls are counted where they are sent: no server counts them by kind.
    ask = spark.client.schema
    monkeypatch.setattr(spark.client, "schema", lambda plan: asked.append(plan) or ask(plan))
    data.change(spark, pair.source, data.neighbours(1))
    asked.clear()
    ours.step(pair)
    assert isinstance(ours.outcome, Committed)
    assert data.same(spark, pair.source, pair.target)
    # One each for the feed, the source and the table.
    assert len(asked) == 3

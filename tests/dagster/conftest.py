"""The lakehouse of the tests of Dagster's path, and its instance."""

from collections.abc import Iterator

import dagster as dg
import pytest

from tests.dagster.lakehouse import House
from tests.dagster.tables import ASSETS, DAY_1, DAY_2, EVENTS
from tests.lake import Lake


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


@pytest.fixture
def house(lake: Lake, instance: dg.DagsterInstance) -> House:
    lake.create("orders", [(1, DAY_1, 10), (2, DAY_2, 20), (3, DAY_2, 30)], EVENTS)
    return House(lake, ASSETS, instance)

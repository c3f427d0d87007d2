"""A lakehouse of those tables."""

import pytest

from tests.dagster.lakehouse import House
from tests.dagster.tables import ASSETS, DAY_1, DAY_2, EVENTS
from tests.lake import Lake


@pytest.fixture
def house(lake: Lake) -> House:
    lake.create("orders", [(1, DAY_1, 10), (2, DAY_2, 20), (3, DAY_2, 30)], EVENTS)
    return House(lake, ASSETS)

"""How long the unit tests look for a counterexample (LAKEHOUSE_EXAMPLES=400: a hundred times as long); a history."""

import os

import pytest
from hypothesis import settings

from tests.unit.history import History

EXAMPLES = 10 * int(os.environ.get("LAKEHOUSE_EXAMPLES", "4"))
settings.register_profile(
    "unit", max_examples=EXAMPLES, deadline=None, derandomize="LAKEHOUSE_EXAMPLES" not in os.environ
)
settings.load_profile("unit")


@pytest.fixture(params=[True, False], ids=["epochs known", "epochs unknown"])
def history(request: pytest.FixtureRequest) -> History:
    return History(knows_epochs=request.param)

"""How long the unit tests look for a counterexample: LAKEHOUSE_EXAMPLES=400 looks a hundred times as long."""

import os

from hypothesis import settings

EXAMPLES = 10 * int(os.environ.get("LAKEHOUSE_EXAMPLES", "4"))
settings.register_profile(
    "unit", max_examples=EXAMPLES, deadline=None, derandomize="LAKEHOUSE_EXAMPLES" not in os.environ
)
settings.load_profile("unit")

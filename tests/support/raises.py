"""Which error is raised, by its code."""

import pytest

from lakehouse.errors import LakehouseError


def raises_code(*codes: str, match: str | None = None) -> pytest.RaisesExc[LakehouseError]:
    """One of the errors with these codes. A class is a subject, and a code says which of its errors is meant."""
    return pytest.raises(LakehouseError, match=match, check=lambda error: error.code in codes)

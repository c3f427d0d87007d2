"""Expects an error by its code."""

import pytest

from lakehouse.errors import LakehouseError


def raises_code(*codes: str, match: str | None = None) -> pytest.RaisesExc[LakehouseError]:
    """Expects one of the errors with these codes. A class covers a subject; the code names one error of the class."""
    return pytest.raises(LakehouseError, match=match, check=lambda error: error.code in codes)

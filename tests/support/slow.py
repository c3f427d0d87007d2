"""Cases of a test that only `make slow` runs."""

from collections.abc import Mapping
from typing import Any

import pytest


def slow(*values: Any, id: str | None = None) -> Any:  # noqa: A002  (pytest's own name)
    return pytest.param(*values, id=id, marks=pytest.mark.slow)


def all_but(quick: tuple[str, ...], cases: Mapping[str, Any]) -> list[Any]:
    """The cases by name; all are slow except those in `quick`."""
    return [pytest.param(value, id=name) if name in quick else slow(value, id=name) for name, value in cases.items()]

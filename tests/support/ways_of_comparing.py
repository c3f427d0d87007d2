"""The ways in which rows are compared and replaced, where a test needs one of them whatever its rows are."""

from typing import Any

import pytest

from lakehouse.delta.keys import KeyPredicate
from lakehouse.difference import by_key, row_comparison
from lakehouse.difference.row_comparison import local_difference


def replace_in_one_pass(patched: pytest.MonkeyPatch) -> None:
    """Rows are replaced by a join with the table, as if no predicate could list their keys."""
    # No limit does that: with other limits the keys of rows to delete have no literals either, and that is a MERGE.
    patched.setattr(by_key._Whereabouts, "predicate", lambda *_: KeyPredicate("TRUE", is_exact=False))


def comparisons_by_scan(patched: pytest.MonkeyPatch) -> list[int]:
    """One entry for each comparison of rows at the driver by one scan of the table."""
    comparisons = list[int]()

    def counted(asset: str, rows: Any, target: Any, *given: Any, **named: Any) -> Any:
        comparisons.extend([] if target is None else [1])  # without a table nothing is scanned
        return local_difference(asset, rows, target, *given, **named)

    # A scan that ends in the same statement as a join shows in nothing that a step says.
    patched.setattr(row_comparison, "local_difference", counted)
    return comparisons

"""Ways in which rows are compared and replaced, for a test that needs one of them whatever its rows are."""

from typing import Any

import pytest

from lakehouse.delta.keys import KeyPredicate
from lakehouse.difference import by_key, row_comparison
from lakehouse.difference.row_comparison import local_difference


def replace_in_one_pass(patched: pytest.MonkeyPatch) -> None:
    """Lets rows be replaced by a join with the table, as if no predicate could list their keys."""
    # No limit has this effect: with lower limits the keys of rows to delete get no literals either, so a MERGE is used.
    patched.setattr(by_key._Whereabouts, "predicate", lambda *_: KeyPredicate("TRUE", is_exact=False))


def comparisons_by_scan(patched: pytest.MonkeyPatch) -> list[int]:
    """One entry for each comparison of rows at the driver by one scan of the table."""
    comparisons = list[int]()

    def counted(asset: str, rows: Any, target: Any, *given: Any, **named: Any) -> Any:
        comparisons.extend([] if target is None else [1])  # without a table there is no scan
        return local_difference(asset, rows, target, *given, **named)

    # A scan and a join may lead to the same statement, so no message of a step shows which of them it was.
    patched.setattr(row_comparison, "local_difference", counted)
    return comparisons

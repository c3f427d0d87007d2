"""The judge of the shop's tables names the wrong tables."""

from typing import Any

from tests.support.for_each import for_each
from tests.support.orders_graph import wrong

Rows = list[tuple[Any, ...]]
INSERTS: Rows = [(1, "a", 10, "insert", 0, 0), (2, "a", 500, "insert", 0, 0)]
UPDATE: Rows = [(1, "a", 10, "update_preimage", 1, 0), (1, "a", 20, "update_postimage", 1, 0)]
RIGHT: dict[str, Rows] = {
    "orders": [(1, "a", 20), (2, "a", 500)],
    "kept": [(1, "a", 20)],
    "sums": [("a", 1, 20)],
    "log": [*INSERTS, *UPDATE],
}


def test_tables_that_hold_what_the_orders_give_are_right() -> None:
    assert wrong(RIGHT.__getitem__) == []


@for_each(
    "table, rows",
    [
        ("kept", [(1, "a", 10)]),
        ("kept", [(1, "a", 20), (1, "a", 20)]),
        ("kept", [(1, "a", 20), (2, "a", 500)]),
        ("sums", [("a", 2, 40)]),
        ("sums", []),
        ("log", INSERTS),
        ("log", [*INSERTS, *UPDATE, *UPDATE]),
        ("log", [*INSERTS, *UPDATE, *INSERTS[:1]]),
    ],
)
def test_a_table_that_lacks_a_change_or_has_one_twice_is_named(table: str, rows: Rows) -> None:
    assert wrong((RIGHT | {table: rows}).__getitem__) == [table]

"""The judge of concurrent histories goes red for each way to lose or double a write in a history that was right."""

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.support.for_each import for_each
from tests.support.serial_histories import Commit, Rows, Write, violations

COMMITS = (
    Commit(0, "one", (("insert", (1, 10)), ("insert", (2, 20)))),
    Commit(1, "two", (("update_preimage", (1, 10)), ("update_postimage", (1, 11)))),
    Commit(2, "upkeep", ()),
    Commit(3, "three", (("delete", (2, 20)), ("insert", (3, 30)))),
)
ROWS = ((1, 11), (3, 30))


def adds(*rows: tuple[int, int]) -> Callable[[Rows], Rows]:
    return lambda before: before + Counter(rows)


def moves(old: tuple[int, int], new: tuple[int, int]) -> Callable[[Rows], Rows]:
    return lambda before: before - Counter([old]) + Counter([new])


WRITES = (
    Write("one", adds((1, 10), (2, 20)), 0),
    Write("two", moves((1, 10), (1, 11)), 1),
    Write("three", moves((2, 20), (3, 30))),
)
RIGHT: dict[str, Any] = {"commits": COMMITS, "rows": ROWS, "acknowledged": WRITES, "refused": ("four",)}


def test_a_serial_history_has_no_violation() -> None:
    assert violations(**RIGHT) == []


@for_each(
    "wrong, text",
    [
        ({"commits": COMMITS[:3], "rows": ((1, 11), (2, 20))}, "three was acknowledged once and committed as []"),
        ({"commits": (*COMMITS, replace(COMMITS[1], version=4))}, "two was acknowledged once and committed as [1, 4]"),
        ({"commits": (*COMMITS, Commit(4, "x", (("insert", (9, 9)),)))}, "version 4 changed rows for nobody"),
        ({"commits": COMMITS[1:]}, "the versions are [1, 2, 3]"),
        ({"refused": ("two",)}, "two was refused and is version 1"),
        ({"rows": ((1, 10), (3, 30))}, "lacks Counter({(1, 10): 1}) that it holds"),
        ({"rows": (*ROWS, (3, 30))}, "lacks Counter({(3, 30): 1}) that it holds"),
        ({"acknowledged": (WRITES[0], WRITES[1], replace(WRITES[2], version=2))}, "as version 2 and is 3"),
        ({"acknowledged": (*WRITES[:2], replace(WRITES[2], effect=adds((3, 30))))}, "promised but absent"),
        ({"commits": (*COMMITS[:3], replace(COMMITS[3], changes=(("delete", (2, 21)),)))}, "that were not there"),
    ],
)
def test_a_history_that_is_not_serial_is_told(wrong: dict[str, Any], text: str) -> None:
    assert any(text in violation for violation in violations(**RIGHT | wrong))

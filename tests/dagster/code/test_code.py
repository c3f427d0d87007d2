"""How one code is compared with another: which part differs, by its name, or nothing if that cannot be known."""

import json

from lakehouse.cursor.digests import LONGEST, Code
from tests.support.for_each import for_each


def code(kind: str = "1/3.11", **parts: str) -> Code:
    return Code.of(kind, parts.values(), parts)


BEFORE = code(orders="a", clean="b", LIMIT="c")


@for_each(
    "now, why",
    [
        (BEFORE, None),
        (code(orders="A", clean="b", LIMIT="c"), "the code of orders changed"),
        (code(orders="a", clean="B", LIMIT="c"), "the code that orders names changed: clean"),
        (code(orders="A", clean="B", LIMIT="c"), "the code of orders changed, and of clean"),
        (code(orders="a", clean="B", LIMIT="C"), "the code that orders names changed: clean and LIMIT"),
        (code(orders="a", clean="b"), "the code that orders names changed: LIMIT"),
        (code(orders="a", a="1", b="2", c="3"), "the code that orders names changed: a, b, c and 2 more"),
        (Code(BEFORE.kind, "other", BEFORE.parts), "the code that orders names changed"),
        (Code("1/3.12", "other", {}), None),
        (Code("2/3.11", "other", {}), None),
    ],
)
def test_a_change_is_named(now: Code, why: str | None) -> None:
    assert now.why_other(BEFORE) == why
    assert now.why_other(None) is None, "a mark of an earlier version is believed once"
    assert now.is_as_in(BEFORE) is (now == BEFORE)
    assert not now.is_as_in(None)


def test_the_parts_of_a_large_project_leave_a_mark_small() -> None:
    large = code(**{f"{'é' * 40}{i}": str(i) for i in range(500)})
    assert len(json.dumps(large.parts)) <= LONGEST + 2
    assert large.digest != code(**{f"{'é' * 40}{i}": str(i + (i == 499)) for i in range(500)}).digest

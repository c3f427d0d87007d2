"""What docs/reference/coverage.md says: how each query of TPC-DS is computed. `make coverage` writes the page."""

import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from lakehouse.errors.views import ViewError
from lakehouse.views.analysis import ByKeys, CheckedView
from lakehouse.writes.view import View
from tests.views import tpcds

PAGE = Path(__file__).parents[2] / "docs/reference/coverage.md"
BY_KEYS, PARTLY, WHOLE, REFUSED = "by keys", "by keys, but", "whole", "refused"
_HEAD = """# Coverage

How queries are computed: the rows of the keys that changes touch ([by keys](queries.md)), those and all rows after some
changes, all rows if a table moved, or not at all. `make coverage` writes this page from the code, and `make check` fails if
another page stands here.
"""


def outcome(
    text: str, schemas: Mapping[str, Mapping[str, str]], keys: Mapping[str, tuple[str, ...]]
) -> tuple[str, str]:
    """How a query is computed, and why so."""
    try:
        checked = View(text).check(schemas, keys)
    except ViewError as error:
        return REFUSED, f"`{error.code}`: {error.what[:1].lower()}{error.what[1:]}. {error.remedy}"
    return _computed(checked)


def _computed(checked: CheckedView) -> tuple[str, str]:
    if not isinstance(checked.verdict, ByKeys):
        return WHOLE, _without_place(str(checked.verdict))
    return (BY_KEYS, "") if checked.verdict.more is None else (PARTLY, _without_place(checked.verdict.more))


def _without_place(why: str) -> str:
    return re.sub(r" \(line \d+, column \d+.*\)$", "", why, flags=re.DOTALL)


def _of_tpcds() -> Iterator[str]:
    """The section of TPC-DS: the queries of one outcome in one row."""
    outcomes = {number: outcome(text, tpcds.SCHEMAS, tpcds.KEYS) for number, text in tpcds.QUERIES.items()}
    counts = [sum(kind == each for kind, _ in outcomes.values()) for each in (BY_KEYS, PARTLY, WHOLE, REFUSED)]
    yield "\n## TPC-DS\n"
    yield "The 99 queries as they are written, four of them in two variants ([tests/views/tpcds.sql](../../tests/views/tpcds.sql)):"
    yield f"{counts[0]} by keys, {counts[1]} by keys but for some changes, {counts[2]} whole, {counts[3]} refused.\n"
    yield "| Queries | Computed | Why |\n|---|---|---|"
    for each in sorted(set(outcomes.values()), key=lambda of: ([BY_KEYS, PARTLY, WHOLE, REFUSED].index(of[0]), of[1])):
        numbers = ", ".join(number for number, of in outcomes.items() if of == each)
        yield f"| {numbers} | {each[0]} | {each[1]} |"


def page() -> str:
    """The page as the code makes it."""
    return "\n".join([_HEAD.rstrip("\n"), *_of_tpcds()]) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        sys.exit(f"{PAGE.name} is not what the code does: make coverage writes it.")

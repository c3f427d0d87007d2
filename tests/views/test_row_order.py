"""An order that a text leaves open is said before the first run; an order that keys show to decide is not."""

import pytest

from lakehouse import View

SCHEMAS = {
    "o": {"id": "int", "c": "int", "amount": "int", "day": "date", "s": "string"},
    "u": {"c": "int", "city": "string"},
}
KEYS = {"o": ("id",), "u": ("c",)}
OPEN = {
    "SELECT c, collect_list(id) AS l FROM o GROUP BY c": "collect_list takes rows that are equal in c in any order",
    "SELECT c, array_join(collect_set(s), '') AS l FROM o GROUP BY c": "collect_set takes rows",
    "SELECT collect_list(id) AS l FROM o": "collect_list takes rows in any order",
    "SELECT c, listagg(s, ',') AS l FROM o GROUP BY c": "LISTAGG(s, ',') takes rows",
    "SELECT c, first(id) FILTER (WHERE id > 1) AS f FROM o GROUP BY c": "FIRST(id) FILTER(WHERE id > 1) takes rows",
    "SELECT c, max_by(s, day) AS m FROM o GROUP BY c": "MAX_BY(s, day) takes rows that are equal in c, day",
    "SELECT c, mode(s) AS m FROM o GROUP BY c": "mode takes rows",
    "SELECT id FROM o QUALIFY row_number() OVER (PARTITION BY c ORDER BY day) = 1": "ROW_NUMBER() OVER (",
    "SELECT id, lag(s) OVER (PARTITION BY c ORDER BY day) AS l FROM o": "LAG(s) OVER (",
    "SELECT id, sum(amount) OVER (PARTITION BY c ORDER BY day ROWS UNBOUNDED PRECEDING) AS l FROM o": "SUM(amount) OVER (",
}
DECIDED = (
    "SELECT c, sort_array(collect_set(s)) AS l, size(collect_list(id)) AS n FROM o GROUP BY c",
    "SELECT c, listagg(s) WITHIN GROUP (ORDER BY s) AS l FROM o GROUP BY c",
    "SELECT o.c, any_value(u.city) AS city, sum(amount) AS a FROM o JOIN u ON o.c = u.c GROUP BY o.c",
    "SELECT id, first(s) AS s FROM o GROUP BY id",
    "SELECT c, max_by(s, id) AS m, min(s) AS least FROM o GROUP BY c",
    "SELECT id FROM o QUALIFY row_number() OVER (PARTITION BY c ORDER BY day, id) = 1",
    "SELECT id FROM o QUALIFY rank() OVER (PARTITION BY c ORDER BY day) = 1",
    "SELECT id, lag(day) OVER (PARTITION BY c ORDER BY day) AS l FROM o",
    "SELECT id, sum(amount) OVER (PARTITION BY c ORDER BY day) AS l FROM o",
    "SELECT c, row_number() OVER (ORDER BY n, c) AS r FROM (SELECT c, count(*) AS n FROM o GROUP BY c)",
    "SELECT id, max(s) OVER (PARTITION BY c ORDER BY day ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS l FROM o",
)


@pytest.mark.parametrize("text", OPEN)
def test_an_order_that_is_left_open_is_said(text: str) -> None:
    (note,) = View(text).check(SCHEMAS, KEYS).notes
    assert note.startswith(OPEN[text])
    assert note.endswith(
        " in any order, so two computations of the same rows may differ. An order that decides, or sort_array of a list, "
        "settles that."
    )


@pytest.mark.parametrize("text", DECIDED)
def test_an_order_that_decides_is_not(text: str) -> None:
    assert View(text).check(SCHEMAS, KEYS).notes == ()


def test_without_a_declared_key_no_order_is_known_to_decide() -> None:
    (note,) = View(DECIDED[5]).check(SCHEMAS).notes
    assert "rows that are equal in c, day, id in any order" in note

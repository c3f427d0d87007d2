"""The edges of owned rows, computed in UTC: a later moment never gives an earlier edge."""

from datetime import UTC, date, datetime

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.owned import moment_of
from lakehouse.delta.text import literal
from lakehouse.views.sql.owned_text import owned_at, read_owned
from tests.support.raises import raises_code

EDGES = {
    "day >= :today": date(2026, 3, 31),
    "day >= date_sub(:today, 90)": date(2025, 12, 31),
    "day > :today - 7": date(2026, 3, 24),
    "day >= add_months(:today, -13)": date(2025, 2, 28),
    "day >= trunc(add_months(:today, -1), 'MONTH')": date(2026, 2, 1),
    "day >= trunc(:today, 'year') + 3": date(2026, 1, 4),
    "day >= (trunc(:today, 'MONTH'))": date(2026, 3, 1),
    "year >= year(:today) - 1": 2025,
    "at >= :now": datetime(2026, 3, 31, 1, 30, 59, tzinfo=UTC),
    "at > :now - INTERVAL 90 DAYS": datetime(2025, 12, 31, 1, 30, 59, tzinfo=UTC),
    "at > :now - INTERVAL 1 DAY - INTERVAL 30 MINUTES": datetime(2026, 3, 30, 1, 0, 59, tzinfo=UTC),
}
MOMENT = datetime(2026, 3, 31, 1, 30, 59, tzinfo=UTC)


def test_an_edge_is_what_its_text_says_of_the_moment_in_utc() -> None:
    for text, edge in EDGES.items():
        column, sign = text.split()[:2]
        assert "".join(read_owned("orders", text, MOMENT).pieces) == f"{column} {sign} {literal(edge)}", text


@given(st.integers(0, 4_000_000_000), st.integers(0, 40_000_000))
def test_a_later_moment_never_gives_an_earlier_edge(moment: int, later: int) -> None:
    for text in EDGES:
        before, after = ("".join(read_owned("", text, moment_of(at)).pieces) for at in (moment, moment + later))
        assert after >= before, (text, before, after)


def test_a_condition_keeps_its_letters_and_gets_a_prefix_before_its_columns_alone() -> None:
    text = "(`my day` >= :today OR region IN ('EU', 'day')) AND Year > 1 -- x"
    owned = owned_at("orders", text, MOMENT, None)
    assert owned.predicate("t.") == "(t.`my day` >= DATE'2026-03-31' OR t.region IN ('EU', 'day')) AND t.Year > 1"
    assert owned.columns == {"my day", "region", "year"}
    assert owned.follows_from(("MY DAY", "region", "year", "id")) and not owned.follows_from(("region", "year"))
    assert owned.texts == {"where": text, "moment": "2026-03-31T01:30:59+00:00"}
    thawed = owned_at("orders", text, MOMENT, "id = 5")
    assert thawed.predicate("t.").endswith(") OR (t.id = 5)") and not thawed.follows_from(owned.columns)
    assert thawed.texts == {**owned.texts, "thaw": "id = 5"}


REFUSED = {
    "NOT (day >= :today)": "take rows out",
    "day = :today": "take rows out",
    "day <= :today": "take rows out",
    "date_sub(:today, 3) <= day": "take rows out",
    "day BETWEEN :today AND '2030-01-01'": "take rows out",
    "coalesce(day >= :today, true)": "take rows out",
    "(day >= :today) = late": "take rows out",
    "CASE WHEN day >= :today THEN a ELSE b END": "take rows out",
    "date_sub(:today, 9) >= date_sub(:today, n)": "take rows out",
    "day >= date_sub(:today, n)": "an edge is",
    "day >= date_sub(:now, 1)": "an edge is",
    "at >= :now - INTERVAL 1 MONTH": "an edge is",
    "day >= :today - INTERVAL 3 HOURS": "an edge is",
    "day >= trunc(:today, 'WEEK')": "an edge is",
    "at >= date_trunc('HOUR', :now)": "an edge is",
    "at >= :now - 3": "an edge is",
    "day >= date_sub(:today)": "an edge is",
    "day >= last_day(:today)": "an edge is",
    "day >= :today - :today": "an edge is",
    "day >= date_sub(:today, 90000000000)": "an edge is",
    "day >= :yesterday": "a parameter without a value",
    "day >= current_date": "gives another value in each run",
    "rand() > 0.5": "gives another value in each run",
    "id IN (SELECT id FROM orders)": "a subquery",
    "sum(a) > 3": "the aggregate",
    "place.city = 'Rome'": "whole columns",
    "exists(items, x -> x > 0)": "whole columns",
    "day BETWEEN '2024-01-01' AND '2024-12-31'": "write >= and <=",
    "1 = 1": "names no column",
    "day >": "its grammar is not known",
}


def test_a_condition_is_refused_into_which_rows_could_come_back_or_that_is_not_of_one_row() -> None:
    for text, why in REFUSED.items():
        with raises_code("CONDITION", match=why.replace("(", r"\(")):
            read_owned("orders", text)

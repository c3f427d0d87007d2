"""The text of an expectation: a condition on the columns of one row, as far as the text says."""

from lakehouse.views.sql.conditions import why_no_condition
from tests.support.for_each import for_each

TAKEN = [
    "amount >= 0",
    "a > 0 -- a comment",
    "a IS NOT NULL AND b IN (1, 2) /* and */ OR NOT c",
    "a RLIKE '^[a-z]+$'",
    "exists(items, x -> x.price > 0)",
    "size(filter(items, x -> x > 1)) > 0",
    "`my column` BETWEEN 1 AND 2",
    "address.city <> ''",
    "try_cast(a AS INT) IS NOT NULL",
    "CASE WHEN a THEN b ELSE c END",
    "a <=> b",
    "is_paid",
]
REFUSED = {
    "sum(a) > 0": "it calls the aggregate sum()",
    "count(*) > 1": "it calls the aggregate count()",
    "any_value(a)": "it calls the aggregate any_value()",
    "row_number() OVER (ORDER BY a) = 1": "it has a window",
    "max(a) OVER (PARTITION BY b) > a": "it has a window",
    "a IN (SELECT b FROM c)": "it has a subquery",
    "EXISTS (SELECT 1 FROM c)": "it has a subquery",
    "explode(a)": "it calls explode(), which makes several rows of one",
    "rand() > 0.5": "gives another value in each run",
    "current_date > day": "gives another value in each run",
    "day < now()": "gives another value in each run",
    "day = 'today'": "Spark may take the text 'today' for a time on the day of the run",
    "uuid() = a": "gives another value in each run",
    "my_function(a)": "my_function() is in none of the lists",
    "a > 0 AS positive": "several expressions or a query",
    "a > 0, b > 0": "several expressions or a query",
    "SELECT 1": "several expressions or a query",
    "*": "it has a star",
    ":least < a": "it has a parameter",
    "a >": "its grammar is not known",
    "a > (b": "this bracket is not closed",
    "a) FROM x WHERE (b": "its grammar is not known",
    "a > 0) FROM x UNION SELECT (b": "several expressions or a query",
    "a > 0; DROP TABLE x": "several expressions or a query",
    "a > 'b": "' begins what has no end",
    "${a} > 0": "Spark would replace ${...} by the value of a setting",
}


@for_each("condition", TAKEN)
def test_a_condition_on_one_row_is_taken(condition: str) -> None:
    assert why_no_condition(condition) is None


@for_each("condition, why", REFUSED.items())
def test_another_text_is_refused_with_a_reason(condition: str, why: str) -> None:
    assert why in str(why_no_condition(condition))

"""The text of an expectation, and of a sum: an expression of the columns of one row, as far as the text says."""

from lakehouse.views.sql.conditions import why_not_of_the_row
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
    "v*2",
    "(v) * 2",
    "1.*v",
    "v * current_price",
    "user_id",
    "`user` + 1",
    "login.user",
    "unix_timestamp(at)",
    "IF(g = '.*(*select now()', 1, 0)",
    r"IF(g RLIKE 'order.*\\d+', 1, 0)",
    r"length(regexp_extract(g, '\\w+,*', 0))",
    r"IF(g = r'\', 1, 0) - (-1)",
    "CASE WHEN (a) AND NOT (b) OR c IN (1, 2) THEN (1) ELSE (2) END",
    "CAST(price AS DECIMAL(20, 2))",
    "CAST(code AS CHAR (4))",
    "date_trunc('day', at)",
    "extract(YEAR FROM at)",
    "aggregate(items, 0, (sum, item) -> sum + item.count)",
    "IF(exists(gs, g -> NOT is_valid_utf8(g)), 'a', 'b')",
    "named_struct('a', 1).a",
    "NOT (status <> 'void')",
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
    "xxhash64(*)": "it has a star",
    "struct(src.*)": "it has a star",
    "xxhash64(/* all */ *)": "it has a star",
    "(SELECT 1)": "several expressions or a query",
    "v * (TABLE t)": "several expressions or a query",
    "v * current_date()": "gives another value in each run",
    "id > unix_timestamp( )": "gives another value in each run",
    "monotonically_increasing_id()": "gives another value in each run",
    "input_file_name()": "gives another value in each run",
    "session_user": "gives another value in each run",
    "java_method('java.lang.System', 'nanoTime')": "gives another value in each run",
    "shuffle(items)": "gives another value in each run",
    "main.rates.of(v)": "of() is in none of the lists",
    "main . rates . abs (v)": "abs() is in none of the lists",
    "`abs`(v)": "`abs`() is in none of the lists",
    "CAST(day < TIMESTAMP '12:00' AS INT)": "for a time on the day of the run",
    "CAST(day < ' 7:05:00 UTC' AS INT)": "for a time on the day of the run",
    "CAST(day < ' Yesterday ' AS INT)": "for a time on the day of the run",
    'CAST(day < DATE"today" AS INT)': "for a time on the day of the run",
    "`it's` * datediff(current_date(), d) + `b's`": "gives another value in each run",
    """IF(g = "'", v * datediff(current_date(), d), 0) + IF(h = "'", 1, 0)""": "gives another value in each run",
}


@for_each("condition", TAKEN)
def test_an_expression_of_one_row_is_taken(condition: str) -> None:
    assert why_not_of_the_row(condition) is None


@for_each("condition, why", REFUSED.items())
def test_another_text_is_refused_with_a_reason(condition: str, why: str) -> None:
    assert why in str(why_not_of_the_row(condition))

"""The tables of a text that only Spark can parse: no column, and no common table expression, is taken for one."""

from lakehouse.views.query import names_in
from lakehouse.views.sql.look import look_through
from tests.support.for_each import for_each

TEXTS = {
    "FROM o |> WHERE x > 1 |> JOIN c USING (id) |> UNION ALL (TABLE n)": "o c n",
    "FROM o |> DROP a, b |> SET c = 1, d = 2 |> EXTEND e AS f, g AS h |> AGGREGATE max(i) AS j GROUP BY k, l": "o",
    "FROM o LATERAL VIEW explode(x) t AS p, q |> SELECT p": "o",
    "FROM o, LATERAL explode(x) AS t(p, q), c |> SELECT p": "o c",
    "FROM a JOIN b ON a.x = b.x, c |> SELECT 1": "a b c",
    "FROM a JOIN b USING (x), c LEFT JOIN d |> SELECT e, f": "a b c d",
    "SELECT j:a, b FROM v WHERE extract(day FROM d) > 1 AND x IS DISTINCT FROM y GROUP BY e, f WITH ROLLUP": "v",
    "WITH t(a, b) AS (SELECT x, y FROM o) FROM t |> SELECT a": "o",
    "WITH t(map, b) AS (SELECT x, y FROM o) FROM t |> SELECT b": "o",
    "WITH t AS (SELECT x FROM o), u (SELECT x FROM t, c) FROM u |> SELECT x": "o c",
    "WITH o AS (SELECT x FROM o) FROM o |> SELECT x": "o",
    "FROM (WITH o AS (SELECT x FROM c) FROM o |> SELECT x) AS t JOIN o ON t.x = o.x |> SELECT 1": "c o",
    "WITH t AS (SELECT 1), `T` AS (SELECT * FROM t) FROM t |> JOIN db.t |> SELECT 1": "db.t",
    "WITH t AS (SELECT x FROM o) (SELECT x FROM t) UNION ALL FROM t |> SELECT x": "o",
    "WITH RECURSIVE r(n) MAX RECURSION LEVEL 9 AS (SELECT x FROM o UNION ALL SELECT n FROM r, c) FROM r |> SELECT n": "o c",
    "WITH r AS (SELECT x FROM o UNION ALL SELECT x FROM r) FROM r |> SELECT x": "o r",
}
RECURSIVE = "WITH RECURSIVE r(n) AS (SELECT id FROM o UNION ALL SELECT n + 1 FROM r JOIN c ON n = id), s AS (TABLE r) SELECT n FROM s"


@for_each("text", TEXTS)
def test_the_tables_are_those_that_spark_reads(text: str):
    assert look_through(text).parsed is None
    assert names_in(text) == tuple(TEXTS[text].split())


def test_a_recursive_expression_is_no_table_within_its_own_query():
    text = RECURSIVE.replace("TABLE r", "SELECT n FROM r")
    assert look_through(text).parsed is not None
    assert names_in(text) == ("o", "c")

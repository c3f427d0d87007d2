"""Every refusal has a stable code, the place in the text, and a way out."""

import re
from pathlib import Path

import pytest

from lakehouse.errors import DefinitionError
from lakehouse.errors.views import TextPlace, ViewError
from lakehouse.views import query
from lakehouse.views.query import names_in, read
from tests.support.for_each import for_each

SCHEMAS = {
    "o": {"id": "int", "cust": "int", "day": "date", "st": "string", "arr": "array<int>", "info": "struct<a:int>"},
    "c": {"id": "int", "seg": "string"},
}

BY_THE_TEXT = [
    # (the text, the code, the words at its place)
    ("SELECT id FROM o ORDER BY id LIMIT 3", "VIEW_LIMIT", "LIMIT 3"),
    ("SELECT id FROM o LIMIT 3 OFFSET 2", "VIEW_LIMIT", "LIMIT 3"),
    ("SELECT id FROM o OFFSET 2", "VIEW_LIMIT", "OFFSET 2"),
    ("SELECT id FROM o WHERE id IN (SELECT id FROM c LIMIT 1)", "VIEW_LIMIT", "LIMIT 1"),
    ("SELECT id FROM o TABLESAMPLE (10 PERCENT)", "VIEW_TABLESAMPLE", "TABLESAMPLE (10"),
    ("SELECT id FROM o VERSION AS OF 3", "VIEW_VERSION", "3"),
    ("SELECT id FROM o TIMESTAMP AS OF '2020-01-01'", "VIEW_VERSION", "'2020-01-01'"),
    ("SELECT * FROM o PIVOT (sum(id) FOR st IN ('x', 'y'))", "VIEW_PIVOT", "PIVOT (sum(id) FOR st IN ('x', 'y'))"),
    ("SELECT * FROM o UNPIVOT (v FOR n IN (id, cust))", "VIEW_PIVOT", "v FOR n IN (id, cust)"),
    ("SELECT a FROM VALUES (1) AS t(a)", "VIEW_VALUES", "VALUES (1) AS t(a)"),
    ("SELECT id FROM range(3)", "VIEW_TABLE_FUNCTION", "range(3)"),
    ("SELECT id FROM stream(o)", "VIEW_UNKNOWN_FUNCTION", "stream"),
    ("SELECT id FROM identifier('o')", "VIEW_UNKNOWN_FUNCTION", "identifier"),
    (
        "WITH RECURSIVE t AS (SELECT id FROM o) SELECT id FROM t",
        "VIEW_RECURSIVE",
        "WITH RECURSIVE t AS (SELECT id FROM o)",
    ),
    ("WITH t AS (SELECT id FROM o) SELECT id FROM c", "VIEW_UNUSED_CTE", "t"),
    ("SELECT o.id FROM o, LATERAL (SELECT seg FROM c) t", "VIEW_LATERAL", "LATERAL (SELECT seg FROM c) t"),
    ("SELECT id FROM o WHERE id > ALL (SELECT id FROM c)", "VIEW_ANY_ALL", "ALL"),
    ("SELECT id FROM o WHERE st LIKE ANY ('x', 'y')", "VIEW_ANY_ALL", "ANY"),
    ("SELECT id, all(id > 1) AS a FROM o", "VIEW_ANY_ALL", "all"),
    ("SELECT DISTINCT ON (st) id FROM o", "VIEW_DISTINCT_ON", "DISTINCT ON (st)"),
    ("SELECT st, count(*) AS n FROM o GROUP BY ALL", "VIEW_GROUP_BY_ALL", "GROUP"),
    ("SELECT st, count(*) AS n FROM o GROUP BY ROLLUP (st)", "VIEW_GROUPING_SETS", "GROUP BY ROLLUP (st)"),
    ("SELECT st, count(*) AS n FROM o GROUP BY st WITH CUBE", "VIEW_GROUPING_SETS", "GROUP BY st"),
    (
        "SELECT st, count(*) AS n FROM o GROUP BY GROUPING SETS ((st), ())",
        "VIEW_GROUPING_SETS",
        "GROUP BY GROUPING SETS ((st)",
    ),
    ("SELECT count(*) AS n FROM o GROUP BY ()", "VIEW_GROUPING_SETS", "GROUP"),
    ("SELECT count(*) AS n FROM o GROUP BY (st, id)", "VIEW_GROUPING_SETS", "GROUP BY (st, id)"),
    ("SELECT id, rank() OVER (ORDER BY id) AS r FROM o", "VIEW_WINDOW_WITHOUT_PARTITION", "rank() OVER (ORDER BY id)"),
    (
        "SELECT sum(id) OVER w AS s FROM o WINDOW w AS (ORDER BY id)",
        "VIEW_WINDOW_WITHOUT_PARTITION",
        "w AS (ORDER BY id)",
    ),
    (
        "SELECT sum(id) OVER (PARTITION BY 1) AS s FROM o",
        "VIEW_WINDOW_WITHOUT_PARTITION",
        "sum(id) OVER (PARTITION BY 1)",
    ),
    ("SELECT row_number() AS r FROM o", "VIEW_WINDOW_WITHOUT_PARTITION", "row_number"),
    ("SELECT sum(id) OVER v AS s FROM o WINDOW w AS (PARTITION BY st)", "VIEW_UNKNOWN_WINDOW", "v"),
    ("SELECT id FROM o WHERE id = cust < id", "VIEW_COMPARISON", "id = cust < id"),
    ("SELECT id FROM o WHERE id = cust IN (1)", "VIEW_COMPARISON", "id = cust IN (1)"),
    ("SELECT id FROM o WHERE id = cust NOT LIKE st", "VIEW_COMPARISON", "id = cust NOT LIKE st"),
    ("SELECT id FROM o WHERE id <=> cust < id", "VIEW_COMPARISON", "id <=> cust < id"),
    ("SELECT rand() AS r FROM o", "VIEW_NOT_DETERMINISTIC", "rand"),
    ("SELECT id FROM o WHERE day < current_date", "VIEW_NOT_DETERMINISTIC", "current_date"),
    ("SELECT id FROM o WHERE day < now()", "VIEW_NOT_DETERMINISTIC", "now"),
    ("SELECT unix_timestamp() AS u FROM o", "VIEW_NOT_DETERMINISTIC", "unix_timestamp"),
    ("SELECT monotonically_increasing_id() AS u FROM o", "VIEW_NOT_DETERMINISTIC", "monotonically_increasing_id"),
    ("SELECT id FROM o WHERE day = 'today'", "VIEW_NOT_DETERMINISTIC", "'today'"),
    ("SELECT id FROM o WHERE day > '12:00'", "VIEW_NOT_DETERMINISTIC", "'12:00'"),
    ("SELECT id, TIMESTAMP '7:05:00 UTC' AS t FROM o", "VIEW_NOT_DETERMINISTIC", "'7:05:00 UTC'"),
    ("SELECT id, to_timestamp('T08:15+01:00') AS t FROM o", "VIEW_NOT_DETERMINISTIC", "'T08:15+01:00'"),
    ("SELECT my_udf(id) AS x FROM o", "VIEW_UNKNOWN_FUNCTION", "my_udf"),
    ("SELECT db.sum(id) AS x FROM o", "VIEW_UNKNOWN_FUNCTION", "sum"),
    ("SELECT `sum`(id) AS x FROM o", "VIEW_UNKNOWN_FUNCTION", "`sum`"),
    ("SELECT transform(id, st) USING 'cat' FROM o", "VIEW_OPERATOR", "transform(id, st) USING 'cat'"),
    ("SELECT id FROM o WHERE id = ?", "VIEW_PARAMETER", "?"),
    ("SELECT info:a FROM o", "VIEW_VARIANT_PATH", "info:"),
    ("SELECT id FROM ${db}.o", "VIEW_VARIABLE", "${db}"),
    ("SELECT id FROM o |> WHERE id > 1", "VIEW_OPERATOR", "|>"),
    ("SELECT id FROM o UNION ALL BY NAME SELECT id FROM c", "VIEW_OPERATOR", "UNION ALL BY NAME SELECT id FROM c"),
    ("SELECT id FROM o FOR UPDATE", "VIEW_OPERATOR", "id FROM o"),
    ("SELECT id FROM o ORDER BY (SELECT max(id) FROM c)", "VIEW_SUBQUERY", "max(id) FROM c"),
    ("SELECT id FROM o; SELECT id FROM c", "VIEW_NOT_A_QUERY", "; SELECT id FROM c"),
    ("DELETE FROM o", "VIEW_NOT_A_QUERY", "DELETE FROM o"),
    ("", "VIEW_NOT_A_QUERY", ""),
    ("SELECT id FROM o WHERE (id > 1", "VIEW_SYNTAX", "1"),
    ("SELECT 'id FROM o", "VIEW_SYNTAX", "o"),
    ("SELECT id, FROM o", "VIEW_SYNTAX", ", FROM"),
    ("SELECT , id FROM o", "VIEW_SYNTAX", ", id"),
    ("SELECT id,, cust FROM o", "VIEW_SYNTAX", ",,"),
    ("SELECT coalesce(id,) AS x FROM o", "VIEW_SYNTAX", ",)"),
    ("SELECT id, count(*) AS n FROM o GROUP BY id, HAVING count(*) > 1", "VIEW_SYNTAX", ", HAVING"),
    ("SELECT id FROM o,", "VIEW_SYNTAX", ","),
]

BY_THE_COLUMNS = [
    ("SELECT id FROM nobody", "VIEW_UNKNOWN_TABLE", "nobody"),
    ("SELECT o.nosuch FROM o", "VIEW_UNKNOWN_COLUMN", "o.nosuch"),
    ("SELECT id.a FROM o", "VIEW_UNKNOWN_COLUMN", "id.a"),
    ("SELECT x.* FROM o", "VIEW_UNKNOWN_COLUMN", "x.*"),
    ("SELECT * EXCEPT (nosuch) FROM o", "VIEW_UNKNOWN_COLUMN", "nosuch"),
    ("SELECT count(*) AS n FROM o GROUP BY 2", "VIEW_UNKNOWN_COLUMN", "2"),
    ("SELECT o.st FROM o JOIN c USING (cust)", "VIEW_UNKNOWN_COLUMN", "cust"),
    ("SELECT id FROM o, c", "VIEW_AMBIGUOUS_COLUMN", "id"),
    (
        "SELECT o.id, c.id FROM o JOIN c ON o.cust = c.id",
        "VIEW_DUPLICATE_COLUMN",
        "SELECT o.id, c.id FROM o JOIN c ON o.cust = c.id",
    ),
    ("SELECT id, sum(cust) AS s FROM o", "VIEW_NOT_GROUPED", "id"),
    ("SELECT st FROM o GROUP BY st HAVING id > 1", "VIEW_NOT_GROUPED", "id"),
    ("SELECT count(o.*) AS n FROM o", "VIEW_STAR", "o.*"),
    ("SELECT id, info.* FROM o", "VIEW_STAR", "info.*"),
    ("SELECT o.info.* FROM o", "VIEW_STAR", "o.info.*"),
    ("SELECT a.id FROM o AS a(id, b, c, d, e, f)", "VIEW_COLUMN_ALIASES", "o AS a(id, b, c, d, e, f)"),
    ("SELECT id FROM (SELECT id, st FROM o) AS t(id)", "VIEW_COLUMN_ALIASES", "t(id)"),
    ("SELECT 1 AS one", "VIEW_VALUES", "SELECT 1 AS one"),
    ("SELECT id FROM o UNION ALL SELECT id, seg FROM c", "VIEW_SET_OPERATION", "id, seg FROM c"),
    ("SELECT o.id FROM o, c RIGHT JOIN c AS d ON c.id = d.id", "VIEW_JOIN", "c AS d ON c.id = d.id"),
    (
        "SELECT o.id FROM o JOIN c ON o.id = c.id AND EXISTS (SELECT 1 FROM c)",
        "VIEW_SUBQUERY",
        "c ON o.id = c.id AND EXISTS (SELECT 1 FROM c)",
    ),
    (
        "SELECT id FROM o WHERE EXISTS (SELECT count(*) FROM c WHERE c.id = o.id)",
        "VIEW_SUBQUERY",
        "EXISTS (SELECT count(*) FROM c WHERE c.id = o.id)",
    ),
    (
        "SELECT st, count(*) AS n FROM o GROUP BY st HAVING st IN (SELECT seg FROM c)",
        "VIEW_SUBQUERY",
        "st IN (SELECT seg FROM c)",
    ),
    (
        "SELECT st, st IN (SELECT seg FROM c) AS b, count(*) AS n FROM o GROUP BY st",
        "VIEW_SUBQUERY",
        "SELECT st, st IN (SELECT seg FROM c) AS b, count(*) AS n ...",
    ),
    ("SELECT id FROM o WHERE (id, st) IN (SELECT id FROM c)", "VIEW_SUBQUERY", "(id, st) IN (SELECT id FROM c)"),
    (
        "SELECT id FROM o WHERE id > (SELECT id FROM c UNION ALL SELECT 1 FROM c)",
        "VIEW_SUBQUERY",
        "id FROM c UNION ALL SELECT 1 FROM c",
    ),
    ("SELECT id FROM o WHERE id > (SELECT max(id) FROM c WHERE c.id < o.cust)", "VIEW_CORRELATION", "c.id < o.cust"),
    (
        "SELECT id FROM o WHERE id > (SELECT count(id) FROM c WHERE c.id = o.cust HAVING count(*) > 1)",
        "VIEW_CORRELATION",
        "count(id) FROM c WHERE c.id = o.cust HAVING count(*) > 1",
    ),
    (
        "SELECT id FROM o WHERE st IN (SELECT collect_list(seg) FROM c WHERE c.id = o.id)",
        "VIEW_CORRELATION",
        "collect_list(seg)",
    ),
    (
        "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM c WHERE EXISTS (SELECT 1 FROM c AS d WHERE d.id = o.id AND d.seg = c.seg))",
        "VIEW_CORRELATION",
        "o.id",
    ),
    (
        "SELECT id FROM o WHERE EXISTS (SELECT id FROM c WHERE c.seg = o.st UNION ALL SELECT id FROM c)",
        "VIEW_CORRELATION",
        "id FROM c WHERE c.seg = o.st UNION ALL SELECT id FROM c",
    ),
    (
        "SELECT id FROM o WHERE id IN (SELECT sum(id) OVER (PARTITION BY seg) FROM c WHERE c.seg = o.st)",
        "VIEW_CORRELATION",
        "sum(id) OVER (PARTITION BY seg) FROM c WHERE c.seg = o.st",
    ),
    ("SELECT transform(arr, ID -> id + 1) AS t FROM o", "VIEW_LAMBDA", "id"),
    ("SELECT id, explode(arr) FROM o", "VIEW_GENERATOR", "explode(arr)"),
    ("SELECT id + explode(arr) AS x FROM o", "VIEW_GENERATOR", "explode(arr)"),
    ("SELECT id FROM o LATERAL VIEW explode(arr) t", "VIEW_GENERATOR", "explode(arr)"),
    ("SELECT id FROM o LATERAL VIEW abs(id) t AS x", "VIEW_GENERATOR", "abs(id)"),
    (
        "SELECT explode(arr) AS x, count(*) AS n FROM o GROUP BY arr",
        "VIEW_GENERATOR",
        "SELECT explode(arr) AS x, count(*) AS n FROM o GROUP BY arr",
    ),
    ("SELECT id FROM o WHERE id = :low", "VIEW_PARAMETER", ":low"),
]


@for_each("text, code, words", BY_THE_TEXT)
def test_the_text_alone_refuses(text: str, code: str, words: str):
    for asks in (names_in, lambda text: read(text, SCHEMAS)):
        with pytest.raises(ViewError) as refused:
            asks(text)
        expect(refused.value, text, code, words)


@for_each("text, code, words", BY_THE_COLUMNS)
def test_the_columns_of_the_tables_refuse(text: str, code: str, words: str):
    names_in(text)
    with pytest.raises(ViewError) as refused:
        read(text, SCHEMAS)
    expect(refused.value, text, code, words)


def expect(error: ViewError, text: str, code: str, words: str):
    assert (error.code, error.place and error.place.words) == (code, words)
    assert error.place is not None
    assert text[error.place.column - 1 :].startswith(words.removesuffix(" ..."))
    assert isinstance(error, DefinitionError)
    assert str(error) == f"{error.what.rstrip('.')} ({error.place}). {error.remedy}"
    assert error.remedy.endswith(".")


def test_a_place_has_the_line_and_the_column():
    with pytest.raises(ViewError, match=r"\(line 3, column 9: rand\)") as refused:
        names_in("SELECT id\nFROM o -- where\n  WHERE rand() > 0.5")
    assert refused.value.place == TextPlace(3, 9, "rand")


def test_what_the_words_of_a_file_refuse_is_refused_of_a_text_that_is_made_in_the_run():
    """To Spark the next line would belong to the comment, so it would run another query than the one that is planned."""
    text = "SELECT id -- all of them \\\n, cust FROM o"
    for asks in (names_in, lambda text: read(text, SCHEMAS)):
        with pytest.raises(ViewError, match="ends with a backslash") as refused:
            asks(text)
        assert refused.value.code == "VIEW_SYNTAX"
        assert refused.value.place == TextPlace(1, 11, "-- all of them \\")


def test_a_value_that_no_parameter_takes_is_refused():
    with pytest.raises(ViewError, match="no parameter :high") as refused:
        read("SELECT id FROM o WHERE id = :low", SCHEMAS, ["low", "high"])
    assert (refused.value.code, refused.value.place) == ("VIEW_PARAMETER", None)


def test_a_whole_name_of_a_table_qualifies_no_column():
    """The rows of the table stand in a subquery in its place, which has an alias of one part."""
    with pytest.raises(ViewError, match=r"Give the table an alias, or write c\.id") as refused:
        read("SELECT a.c.id FROM a.c", {"a.c": SCHEMAS["c"]})
    assert refused.value.code == "VIEW_QUALIFIED_COLUMN"


def test_each_code_of_the_reading_is_refused_above():
    room = Path(query.__file__).parent
    files = [room / "query.py", *(room / "sql").glob("*.py")]
    codes = {code for file in files for code in re.findall(r"VIEW_[A-Z_]+", file.read_text())}
    refused = {code for _, code, _ in (*BY_THE_TEXT, *BY_THE_COLUMNS)} | {"VIEW_QUALIFIED_COLUMN"}
    assert codes - refused == {"VIEW_UNUSED_TABLE"}  # a table that the reading would have passed over

"""Every refusal has a stable code, the place in the text, and a way out."""

import re
from pathlib import Path

import pytest

from lakehouse.errors import DefinitionError
from lakehouse.errors.views import TextPlace, ViewError
from lakehouse.views.analysis import Whole
from lakehouse.views.query import names_in, read
from lakehouse.views.view_text import NotFollowedError
from lakehouse.writes.view import View
from tests.support.for_each import for_each

SCHEMAS = {
    "o": {"id": "int", "cust": "int", "day": "date", "st": "string", "arr": "array<int>", "info": "struct<a:int>"},
    "c": {"id": "int", "seg": "string"},
}

BY_THE_TEXT = [
    # (the text, the code, the words at its place)
    ("SELECT id FROM o LIMIT 3 OFFSET 2", "VIEW_NOT_DETERMINISTIC", "LIMIT 3"),
    ("SELECT id FROM o OFFSET 2", "VIEW_NOT_DETERMINISTIC", "OFFSET 2"),
    ("SELECT id FROM o WHERE id IN (SELECT id FROM c LIMIT 1)", "VIEW_NOT_DETERMINISTIC", "LIMIT 1"),
    ("SELECT id FROM o TABLESAMPLE (10 PERCENT)", "VIEW_NOT_DETERMINISTIC", "TABLESAMPLE"),
    ("SELECT id FROM o VERSION AS OF 3", "VIEW_UNKNOWN_TABLE", "VERSION"),
    ("SELECT id FROM o TIMESTAMP AS OF '2020-01-01'", "VIEW_UNKNOWN_TABLE", "TIMESTAMP"),
    ("SELECT id FROM identifier('o')", "VIEW_UNKNOWN_TABLE", "identifier"),
    ("SELECT rand() AS r FROM o", "VIEW_NOT_DETERMINISTIC", "rand"),
    ("SELECT id FROM o WHERE day < current_date", "VIEW_NOT_DETERMINISTIC", "current_date"),
    ("SELECT id FROM o WHERE day < now()", "VIEW_NOT_DETERMINISTIC", "now"),
    ("SELECT unix_timestamp() AS u FROM o", "VIEW_NOT_DETERMINISTIC", "unix_timestamp"),
    ("SELECT monotonically_increasing_id() AS u FROM o", "VIEW_NOT_DETERMINISTIC", "monotonically_increasing_id"),
    ("SELECT id FROM o WHERE day = 'today'", "VIEW_NOT_DETERMINISTIC", "'today'"),
    ("SELECT id FROM o WHERE day > '12:00'", "VIEW_NOT_DETERMINISTIC", "'12:00'"),
    ("SELECT id, TIMESTAMP '7:05:00 UTC' AS t FROM o", "VIEW_NOT_DETERMINISTIC", "'7:05:00 UTC'"),
    ("SELECT id, to_timestamp('T08:15+01:00') AS t FROM o", "VIEW_NOT_DETERMINISTIC", "'T08:15+01:00'"),
    ("SELECT id FROM o WHERE id = ?", "VIEW_PARAMETER", "?"),
    ("SELECT id FROM ${db}.o", "VIEW_TEMPLATE", "${db}.o"),
    ("SELECT id FROM o; SELECT id FROM c", "VIEW_STATEMENT", "; SELECT id FROM c"),
    ("DELETE FROM o", "VIEW_STATEMENT", "DELETE FROM o"),
    ("", "VIEW_STATEMENT", ""),
    ("SELECT id FROM o WHERE (id > 1", "VIEW_SYNTAX", "("),
    ("SELECT 'id FROM o", "VIEW_SYNTAX", "'id FROM o"),
    ("SELECT id, FROM o", "VIEW_SYNTAX", ", FROM"),
    ("SELECT , id FROM o", "VIEW_SYNTAX", ", id"),
    ("SELECT id,, cust FROM o", "VIEW_SYNTAX", ",,"),
    ("SELECT coalesce(id,) AS x FROM o", "VIEW_SYNTAX", ",)"),
    ("SELECT id, count(*) AS n FROM o GROUP BY id, HAVING count(*) > 1", "VIEW_SYNTAX", ", HAVING"),
    ("SELECT id FROM o,", "VIEW_SYNTAX", ","),
]

INSTEAD = {
    "named parameter": ("now()", "unix_timestamp()", "current_user()", "version()"),
    "column of a source": ("current_date()", "input_file_name()", "reflect('a', 'b')"),
    "xxhash64": ("uuid()", "rand(7)", "monotonically_increasing_id()"),
}
"""Calls with another value in each run, by words of the remedy."""
BY_THE_COLUMNS = [
    ("SELECT id FROM nobody", "VIEW_UNKNOWN_TABLE", "nobody"),
    ("SELECT o.nosuch FROM o", "VIEW_UNKNOWN_COLUMN", "o.nosuch"),
    ("SELECT id.a FROM o", "VIEW_UNKNOWN_COLUMN", "id.a"),
    ("SELECT x.* FROM o", "VIEW_UNKNOWN_COLUMN", "x.*"),
    ("SELECT * EXCEPT (nosuch) FROM o", "VIEW_UNKNOWN_COLUMN", "nosuch"),
    ("SELECT count(*) AS n FROM o GROUP BY 2", "VIEW_UNKNOWN_COLUMN", "2"),
    ("SELECT o.st FROM o JOIN c USING (cust)", "VIEW_UNKNOWN_COLUMN", "cust"),
    ("SELECT id FROM o, c", "VIEW_UNKNOWN_COLUMN", "id"),
    (
        "SELECT o.id, c.id FROM o JOIN c ON o.cust = c.id",
        "VIEW_UNKNOWN_COLUMN",
        "SELECT o.id, c.id FROM o JOIN c ON o.cust = c.id",
    ),
    ("SELECT id, sum(cust) AS s FROM o", "VIEW_UNKNOWN_COLUMN", "id"),
    ("SELECT st FROM o GROUP BY st HAVING id > 1", "VIEW_UNKNOWN_COLUMN", "id"),
    ("SELECT id FROM (SELECT id, st FROM o) AS t(id)", "VIEW_UNKNOWN_COLUMN", "t(id)"),
    ("SELECT id FROM o UNION ALL SELECT id, seg FROM c", "VIEW_UNKNOWN_COLUMN", "id, seg FROM c"),
    ("SELECT id FROM o WHERE id = :low", "VIEW_PARAMETER", ":low"),
]

WHOLE = [
    # (the text, the words at the place of the reason)
    ("SELECT id FROM o ORDER BY id LIMIT 3 OFFSET 1", "LIMIT 3"),
    ("SELECT id FROM o LIMIT 0", "LIMIT 0"),
    ("SELECT * FROM o PIVOT (sum(id), max(id) FOR st IN ('x', 'y'))", "PIVOT (sum(id), max(id) FOR st IN ('x', 'y'))"),
    ("SELECT a FROM VALUES (1), (2, 3) AS t(a)", "VALUES (1), (2, 3) AS t(a)"),
    ("SELECT id FROM range(3)", "range(3)"),
    ("SELECT id FROM stream(o)", "stream(o)"),
    ("WITH RECURSIVE t AS (SELECT id FROM o) SELECT id FROM t", "t AS (SELECT id FROM o)"),
    ("WITH t AS (SELECT id FROM o) SELECT id FROM c", "o"),
    (
        "SELECT c.id, v.y FROM c, LATERAL (SELECT c.seg || 'x' AS y WHERE c.id > 1) v",
        "c.id, v.y FROM c, LATERAL (SELECT c.seg || 'x' AS y WHER ...",
    ),
    (
        "SELECT c.id, t.q FROM c LEFT JOIN LATERAL (SELECT c.seg AS q FROM o WHERE o.cust = c.id) t ON true",
        "c.seg AS q FROM o WHERE o.cust = c.id) t",
    ),
    (
        "SELECT id FROM c WHERE id IN (SELECT c.id FROM o WHERE o.cust = c.id)",
        "id IN (SELECT c.id FROM o WHERE o.cust = c.id)",
    ),
    (
        "SELECT c.id, t.m FROM c, LATERAL (SELECT max(m) AS m FROM (SELECT day AS m FROM o WHERE cust = c.id)) t",
        "day AS m FROM o WHERE cust = c.id",
    ),
    ("SELECT c.id, t.day FROM c, LATERAL (SELECT c.*, o.day FROM o WHERE o.cust = c.id) t", "c.*"),
    ("SELECT c.id FROM c, LATERAL (SELECT st FROM o WHERE cust = c.id GROUP BY st HAVING sum(day) > c.id) t", "c.id"),
    ("SELECT o.id FROM o LEFT JOIN LATERAL (SELECT seg FROM c) t ON t.seg = 'a'", "LATERAL (SELECT seg FROM c) t"),
    ("SELECT id FROM o WHERE id > ALL (SELECT id FROM c)", "ALL (SELECT id FROM c)"),
    ("SELECT id FROM o WHERE st LIKE ANY ('x', 'y')", "ANY ('x', 'y')"),
    ("SELECT id, all(id > 1) AS a FROM o", "all"),
    ("SELECT DISTINCT ON (st) id FROM o", "st"),
    ("SELECT st, grouping(st) AS n FROM o GROUP BY st", "grouping(st)"),
    ("SELECT st, rank() OVER (PARTITION BY st ORDER BY st) AS n FROM o GROUP BY ALL", "GROUP"),
    ("SELECT st, count(*) AS n FROM o GROUP BY st WITH CUBE", "st"),
    ("SELECT count(*) AS n FROM o GROUP BY ()", "GROUP"),
    ("SELECT count(*) AS n FROM o GROUP BY (st, id)", "GROUP BY (st, id)"),
    ("SELECT id, rank() OVER (ORDER BY id) AS r FROM o", "rank() OVER (ORDER BY id)"),
    ("SELECT sum(id) OVER (PARTITION BY 1) AS s FROM o", "sum(id) OVER (PARTITION BY 1)"),
    ("SELECT id FROM o WHERE id = cust < id", "id = cust < id"),
    ("SELECT id FROM o WHERE id = cust IN (1)", "id = cust IN (1)"),
    ("SELECT id FROM o WHERE id = cust NOT LIKE st", "id = cust NOT LIKE st"),
    ("SELECT id FROM o WHERE id <=> cust < id", "id <=> cust < id"),
    ("SELECT my_udf(id) AS x FROM o", "my_udf"),
    ("SELECT db.sum(id) AS x FROM o", "sum"),
    ("SELECT `sum`(id) AS x FROM o", "`sum`"),
    ("SELECT transform(id, st) USING 'cat' FROM o", "transform(id, st) USING 'cat'"),
    ("SELECT info:a FROM o", "info:"),
    ("SELECT id FROM o |> WHERE id > 1", "|>"),
    ("SELECT id FROM o UNION ALL BY NAME SELECT id FROM c", "id FROM c"),
    ("SELECT id FROM o FOR UPDATE", "id FROM o"),
    ("SELECT id FROM o ORDER BY (SELECT max(id) FROM c)", "c"),
    ("SELECT count(o.*) AS n FROM o", "o.*"),
    ("SELECT id, info.* FROM o", "info.*"),
    ("SELECT o.info.* FROM o", "o.info.*"),
    ("SELECT a.id FROM o AS a(id, b, c, d, e, f)", "o AS a(id, b, c, d, e, f)"),
    ("SELECT *", "SELECT *"),
    ("SELECT o.id FROM o, c RIGHT JOIN c AS d ON c.id = d.id", "c AS d ON c.id = d.id"),
    (
        "SELECT o.id FROM o JOIN c ON o.id = c.id AND EXISTS (SELECT 1 FROM c)",
        "c ON o.id = c.id AND EXISTS (SELECT 1 FROM c)",
    ),
    (
        "SELECT id FROM o WHERE EXISTS (SELECT count(*) FROM c WHERE c.id = o.id)",
        "EXISTS (SELECT count(*) FROM c WHERE c.id = o.id)",
    ),
    ("SELECT st, count(*) AS n FROM o GROUP BY st HAVING st IN (SELECT seg FROM c)", "st IN (SELECT seg FROM c)"),
    (
        "SELECT st, st IN (SELECT seg FROM c) AS b, count(*) AS n FROM o GROUP BY st",
        "SELECT st, st IN (SELECT seg FROM c) AS b, count(*) AS n ...",
    ),
    ("SELECT id FROM o WHERE (id, st) IN (SELECT id FROM c)", "(id, st) IN (SELECT id FROM c)"),
    ("SELECT id FROM o WHERE id > (SELECT id FROM c UNION ALL SELECT 1 FROM c)", "id FROM c UNION ALL SELECT 1 FROM c"),
    ("SELECT id FROM o WHERE id > (SELECT max(id) FROM c WHERE c.id < o.cust)", "c.id < o.cust"),
    (
        "SELECT id FROM o WHERE id > (SELECT count(id) FROM c WHERE c.id = o.cust HAVING count(*) > 1)",
        "count(id) FROM c WHERE c.id = o.cust HAVING count(*) > 1",
    ),
    ("SELECT id FROM o WHERE st IN (SELECT collect_list(seg) FROM c WHERE c.id = o.id)", "collect_list(seg)"),
    (
        "SELECT id FROM o WHERE EXISTS (SELECT 1 FROM c WHERE EXISTS (SELECT 1 FROM c AS d WHERE d.id = o.id AND d.seg = c.seg))",
        "o.id",
    ),
    (
        "SELECT id FROM o WHERE EXISTS (SELECT id FROM c WHERE c.seg = o.st UNION ALL SELECT id FROM c)",
        "id FROM c WHERE c.seg = o.st UNION ALL SELECT id FROM c",
    ),
    (
        "SELECT id FROM o WHERE id IN (SELECT sum(id) OVER (PARTITION BY seg) FROM c WHERE c.seg = o.st)",
        "sum(id) OVER (PARTITION BY seg) FROM c WHERE c.seg = o.st",
    ),
    ("SELECT transform(arr, ID -> id + 1) AS t FROM o", "id"),
    ("SELECT id, explode(arr) FROM o", "explode(arr)"),
    ("SELECT id + explode(arr) AS x FROM o", "explode(arr)"),
    ("SELECT id FROM o LATERAL VIEW explode(arr) t", "explode(arr)"),
    ("SELECT id FROM o LATERAL VIEW abs(id) t AS x", "abs(id)"),
    (
        "SELECT explode(arr) AS x, count(*) AS n FROM o GROUP BY arr",
        "SELECT explode(arr) AS x, count(*) AS n FROM o GROUP BY arr",
    ),
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


@for_each("text, words", WHOLE)
def test_what_no_keys_follow_is_accepted_and_says_where(text: str, words: str | None):
    verdict = View(text).check(SCHEMAS).verdict
    assert isinstance(verdict, Whole)
    assert (verdict.place and verdict.place.words) == words


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
    """To Spark the next line would be part of the comment, so it would run a query other than the planned one."""
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
    """The table's rows are in a subquery that takes its place, and the alias of that subquery has one part."""
    with pytest.raises(NotFollowedError, match="whole name"):
        read("SELECT a.c.id FROM a.c", {"a.c": SCHEMAS["c"]})


ROOT = Path(__file__).parents[2]


def test_the_page_on_views_has_each_code():
    source = "".join(path.read_text() for path in (ROOT / "lakehouse").rglob("*.py"))
    codes = set(re.findall(r'"(VIEW_[A-Z_]+)"', source))
    page = (ROOT / "docs/reference/queries.md").read_text()
    assert set(re.findall(r"^\| `(VIEW_[A-Z_]+)` \|", page, re.MULTILINE)) == codes


@for_each("call, words", [(call, words) for words, calls in INSTEAD.items() for call in calls])
def test_what_has_another_value_in_each_run_is_answered_with_what_fits_it(call: str, words: str):
    with pytest.raises(ViewError) as refused:
        names_in(f"SELECT id, {call} AS x FROM o")
    assert words in refused.value.remedy

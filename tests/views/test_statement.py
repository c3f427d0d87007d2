"""The head of a statement is read as it was written, whatever comments and white space are in between."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.delta.expect import Expect
from lakehouse.errors.views import ViewError
from lakehouse.views.files.query_file import read_query
from lakehouse.views.files.statement import DeclaredColumn, Statement, query_of, read_statement
from tests.support.for_each import for_each

NAMES = st.text("abcXYZ_09 é`.", min_size=1, max_size=6)
TEXTS = st.text("abc'\"\\\n-/*;{(é%_", max_size=8).filter(lambda text: "{{" not in text and "{%" not in text)
TYPES = {
    "BIGINT": ["BIGINT"],
    "DECIMAL(18,2)": ["DECIMAL", "(", "18", ",", "2", ")"],
    "array<struct<a:int,b:map<string,date>>>": re.findall(r"\w+|\W", "array<struct<a:int,b:map<string,date>>>"),
    "INTERVAL DAY TO SECOND": ["INTERVAL", "DAY", "TO", "SECOND"],
    None: [],
}
QUERIES = st.sampled_from(
    [
        "SELECT 1 AS a",
        "SELECT ';' AS a, `b;` FROM t -- ;\nWHERE x > 0",
        "WITH a AS (SELECT 1) SELECT * FROM a /* as */ AS a",
    ]
)
GAPS = st.sampled_from([" ", "\n", "\t ", " /* a; /* b */ ' */ ", " -- it's (\n", "\r\n"])


def distinct(names: st.SearchStrategy[str], least: int = 0) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(names, min_size=least, max_size=3, unique_by=str.lower).map(tuple)


@st.composite
def statements(draw: st.DrawFn) -> Statement:
    names = draw(distinct(NAMES))
    columns = tuple(
        DeclaredColumn(name, draw(st.sampled_from([*TYPES])), draw(st.booleans()), draw(st.none() | TEXTS))
        for name in names
    )
    among = distinct(st.sampled_from(names)) if names else distinct(NAMES)
    partitioned = draw(among)
    return Statement(
        name=tuple(draw(st.lists(NAMES, min_size=1, max_size=3))),
        query=draw(QUERIES),
        columns=columns,
        key=draw(among) if columns else (),
        expectations=tuple(
            Expect(draw(st.sampled_from(["a > 0", "(a) IN (1, 2)", "b <> ')'"])), draw(ON_FAILURE), name)
            for name in draw(distinct(st.sampled_from(["positive", "X_9", "0"])))
        )
        if columns
        else (),
        comment=draw(st.none() | TEXTS),
        partitioned_by=partitioned,
        clustered_by=() if partitioned else draw(among),
        properties=draw(st.dictionaries(TEXTS, TEXTS, max_size=3)),
        refresh=draw(st.sampled_from([None, "auto", "incremental", "strict", "full"])),
    )


ON_FAILURE = st.sampled_from(["warn", "fail", "drop", "quarantine"])
VIOLATIONS = {
    "warn": [],
    "fail": ["ON", "VIOLATION", "FAIL", "UPDATE"],
    "drop": ["ON", "VIOLATION", "DROP", "ROW"],
    "quarantine": ["ON", "VIOLATION", "QUARANTINE", "ROW"],
}
POLICIES = {"auto": ["AUTO"], "incremental": ["INCREMENTAL"], "strict": ["INCREMENTAL", "STRICT"], "full": ["FULL"]}


def quoted(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


def text_of(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


def between(symbol: str, parts: list[list[str]]) -> list[str]:
    return [word for number, part in enumerate(parts) for word in ([symbol, *part] if number else part)]


def columns_in(names: tuple[str, ...]) -> list[str]:
    return ["(", *between(",", [[quoted(name)] for name in names]), ")"]


def elements(statement: Statement) -> Iterator[list[str]]:
    for column in statement.columns:
        yield [
            quoted(column.name),
            *TYPES[column.type],
            *(["NOT", "NULL"] if column.required else []),
            *([] if column.comment is None else ["comment", text_of(column.comment)]),
        ]
    if statement.key:
        yield ["CONSTRAINT", "pk", "PRIMARY", "KEY", *columns_in(statement.key)]
    for each in statement.expectations:
        yield ["CONSTRAINT", quoted(each.check_name), "EXPECT", "(", each.condition, ")", *VIOLATIONS[each.on_failure]]


def clauses(statement: Statement) -> Iterator[list[str]]:
    if statement.comment is not None:
        yield ["COMMENT", text_of(statement.comment)]
    if statement.partitioned_by:
        yield ["PARTITIONED", "BY", *columns_in(statement.partitioned_by)]
    if statement.clustered_by:
        yield ["cluster", "By", *columns_in(statement.clustered_by)]
    if statement.properties:
        pairs = [[text_of(name), "=", text_of(value)] for name, value in statement.properties.items()]
        yield ["TBLPROPERTIES", "(", *between(",", pairs), ")"]
    if statement.refresh is not None:
        yield ["REFRESH", "POLICY", *POLICIES[statement.refresh]]


@settings(max_examples=100, deadline=None)
@given(statement=statements(), data=st.data())
def test_a_statement_is_read_back_as_the_values_that_it_was_written_from(statement: Statement, data: st.DataObject):
    inner = list(elements(statement))
    words = [
        *data.draw(st.sampled_from([["CREATE"], ["create", "or", "refresh"], ["CREATE", "OR", "REPLACE"]])),
        *("MATERIALIZED", "VIEW", *data.draw(st.sampled_from([[], ["IF", "NOT", "EXISTS"]]))),
        *between(".", [[quoted(part)] for part in statement.name]),
        *(["(", *between(",", inner), ")"] if inner else []),
        *(word for clause in data.draw(st.permutations([*clauses(statement)])) for word in clause),
        *("AS", statement.query, *data.draw(st.sampled_from([[], [";"], [";", ";"]]))),
    ]
    text = "".join(word + data.draw(GAPS) for word in words)
    read = read_statement(text)
    assert read == replace(statement, query_offset=read.query_offset)
    assert text[read.query_offset :].startswith(statement.query)


VIEW = "CREATE MATERIALIZED VIEW v {} AS SELECT 1 AS a"
REFUSED = {
    "nothing": ("-- nothing\n", "VIEW_STATEMENT", 2, 1, "CREATE MATERIALIZED VIEW orders AS"),
    "a query alone": ("\n  SELECT 1", "VIEW_HEAD", 2, 3, "Write CREATE MATERIALIZED VIEW orders AS above it"),
    "a query that begins WITH": ("WITH a AS (SELECT 1) SELECT * FROM a", "VIEW_HEAD", 1, 1, "above it"),
    "a streaming table": (
        "CREATE OR REFRESH STREAMING TABLE raw.events AS SELECT * FROM STREAM x",
        "VIEW_STATEMENT",
        1,
        1,
        "def orders(source: Changes) -> Append:",
    ),
    "a flow": (
        "CREATE FLOW f AS INSERT INTO raw.t BY NAME SELECT 1",
        "VIEW_STATEMENT",
        1,
        1,
        "def orders(source: Changes) -> Append",
    ),
    "a flow of changes": (
        "CREATE FLOW f AS AUTO CDC INTO dim.c FROM s",
        "VIEW_STATEMENT",
        1,
        1,
        "def orders(source: Changes) -> Merge",
    ),
    "the older word for it": (
        "APPLY CHANGES INTO LIVE.c FROM s",
        "VIEW_STATEMENT",
        1,
        1,
        "def orders(source: Changes) -> Merge",
    ),
    "a table": ("CREATE TABLE gold.t AS SELECT 1", "VIEW_STATEMENT", 1, 1, "CREATE MATERIALIZED VIEW gold.t AS"),
    "a table whose name is quoted": (
        "CREATE TABLE IF NOT EXISTS gold.`t s` USING delta AS SELECT 1",
        *("VIEW_STATEMENT", 1, 1, "CREATE MATERIALIZED VIEW gold.`t s` AS"),
    ),
    "a view that is no table": ("CREATE VIEW v AS SELECT 1", "VIEW_STATEMENT", 1, 1, "CREATE MATERIALIZED VIEW v AS"),
    "another statement": ("SET a = 1", "VIEW_STATEMENT", 1, 1, "CREATE MATERIALIZED VIEW orders AS"),
    "two statements": (VIEW.format("") + ";\nSELECT 2", "VIEW_STATEMENT", 2, 1, "a file of its own"),
    "Jinja": ("CREATE MATERIALIZED VIEW v AS SELECT * FROM {{ ref('x') }}", "VIEW_TEMPLATE", 1, 45, "named parameters"),
    "Jinja in a text": ("CREATE MATERIALIZED VIEW v AS SELECT '{% a %}'", "VIEW_TEMPLATE", 1, 39, "named parameters"),
    "a variable": ("CREATE MATERIALIZED VIEW v AS SELECT '${a}'", "VIEW_TEMPLATE", 1, 39, "Name a parameter"),
    "a text without end": ("CREATE MATERIALIZED VIEW v COMMENT 'a AS SELECT 1", "VIEW_SYNTAX", 1, 36, "End it"),
    "a comment without end": ("CREATE /* /* */ MATERIALIZED VIEW", "VIEW_SYNTAX", 1, 8, "End it with */"),
    "a comment that Spark continues": (VIEW.format("-- a \\\n"), "VIEW_SYNTAX", 1, 28, "Remove the backslash"),
    "a schedule": (VIEW.format("SCHEDULE EVERY 1 DAY"), "VIEW_SYNTAX", 1, 28, "automation_condition=automation()"),
    "a clause twice": (VIEW.format("COMMENT 'a' COMMENT 'b'"), "VIEW_SYNTAX", 1, 40, "Write each clause once"),
    "another format": (VIEW.format("USING parquet"), "VIEW_SYNTAX", 1, 34, "Correct the statement"),
    "no AS": ("CREATE MATERIALIZED VIEW v COMMENT 'a'", "VIEW_SYNTAX", 1, 39, "then AS and the query"),
    "no query": ("CREATE MATERIALIZED VIEW v AS ;", "VIEW_SYNTAX", 1, 31, "Correct the statement"),
    "a column twice": (VIEW.format("(a INT, A INT)"), "VIEW_SYNTAX", 1, 36, "a name of its own"),
    "two keys": (VIEW.format("(a INT PRIMARY KEY, PRIMARY KEY (a))"), "VIEW_SYNTAX", 1, 48, "in one PRIMARY KEY"),
    "a key that is no column": (
        VIEW.format("(a INT, PRIMARY KEY (b))"),
        "VIEW_SYNTAX",
        None,
        None,
        "Name one of its columns: a.",
    ),
    "a layout by no column": (
        VIEW.format("(a INT) CLUSTER BY (b)"),
        "VIEW_SYNTAX",
        1,
        36,
        "Name one of its columns: a.",
    ),
    "two layouts": (VIEW.format("PARTITIONED BY (a) CLUSTER BY (a)"), "VIEW_SYNTAX", 1, 47, "Remove one"),
    "a foreign key": (VIEW.format("(a INT, FOREIGN KEY (a) REFERENCES b)"), "VIEW_SYNTAX", 1, 36, "PRIMARY KEY"),
    "a mask": (VIEW.format("(a INT MASK f)"), "VIEW_SYNTAX", 1, 35, "Correct the statement"),
    "another policy": (VIEW.format("REFRESH POLICY DAILY"), "VIEW_SYNTAX", 1, 43, "Correct the statement"),
    "an unnamed expectation": (
        VIEW.format("(a INT, EXPECT (a > 0))"),
        "VIEW_SYNTAX",
        1,
        36,
        "CONSTRAINT <name> EXPECT",
    ),
}


@for_each("text, code, line, column, remedy", REFUSED.values())
def test_what_is_no_view_is_refused_with_its_place_and_the_way_out(
    text: str, code: str, line: int | None, column: int | None, remedy: str
):
    with pytest.raises(ViewError) as refused:
        read_statement(text, "sql/orders.sql")
    assert refused.value.code == code
    assert remedy in refused.value.remedy
    assert "sql/orders.sql" in str(refused.value)
    place = refused.value.place
    assert place is not None
    assert line is None or (place.line, place.column) == (line, column)


def test_expectations_are_those_of_the_table():
    text = "CREATE MATERIALIZED VIEW v (a INT, CONSTRAINT p EXPECT (a > 0) ON VIOLATION DROP ROW, CONSTRAINT q EXPECT (a < 9)) AS SELECT 1"
    assert read_statement(text).expectations == (Expect("a > 0", "drop", "p"), Expect("a < 9", "warn", "q"))


def test_a_row_and_a_key_can_be_put_into_the_quarantine():
    text = (
        "CREATE MATERIALIZED VIEW v (a INT PRIMARY KEY, CONSTRAINT p EXPECT (a > 0) ON VIOLATION QUARANTINE ROW, "
        "CONSTRAINT one EXPECT (unique key) ON VIOLATION QUARANTINE ROW) AS SELECT 1"
    )
    expected = (Expect("a > 0", "quarantine", "p"), Expect.unique_key(name="one"))
    assert read_statement(text).expectations == expected
    unsaid = "CREATE MATERIALIZED VIEW v (a INT, CONSTRAINT one EXPECT (UNIQUE KEY)) AS SELECT 1"
    with pytest.raises(ViewError, match="Write ON VIOLATION QUARANTINE ROW"):
        read_statement(unsaid)


def test_what_is_no_condition_of_a_row_is_refused_where_it_stands():
    text = "CREATE MATERIALIZED VIEW v (a INT,\n  CONSTRAINT positive EXPECT (sum(a) > 0) ON VIOLATION DROP ROW) AS SELECT 1"
    with pytest.raises(
        ViewError, match=r"EXPECT \(sum\(a\) > 0\) cannot be.*aggregate sum.*line 2, column 3"
    ) as refused:
        read_statement(text)
    assert refused.value.code == "VIEW_EXPECT"


def test_a_constraint_whose_name_no_check_can_have_is_refused():
    text = "CREATE MATERIALIZED VIEW v (a INT, CONSTRAINT `is positive` EXPECT (a > 0)) AS SELECT 1"
    with pytest.raises(ViewError, match="name has letters, digits and underscores"):
        read_statement(text)


def test_a_query_knows_where_it_begins_and_which_columns_refuse_null():
    text = "CREATE MATERIALIZED VIEW v (a INT PRIMARY KEY, b)\nAS  SELECT 1,\n 2"
    query = query_of(text, read_statement(text), "v.sql")
    assert query.text == "SELECT 1,\n 2"
    assert (query.origin.line, query.origin.column) == (2, 5)
    assert query.origin.after(query.text, 11).line == 3
    assert [(column.name, column.type) for column in query.columns] == [("a", "INT"), ("b", None)]
    assert query.required == {"a"}
    alone = "CREATE MATERIALIZED VIEW v (PRIMARY KEY (A)) AS SELECT 1 AS a"
    assert query_of(alone, read_statement(alone)).required == {"a"}


def test_a_file_of_a_query_alone_is_read_beside_the_file_that_names_it(tmp_path: Path):
    (tmp_path / "q.sql").write_text("\ufeff-- what it is\nSELECT 1 ;\n")
    query = read_query("q.sql", str(tmp_path / "assets.py"))
    assert query.text == "SELECT 1"
    assert (query.origin.file, query.origin.line) == (str(tmp_path / "q.sql"), 2)
    (tmp_path / "v.sql").write_text(VIEW.format(""))
    with pytest.raises(ViewError, match="views_from takes statements") as refused:
        read_query("v.sql", str(tmp_path / "assets.py"))
    assert refused.value.code == "VIEW_HEAD"
    with pytest.raises(ViewError, match=r"missing.sql cannot be read: No such file"):
        read_query("missing.sql", str(tmp_path / "assets.py"))

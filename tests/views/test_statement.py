"""The head of a statement is read as it was written, whatever comments and white space stand in between."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakehouse.errors.views import ViewError
from lakehouse.views.sql.statement import (
    DeclaredColumn,
    Expectation,
    Statement,
    query_of,
    read_statement,
    refuse_expectations,
)

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
            Expectation(name, draw(st.sampled_from(["a > 0", "(a) IN (1, 2)", "b <> ')'"])), draw(ON_FAILURE))
            for name in draw(distinct(NAMES))
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
    "quarantine": ["on", "violation", "quarantine", "row"],
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
        yield ["CONSTRAINT", quoted(each.name), "EXPECT", "(", each.condition, ")", *VIOLATIONS[each.on_failure]]


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


@settings(max_examples=200, deadline=None)
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

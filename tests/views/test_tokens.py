"""Comments, white space and the case of words make no difference; everything else does."""

from typing import Any

from lakehouse.views.sql.tokens import canonical, digest_of, tokens
from tests.support.for_each import for_each

ALIKE = [
    ("SELECT a FROM t", "select  A\n-- what\nfrom /* a /* b */ c */ T"),
    ("SELECT a,b", "SELECT a , b"),
    ("SELECT t.a >= 1", "SELECT t . A  >=  1"),
    ("SELECT 1 -- end", "SELECT 1"),
    ("SELECT a::date", "SELECT A::date"),
]
OTHER = [
    ("SELECT 'a'", "SELECT 'A'"),
    ("SELECT 'a b'", "SELECT 'a  b'"),
    ("SELECT '--a'", "SELECT ''"),
    ("SELECT '/*a*/'", "SELECT ''"),
    ("SELECT `a`", "SELECT `A`"),
    ("SELECT 1 a", "SELECT 1a"),
    ("SELECT 1.5", "SELECT 1 .5"),
    ("SELECT r'\\n'", "SELECT r '\\n'"),
    ("SELECT :a", "SELECT :A"),
    ("SELECT v:a.B", "SELECT v:a.b"),
    ("SELECT v:items[0].Name::string", "SELECT v:items[0].name::string"),
    ("SELECT 'a' 'b'", "SELECT 'a'' b'"),
    ("SELECT a b", "SELECT ab"),
    ("SELECT a, b", "SELECT a b"),
]
"""The last letters of a parameter's name decide which value it has."""


@for_each("text, other", ALIKE)
def test_texts_that_mean_the_same_have_one_digest(text: str, other: str):
    assert digest_of(text, {}) == digest_of(other, {})


@for_each("text, other", OTHER)
def test_texts_that_may_mean_something_else_have_other_digests(text: str, other: str):
    assert canonical(text) != canonical(other)
    assert digest_of(text, {}) != digest_of(other, {})


@for_each("args, other", [({"a": 1}, {"a": 2}), ({"a": 1}, {"a": "1"}), ({"a": 1}, {"b": 1}), ({}, {"a": 1})])
def test_another_value_of_an_argument_is_another_digest(args: dict[str, Any], other: dict[str, Any]):
    assert digest_of("SELECT :a", args) != digest_of("SELECT :a", other)
    assert digest_of("SELECT :a", args) == digest_of("SELECT :a", dict(args))


@for_each(
    "literal, value",
    [
        ("'it''s'", "it's"),
        (r"'it\'s'", "it's"),
        (r"'a\nb\\c\0'", "a\nb\\c\0"),
        (r"'\u00e9\U0001F600\101'", "é😀A"),
        (r"'50\% \_ \q'", r"50\% \_ q"),
        (r"r'\n'", r"\n"),
        ('"it\'s ""so"""', 'it\'s "so"'),
        ("`a``b`", "a`b"),
    ],
)
def test_a_quoted_text_stands_for_the_characters_that_spark_makes_of_it(literal: str, value: str):
    (token,) = tokens(literal)
    assert token.value == value


def test_a_brace_of_a_text_is_no_template():
    assert tokens("'{\"a\": {}}' || '{' || '{'")[0].text == "'{\"a\": {}}'"

"""Statements that are not `CREATE MATERIALIZED VIEW`, each refused with what to write instead."""

from dataclasses import replace
from pathlib import PurePath

from lakehouse.views.files.token_reader import TokenReader
from lakehouse.views.sql.tokens import Token, TokenKind

QUERY_BEGINS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")
_BEFORE_NAMES = frozenset(
    [
        *("CREATE", "OR", "REFRESH", "REPLACE", "PRIVATE", "LIVE", "STREAMING", "TABLE", "FLOW", "IF", "NOT", "EXISTS"),
        *("TEMP", "TEMPORARY", "GLOBAL", "EXTERNAL", "VIEW", "AUTO", "CDC", "APPLY", "CHANGES", "INTO"),
    ]
)
"""The words that stand before the name of what a statement makes."""

_STREAMING = """In Python:
@dg.asset
def {name}(source: Changes) -> Append:
    return Append(source.appended())"""
_CDC = """In Python:
@dg.asset(metadata=Table(key="..."))
def {name}(source: Changes) -> Merge:
    touched = source.touched("...")
    return Merge(scd.type1(touched.rows, keys="...", sequence_by="..."), touched)"""


def refuse_other_statement(reader: TokenReader) -> None:
    """Refuses a file whose statement makes no materialized view.

    Raises:
        ViewError: It makes something else, or is a query without its head.
    """
    first = reader.next()
    if reader.is_at_end:
        reader.refuse("the file holds no statement", f"Write {_head(reader)} and the query.", first, "VIEW_STATEMENT")
    if first.is_word(*QUERY_BEGINS) or first.is_symbol("("):
        reader.refuse(
            "the file holds a query alone, which names no table", f"Write {_head(reader)} above it.", first, "VIEW_HEAD"
        )
    words = [token.text.upper() for token in _words(reader)]
    name = _made(reader)
    if "CDC" in words or words[:2] == ["APPLY", "CHANGES"]:
        reader.refuse(
            "AUTO CDC folds events in their sequence, which no query says",
            _CDC.format(name=name),
            first,
            "VIEW_STATEMENT",
        )
    if "STREAMING" in words or "LIVE" in words:
        reader.refuse(
            "a STREAMING TABLE keeps each row that it has read once, which is an Append and no query",
            _STREAMING.format(name=name),
            first,
            "VIEW_STATEMENT",
        )
    if "FLOW" in words:
        reader.refuse(
            "a FLOW appends to a table that stands elsewhere, and here a table has one asset",
            _STREAMING.format(name=name),
            first,
            "VIEW_STATEMENT",
        )
    if words[:1] != ["CREATE"] or "MATERIALIZED" not in words:
        reader.refuse(
            f"{' '.join(words[:3]) or first.text} makes no materialized view",
            f"A file holds one view: {_head(reader)} and the query.",
            first,
            "VIEW_STATEMENT",
        )


def _words(reader: TokenReader) -> list[Token]:
    """The words with which the statement begins, before the query."""
    words = list[Token]()
    for token in reader.tokens[reader.at :]:
        if token.kind is not TokenKind.WORD or token.is_word("SELECT", "WITH", "VIEW", "FROM", "SOURCE"):
            break
        words.append(token)
    return words


def _made(reader: TokenReader) -> str:
    """The last part of the name of what the statement makes or fills, as a name in Python."""
    into = next((at for at, token in enumerate(reader.tokens) if token.is_word("INTO")), 0)
    names = (
        at
        for at, token in enumerate(reader.tokens[into:], into)
        if token.is_name and token.text.upper() not in _BEFORE_NAMES
    )
    at = next(names, None)
    if at is None:
        return "name"
    return _identifier(replace(reader, at=at).dotted_name("a name")[-1])


def _head(reader: TokenReader) -> str:
    """The head that a query in this file would have."""
    name = _identifier(PurePath(reader.origin.file or "name").stem)
    return f"CREATE MATERIALIZED VIEW {name} AS"


def _identifier(text: str) -> str:
    name = "".join(letter if letter.isalnum() else "_" for letter in text)
    return name if name.isidentifier() else f"_{name}"

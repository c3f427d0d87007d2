"""Statements that are not `CREATE MATERIALIZED VIEW`, each refused with what to write instead."""

from dataclasses import replace
from pathlib import PurePath

from lakehouse.views.files.token_reader import TokenReader
from lakehouse.views.sql.tokens import TokenKind

_QUERY_BEGINS = ("SELECT", "WITH", "FROM", "VALUES", "TABLE")

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
    """Refuses a file whose statement does not make a materialized view.

    Raises:
        ViewError: It makes something else, or is a query without its head.
    """
    first, words = reader.next(), _words(reader)
    name = _identifier(PurePath(reader.origin.file or "name").stem)
    head = f"CREATE MATERIALIZED VIEW {_name_of_made(reader) or name} AS"
    is_query = first.is_word(*_QUERY_BEGINS) or first.is_symbol("(")
    is_flow_of_changes = "CDC" in words or words[:2] == ["APPLY", "CHANGES"]
    is_streaming = not {"STREAMING", "LIVE", "FLOW"}.isdisjoint(words)
    others = (
        (reader.is_at_end, "the file holds no statement", f"Write {head} and the query."),
        (is_query, "the file holds a query alone, which names no table", f"Write {head} above it."),
        (is_flow_of_changes, "AUTO CDC folds events in their sequence, which no query says", _CDC.format(name=name)),
        (
            is_streaming,
            "a STREAMING TABLE, or a FLOW, keeps each row that it has read once, which is an Append and no query",
            _STREAMING.format(name=name),
        ),
        (
            words[:1] != ["CREATE"] or "MATERIALIZED" not in words,
            f"{' '.join(words[:3]) or first.text} makes no materialized view",
            f"A file holds one view: {head} and the query.",
        ),
    )
    for is_it, what, remedy in others:
        if is_it:
            reader.refuse(what, remedy, first, "VIEW_HEAD" if is_query else "VIEW_STATEMENT")


def _words(reader: TokenReader) -> list[str]:
    """The words with which the statement begins, before the query, in upper case."""
    words = list[str]()
    for token in reader.tokens[reader.at :]:
        if token.kind is not TokenKind.WORD or token.is_word("SELECT", "WITH", "VIEW", "FROM", "SOURCE"):
            break
        words.append(token.text.upper())
    return words


def _name_of_made(reader: TokenReader) -> str:
    """The name of the table or view that the statement creates, letter by letter; empty if it creates none."""
    places = (at for at, token in enumerate(reader.tokens, start=1) if token.is_word("TABLE", "VIEW"))
    after = replace(reader, at=next(places, len(reader.tokens)))
    while after.accept("IF", "NOT", "EXISTS"):
        pass
    begin = after.next()
    if not (reader.peek_word("CREATE") and begin.is_name):
        return ""
    after.dotted_name("its name")
    return reader.text[begin.start : after.tokens[after.at - 1].end]


def _identifier(text: str) -> str:
    name = "".join(letter if letter.isalnum() else "_" for letter in text)
    return name if name.isidentifier() else f"_{name}"

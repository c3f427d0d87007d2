"""What a text says before the columns of its tables are known: its tables, and why no keys follow it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from lakehouse.views.algebra import Place
from lakehouse.views.sql.parsing import Parsed, Text, cut, define_windows, of_the_run, parse, require_known_calls
from lakehouse.views.sql.refusals import why_not_followed
from lakehouse.views.sql.tokens import Token, tokens
from lakehouse.views.view_text import NotFollowedError, Reason


@dataclass(frozen=True, eq=False, slots=True)
class Look:
    """A text that gives the same rows for the same tables, as far as the text alone says.

    Args:
        words: Its tokens.
        tables: The tables that it names, in its order and in lower case; no common table expressions.
        parsed: Its tree; None if the parser does not know its grammar.
        why: Why no keys follow it; None if its tree says no reason.
    """

    words: Text
    tables: Mapping[Place, str]
    parsed: Parsed | None
    why: Reason | None = None


@lru_cache(maxsize=256)
def look_through(text: str) -> Look:
    """A text, parsed once.

    Raises:
        ViewError: The text is not one query, gives other rows in each run, or reads more than what a run pins.
    """
    words = cut(text)
    try:
        parsed = parse(words)
    except NotFollowedError as error:
        tables = {place: name for place, name in _tables(words.tokens) if name not in _ctes(words.tokens)}
        return Look(words, tables, None, error.reason)
    why = why_not_followed(parsed)
    try:
        require_known_calls(parsed)
        define_windows(parsed)
    except NotFollowedError as error:
        why = why or error.reason
    return Look(words, parsed.tables, parsed, why)


def refuse_user(look: Look, schemas: Mapping[str, Mapping[str, str]]) -> None:
    """Refuses the word `user` in a text that Spark alone reads, unless a table has such a column: it is the session's.

    Raises:
        ViewError: The text has it.
    """
    if any(column.lower() == "user" for columns in schemas.values() for column in columns):
        return
    for before, token in zip((None, *look.words.tokens), look.words.tokens, strict=False):
        if token.is_word("USER") and not (before is not None and (before.is_symbol(".") or before.is_word("AS"))):
            raise of_the_run("user", look.words.of_token(token))


_AFTER_TABLE = (
    *("ANTI", "CLUSTER", "CROSS", "DISTRIBUTE", "EXCEPT", "FULL", "GROUP", "HAVING", "INNER", "INTERSECT", "JOIN"),
    *("LATERAL", "LEFT", "LIMIT", "MINUS", "NATURAL", "OFFSET", "ON", "ORDER", "PIVOT", "QUALIFY", "RIGHT", "SELECT"),
    *("SEMI", "SORT", "UNION", "UNPIVOT", "USING", "WHERE", "WINDOW"),
)
"""Words behind a table that are not its alias."""
_NO_TABLE = ("LATERAL", "SELECT", "TABLE", "VALUES")
"""Words behind FROM, JOIN or a comma that are not tables."""
_WITH_FROM = ("EXTRACT", "OVERLAY", "SUBSTR", "SUBSTRING", "TRIM")
"""Functions that have FROM between their arguments."""


def _ctes(words: tuple[Token, ...]) -> frozenset[str]:
    """The names that the words define: `name AS (`."""
    triples = zip(words, words[1:], words[2:], strict=False)
    return frozenset(
        name.value.lower() for name, as_, bracket in triples if as_.is_word("AS") and bracket.is_symbol("(")
    )


def _tables(words: tuple[Token, ...]) -> Iterator[tuple[Place, str]]:
    """The names behind FROM and JOIN, and behind the commas of such a list, where no parser knows the grammar."""
    functions, lists = list[bool](), list[bool]()
    in_list = False
    for place, token in enumerate(words):
        before = words[place - 1] if place else None
        if token.is_symbol("("):
            functions.append(before is not None and before.is_word(*_WITH_FROM))
            lists.append(in_list)
            in_list = False
        elif token.is_symbol(")") and functions:
            functions.pop()
            in_list = lists.pop()
        elif token.is_word("FROM", "JOIN", "TABLE"):
            is_distinct = before is not None and before.is_word("DISTINCT")
            if not is_distinct and not (functions and functions[-1]):
                in_list = True
                yield from _table_at(words, place + 1)
        elif token.is_symbol(",") and in_list:
            yield from _table_at(words, place + 1)
        elif token.is_word(*_AFTER_TABLE):
            in_list = False


def _table_at(words: tuple[Token, ...], at: int) -> Iterator[tuple[Place, str]]:
    """The table that the words name from there on, if they do."""
    first, parts = at, list[str]()
    while at < len(words) and words[at].is_name:
        parts.append(words[at].value)
        at += 1
        if at >= len(words) or not words[at].is_symbol("."):
            break
        at += 1
    after = words[at] if at < len(words) else None
    if not parts or words[first].is_word(*_NO_TABLE) or (after is not None and after.is_symbol("(")):
        return
    has_alias = after is not None and after.is_name and not after.is_word(*_AFTER_TABLE)
    yield Place(words[first].start, words[at - 1].end, has_alias), ".".join(parts).lower()


def own_alias(text: str, place: Place) -> str:
    """What the text calls a table without an alias there: the last part of its name."""
    return tokens(text[place.start : place.end])[-1].value

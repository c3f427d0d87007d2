"""What a text of SQL calls, and by which columns its windows are partitioned: found in its tokens, without a parser."""

from collections.abc import Iterator
from itertools import pairwise

from lakehouse.views.sql.tokens import Token, TokenKind

_ENDS = ("ORDER", "ROWS", "RANGE", "SORT")


def calls(sequence: tuple[Token, ...]) -> Iterator[str]:
    """The functions that a text calls, in lower case; some of the clock need no parentheses."""
    for token, following in pairwise((*sequence, Token(TokenKind.SYMBOL, ";", 0))):
        is_called = following.is_symbol("(") or token.is_word("CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP")
        if token.kind is TokenKind.WORD and is_called:
            yield token.text.lower()


def window_partitions(sequence: tuple[Token, ...]) -> Iterator[frozenset[str]]:
    """The columns of the partition of each window in a text; a window by an expression is left out."""
    for place, token in enumerate(sequence[:-1]):
        if token.is_word("OVER") and sequence[place + 1].is_symbol("("):
            columns = _names_after(sequence[place + 2 :])
            if columns is not None:
                yield columns


def _names_after(sequence: tuple[Token, ...]) -> frozenset[str] | None:
    """The names between PARTITION BY and what follows; none without it, None if there is an expression."""
    if len(sequence) < 2 or not (sequence[0].is_word("PARTITION") and sequence[1].is_word("BY")):
        return frozenset() if sequence and (sequence[0].is_symbol(")") or sequence[0].is_word(*_ENDS)) else None
    names, last = set[str](), ""
    for token in sequence[2:]:
        if token.is_symbol(")") or token.is_word(*_ENDS):
            return frozenset(names | {last})
        if token.is_symbol(","):
            names.add(last)
        elif token.is_name:
            last = token.value.lower()
        elif not token.is_symbol("."):
            return None
    return None

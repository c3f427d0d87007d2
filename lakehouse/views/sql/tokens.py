"""SQL text cut into tokens as Spark cuts it: words, quoted names, texts, numbers and symbols, without comments.

A parser that reads a text differently from Spark would plan a query other than the one that runs. So text that the two
could cut differently is refused here: variables, which Spark replaces before it parses, and comments that continue on
the next line.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any

from lakehouse.cursor.definition import digest
from lakehouse.views.view_text import Origin, ViewText, view_error


class TokenKind(Enum):
    """What a token is."""

    WORD = "word"
    QUOTED = "quoted name"
    TEXT = "text"
    NUMBER = "number"
    SYMBOL = "symbol"


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a text.

    Args:
        kind: What it is.
        text: Its letters.
        start: The offset of its first character.
    """

    kind: TokenKind
    text: str
    start: int

    @property
    def end(self) -> int:
        return self.start + len(self.text)

    @property
    def is_name(self) -> bool:
        """Whether it can be a name, or a part of one."""
        return self.kind in (TokenKind.WORD, TokenKind.QUOTED)

    def is_word(self, *words: str) -> bool:
        """Whether it is one of some words, which are given in upper case."""
        return self.kind is TokenKind.WORD and self.text.upper() in words

    def is_symbol(self, symbol: str) -> bool:
        return self.kind is TokenKind.SYMBOL and self.text == symbol

    @property
    def value(self) -> str:
        """What a quoted name or a text stands for; for any other token, its letters."""
        match self.kind:
            case TokenKind.QUOTED:
                return self.text[1:-1].replace("``", "`")
            case TokenKind.TEXT:
                return _value_of_text(self.text)
            case TokenKind.WORD | TokenKind.NUMBER | TokenKind.SYMBOL:
                return self.text


_NUMBER = (
    r"(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?(?:BD|[DFLSY])?(?!\w)|\d+[eE][+-]?\d+(?:BD|[DFLSY])?(?!\w)|\d+[a-zA-Z]*(?!\w)"
)
_TOKEN = re.compile(
    rf"""
      (?P<blank>\s+)
    | (?P<line>--[^\r\n]*)
    | (?P<block>/\*)
    | (?P<TEXT>[rR]'[^']*'|[rR]"[^"]*"|'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<QUOTED>`(?:[^`]|``)*`)
    | (?P<NUMBER>{_NUMBER})
    | (?P<WORD>\w+)
    | (?P<open>['"`])
    | (?P<SYMBOL>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_TEMPLATE = re.compile(r"\{\{|\{%|\{#")


def tokens(text: str, origin: Origin = Origin()) -> tuple[Token, ...]:
    """The tokens of a text.

    Raises:
        ViewError: A text, a quoted name or a comment has no end, or the text is a template of another program.
    """
    sequence = tuple(cut(text, origin))
    _refuse_templates(text, sequence, origin)
    return sequence


def cut(text: str, origin: Origin = Origin()) -> Iterator[Token]:
    """The tokens of a text, without refusing templates of other programs.

    Raises:
        ViewError: A text, a quoted name or a comment has no end.
    """
    at = 0
    while (match := _TOKEN.match(text, at)) is not None:
        at = match.end()
        match str(match.lastgroup):
            case "blank":
                pass
            case "line":
                if match.group().endswith("\\"):
                    what = "this comment ends with a backslash, so Spark takes the next line for a part of it"
                    raise view_error("VIEW_SYNTAX", what, "Remove the backslash.", text, match.start(), origin)
            case "block":
                at = _end_of_comment(text, match.start(), origin)
            case "open":
                raise view_error(
                    "VIEW_SYNTAX", f"{match.group()} begins what has no end", "End it.", text, match.start(), origin
                )
            case kind:
                yield Token(TokenKind[kind], match.group(), match.start())


def _end_of_comment(text: str, start: int, origin: Origin) -> int:
    """The offset after a comment, which may contain other comments."""
    depth, at = 0, start
    while (edge := _COMMENT_EDGE.search(text, at)) is not None:
        depth += 1 if edge.group() == "/*" else -1
        at = edge.end()
        if depth == 0:
            return at
    raise view_error("VIEW_SYNTAX", "this comment has no end", "End it with */.", text, start, origin)


def _refuse_templates(text: str, sequence: tuple[Token, ...], origin: Origin) -> None:
    """Refuses what another program, or Spark itself before it parses, would replace by other text."""
    variable = text.find("${")
    if variable >= 0:
        raise view_error(
            "VIEW_TEMPLATE",
            "Spark would replace ${...} by the value of a setting, which no table records",
            "Name a parameter, as in :day, and give its value: View(text, args={'day': ...}), or write the value.",
            text,
            variable,
            origin,
        )
    for token, next_ in zip(sequence, (*sequence[1:], None), strict=False):
        brace = _TEMPLATE.search(token.text) if token.kind is TokenKind.TEXT else None
        start = token.start + (0 if brace is None else brace.start())
        is_code = (
            token.is_symbol("{") and next_ is not None and next_.start == token.end and next_.text in ("{", "%", "#")
        )
        if brace is not None or is_code:
            raise view_error(
                "VIEW_TEMPLATE",
                f"{text[start : start + 2]} is Jinja, and nothing here renders templates",
                "Name the tables themselves, and give constants as named parameters, as in :day. In a text that has to "
                "hold two braces, join them: '{' || '{'.",
                text,
                start,
                origin,
            )


_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))|''|\"\"", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def _value_of_text(literal: str) -> str:
    """The characters that a string literal of SQL stands for, as Spark's `unescapeSQLString` reads it."""
    if literal[0] in "rR":
        return literal[2:-1]
    doubled = literal[0] * 2

    def unescape(match: re.Match[str]) -> str:
        short, long, octal, other = match.groups()
        if short or long:
            return chr(int(short or long, 16))
        if octal:
            return chr(int(octal, 8))
        if other is not None:
            return _ESCAPED.get(other, other)
        return literal[0] if match.group() == doubled else match.group()

    return _ESCAPE.sub(unescape, literal[1:-1])


def replace_tokens(text: str, others: Iterable[tuple[Token, str]]) -> str:
    """A text with some of its tokens replaced; the tokens are given in their order."""
    pieces, at = list[str](), 0
    for token, other in others:
        pieces += text[at : token.start], other
        at = token.end
    return "".join((*pieces, text[at:]))


def spell(sequence: tuple[Token, ...]) -> str:
    """Tokens as text, with one blank where two of them would otherwise run together."""
    pieces = list[str]()
    for token in sequence:
        if pieces and token.kind is not TokenKind.SYMBOL and pieces[-1][-1] not in "(<,:>":
            pieces.append(" ")
        pieces.append(token.text)
    return "".join(pieces)


OPENING, CLOSING = ("(", "["), (")", "]")


def begins_path(before: Token, colon: Token) -> bool:
    """Whether a colon begins a path into the value right before it, and not a parameter."""
    ends_value = before.is_name or before.text in CLOSING
    return colon.is_symbol(":") and ends_value and before.end == colon.start


_SAY_NAMES = frozenset({"TO_JSON", "TO_XML", "TO_VARIANT_OBJECT", "TYPEOF", "SCHEMA_OF_VARIANT"})
"""Functions whose values contain the names of fields, including the case of their letters."""


def canonical(text: str, origin: Origin = Origin()) -> tuple[str, ...]:
    """What decides the meaning of a text: its tokens, words in upper case, without comments and white space.

    The name of a parameter keeps its case, because Spark looks its value up by it. All words keep their case in a text
    that puts names of fields into values, `to_json(struct(a AS City))`, or looks them up by paths, `payload:item.Name`.
    """
    sequence = tokens(text, origin)
    is_path = any(
        begins_path(one, other) and not text.startswith("::", other.start) for one, other in pairwise(sequence)
    )
    if is_path or any(token.text.upper() in _SAY_NAMES for token in sequence):
        return tuple(token.text for token in sequence)
    before = (None, *sequence)
    return tuple(
        token.text.upper()
        if token.kind is TokenKind.WORD and token.text.isascii() and not (last is not None and last.text == ":")
        else token.text
        for last, token in zip(before, sequence, strict=False)
    )


def digest_of_view(text: ViewText) -> str:
    """A digest that changes if the query, an argument or a declared column changes."""
    return digest([digest_of(text.text, text.args), [(column.name, column.type) for column in text.columns]])


def digest_of(text: str, args: Mapping[str, Any], origin: Origin = Origin()) -> str:
    """A digest that changes if the meaning of a text or the value of an argument changes."""
    values = sorted((name, type(value).__name__, repr(value)) for name, value in args.items())
    parts = json.dumps([canonical(text, origin), values])
    return hashlib.sha256(parts.encode()).hexdigest()[:16]

"""The words of a text and their places, the refusal of words that no view may have, and the tables that they name."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from sqlglot.expressions.core import Expr

from lakehouse.errors.views import TextPlace, ViewError
from lakehouse.views.algebra import Place
from lakehouse.views.functions import OF_THE_CLOCK, OF_THE_RUN, OF_THE_RUN_BY_REMEDY
from lakehouse.views.sql.tokens import CLOSING, OPENING, Token, TokenKind, begins_path, tokens


@dataclass(frozen=True, eq=False)
class Text:
    """A text and its tokens."""

    text: str
    tokens: tuple[Token, ...]

    def at(self, node: Expr, word: str = "") -> TextPlace | None:
        """Where a node is in the text: from the last `word` before it, if one is given."""
        span = span_of(node)
        before = [
            token.start for token in self.tokens if token.is_word(word) and (span is None or token.start <= span[0])
        ]
        if span is None:
            span = (before[-1], before[-1] + len(word)) if before else None
        elif word and before:
            span = (before[-1], span[1])
        return None if span is None else TextPlace.of(self.text, *self._whole(*span))

    @cached_property
    def parameters(self) -> Mapping[str, TextPlace]:
        """The named parameters, each with its first place. A colon right after a value begins a path into it."""
        named = dict[str, TextPlace]()
        for before, colon, name in zip((None, *self.tokens), self.tokens, self.tokens[1:], strict=False):
            is_other = before is not None and (begins_path(before, colon) or ends_cast(before, colon))
            if colon.is_symbol(":") and name.is_name and colon.end == name.start and not is_other:
                named.setdefault(name.text, self.of_token(colon, name))
        return named

    def _whole(self, start: int, end: int) -> tuple[int, int]:
        """The offsets of some words, extended by the brackets around them that pair with brackets among them."""
        depth = lowest = 0
        for character in self.text[start:end]:
            depth += {"(": 1, ")": -1}.get(character, 0)
            lowest = min(lowest, depth)
        for _ in range(-lowest):
            if (before := re.search(r"\(\s*$", self.text[:start])) is not None:
                start = before.start()
        for _ in range(depth - lowest):
            if (after := re.compile(r"\s*\)").match(self.text, end)) is not None:
                end = after.end()
        return start, end

    def of_token(self, first: Token, last: Token | None = None) -> TextPlace:
        """Where a token is, or the range from it to a last one."""
        return TextPlace.of(self.text, first.start, (last or first).end)

    def of_place(self, place: Place) -> TextPlace:
        """Where a table is named."""
        return TextPlace.of(self.text, place.start, place.end)

    def words(self, node: Expr) -> str:
        """The text of a node, in one line."""
        span = span_of(node)
        if span is None:
            return ""
        start, end = self._whole(*span)
        return " ".join(self.text[start:end].split())


def span_of(node: Expr) -> tuple[int, int] | None:
    """The start and the excluded end of the words of a node, as far as its tree has them; None if it has none."""
    spans = [(each.meta["start"], each.meta["end"] + 1) for each in node.walk() if "start" in each.meta]
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def cut(text: str) -> Text:
    """A text with its tokens, after the refusal of those that no view may have.

    Raises:
        ViewError: The text is not one query, or it gives other rows in each run, or reads more than what a run pins.
    """
    words = Text(text, tokens(text))
    _refuse_shape(words)
    for before, token, after in zip((None, *words.tokens), words.tokens, (*words.tokens[1:], None), strict=False):
        _refuse_token(words, before, token, after)
    return words


_TIME = r"T?\d{1,2}:\d{1,2}(?::\d{1,2}(?:\.\d*)?)?(?:\s*[a-z+-][\w:/+-]*)?"
_RUN_TEXT = re.compile(rf"\s*(?:(?:now|today|tomorrow|yesterday)(?:\s+\S+)?|{_TIME})\s*", re.IGNORECASE)
"""Texts that Spark takes for the day of the run, or for a time on that day, where it expects a date or a time."""
_OF_NO_DAY = ("INTERVAL", "TIME")
"""Words after which a time belongs to no day."""
RUN_TEXT_REMEDY = (
    "Write the date as well. If the text itself is meant, write it in two parts, concat('to', 'day') or concat('12', "
    "':00'), or compare with a column."
)


def why_of_the_run(text: str) -> str | None:
    """Why a string literal is not a constant, as a sentence; None if it is."""
    if _RUN_TEXT.fullmatch(text) is None:
        return None
    return f"Spark may take the text '{text}' for a time on the day of the run, which no row holds"


_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
"""Words with which a query begins, after any opening brackets."""


def _refuse_shape(words: Text) -> None:
    """Refuses a text that is not one query, or whose brackets do not match."""
    first = next((token for token in words.tokens if not token.is_symbol("(")), None)
    end = next((place for place, token in enumerate(words.tokens) if token.is_symbol(";")), len(words.tokens))
    if first is None or not first.is_word(*_QUERIES) or words.tokens[end + 1 :]:
        at = words.of_token(words.tokens[end], words.tokens[-1]) if words.tokens[end + 1 :] else None
        place = at or TextPlace.of(words.text, 0, len(words.text))
        raise ViewError("VIEW_STATEMENT", "A view is one query", place, "Write one SELECT, without anything after it.")
    opened = list[Token]()
    for token in words.tokens:
        if token.text in OPENING:
            opened.append(token)
        elif token.text in CLOSING and (not opened or (opened.pop().text == "(") != (token.text == ")")):
            raise ViewError("VIEW_SYNTAX", "This closes no bracket", words.of_token(token), "Take it out.")
    if opened:
        raise ViewError("VIEW_SYNTAX", "This bracket is not closed", words.of_token(opened[-1]), "Close it.")


_WITHOUT_BRACKETS = frozenset(
    {"current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user"}
)
"""Functions with another value in each run that Spark also calls without brackets."""


def _refuse_token(words: Text, before: Token | None, token: Token, after: Token | None) -> None:
    """Refuses a token that no view can have, wherever it stands."""
    is_of_no_day = before is not None and before.is_word(*_OF_NO_DAY)
    of_run = why_of_the_run(token.value) if token.kind is TokenKind.TEXT and not is_of_no_day else None
    if of_run is not None:
        raise ViewError("VIEW_NOT_DETERMINISTIC", of_run, words.of_token(token), RUN_TEXT_REMEDY)
    if token.is_symbol("?"):
        remedy = "Write a named parameter, :name, and give its value as an argument."
        raise ViewError("VIEW_PARAMETER", "A parameter of a view has a name", words.of_token(token), remedy)
    if token.is_symbol(","):
        _refuse_loose_comma(words, before, token, after)
    if not token.is_name:
        return
    name, is_called = token.value.lower(), after is not None and after.is_symbol("(")
    is_part = before is not None and before.is_symbol(".")
    is_bare = token.kind is TokenKind.WORD and name in _WITHOUT_BRACKETS and not is_part
    if (is_called and name in OF_THE_RUN) or is_bare:
        raise of_the_run(name, words.of_token(token))
    has_no_argument = words.text[token.end :].split(")")[0].split() == ["("]
    if is_called and has_no_argument and name in ("unix_timestamp", "to_unix_timestamp"):
        raise of_the_run(name, words.of_token(token))
    if is_called and name == "identifier":
        what, remedy = "identifier() names what only a run knows", "Write the name itself."
        raise ViewError("VIEW_UNKNOWN_TABLE", what, words.of_token(token), remedy)
    if token.is_word("TABLESAMPLE"):
        what, remedy = (
            "TABLESAMPLE takes other rows in each run",
            "Filter by a hash of a column: pmod(xxhash64(id), 10) = 0.",
        )
        raise ViewError("VIEW_NOT_DETERMINISTIC", what, words.of_token(token), remedy)
    if token.is_word("VERSION", "TIMESTAMP", "SYSTEM_VERSION", "SYSTEM_TIME") and _AS_OF.match(words.text, token.end):
        what, remedy = "A view reads each table at the version that the run has pinned", "Take AS OF out."
        raise ViewError("VIEW_UNKNOWN_TABLE", what, words.of_token(token), remedy)


def _refuse_loose_comma(words: Text, before: Token | None, comma: Token, after: Token | None) -> None:
    """Refuses a comma that has nothing before or after it: sqlglot accepts that, and Spark does not."""
    begins = before is None or before.text in OPENING or before.is_word("SELECT", "FROM", "BY")
    ends = after is None or after.text in (*CLOSING, ",", ";") or _CLAUSE.match(words.text, after.start)
    if begins or ends:
        what = f"Nothing stands {'after' if ends else 'before'} this comma"
        raise ViewError("VIEW_SYNTAX", what, words.of_token(comma, after), "Remove the comma.")


_CLAUSE = re.compile(
    r"(?:FROM|WHERE|HAVING|QUALIFY|UNION|EXCEPT|INTERSECT|(?:GROUP|ORDER|SORT|CLUSTER|DISTRIBUTE)\s+BY)\b",
    re.IGNORECASE,
)
_AS_OF = re.compile(r"\s+AS\s+OF\b", re.IGNORECASE)


def ends_cast(before: Token, colon: Token) -> bool:
    """Whether a colon is the second one of a cast, `a::date`."""
    return before.is_symbol(":") and colon.is_symbol(":") and before.end == colon.start


def of_the_run(name: str, place: TextPlace | None) -> ViewError:
    """The refusal of a function that gives another value in each run."""
    what = f"{name} gives another value in each run, so rows that no change touches would be wrong"
    remedy = next((remedy for remedy, names in OF_THE_RUN_BY_REMEDY.items() if name in names), OF_THE_CLOCK)
    return ViewError("VIEW_NOT_DETERMINISTIC", what, place, remedy)


_ENDS_LIST = (
    *("CLUSTER", "DISTRIBUTE", "EXCEPT", "GROUP", "HAVING", "INTERSECT", "LIMIT", "MINUS", "OFFSET", "ORDER"),
    *("QUALIFY", "SELECT", "SORT", "UNION", "WHERE", "WINDOW"),
)
"""Words after which a comma no longer lists tables."""
_AFTER_TABLE = (
    *_ENDS_LIST,
    *("ANTI", "CROSS", "FULL", "INNER", "JOIN", "LATERAL", "LEFT", "NATURAL", "ON", "PIVOT", "RIGHT", "SEMI"),
    *("UNPIVOT", "USING"),
)
"""Words after a table that are not its alias."""
_NO_TABLE = ("LATERAL", "SELECT", "TABLE", "VALUES")
"""Words after FROM, JOIN or a comma that are not tables."""
_WITH_FROM = ("EXTRACT", "OVERLAY", "SUBSTR", "SUBSTRING", "TRIM")
"""Functions that have FROM between their arguments."""
_BEFORE_QUERY = ("AS", "LEVEL", "MAX", "RECURSION")
"""Words between the name of a common table expression and the brackets around its query."""


def tables_in(words: Sequence[Token]) -> dict[Place, str]:
    """The tables that the words of a text of unknown grammar name: after FROM, JOIN and TABLE, in their order.

    In lower case, without common table expressions.
    """
    common = list(_common_in_reach(words))
    named = (each for at in _places(words) if (each := _table_at(words, at)) is not None)
    return {place: name for at, place, name in named if name not in common[at]}


def _places(words: Sequence[Token]) -> Iterator[int]:
    """Where a table may stand: after FROM, JOIN and TABLE, and after commas in the lists that FROM and JOIN begin."""
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
                yield place + 1
        elif token.is_symbol(",") and in_list:
            yield place + 1
        elif token.is_word(*_ENDS_LIST) or _begins_operator(before, token) or _begins_view(before, token):
            in_list = False


def _begins_operator(before: Token | None, token: Token) -> bool:
    """Whether a token is the second letter of `|>`, whose operators list columns."""
    return token.is_symbol(">") and before is not None and before.is_symbol("|")


def _begins_view(before: Token | None, token: Token) -> bool:
    """Whether a token is VIEW of LATERAL VIEW, after which commas list columns, and not tables."""
    return token.is_word("VIEW") and before is not None and before.is_word("LATERAL")


def _table_at(words: Sequence[Token], at: int) -> tuple[int, Place, str] | None:
    """The table that the words from `at` on name, with that place; None if they name none."""
    first, parts = at, list[str]()
    while at < len(words) and words[at].is_name:
        parts.append(words[at].value)
        at += 1
        if at >= len(words) or not words[at].is_symbol("."):
            break
        at += 1
    after = words[at] if at < len(words) else None
    if not parts or words[first].is_word(*_NO_TABLE) or (after is not None and after.is_symbol("(")):
        return None
    has_alias = after is not None and after.is_name and not after.is_word(*_AFTER_TABLE)
    return first, Place(words[first].start, words[at - 1].end, has_alias), ".".join(parts).lower()


@dataclass(frozen=True, slots=True)
class _Common:
    """The common table expression whose query a bracket holds: its name, and whether the query may name itself."""

    name: str
    is_recursive: bool


def _common_in_reach(words: Sequence[Token]) -> Iterator[frozenset[str]]:
    """The names of the common table expressions that each word can mean: not those whose query the word is in."""
    ends, opened = dict[int, int](), list[int]()
    for place, token in enumerate(words):
        if token.is_symbol("("):
            opened.append(place)
        elif token.is_symbol(")") and opened:
            ends[opened.pop()] = place
    queries = {
        begin: common
        for place, token in enumerate(words)
        if token.is_word("WITH")
        for begin, common in _queries_after(words, place, ends)
    }
    around, names = list[tuple[frozenset[str], _Common | None]](), frozenset[str]()
    for place, token in enumerate(words):
        if token.is_symbol("("):
            around.append((names, common := queries.get(place)))
            names |= {common.name} if common is not None and common.is_recursive else set[str]()
        elif token.is_symbol(")") and around:
            names, common = around.pop()
            names |= set[str]() if common is None else {common.name}
        yield names


def _queries_after(words: Sequence[Token], with_: int, ends: Mapping[int, int]) -> Iterator[tuple[int, _Common]]:
    """The common table expressions of a WITH, each with the bracket that begins its query.

    Each is `name [(column, ...)] [MAX RECURSION LEVEL number] [AS] (query)`.
    """
    at = with_ + 1
    is_recursive = at < len(words) and words[at].is_word("RECURSIVE")
    at += is_recursive
    while at < len(words) and words[at].is_name:
        name = words[at].value.lower()
        at += 1
        if at in ends and _is_of_columns(words, at, ends[at]):
            at = ends[at] + 1
        while at < len(words) and (words[at].is_word(*_BEFORE_QUERY) or words[at].kind is TokenKind.NUMBER):
            at += 1
        if at not in ends:
            return
        yield at, _Common(name, is_recursive)
        at = ends[at] + 1
        if at >= len(words) or not words[at].is_symbol(","):
            return
        at += 1


def _is_of_columns(words: Sequence[Token], begin: int, end: int) -> bool:
    """Whether brackets after the name of a common table expression hold its columns, and not its query."""
    if end + 1 < len(words) and words[end + 1].is_word(*_BEFORE_QUERY):
        return True
    is_before_other = end + 1 < len(words) and words[end + 1].is_symbol("(")
    return is_before_other and not words[begin + 1].is_symbol("(") and not words[begin + 1].is_word(*_QUERIES)

"""The text of a view as a tree, with the places of what it says; and what its words alone refuse."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError
from sqlglot.expressions.core import Expr

from lakehouse.errors.views import TextPlace, ViewError
from lakehouse.views.algebra import Place
from lakehouse.views.functions import CALLABLE, OF_THE_RUN
from lakehouse.views.sql.row_sql import TIME
from lakehouse.views.sql.tokens import Token, TokenKind, tokens
from lakehouse.views.view_text import NotFollowedError

CALLED = "called"
"""The key in a node's `meta` under which the function's name stands as the text has it, in lower case."""
REWRITTEN = "rewritten"
"""The key in a function's `meta` that is there if sqlglot would write other texts in it: a format, a unit of time."""


@dataclass(frozen=True, eq=False)
class Text:
    """A text and its tokens."""

    text: str
    tokens: tuple[Token, ...]

    def at(self, node: Expr, word: str = "") -> TextPlace | None:
        """Where the text says a node: from the last `word` before it, if one is given."""
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
        """The named parameters, each where the text has it first. A colon behind a value begins a path into it."""
        named = dict[str, TextPlace]()
        for before, colon, name in zip((None, *self.tokens), self.tokens, self.tokens[1:], strict=False):
            is_path = before is not None and begins_path(before, colon)
            if colon.is_symbol(":") and name.is_name and colon.end == name.start and not is_path:
                named.setdefault(name.text, self.of_token(colon, name))
        return named

    def _whole(self, start: int, end: int) -> tuple[int, int]:
        """The offsets of some words, with the brackets around them that belong to brackets in them."""
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
        """Where a token is, or several."""
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


@dataclass(frozen=True, eq=False)
class Parsed(Text):
    """A text and its tree, whose functions know the name by which the text calls them."""

    tree: exp.Query

    @cached_property
    def starts(self) -> tuple[int, ...]:
        """The offset of each token."""
        return tuple(token.start for token in self.tokens)

    @cached_property
    def tables(self) -> Mapping[Place, str]:
        """The tables that the text names, in its order, by their places; no common table expressions."""
        places = {place_of(table): name_of(table) for table in _tables(self.tree, frozenset())}
        return dict(sorted(places.items(), key=lambda each: each[0].start))


def cut(text: str) -> Text:
    """The tokens of a text, none of which is refused wherever it stands.

    Raises:
        ViewError: The text is not one query, or it gives other rows in each run, or reads more than what a run pins.
    """
    words = Text(text, tokens(text))
    _refuse_shape(words)
    for before, token, after in zip((None, *words.tokens), words.tokens, (*words.tokens[1:], None), strict=False):
        _refuse_token(words, before, token, after)
    return words


def parse(words: Text) -> Parsed:
    """The tree of a text.

    Raises:
        NotFollowedError: The parser does not know the grammar of the text, or would read it otherwise than Spark.
    """
    for before, token in pairwise(words.tokens):
        if token.is_symbol(">") and before.is_symbol("|"):
            raise NotFollowedError("the operator |> is not followed", words.of_token(before, token))
        if begins_path(before, token) and not words.text.startswith("::", token.start):
            what = "a path with a colon goes into a VARIANT, whose values cannot be compared"
            raise NotFollowedError(what, words.of_token(before, token))
    parsed = Parsed(words.text, words.tokens, _tree(words.text))
    _name_functions(parsed)
    return parsed


def define_windows(parsed: Parsed) -> None:
    """Put the definition of a named window wherever its name stands."""
    for select in parsed.tree.find_all(exp.Select):
        named = {each.this.name.lower(): each for each in select.args.get("windows") or ()}
        for window in [each for part in _with_windows(select) for each in part.find_all(exp.Window)]:
            name: exp.Identifier | None = window.args.get("alias")
            if name is None or window.find_ancestor(exp.Select) is not select:
                continue
            definition = named.get(name.name.lower())
            if definition is None or definition.args.get("alias"):
                remedy = "Define it after WINDOW: WINDOW w AS (PARTITION BY ...)."
                raise ViewError("VIEW_SYNTAX", f"No window is called {name.name}", parsed.at(name), remedy)
            whole = definition.copy()
            window.set("alias", None)
            for part in ("partition_by", "order", "spec"):
                window.set(part, whole.args.get(part))


def _with_windows(select: exp.Select) -> list[Expr]:
    """Where a query may name its windows: after SELECT and QUALIFY."""
    qualify = select.args.get("qualify")
    return [*select.expressions, *([] if qualify is None else [qualify])]


def span_of(node: Expr) -> tuple[int, int] | None:
    """The offsets between which the words of a node are, as far as its tree tells; the second one excluded."""
    spans = [(each.meta["start"], each.meta["end"] + 1) for each in node.walk() if "start" in each.meta]
    return (min(start for start, _ in spans), max(end for _, end in spans)) if spans else None


def name_of(table: exp.Table) -> str:
    """The name of a table, in lower case."""
    return ".".join(part.name for part in table.parts).lower()


def place_of(table: exp.Table) -> Place:
    """Where the text names a table."""
    metas = [part.meta for part in table.parts]
    alias: exp.TableAlias | None = table.args.get("alias")
    return Place(metas[0]["start"], metas[-1]["end"] + 1, alias is not None and "start" in alias.this.meta)


def is_table_name(table: exp.Table) -> bool:
    """Whether a table of the tree is a name: functions in FROM are tables of the tree too."""
    return all(isinstance(part, exp.Identifier) for part in table.parts)


def _tables(node: Expr, ctes: frozenset[str]) -> Iterator[exp.Table]:
    """The tables that a part of the tree names."""
    common: exp.With | None = node.args.get("with_")
    for cte in common.expressions if common else ():
        yield from _tables(cte.this, ctes)
        ctes |= {cte.alias.lower()}
    if isinstance(node, exp.Table) and is_table_name(node) and (node.args.get("db") or node.name.lower() not in ctes):
        yield node
    for child in node.iter_expressions():
        if child is not common and not isinstance(child, exp.Hint):
            yield from _tables(child, ctes)


def _tree(text: str) -> exp.Query:
    """The tree of a text."""
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect="spark") if tree is not None]
    except ParseError as error:
        first = error.errors[0]
        words, line = str(first["highlight"]), int(first["line"])
        place = TextPlace(line, max(int(first["col"]) - len(words) + 1, 1), words)
        raise NotFollowedError("its grammar is not known", place) from error
    except (SqlglotError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise NotFollowedError("its grammar is not known") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise NotFollowedError("its grammar is not known")
    return trees[0]


_RUN_TEXT = re.compile(rf"\s*(?:(?:now|today|tomorrow|yesterday)(?:\s+\S+)?|{TIME})\s*", re.IGNORECASE)
"""Texts that Spark takes for the day of the run, or for a time on that day, where it wants a date or a time."""
_OF_NO_DAY = ("INTERVAL", "TIME")
"""Words behind which a time is of no day."""
RUN_TEXT_REMEDY = (
    "Write the date as well. If the text itself is meant, write it in two parts, concat('to', 'day') or concat('12', "
    "':00'), or compare with a column."
)


def why_of_the_run(text: str) -> str | None:
    """Why a text is no constant, as a sentence; None if it is."""
    if _RUN_TEXT.fullmatch(text) is None:
        return None
    return f"Spark may take the text '{text}' for a time on the day of the run, which no row holds"


_QUERIES = ("SELECT", "WITH", "FROM", "VALUES", "TABLE", "MAP", "REDUCE")
"""Words with which a query begins, behind brackets."""


def _refuse_shape(words: Text) -> None:
    """Refuses a text that is not one query, or whose brackets do not fit."""
    first = next((token for token in words.tokens if not token.is_symbol("(")), None)
    end = next((place for place, token in enumerate(words.tokens) if token.is_symbol(";")), len(words.tokens))
    if first is None or not first.is_word(*_QUERIES) or words.tokens[end + 1 :]:
        at = words.of_token(words.tokens[end], words.tokens[-1]) if words.tokens[end + 1 :] else None
        place = at or TextPlace.of(words.text, 0, len(words.text))
        raise ViewError("VIEW_STATEMENT", "A view is one query", place, "Write one SELECT, without anything after it.")
    opened = list[Token]()
    for token in words.tokens:
        if token.text in _OPENING:
            opened.append(token)
        elif token.text in _CLOSING and (not opened or (opened.pop().text == "(") != (token.text == ")")):
            raise ViewError("VIEW_SYNTAX", "This closes no bracket", words.of_token(token), "Take it out.")
    if opened:
        raise ViewError("VIEW_SYNTAX", "This bracket is not closed", words.of_token(opened[-1]), "Close it.")


_WITHOUT_BRACKETS = frozenset(
    {"current_date", "current_time", "current_timestamp", "current_user", "localtimestamp", "session_user"}
)
"""Functions of the run that Spark calls without brackets too."""


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
    if is_called and name in ("unix_timestamp", "to_unix_timestamp") and words.text[token.end :].split(")")[0] == "(":
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
    """Refuses a comma that has nothing before or after it: sqlglot forgives that, and Spark does not."""
    begins = before is None or before.text in _OPENING or before.is_word("SELECT", "FROM", "BY")
    ends = after is None or after.text in (*_CLOSING, ",", ";") or _CLAUSE.match(words.text, after.start)
    if begins or ends:
        what = f"Nothing stands {'after' if ends else 'before'} this comma"
        raise ViewError("VIEW_SYNTAX", what, words.of_token(comma, after), "Remove the comma.")


_CLAUSE = re.compile(
    r"(?:FROM|WHERE|HAVING|QUALIFY|UNION|EXCEPT|INTERSECT|(?:GROUP|ORDER|SORT|CLUSTER|DISTRIBUTE)\s+BY)\b",
    re.IGNORECASE,
)
_AS_OF = re.compile(r"\s+AS\s+OF\b", re.IGNORECASE)


def begins_path(before: Token, colon: Token) -> bool:
    """Whether a colon begins a path into the value right before it, and not a parameter."""
    ends_value = before.is_name or before.text in _CLOSING
    return colon.is_symbol(":") and ends_value and before.end == colon.start


def _name_functions(parsed: Parsed) -> None:
    """Note the name of each function as the text has it, because several names have one class."""
    is_cut = any(token.is_word("CHAR", "CHARACTER", "VARCHAR") for token in parsed.tokens)
    for node in parsed.tree.walk():
        if isinstance(node, exp.DataType) and is_cut:  # the tree knows no length, and that there was one
            node.meta[REWRITTEN] = True
        if isinstance(node, exp.Func) and "start" in node.meta:
            node.meta[CALLED] = parsed.text[node.meta["start"] : node.meta["end"] + 1].lower()
            if _texts_of(parsed, node) != _texts_written(node):
                node.meta[REWRITTEN] = True


def _texts_of(parsed: Parsed, call: exp.Func) -> list[str]:
    """The texts in a call, sorted, without regard to case."""
    depth, texts = 0, list[str]()
    for token in parsed.tokens[bisect_left(parsed.starts, call.meta["end"] + 1) :]:
        depth += {"(": 1, ")": -1}.get(token.text, 0)
        if token.kind is TokenKind.TEXT:
            texts.append(token.value.casefold())
        if depth <= 0:
            break
    return sorted(texts)


def _texts_written(call: exp.Func) -> list[str] | None:
    """The texts in a call as sqlglot writes it; None if it cannot."""
    try:
        written = tokens(call.sql(dialect="spark", unsupported_level=ErrorLevel.IGNORE))
    except (SqlglotError, AttributeError, LookupError, TypeError, ValueError, ViewError):
        return None
    return sorted(token.value.casefold() for token in written if token.kind is TokenKind.TEXT)


_BEFORE_ALL = frozenset({"union", "except", "intersect", "minus", "select"})
"""What ALL stands after if it does not compare."""
_KEYWORDS = frozenset(
    {
        *("select", "distinct", "all", "from", "join", "on", "using", "where", "having", "qualify", "window", "by"),
        *("over", "limit", "offset", "as", "with", "recursive", "union", "except", "intersect", "minus", "lateral"),
        *("view", "outer", "pivot", "unpivot", "values", "and", "or", "not", "in", "exists", "between", "like"),
        *("ilike", "rlike", "regexp", "is", "escape", "case", "when", "then", "else", "any", "some", "div"),
        *("interval", "filter", "within", "group", "sets", "rollup", "cube", "decimal", "dec", "numeric", "varchar"),
        *("char", "character", "first", "last", "nulls", "rows", "range", "end", "cross", "semi", "anti", "natural"),
        *("full", "left", "right", "inner", "matched", "replace", "of", "xor", "null"),
    }
)
"""What may stand before a bracket without being a function; what it then is, the tree says."""
_HINTS = frozenset(
    {
        *("broadcast", "broadcastjoin", "mapjoin", "merge", "mergejoin", "shuffle_merge", "shuffle_hash", "coalesce"),
        *("shuffle_replicate_nl", "repartition", "repartition_by_range", "rebalance", "skew"),
    }
)
"""What stands in a hint, which changes no row; no function has such a name but coalesce."""


def require_known_calls(parsed: Parsed) -> None:
    """Whether each call is in a list, as the words tell: the tree gives several functions one name.

    Raises:
        NotFollowedError: The text calls what no list has.
    """
    aliases = [each.this for each in parsed.tree.find_all(exp.TableAlias) if each.columns]
    named = {name.meta.get("start") for name in aliases if name is not None}
    for before, token, bracket in zip((None, *parsed.tokens), parsed.tokens, parsed.tokens[1:], strict=False):
        if bracket.is_symbol("(") and token.is_name and token.start not in named:
            _require_known_call(parsed, before, token)
            _require_whole_call(parsed, token)


_UNITS = {"date_trunc": 0, "trunc": 1}
"""Functions of a unit, and which argument the unit is. The tree keeps no other unit than a text."""


def _require_whole_call(parsed: Parsed, token: Token) -> None:
    """Raise if the tree would lose an argument of a call: nobody would see that its columns decide the value."""
    name = token.text.lower()
    if name in _UNITS:
        unit = next(iter(_arguments(parsed, token)[_UNITS[name] :]), ())
        if unit and [each.kind for each in unit] != [TokenKind.TEXT]:
            raise NotFollowedError(f"the unit of {name} is not a text", parsed.of_token(unit[0]))
    elif name == "percentile" and len(_arguments(parsed, token)) > 2:
        raise NotFollowedError("percentile has a frequency", parsed.of_token(token))


def _arguments(parsed: Parsed, name: Token) -> list[tuple[Token, ...]]:
    """The tokens of each argument of a call."""
    depth, arguments, argument = 0, list[tuple[Token, ...]](), list[Token]()
    for token in parsed.tokens[bisect_left(parsed.starts, name.start) + 1 :]:
        depth -= token.text in _CLOSING
        if depth == 0 and token.is_symbol(")"):
            break
        if depth == 1 and token.is_symbol(","):
            arguments.append(tuple(argument))
            argument = []
        elif depth > 0:
            argument.append(token)
        depth += token.text in _OPENING
    return [*arguments, tuple(argument)]


_OPENING, _CLOSING = ("(", "["), (")", "]")


def _require_known_call(parsed: Parsed, before: Token | None, token: Token) -> None:
    """Raise if a word before a bracket calls a function that no list has."""
    name, place = token.text.lower(), parsed.of_token(token)
    if name in ("all", "any") and not (before is not None and before.text.lower() in _BEFORE_ALL):
        raise NotFollowedError(f"{name.upper()} (...) is not followed", place)
    is_part = before is not None and before.is_symbol(".")
    if is_part or token.kind is TokenKind.QUOTED or name not in CALLABLE | _KEYWORDS | _HINTS:
        raise NotFollowedError(f"{token.text}() is in none of the lists of functions that are followed", place)


def of_the_run(name: str, place: TextPlace | None) -> ViewError:
    """The refusal of a function that gives another value in each run."""
    what = f"{name} gives another value in each run, so rows that no change touches would be wrong"
    remedy = "Keep the moment in a column of a source, or give it as a named parameter, :name."
    return ViewError("VIEW_NOT_DETERMINISTIC", what, place, remedy)

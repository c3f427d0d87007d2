"""The text of a view as a tree, with the places of what it says; and what its words alone refuse."""

import itertools
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import sqlglot
from sqlglot import exp
from sqlglot.errors import ErrorLevel, ParseError, SqlglotError, TokenError
from sqlglot.expressions.core import Expr
from sqlglot.tokenizer_core import Token, TokenType

from lakehouse.errors.views import TextPlace, ViewError
from lakehouse.views.algebra import Place
from lakehouse.views.functions import CALLABLE, OF_THE_RUN
from lakehouse.views.sql.row_sql import TIME

CALLED = "called"
"""The key in a node's `meta` under which the function's name stands as the text has it, in lower case."""
REWRITTEN = "rewritten"
"""The key in a function's `meta` that is there if sqlglot would write other texts in it: a format, a unit of time."""


@dataclass(frozen=True, eq=False)
class Text:
    """A text and its words."""

    text: str
    tokens: tuple[Token, ...]

    def at(self, node: Expr, word: str = "") -> TextPlace | None:
        """Where the text says a node: from the last `word` before it, if one is given."""
        span = span_of(node)
        before = [
            token.start
            for token in self.tokens
            if token.text.upper().split()[:1] == word.split()[:1] and (span is None or token.start <= span[0])
        ]
        if span is None:
            span = (before[-1], before[-1] + len(word)) if before else None
        elif word and before:
            span = (before[-1], span[1])
        return None if span is None else TextPlace.of(self.text, *self._whole(*span))

    def of_parameter(self, name: str) -> TextPlace | None:
        """Where the text first names a parameter; one without a name is a question mark."""
        for token, after in itertools.pairwise(self.tokens):
            if token.token_type is TokenType.COLON and after.text == name:
                return self.of_token(token, after)
        unnamed = (token for token in self.tokens if token.token_type is TokenType.PLACEHOLDER)
        return next(map(self.of_token, unnamed), None)

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
        """Where a word is, or several."""
        return TextPlace.of(self.text, first.start, (last or first).end + 1)

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
        """The offset of each word."""
        return tuple(token.start for token in self.tokens)

    @cached_property
    def tables(self) -> Mapping[Place, str]:
        """The tables that the text names, in its order, by their places; no common table expressions."""
        places = {place_of(table): name_of(table) for table in _tables(self.tree, frozenset())}
        return dict(sorted(places.items(), key=lambda each: each[0].start))


def parse(text: str) -> Parsed:
    """The tree of a text.

    Raises:
        ViewError: The text is not one query, or one of its words is refused.
    """
    if "${" in text:
        start = text.index("${")
        place = TextPlace.of(text, start, (text.find("}", start) + 1) or start + 2)
        what = "Spark would put a variable of the session into the text, and another session has another value"
        raise ViewError(
            "VIEW_VARIABLE", what, place, "Write a named parameter, :name, and give its value as an argument."
        )
    tokens = _tokenize(text)
    _refuse_words(Text(text, tokens))
    _refuse_loose_commas(Text(text, tokens))
    trees = _parse_all(text)
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        later = [token for token in tokens if token.token_type is TokenType.SEMICOLON]
        place = Text(text, tokens).of_token(later[0], tokens[-1]) if later else TextPlace.of(text, 0, len(text))
        raise ViewError(
            "VIEW_NOT_A_QUERY", "A view is one query", place, "Write one SELECT, without anything after it."
        )
    parsed = Parsed(text, tokens, trees[0])
    _name_functions(parsed)
    _refuse_calls(parsed)
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
                raise ViewError("VIEW_UNKNOWN_WINDOW", f"No window is called {name.name}", parsed.at(name), remedy)
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


def _tokenize(text: str) -> tuple[Token, ...]:
    """The words of a text."""
    try:
        return tuple(sqlglot.tokenize(text, dialect="spark"))
    except TokenError as error:
        start = max(len(text) - 1, 0)
        what = "The text ends within a quoted name, a text or a comment"
        raise ViewError("VIEW_SYNTAX", what, TextPlace.of(text, start, len(text)), "Close the last quote.") from error


def _parse_all(text: str) -> list[Expr]:
    """The trees of a text."""
    try:
        return [tree for tree in sqlglot.parse(text, dialect="spark") if tree is not None]
    except ParseError as error:
        first = error.errors[0]
        what = f"The text cannot be read: {first['description']}"
        words, line = str(first["highlight"]), int(first["line"])
        place = TextPlace(line, max(int(first["col"]) - len(words) + 1, 1), words)
        raise ViewError("VIEW_SYNTAX", what, place, "Correct the text: it is a query of Spark SQL.") from error


_RUN_TEXT = re.compile(rf"\s*(?:(?:now|today|tomorrow|yesterday)(?:\s+\S+)?|{TIME})\s*", re.IGNORECASE)
"""Texts that Spark takes for the day of the run, or for a time on that day, where it wants a date or a time."""
_OF_NO_DAY = frozenset({"INTERVAL", "TIME"})
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


def _refuse_words(text: Text) -> None:
    """Raise if a word is none that a view can have, wherever it stands."""
    before: Token | None = None
    for token in text.tokens:
        is_of_no_day = before is not None and before.text.upper() in _OF_NO_DAY
        of_run = why_of_the_run(token.text) if token.token_type is TokenType.STRING and not is_of_no_day else None
        if of_run is not None:
            raise ViewError("VIEW_NOT_DETERMINISTIC", of_run, text.of_token(token), RUN_TEXT_REMEDY)
        if token.token_type is TokenType.PIPE_GT:
            remedy = "Write the same query with SELECT, or make the part before |> an asset of its own."
            raise ViewError("VIEW_OPERATOR", "A view has no |>", text.of_token(token), remedy)
        if token.token_type is TokenType.COLON and before is not None and before.token_type in _ENDS:
            what = "A path with a colon goes into a VARIANT, whose values cannot be compared"
            remedy = "Take the value out in an asset of its own: variant_get(column, '$.path', 'type')."
            raise ViewError("VIEW_VARIANT_PATH", what, text.of_token(before, token), remedy)
        before = token


_BEFORE_LISTS = frozenset({TokenType.SELECT, TokenType.FROM, TokenType.GROUP_BY, TokenType.ORDER_BY})
_AFTER_LISTS = frozenset(
    {
        *(TokenType.FROM, TokenType.WHERE, TokenType.GROUP_BY, TokenType.HAVING, TokenType.QUALIFY, TokenType.ORDER_BY),
        *(TokenType.SORT_BY, TokenType.CLUSTER_BY, TokenType.DISTRIBUTE_BY, TokenType.UNION, TokenType.EXCEPT),
        *(TokenType.INTERSECT, TokenType.SEMICOLON),
    }
)


def _refuse_loose_commas(text: Text) -> None:
    """Raise if a comma has nothing before or after it: sqlglot forgives that, and Spark does not."""
    before = (None, *text.tokens)
    after = (*text.tokens[1:], None)
    for one, comma, other in zip(before, text.tokens, after, strict=False):
        begins = one is None or one.token_type in _BEFORE_LISTS | _OPENING
        ends = other is None or other.token_type in _AFTER_LISTS | _CLOSING | {TokenType.COMMA}
        if comma.token_type is TokenType.COMMA and (begins or ends):
            what = f"Nothing stands {'after' if ends else 'before'} this comma"
            raise ViewError("VIEW_SYNTAX", what, text.of_token(comma, other), "Remove the comma.")


_ENDS = frozenset({TokenType.VAR, TokenType.IDENTIFIER, TokenType.R_PAREN, TokenType.R_BRACKET})
"""What a value may end with."""


def _name_functions(parsed: Parsed) -> None:
    """Note the name of each function as the text has it, because several names have one class."""
    is_cut = any(token.token_type in (TokenType.CHAR, TokenType.VARCHAR) for token in parsed.tokens)
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
        depth += {TokenType.L_PAREN: 1, TokenType.R_PAREN: -1}.get(token.token_type, 0)
        if token.token_type is TokenType.STRING:
            texts.append(token.text.casefold())
        if depth <= 0:
            break
    return sorted(texts)


def _texts_written(call: exp.Func) -> list[str] | None:
    """The texts in a call as sqlglot writes it; None if it cannot."""
    try:
        written = call.sql(dialect="spark", unsupported_level=ErrorLevel.IGNORE)
    except (SqlglotError, AttributeError, LookupError, TypeError, ValueError):
        return None
    tokens = sqlglot.tokenize(written, dialect="spark")
    return sorted(token.text.casefold() for token in tokens if token.token_type is TokenType.STRING)


_BEFORE_ALL = frozenset({"union", "except", "intersect", "minus", "select"})
"""What ALL stands after if it does not compare."""
_KEYWORDS = frozenset(
    {
        *(
            "select",
            "distinct",
            "all",
            "from",
            "join",
            "on",
            "using",
            "where",
            "group by",
            "having",
            "qualify",
            "window",
        ),
        *("order by", "sort by", "cluster by", "distribute by", "partition by", "by", "over", "limit", "offset", "as"),
        *("with", "recursive", "union", "except", "intersect", "minus", "lateral", "view", "outer", "tablesample"),
        *("pivot", "unpivot", "values", "and", "or", "not", "in", "exists", "between", "like", "ilike", "rlike"),
        *("regexp", "is", "escape", "case", "when", "then", "else", "any", "some", "div", "interval", "filter"),
        *("within group", "within", "group", "grouping sets", "sets", "rollup", "cube", "decimal", "dec", "numeric"),
        *("varchar", "char", "character", "first", "last", "nulls", "rows", "range", "end", "cross", "semi", "anti"),
        *("natural", "full", "left", "right", "inner", "matched", "replace", "of", "xor", "null"),
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


def _refuse_calls(parsed: Parsed) -> None:
    """Raise if the text calls what no list has, as the words tell: the tree gives several functions one name."""
    aliases = [each.this for each in parsed.tree.find_all(exp.TableAlias) if each.columns]
    named = {name.meta.get("start") for name in aliases if name is not None}
    triples = zip(parsed.tokens, parsed.tokens[1:], (*parsed.tokens[2:], None), strict=False)
    before: Token | None = None
    for token, bracket, inside in triples:
        is_call = bracket.token_type is TokenType.L_PAREN and re.match(r"[`\w]", parsed.text[token.start]) is not None
        if is_call and token.token_type not in _NO_NAMES and token.start not in named:
            _refuse_call(parsed, before, token, inside)
            _refuse_lost_argument(parsed, token)
        before = token


_UNITS = {"date_trunc": 0, "trunc": 1}
"""Functions of a unit, and which argument the unit is. The tree keeps no other unit than a text."""


def _refuse_lost_argument(parsed: Parsed, token: Token) -> None:
    """Raise if the tree would lose an argument of a call: nobody would see that its columns decide the value."""
    name = token.text.lower()
    if name in _UNITS:
        unit = next(iter(_arguments(parsed, token)[_UNITS[name] :]), ())
        if unit and [each.token_type for each in unit] != [TokenType.STRING]:
            what, remedy = (
                f"The unit of {name} is no text",
                "Write CASE around it: WHEN ... THEN date_trunc('DAY', at).",
            )
            raise ViewError("VIEW_UNKNOWN_FUNCTION", what, parsed.of_token(unit[0]), remedy)
    elif name == "percentile" and len(_arguments(parsed, token)) > 2:
        what, remedy = "percentile has a frequency", "Repeat the rows in a subquery, or write the asset in Python."
        raise ViewError("VIEW_UNKNOWN_FUNCTION", what, parsed.of_token(token), remedy)


def _arguments(parsed: Parsed, name: Token) -> list[tuple[Token, ...]]:
    """The tokens of each argument of a call."""
    depth, arguments, argument = 0, list[tuple[Token, ...]](), list[Token]()
    for token in parsed.tokens[bisect_left(parsed.starts, name.start) + 1 :]:
        depth -= token.token_type in _CLOSING
        if depth == 0 and token.token_type is TokenType.R_PAREN:
            break
        if depth == 1 and token.token_type is TokenType.COMMA:
            arguments.append(tuple(argument))
            argument = []
        elif depth > 0:
            argument.append(token)
        depth += token.token_type in _OPENING
    return [*arguments, tuple(argument)]


_OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET})
_CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET})
_NO_NAMES = frozenset({TokenType.NUMBER, TokenType.STRING, TokenType.PARAMETER})


def _refuse_call(parsed: Parsed, before: Token | None, token: Token, inside: Token | None) -> None:
    """Raise if a word before a bracket calls a function that no list has."""
    name, place = " ".join(token.text.lower().split()), parsed.of_token(token)
    is_part = before is not None and before.token_type is TokenType.DOT
    is_quoted = token.token_type is TokenType.IDENTIFIER
    if name in ("all", "any") and not (before is not None and before.text.lower() in _BEFORE_ALL):
        remedy = (
            "Write EXISTS or NOT EXISTS with the condition, a LIKE for each text, or bool_or(...) as the aggregate."
        )
        raise ViewError("VIEW_ANY_ALL", f"A view has no {name.upper()} (...)", place, remedy)
    if not is_part and not is_quoted and name in OF_THE_RUN:
        raise of_the_run(name, place)
    ends = inside is not None and inside.token_type is TokenType.R_PAREN
    if not is_part and not is_quoted and ends and name in ("unix_timestamp", "to_unix_timestamp"):
        raise of_the_run(name, place)
    if is_part or is_quoted or name not in CALLABLE | _KEYWORDS | _HINTS:
        what = f"{token.text}() is in none of the lists of functions that a view may call"
        remedy = "Declaring a function of your own is not yet possible: write the asset in Python."
        raise ViewError("VIEW_UNKNOWN_FUNCTION", what, place, remedy)


def of_the_run(name: str, place: TextPlace | None) -> ViewError:
    """The refusal of a function that gives another value in each run."""
    what = f"{name} gives another value in each run, so rows that no change touches would be wrong"
    remedy = "Keep the moment in a column of a source, or give it as a named parameter, :name."
    return ViewError("VIEW_NOT_DETERMINISTIC", what, place, remedy)

"""The text of a view as a tree, whose functions know the names by which the text calls them."""

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
from lakehouse.views.functions import CALLABLE
from lakehouse.views.sql.tokens import Token, TokenKind, tokens
from lakehouse.views.sql.words import CLOSING, OPENING, Text, begins_path
from lakehouse.views.view_text import NotFollowedError

CALLED = "called"
"""The key in a node's `meta` under which the function's name stands as the text has it, in lower case."""
REWRITTEN = "rewritten"
"""The key in a function's `meta` that is there if sqlglot would write other texts in it: a format, a unit of time."""


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
    parsed = Parsed(words.text, words.tokens, _tree(words))
    _name_functions(parsed)
    return parsed


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


KEPT_FUNCTIONS = frozenset(
    {
        *("array_size", "bit_get", "char_length", "character_length", "date_sub", "from_utc_timestamp", "instr", "len"),
        *("log", "log10", "log2", "map", "named_struct", "reduce", "regexp_like", "sequence", "sha1", "space"),
        *("str_to_map", "to_char", "to_number", "to_timestamp", "to_unix_timestamp", "to_utc_timestamp", "unix_date"),
    }
)
"""Functions of which sqlglot would make others, with another result for some values. It never sees their names."""


def _tree(source: Text) -> exp.Query:
    """The tree of a text, in which a call of a function that would become another one is a call of an unknown name."""
    text = source.text
    for name, bracket in pairwise(source.tokens):
        if bracket.is_symbol("(") and name.is_word(*map(str.upper, KEPT_FUNCTIONS)):
            text = f"{text[: name.end - 1]}_{text[name.end :]}"
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


def _name_functions(parsed: Parsed) -> None:
    """Note the name of each function as the text has it, because several names have one class."""
    is_cut = any(token.is_word("CHAR", "CHARACTER", "VARCHAR") for token in parsed.tokens)
    for node in parsed.tree.walk():
        if isinstance(node, exp.DataType) and is_cut:  # the tree knows no length, and that there was one
            node.meta[REWRITTEN] = True
        if isinstance(node, exp.Func) and "start" in node.meta:
            node.meta[CALLED] = parsed.text[node.meta["start"] : node.meta["end"] + 1].lower()
            if node.meta[CALLED] in KEPT_FUNCTIONS:
                node.set("this", node.meta[CALLED])
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
        depth -= token.text in CLOSING
        if depth == 0 and token.is_symbol(")"):
            break
        if depth == 1 and token.is_symbol(","):
            arguments.append(tuple(argument))
            argument = []
        elif depth > 0:
            argument.append(token)
        depth += token.text in OPENING
    return [*arguments, tuple(argument)]


def _require_known_call(parsed: Parsed, before: Token | None, token: Token) -> None:
    """Raise if a word before a bracket calls a function that no list has."""
    name, place = token.text.lower(), parsed.of_token(token)
    if name in ("all", "any") and not (before is not None and before.text.lower() in _BEFORE_ALL):
        raise NotFollowedError(f"{name.upper()} (...) is not followed", place)
    is_part = before is not None and before.is_symbol(".")
    if is_part or token.kind is TokenKind.QUOTED or name not in CALLABLE | _KEYWORDS | _HINTS:
        raise NotFollowedError(f"{token.text}() is in none of the lists of functions that are followed", place)

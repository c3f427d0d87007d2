"""The text of a view as a tree, whose function nodes keep the names by which the text calls them."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import sqlglot
from sqlglot import exp
from sqlglot.errors import ParseError, SqlglotError
from sqlglot.expressions.core import Expr

from lakehouse.errors.views import TextPlace
from lakehouse.views.algebra import Place
from lakehouse.views.functions import CALLABLE, ROW_FUNCTIONS, TIME_WINDOWS
from lakehouse.views.sql.tokens import Token, TokenKind, begins_path
from lakehouse.views.sql.words import Text
from lakehouse.views.view_text import NotFollowedError

CALLED = "called"
"""The key in a node's `meta` that holds the function's name as the text has it, in lower case."""
REWRITTEN = "rewritten"
"""The key in a type's `meta` that is present if sqlglot may write another type than the text has."""


@dataclass(frozen=True, eq=False)
class Parsed(Text):
    """A text and its tree, whose function nodes keep the name by which the text calls them."""

    tree: exp.Query

    @cached_property
    def tables(self) -> Mapping[Place, str]:
        """The tables that the text names, in its order, by their places; without common table expressions."""
        places = {place_of(table): name_of(table) for table in _tables(self.tree, frozenset())}
        return dict(sorted(places.items(), key=lambda each: each[0].start))


def parse(words: Text) -> Parsed:
    """The tree of a text.

    Raises:
        NotFollowedError: The parser does not know the grammar of the text, or would read it differently from Spark.
    """
    for before, token in pairwise(words.tokens):
        if token.is_symbol(">") and before.is_symbol("|"):
            raise NotFollowedError("the operator |> is not followed", words.of_token(before, token))
        if begins_path(before, token) and not words.text.startswith("::", token.start):
            what = "a path with a colon goes into a VARIANT, whose values cannot be compared"
            raise NotFollowedError(what, words.of_token(before, token))
    parsed = Parsed(words.text, words.tokens, _tree(words))
    _name_functions(parsed)
    for select in parsed.tree.find_all(exp.Select):
        _write_out_windows(select)
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
    """Whether a table node is a name: the parser makes table nodes of functions in FROM, too."""
    return all(isinstance(part, exp.Identifier) for part in table.parts)


def _tables(node: Expr, ctes: frozenset[str]) -> Iterator[exp.Table]:
    """The tables that a part of the tree names."""
    common: exp.With | None = node.args.get("with_")
    for cte in common.expressions if common else ():
        own = {cte.alias.lower()} if common is not None and common.args.get("recursive") else set[str]()
        yield from _tables(cte.this, ctes | own)
        ctes |= {cte.alias.lower()}
    if isinstance(node, exp.Table) and is_table_name(node) and (node.args.get("db") or node.name.lower() not in ctes):
        yield node
    for child in node.iter_expressions():
        if child is not common and not isinstance(child, exp.Hint):
            yield from _tables(child, ctes)


_OF_THE_PARSER = frozenset(
    {
        # functions with a syntax of their own
        *("date_add", "date_diff", "dateadd", "datediff", "extract", "filter", "overlay", "position", "substr"),
        *("substring", "timestampadd", "timestampdiff", "transform", "trim"),
        # functions whose type is known, or when they are NULL
        *("bigint", "binary", "boolean", "coalesce", "date", "double", "float", "ifnull", "int", "lcase", "lower"),
        *("nvl", "smallint", "string", "timestamp", "tinyint", "ucase", "upper"),
    }
)
_KEPT = (ROW_FUNCTIONS - _OF_THE_PARSER) | TIME_WINDOWS | {"map", "percentile"}
"""Functions whose names the parser never sees: it would write other names, lose a column named as a unit, or fail."""


def _tree(source: Text) -> exp.Query:
    """The tree of a text, in which the functions that the parser would rewrite have names that it does not know."""
    text = source.text
    for name, bracket in pairwise(source.tokens):
        if bracket.is_symbol("(") and name.text.lower() in _KEPT:
            text = f"{text[: name.end - 1]}_{text[name.end :]}"
    try:
        trees = [tree for tree in sqlglot.parse(text, dialect="spark") if tree is not None]
    except ParseError as error:
        first = error.errors[0]
        line, length = int(first["line"]), len(str(first["highlight"]))
        column = max(int(first["col"]) - length, 0)
        place = TextPlace(line, column + 1, source.text.split("\n")[line - 1][column : column + length])
        raise NotFollowedError("its grammar is not known", place) from error
    except (SqlglotError, AttributeError, LookupError, TypeError, ValueError, RecursionError) as error:
        raise NotFollowedError("its grammar is not known") from error
    if len(trees) != 1 or not isinstance(trees[0], exp.Query):
        raise NotFollowedError("its grammar is not known")
    return trees[0]


def _name_functions(parsed: Parsed) -> None:
    """Note the name of each function as the text has it, because one class of node stands for several names."""
    is_cut = any(token.is_word("CHAR", "CHARACTER", "VARCHAR") for token in parsed.tokens)
    for node in parsed.tree.walk():
        if isinstance(node, exp.DataType) and is_cut:  # the tree may have lost a length
            node.meta[REWRITTEN] = True
        if isinstance(node, exp.DataType) and isinstance(collation := node.args.get("collate"), exp.Column):
            node.set("collate", exp.Var(this=collation.name))  # a collation is no column
        name = parsed.text[node.meta["start"] : node.meta["end"] + 1] if "start" in node.meta else ""
        if isinstance(node, exp.Func) and name:
            node.meta[CALLED] = name.lower()
        if isinstance(node, exp.Anonymous | exp.Identifier) and name.lower() in _KEPT:  # or an alias with columns
            node.set("this", name)


_OF_A_WINDOW = ("partition_by", "order", "spec")


def _write_out_windows(select: exp.Select) -> None:
    """Replace the name of a window in OVER by its definition in WINDOW. A name with other parts next to it stays."""
    windows: dict[str, exp.Window] = {window.this.name: window for window in select.args.get("windows") or ()}
    if any(window.alias for window in windows.values()):
        return
    for call in list(select.find_all(exp.Window)):
        is_own = call.find_ancestor(exp.Select) is select and not any(map(call.args.get, _OF_A_WINDOW))
        if is_own and call.alias in windows:
            definition = windows[call.alias].copy()
            for part in _OF_A_WINDOW:
                call.set(part, definition.args.get(part))
            call.set("alias", None)
    select.set("windows", None)


_BEFORE_ALL = frozenset({"union", "except", "intersect", "minus", "select"})
"""The words before ALL where it is not part of a comparison."""
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
"""Words that may precede a bracket without being a function; the tree shows what they are."""
_HINTS = frozenset(
    {
        *("broadcast", "broadcastjoin", "mapjoin", "merge", "mergejoin", "shuffle_merge", "shuffle_hash", "coalesce"),
        *("shuffle_replicate_nl", "repartition", "repartition_by_range", "rebalance", "skew"),
    }
)
"""The words of hints, which change no row. Only `coalesce` is the name of a function, too."""


def require_known_calls(parsed: Parsed) -> None:
    """Refuses functions that are in no list. Reads the tokens, because the tree gives several functions one name.

    Raises:
        NotFollowedError: The text calls a function that is in no list.
    """
    aliases = [each.this for each in parsed.tree.find_all(exp.TableAlias) if each.columns]
    named = {name.meta.get("start") for name in aliases if name is not None}
    for before, token, bracket in zip((None, *parsed.tokens), parsed.tokens, parsed.tokens[1:], strict=False):
        if bracket.is_symbol("(") and token.is_name and token.start not in named:
            _require_known_call(parsed, before, token)


def _require_known_call(parsed: Parsed, before: Token | None, token: Token) -> None:
    """Raise if a word before a bracket calls a function that is in no list."""
    name, place = token.text.lower(), parsed.of_token(token)
    if name in ("all", "any") and not (before is not None and before.text.lower() in _BEFORE_ALL):
        raise NotFollowedError(f"{name.upper()} (...) is not followed", place)
    is_part = before is not None and before.is_symbol(".")
    if is_part or token.kind is TokenKind.QUOTED or name not in CALLABLE | _KEYWORDS | _HINTS:
        raise NotFollowedError(f"{token.text}() is in none of the lists of functions that are followed", place)

"""What a text shows before the columns of its tables are known: its tables, and why keys cannot follow its changes."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise
from typing import cast

from sqlglot import exp
from sqlglot.expressions.core import Expr

from lakehouse.errors.views import TextPlace, ViewError
from lakehouse.views.algebra import Place
from lakehouse.views.functions import GENERATORS
from lakehouse.views.sql.grouping import has_aggregate
from lakehouse.views.sql.parsing import CALLED, Parsed, is_table_name, parse, require_known_calls
from lakehouse.views.sql.tokens import tokens
from lakehouse.views.sql.words import Text, cut, of_the_run, span_of, tables_in
from lakehouse.views.view_text import NotFollowedError, Reason


@dataclass(frozen=True, eq=False, slots=True)
class Look:
    """A text that, as far as the text alone shows, gives the same rows for the same tables.

    Args:
        words: Its tokens.
        tables: The tables that it names, in its order and in lower case, without common table expressions.
        parsed: Its tree; None if the parser does not know its grammar.
        why: Why keys cannot follow changes through it; None if its tree shows no reason.
    """

    words: Text
    tables: Mapping[Place, str]
    parsed: Parsed | None
    why: Reason | None = None


@lru_cache(maxsize=256)
def look_through(text: str) -> Look:
    """A text, parsed once.

    Raises:
        ViewError: The text is not one query, gives other rows in each run, or reads more than a run pins.
    """
    words = cut(text)
    try:
        parsed = parse(words)
    except NotFollowedError as error:
        _require_orders(words)
        return Look(words, tables_in(words.tokens), None, error.reason)
    why = why_not_followed(parsed)
    try:
        require_known_calls(parsed)
    except NotFollowedError as error:
        why = why or error.reason
    return Look(words, parsed.tables, parsed, why)


def refuse_user(look: Look, schemas: Mapping[str, Mapping[str, str]]) -> None:
    """Refuses the word `user`, the session's user, in a text that only Spark parses, unless a table has such a column.

    Raises:
        ViewError: The text has the word.
    """
    if any(column.lower() == "user" for columns in schemas.values() for column in columns):
        return
    for before, token in zip((None, *look.words.tokens), look.words.tokens, strict=False):
        if token.is_word("USER") and not (before is not None and (before.is_symbol(".") or before.is_word("AS"))):
            raise of_the_run("user", look.words.of_token(token))


def own_alias(text: str, place: Place) -> str:
    """The name by which the text calls a table that has no alias: the last part of the table's name."""
    return tokens(text[place.start : place.end])[-1].value


_PARTS: dict[type[Expr], tuple[str, str]] = {
    exp.Any: ("ANY (...) is not followed", "ANY"),
    exp.All: ("ALL (...) is not followed", "ALL"),
    exp.QueryTransform: ("TRANSFORM runs a program", "TRANSFORM"),
    exp.CurrentRole: ("the parser takes current_role for a function", ""),
}
"""Parts of a tree that keys can never follow, wherever they are: why, and the keyword with which they begin."""

_QUERY = frozenset({"with_", "order", "sort", "cluster", "distribute", "limit", "offset"})
_READ: dict[type[Expr], frozenset[str]] = {
    exp.Select: _QUERY
    | {"expressions", "hint", "distinct", "from_", "laterals", "joins", "where", "group", "having", "qualify"},
    exp.Subquery: _QUERY | {"this", "alias", "pivots"},
    exp.Union: _QUERY | {"this", "expression", "distinct"},
    exp.Except: _QUERY | {"this", "expression", "distinct"},
    exp.Intersect: _QUERY | {"this", "expression", "distinct"},
    exp.Table: frozenset({"this", "alias", "db", "catalog", "joins", "pivots"}),
    exp.Join: frozenset({"this", "on", "side", "kind", "using", "method"}),
    exp.Window: frozenset({"this", "partition_by", "order", "spec", "over"}),
    exp.Group: frozenset({"expressions", "all"}),
    exp.Lateral: frozenset({"this", "view", "outer", "alias"}),
    exp.CTE: frozenset({"this", "alias"}),
    exp.With: frozenset({"expressions"}),
    exp.Star: frozenset({"except_"}),
    exp.Distinct: frozenset({"expressions"}),
}
"""The arguments that are read of each part of a query; any other is a reason, so that no part of a text is ignored."""


def why_not_followed(parsed: Parsed) -> Reason | None:
    """Why keys cannot follow changes through a text: the first reason that its tree shows; None if it shows none.

    Raises:
        ViewError: The text takes some of its rows without an order that decides which.
    """
    for limit in list(parsed.tree.find_all(exp.Limit, exp.Offset, exp.Fetch)):
        if _is_idle(limit):
            limit.pop()
        else:
            _require_order(parsed, limit)
    return next(chain.from_iterable(_reasons(parsed, node) for node in parsed.tree.walk()), None)


def _is_idle(cut: Expr) -> bool:
    """Whether a LIMIT takes no row away: LIMIT ALL, or that of a query of at most one row."""
    query, count = cut.parent, cut.args.get("expression")
    if isinstance(cut, exp.Limit) and isinstance(count, exp.Var) and count.name.upper() == "ALL":
        return True
    is_some = isinstance(count, exp.Literal) and count.is_int and int(count.name) > 0
    return is_some and query is not None and not query.args.get("offset") and _has_one_row(query)


def _has_one_row(query: Expr) -> bool:
    """Whether a query has at most one row: an aggregate over all rows, or a join of several such queries."""
    if isinstance(query, exp.Subquery):
        return _has_one_row(query.this)
    makes_rows = any(each.meta.get(CALLED) in GENERATORS for each in query.find_all(exp.Func))
    if not isinstance(query, exp.Select) or query.args.get("group") or query.args.get("laterals") or makes_rows:
        return False
    if any(map(has_aggregate, query.expressions)):
        return True
    source, joins = query.args.get("from_"), query.args.get("joins") or ()
    items = () if source is None else (source.this, *(join.this for join in joins))
    return bool(items) and all(map(_has_one_row, items)) and not any(join.side == "FULL" for join in joins)


def _require_order(parsed: Parsed, cut: Expr) -> None:
    """Refuses LIMIT without ORDER BY: Spark then takes any rows, unless it takes none."""
    query = cut.parent
    if not _takes_none(cut) and (query is None or not query.args.get("order")):
        word = cut.key.upper()
        raise _without_order(word, parsed.at(cut, word))


_BEGINS_NUMBER = frozenset("123456789(:")
"""What may stand behind LIMIT, if it is no name and takes more than no row."""


def _require_orders(words: Text) -> None:
    """Refuses LIMIT without ORDER BY in a text that only Spark parses: ORDER must stand directly before it."""
    are_ordered = [False]
    for token, after in pairwise(words.tokens):
        if token.is_symbol("("):
            are_ordered.append(False)
        elif token.is_symbol(")"):
            are_ordered.pop()
        elif token.is_word("ORDER"):
            are_ordered[-1] = True
        elif token.is_symbol(">") and words.text[token.start - 1] == "|" and not after.is_word("LIMIT", "OFFSET"):
            are_ordered[-1] = False
        elif token.is_word("LIMIT", "OFFSET") and after.text[:1] in _BEGINS_NUMBER and not are_ordered[-1]:
            raise _without_order(token.text.upper(), words.of_token(token))


def _without_order(word: str, place: TextPlace | None) -> ViewError:
    what = f"{word} without ORDER BY takes other rows in each run"
    remedy = f"Write ORDER BY before {word}, with enough columns to tell all rows apart."
    return ViewError("VIEW_NOT_DETERMINISTIC", what, place, remedy)


def _takes_none(cut: Expr) -> bool:
    """Whether a cut is LIMIT 0."""
    return isinstance(cut, exp.Limit) and cut.expression == exp.Literal.number(0)


def is_top(parsed: Parsed, node: Expr) -> bool:
    """Whether a part belongs to the outermost query."""
    above = node.parent
    while above is not None and isinstance(above.parent, exp.Subquery):
        above = above.parent
    return above is parsed.tree


def _reasons(parsed: Parsed, node: Expr) -> Iterator[Reason]:
    """The reasons why keys cannot follow changes through a part of the tree."""
    if (part := _PARTS.get(type(node))) is not None:
        yield Reason(part[0], parsed.at(node, part[1]))
    if _takes_none(node) and node.parent is not None and not node.parent.args.get("order"):
        yield Reason("LIMIT 0 takes no row", parsed.at(node, "LIMIT"))
    if isinstance(node, exp.Limit | exp.Offset | exp.Fetch) and not is_top(parsed, node):
        word = node.key.upper()
        why = f"{word} in a subquery takes its rows from all rows, and any of those that its ORDER BY leaves equal"
        yield Reason(why, parsed.at(node, word))
    if (read := _READ.get(type(node))) is not None:
        yield from _unread_arguments(parsed, node, read)
    for kind, check in _CHECKS.items():
        if isinstance(node, kind) and (why := check(parsed, node)) is not None:
            yield why


def _unread_arguments(parsed: Parsed, node: Expr, read: frozenset[str]) -> Iterator[Reason]:
    """A reason for each argument of a part that is not read."""
    for name, value in node.args.items():
        if not value or name in read:
            continue
        inner: object = cast("list[object]", value)[0] if isinstance(value, list) else value
        if type(inner) in _PARTS:  # it has a reason of its own
            continue
        words = name.strip("_").replace("_", " ").removesuffix("" if name == "alias" else "s").upper()
        at = node.expression if isinstance(node, exp.SetOperation) else node
        place = parsed.at(inner if isinstance(inner, Expr) and span_of(inner) else at)
        yield Reason(f"{words} of {type(node).__name__.upper()} is not followed", place)


def _check_table(parsed: Parsed, node: Expr) -> Reason | None:
    """Why an item of FROM is not followed: it must be the name of a table."""
    if isinstance(node.parent, exp.JoinHint) or (isinstance(node, exp.Table) and is_table_name(node)):
        return None
    return Reason("a function stands in FROM", parsed.at(node))


def _check_lateral(parsed: Parsed, node: Expr) -> Reason | None:
    """Why LATERAL is not followed: it must be a LATERAL VIEW, or a generator or a subquery that joins each row."""
    is_read = node.this.meta.get(CALLED) in GENERATORS or isinstance(node.this, exp.Subquery)
    if node.args.get("view") or (is_read and isinstance(node.parent, exp.Join) and _joins_each(node.parent)):
        return None
    return Reason("LATERAL joins under a condition, or calls another function", parsed.at(node, "LATERAL"))


def _joins_each(join: exp.Join) -> bool:
    """Whether a join has no condition, so that each row joins exactly the rows that LATERAL makes from it."""
    on = join.args.get("on")
    is_true = on is None or (isinstance(on, exp.Boolean) and on.this is True)
    return is_true and join.side in ("", "LEFT") and join.kind in ("", "CROSS", "INNER") and not join.args.get("using")


def _check_pivot(parsed: Parsed, node: Expr) -> Reason | None:
    """Why PIVOT or UNPIVOT is not followed: it must be the only one, on the only item of a FROM."""
    item = node.parent
    select = item.parent.parent if item is not None and isinstance(item.parent, exp.From) else None
    is_alone = select is not None and item is not None and len(item.args["pivots"]) == len(node.args["fields"]) == 1
    if is_alone and select is not None and not select.args.get("joins") and not select.args.get("laterals"):
        return None
    return Reason("PIVOT or UNPIVOT stands next to something else in FROM", parsed.at(node, "PIVOT"))


def _check_group(parsed: Parsed, node: Expr) -> Reason | None:
    """Why GROUP BY is not followed: it must name its columns without brackets, or be ALL and nothing else."""
    if node.args.get("all") and node.expressions:
        return Reason("GROUP BY ALL has more columns", parsed.at(node, "GROUP"))
    if not any(isinstance(key, exp.Tuple) for key in node.expressions):
        return None
    return Reason("GROUP BY has brackets around its columns, or brackets without a column", parsed.at(node, "GROUP"))


_COMPARISONS = (exp.EQ, exp.NEQ, exp.GT, exp.GTE, exp.LT, exp.LTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_PREDICATES = (*_COMPARISONS, exp.Between, exp.In, exp.Like, exp.ILike, exp.RegexpLike, exp.Is, exp.Not)


def _check_comparison(parsed: Parsed, node: Expr) -> Reason | None:
    """Why a comparison of a comparison is not followed: Spark reads `a = b IN (c)` from the left, sqlglot does not.

    Brackets around an operand of `<=>` do not count, because sqlglot may have added them.
    """
    for operand in (node.this, node.expression):
        own = operand.this if isinstance(node, exp.NullSafeEQ | exp.NullSafeNEQ) and operand.key == "paren" else operand
        if isinstance(own, _PREDICATES) and not own.meta.get(CALLED):
            return Reason("a comparison of another one without brackets can be read in two ways", parsed.at(node))
    return None


_CHECKS: dict[type[Expr], Callable[[Parsed, Expr], Reason | None]] = {
    exp.Table: _check_table,
    exp.Lateral: _check_lateral,
    exp.Pivot: _check_pivot,
    exp.Group: _check_group,
    **dict.fromkeys(_COMPARISONS, _check_comparison),
}
"""The kinds of node that need a closer look, each with its check."""

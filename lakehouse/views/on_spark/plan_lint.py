"""What in the plan of a PySpark asset would have a view refused, or followed by other keys.

A plan can be seen where a client of Spark Connect sends it: as a protocol buffer. Nothing is said of what cannot be
seen: a plan of classic Spark, a function in Python, a name that the plan makes by an expression.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self
from warnings import catch_warnings

from pyspark.sql import DataFrame

from lakehouse.delta.text import fold
from lakehouse.errors.views import ViewError
from lakehouse.read.touched import Touched
from lakehouse.views.files.calls import calls, window_partitions
from lakehouse.views.functions import AGGREGATES, OF_THE_RUN
from lakehouse.views.sql.tokens import Token, spell, tokens

_CUTS = {"limit": "a limit", "tail": "a limit", "offset": "an offset", "sample": "a sample"}
_KEEPING = ("filter", "sort", "subquery_alias", "repartition", "repartition_by_expression", "hint", "deduplicate")
"""Relations whose columns are those of their input."""
_OF_THE_LEFT = (5, 6)
"""JOIN_TYPE_LEFT_ANTI and JOIN_TYPE_LEFT_SEMI."""


def doubts(rows: DataFrame, touched: Touched) -> tuple[str, ...]:
    """Why rows of touched keys may be others than those of a recompute, as sentences; none of what cannot be seen.

    Args:
        rows: The rows that an asset returned.
        touched: The keys that it returned with them.
    """
    plan = _plan_of(rows)
    if plan is None:
        return ()
    if touched.source is None:  # a query found the keys, or they are those of several sources
        return doubts_of_plan(plan, (), None)
    return doubts_of_plan(plan, touched.columns, _plan_of(touched.source))


def doubts_of_plan(plan: Any, columns: Sequence[str], source: Any) -> tuple[str, ...]:
    """Why rows may be others than those of a recompute, as sentences.

    Args:
        plan: The relation that gives them.
        columns: The columns of the touched keys; none if nothing is known of the keys.
        source: The relation of whose columns the touched keys are values; None if it cannot be seen.
    """
    facts = _PlanFacts.of(plan, source)
    sentences = [f"{each} keeps rows by what rows of other keys are." for each in facts.cuts]
    sentences += [f"{each}() has another value in each run." for each in facts.of_the_run]
    if columns:
        sentences += _about_keys(plan, facts, columns, source)
    return tuple(dict.fromkeys(sentences))


def _about_keys(plan: Any, facts: "_PlanFacts", columns: Sequence[str], source: Any) -> Iterator[str]:
    """What is doubtful because of the columns of the touched keys."""
    key, named = fold(columns), ", ".join(columns)
    for partition in facts.partitions:
        if not all(facts.are_one(column, partition) for column in key):
            by = f"is partitioned by {', '.join(sorted(partition))}" if partition else "has no partition"
            yield f"A window {by}, so a change moves values of rows whose key ({named}) it does not touch."
    for function in facts.of_all_rows:
        yield f"{function}() of all rows moves with any row, also for keys ({named}) that the change does not touch."
    for column in columns:
        words = _expression_of(plan, column.lower())
        if words is not None and (source is None or _expression_of(source, column.lower()) is None):
            yield f"{column} is computed ({words}), and the touched keys are values of the source's own {column}."


def _plan_of(frame: DataFrame) -> Any:
    """The relation that a client of Spark Connect sends for a frame; None of classic Spark."""
    plan: Any = getattr(frame, "_plan", None)
    if plan is None:
        return None
    try:
        with catch_warnings(action="ignore"):  # the client says again what it says when the plan is carried out
            return plan.to_proto(frame.sparkSession.client).root
    except Exception:  # another PySpark has other names inside: then nothing can be seen
        return None


@dataclass(frozen=True, eq=False, slots=True)
class _PlanFacts:
    """What a plan contains. If a relation reads no table of the touched keys, only chance and the clock count in it.

    Args:
        cuts: The relations that keep some rows, in words.
        of_the_run: The functions of chance, of the clock and of the session.
        partitions: The columns of each window's partition, in lower case; windows with other partitions are left out.
        of_all_rows: The aggregates without groups.
        names: Pairs of names for one column.
    """

    cuts: tuple[str, ...]
    of_the_run: tuple[str, ...]
    partitions: tuple[frozenset[str], ...]
    of_all_rows: tuple[str, ...]
    names: frozenset[frozenset[str]]

    @classmethod
    def of(cls, plan: Any, source: Any) -> Self:
        """What a plan has, wherever in it.

        Args:
            plan: The plan.
            source: The relation of whose columns the touched keys are values; None if it cannot be seen.
        """
        tables = None if source is None else _tables(source)
        relations = [each for each in _messages(plan) if _kind(each, "rel_type") is not None]
        about_keys = [each for each in relations if tables is None or tables & _tables(each)]
        own = [part for each in about_keys for part in _own_messages(each)]
        sql = [sequence for each in own if (sequence := _tokens_of(each))]
        every = [*_messages(plan)]
        called = [name for each in every if (name := _function(each)) is not None]
        called += [name for each in every for name in calls(_tokens_of(each))]
        cuts = [_CUTS[str(_kind(each, "rel_type"))] for each in about_keys if _cuts(each)]
        cuts += ["a limit" for each in every for token in _tokens_of(each) if token.is_word("LIMIT")]
        partitions = [part for each in own if (part := _partition(each)) is not None]
        partitions += [part for sequence in sql for part in window_partitions(sequence)]
        return cls(
            tuple(each.capitalize() for each in dict.fromkeys(cuts)),
            tuple(dict.fromkeys(name for name in called if name in OF_THE_RUN)),
            tuple(dict.fromkeys(partitions)),
            tuple(dict.fromkeys(name for each in about_keys for name in _of_all_rows(each))),
            frozenset(pair for each in every for pair in _pairs_of_names(each)),
        )

    def are_one(self, column: str, names: Iterable[str]) -> bool:
        """Whether one of some names is a column, perhaps under another name."""
        reached, former = {column}, set[str]()
        while reached != former:
            former = set(reached)
            reached |= {name for pair in self.names if pair & former for name in pair}
        return bool(reached & set(names))


def _messages(message: Any) -> Iterator[Any]:
    """A message of a protocol buffer and all messages in it."""
    yield message
    for part in _parts(message):
        yield from _messages(part)


def _own_messages(relation: Any) -> Iterator[Any]:
    """A relation and the messages in it that are of no relation below it."""
    yield relation
    for part in _parts(relation):
        if _kind(part, "rel_type") is None:
            yield from _own_messages(part)


def _parts(message: Any) -> Iterator[Any]:
    """The messages right in a message; texts by name, such as the options of a reader, are none."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if not field.message_type.GetOptions().map_entry:
            yield from [*value] if hasattr(value, "__len__") else [value]
        elif field.message_type.fields_by_name["value"].message_type is not None:
            yield from value.values()


def _tables(relation: Any) -> frozenset[bytes]:
    """What a relation reads, below it too."""
    reads = (each for each in _messages(relation) if _kind(each, "rel_type") == "read")
    return frozenset(each.read.SerializeToString(deterministic=True) for each in reads)


def _kind(message: Any, oneof: str) -> str | None:
    """Which of its kinds a relation or an expression is; None of another message."""
    return message.WhichOneof(oneof) if oneof in message.DESCRIPTOR.oneofs_by_name else None


def _cuts(relation: Any) -> bool:
    """Whether a relation keeps some rows of another one, which may be others the next time."""
    kind = _kind(relation, "rel_type")
    return kind in _CUTS and not (kind == "limit" and relation.limit.limit == 0)


def _function(message: Any) -> str | None:
    """The function that an expression calls, in lower case."""
    match _kind(message, "expr_type"):
        case "unresolved_function":
            return message.unresolved_function.function_name.lower()
        case "call_function":
            return message.call_function.function_name.lower()
        case _:
            return None


def _column(expression: Any) -> str | None:
    """The name of the column that an expression is, in lower case and without its table; None of another one."""
    if _kind(expression, "expr_type") == "unresolved_attribute":
        return expression.unresolved_attribute.unparsed_identifier.split(".")[-1].strip("`").lower()
    return None


def _partition(message: Any) -> frozenset[str] | None:
    """The columns of a window's partition; None of another message, or if an expression is among them."""
    if _kind(message, "expr_type") != "window":
        return None
    columns = [_column(each) for each in message.window.partition_spec]
    return None if None in columns else frozenset(name for name in columns if name is not None)


def _of_all_rows(relation: Any) -> Iterator[str]:
    """The aggregates of a relation that has no groups."""
    match _kind(relation, "rel_type"):
        case "aggregate" if not relation.aggregate.grouping_expressions and not relation.aggregate.grouping_sets:
            expressions = relation.aggregate.aggregate_expressions
        case "project":
            expressions = relation.project.expressions
        case _:
            return
    for expression in expressions:
        yield from (name for each in _outside_windows(expression) if (name := _function(each)) in AGGREGATES and name)


def _outside_windows(expression: Any) -> Iterator[Any]:
    """An expression and those in it, without windows and subqueries."""
    if _kind(expression, "expr_type") in ("window", "subquery_expression"):
        return
    yield expression
    for part in _parts(expression):
        yield from _outside_windows(part)


def _pairs_of_names(message: Any) -> Iterator[frozenset[str]]:
    """Pairs of names that a message gives to one column."""
    if _kind(message, "expr_type") == "alias" and len(message.alias.name) == 1:
        column = _column(message.alias.expr)
        if column is not None:
            yield frozenset((column, message.alias.name[0].lower()))
    if _kind(message, "rel_type") == "with_columns_renamed":
        renames = message.with_columns_renamed
        yield from (frozenset((old.lower(), new.lower())) for old, new in renames.rename_columns_map.items())
        yield from (frozenset((each.col_name.lower(), each.new_col_name.lower())) for each in renames.renames)


# the column of a result


def _expression_of(relation: Any, column: str) -> str | None:
    """The words of the expression that a column of a relation is; None of a column, and of what cannot be seen."""
    kind = _kind(relation, "rel_type")
    match kind:
        case "project":
            return _expression_among(relation.project.expressions, relation.project.input, column)
        case "aggregate":
            return _expression_among(relation.aggregate.grouping_expressions, relation.aggregate.input, column)
        case "with_columns":
            own = [each for each in relation.with_columns.aliases if each.name[0].lower() == column]
            if own:
                return _words(own[0].expr)
            return _expression_of(relation.with_columns.input, column)
        case "join" if relation.join.join_type in _OF_THE_LEFT:
            return _expression_of(relation.join.left, column)
        case _ if kind in _KEEPING:
            return _expression_of(getattr(relation, kind).input, column)
        case _:
            return None


def _expression_among(expressions: Iterable[Any], below: Any, column: str) -> str | None:
    """The words of the expression that is a column, among those of a relation over another one."""
    for each in expressions:
        match _kind(each, "expr_type"):
            case "alias" if each.alias.name[0].lower() == column:
                return _words(each.alias.expr)
            case "expression_string":
                sequence = _tokens_of(each)
                if len(sequence) > 2 and sequence[-2].is_word("AS") and sequence[-1].value.lower() == column:
                    before = sequence[:-2]
                    is_name = all(token.is_name or token.is_symbol(".") for token in before)
                    return None if is_name else spell(before)
            case "unresolved_star":
                return _expression_of(below, column)
            case _ if _column(each) == column:
                return _expression_of(below, column)
            case _:
                pass
    return None


def _words(expression: Any) -> str | None:
    """What computes an expression; None of a column, of a cast of one, of a constant, and of what cannot be seen."""
    match _kind(expression, "expr_type"):
        case "alias":
            return _words(expression.alias.expr)
        case "cast":
            return _words(expression.cast.expr)
        case "unresolved_function" | "call_function":
            return f"{_function(expression)}(...)"
        case "expression_string" if len(_tokens_of(expression)) > 1:
            return expression.expression_string.expression
        case _:
            return None


# SQL texts in a plan


def _tokens_of(message: Any) -> tuple[Token, ...]:
    """The tokens of a text of SQL in a plan: of an expression or a query; none of another message."""
    if _kind(message, "expr_type") == "expression_string":
        text = message.expression_string.expression
    elif _kind(message, "rel_type") == "sql":
        text = message.sql.query
    else:
        return ()
    try:
        return tokens(text)
    except ViewError:  # a text that is cut otherwise than Spark cuts it
        return ()

"""What in the plan of a PySpark asset may give other rows in each run: limits, samples, chance, the clock.

A plan can be inspected if a client of Spark Connect sends it, as a protocol buffer. Nothing is reported about what
cannot be inspected: a plan of classic Spark, a function in Python.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any
from warnings import catch_warnings

from pyspark.sql import DataFrame

from lakehouse.errors.views import ViewError
from lakehouse.views.functions import OF_THE_RUN
from lakehouse.views.sql.tokens import Token, TokenKind, tokens

_CUTS = {"limit": "A limit", "tail": "A limit", "offset": "An offset", "sample": "A sample"}


def doubts(rows: DataFrame) -> tuple[str, ...]:
    """Why the rows that an asset returned may differ in the next run, as sentences; none if no plan can be seen."""
    plan: Any = getattr(rows, "_plan", None)
    if plan is None:
        return ()
    try:
        with catch_warnings(action="ignore"):  # the client repeats these warnings when the plan runs
            return doubts_of_plan(plan.to_proto(rows.sparkSession.client).root)
    except Exception:  # other versions of PySpark have other internals: nothing can be inspected
        return ()


def doubts_of_plan(plan: Any) -> tuple[str, ...]:
    """Why the rows of a relation may differ in the next run, as sentences."""
    return tuple(dict.fromkeys(sentence for message in _messages(plan) for sentence in _doubts_of(message)))


def _messages(message: Any) -> Iterator[Any]:
    """A message of a protocol buffer and all messages in it, except the entries of maps, such as options."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for part in [*value] if hasattr(value, "__len__") else [value]:
                yield from _messages(part)


def _doubts_of(message: Any) -> Iterator[str]:
    """Why a relation or an expression by itself gives something else in each run, as sentences."""
    oneofs = message.DESCRIPTOR.oneofs_by_name
    kind = next((message.WhichOneof(name) for name in ("rel_type", "expr_type") if name in oneofs), None)
    if kind in _CUTS and not (kind == "limit" and message.limit.limit == 0):
        yield f"{_CUTS[kind]} keeps rows by what rows of other keys are."
    match kind:
        case "unresolved_function":
            called = [message.unresolved_function.function_name.lower()]
        case "call_function":
            called = [message.call_function.function_name.lower()]
        case "expression_string":
            called = [*_calls(message.expression_string.expression)]
        case "sql":
            called = [*_calls(message.sql.query)]
        case _:
            called = []
    yield from (f"{name}() has another value in each run." for name in called if name in OF_THE_RUN)


def _calls(text: str) -> Iterator[str]:
    """The functions that SQL text calls, in lower case; some functions of the clock need no brackets."""
    try:
        sequence = tokens(text)
    except ViewError:  # the text cannot be cut into tokens as Spark cuts it
        return
    for token, following in pairwise((*sequence, Token(TokenKind.SYMBOL, ";", 0))):
        is_called = following.is_symbol("(") or token.is_word("CURRENT_DATE", "CURRENT_TIMESTAMP", "LOCALTIMESTAMP")
        if token.kind is TokenKind.WORD and is_called:
            yield token.text.lower()

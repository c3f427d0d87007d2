"""What a table expects of its rows, evaluated in the plan of a write: counted and told before anything is written.

What is found goes to who listens: the run keeps it (lakehouse/materialization.py), and logs it as evaluations of asset
checks (lakehouse/dagster/expectation_checks.py), also if it fails.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Any

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from lakehouse.delta.expect import SHOWN_KEYS, Evaluation, Expect
from lakehouse.delta.text import quote
from lakehouse.difference.difference import DELETE, OPERATION
from lakehouse.difference.statements import (
    Create,
    DeleteMatched,
    Insert,
    MarkOnly,
    MergeRows,
    Replace,
    ReplaceMatched,
    ReplaceRows,
    Skip,
    Statement,
)
from lakehouse.errors import ExpectationError, WriteError
from lakehouse.read.run import Run
from lakehouse.spark.diagnosis import first_line
from lakehouse.spark.driver_rows import Local, small
from lakehouse.spark.listeners import Evaluated, tell

_ANSWER = "__lakehouse_expect_{}"
"""The column with what a row answers to the expectation of a number: TRUE, FALSE or NULL."""


def without_broken(rows: DataFrame, expectations: Sequence[Expect]) -> DataFrame:
    """The rows without those that break an expectation which leaves rows out."""
    conditions = [_holds(each) for each in expectations if each.leaves_out]
    return rows.where(reduce(Column.__and__, conditions)) if conditions else rows


def judge_rows(run: Run, rows: DataFrame, *, few: bool) -> DataFrame:
    """The rows of a result that its table takes; what the table expects of them is evaluated in one pass, and told.

    Args:
        run: The run.
        rows: The rows that the run would write, in the columns of the table.
        few: Whether they may be brought to the driver, where the pass that evaluates is the one that computes them.

    Raises:
        WriteError (UNKNOWN_CONDITION): Spark cannot evaluate an expectation over these rows.
        ExpectationError: Rows break an expectation that fails the run.
    """
    expectations = run.table.expectations
    if not expectations:
        return rows
    answered = _with_answers(run.name, rows, expectations)
    local = small(answered) if few else None
    if local is None:
        _act(run, _evaluate(answered, run.table.key_columns, expectations))
        return without_broken(rows, expectations)
    _act(run, _evaluate_local(local, run.table.key_columns, expectations))
    broken = [_broken(local, nth) for nth, each in enumerate(expectations) if each.leaves_out]
    stays = [not any(of_row) for of_row in zip(*broken, strict=True)] if broken else [True] * local.rows
    return local.where(pa.array(stays, pa.bool_())).select(rows.columns).frame


def evaluate(
    asset: str, rows: DataFrame, key: tuple[str, ...], expectations: Sequence[Expect]
) -> tuple[Evaluation, ...]:
    """What each expectation says of some rows, in one pass over them.

    Raises:
        WriteError (UNKNOWN_CONDITION): Spark cannot evaluate a condition over these rows.
    """
    return _evaluate(_with_answers(asset, rows, expectations), key, expectations) if expectations else ()


def judge_statement(run: Run, statement: Statement | Skip, judged: Column | None = None) -> Statement | Skip:
    """The statement, once what its table expects of the rows that it inserts and updates is evaluated and told.

    Args:
        run: The run.
        statement: What is to be committed.
        judged: Which of these rows are judged; None for all of them.

    Raises:
        WriteError (UNKNOWN_CONDITION), ExpectationError: As of `judge_rows`.
    """
    match statement:
        case MergeRows(difference=difference):
            rows = difference.where(f"{OPERATION} <> '{DELETE}'")
        case (
            Create(rows=rows)
            | Insert(rows=rows)
            | Replace(rows=rows)
            | ReplaceRows(rows=rows)
            | ReplaceMatched(rows=rows)
        ):
            pass
        case DeleteMatched() | MarkOnly() | Skip():
            return statement
    judge_rows(run, rows if judged is None else rows.where(judged), few=False)
    return statement


def _with_answers(asset: str, rows: DataFrame, expectations: Sequence[Expect]) -> DataFrame:
    """The rows, each with its answer to each expectation."""
    answers = [F.expr(each.condition).alias(_ANSWER.format(nth)) for nth, each in enumerate(expectations)]
    try:
        answered = rows.select("*", *answers)
        fields = answered.schema.fields[-len(answers) :]
    except AnalysisException as error:
        raise _unknown(asset, rows, expectations) or error from error
    for each, field in zip(expectations, fields, strict=True):
        if not isinstance(field.dataType, BooleanType):
            problem = f"its value is of type {field.dataType.simpleString()}, and not a boolean"
            raise WriteError.unknown_condition(asset, each.check_name, each.condition, problem)
    return answered


def _unknown(asset: str, rows: DataFrame, expectations: Sequence[Expect]) -> WriteError | None:
    """The error of the first expectation that Spark cannot evaluate; None if it can evaluate each of them."""
    for each in expectations:
        try:
            _ = rows.select(F.expr(each.condition)).schema
        except AnalysisException as error:
            return WriteError.unknown_condition(asset, each.check_name, each.condition, first_line(error))
    return None


def _holds(expectation: Expect) -> Column:
    return F.coalesce(F.expr(expectation.condition), F.lit(False))


def _evaluate(answered: DataFrame, key: tuple[str, ...], expectations: Sequence[Expect]) -> tuple[Evaluation, ...]:
    """What each expectation says of rows that are not at the driver: one pass, and one more for keys of broken rows."""
    broken = [~F.coalesce(F.col(_ANSWER.format(nth)), F.lit(False)) for nth in range(len(expectations))]
    (counts,) = answered.agg(F.count(F.lit(1)), *map(F.count_if, broken)).collect()
    shown = [F.col(quote(name)).cast("string").alias(name) for name in key]

    def keys(is_broken: Column) -> tuple[dict[str, str], ...]:
        rows = answered.where(is_broken).limit(SHOWN_KEYS).select(*shown).collect()
        return tuple(_key(row.asDict()) for row in rows)

    return tuple(
        Evaluation(each, counts[0], count, keys(is_broken) if count and key else ())
        for each, is_broken, count in zip(expectations, broken, counts[1:], strict=True)
    )


def _evaluate_local(local: Local, key: tuple[str, ...], expectations: Sequence[Expect]) -> tuple[Evaluation, ...]:
    """What each expectation says of rows that are at the driver."""
    evaluations = list[Evaluation]()
    for nth, each in enumerate(expectations):
        rows = local.where(pa.array(_broken(local, nth), pa.bool_()))
        some = rows.take(range(min(rows.rows, SHOWN_KEYS))).select(key)
        keys = tuple(map(_key, some.arrow.to_pylist())) if key else ()
        evaluations.append(Evaluation(each, local.rows, rows.rows, keys))
    return tuple(evaluations)


def _broken(local: Local, nth: int) -> list[bool]:
    """Whether each row breaks the expectation of a number."""
    answers: list[bool | None] = local.column(_ANSWER.format(nth)).to_pylist()
    return [answer is not True for answer in answers]


def _key(values: dict[str, Any]) -> dict[str, str]:
    return {name: "NULL" if value is None else str(value) for name, value in values.items()}


def _act(run: Run, evaluations: tuple[Evaluation, ...]) -> None:
    """Tells what was found, and fails if an expectation says so. Of no row nothing is said."""
    if not evaluations[0].rows:
        return
    tell(Evaluated(evaluations))
    for each in evaluations:
        if each.broken and each.expect.on_failure == "fail":
            raise ExpectationError(run.name, each.expect.check_name, each.clause)

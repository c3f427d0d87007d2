"""What a table expects of its rows, evaluated in the plan of a write: counted and told before anything is written.

What is found goes to who listens: the run keeps it (lakehouse/materialization.py), and logs it as evaluations of asset
checks (lakehouse/dagster/expectation_checks.py), also if it fails.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import reduce
from operator import attrgetter, methodcaller

from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType

from lakehouse.delta.expect import BROKEN_NAMES, OWN_COLUMNS, SHOWN_KEYS, Evaluation, Expect
from lakehouse.delta.text import fold, quote
from lakehouse.difference.row_comparison import DELETE, OPERATION
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
from lakehouse.read.asset import PastRows
from lakehouse.read.run import Run
from lakehouse.spark.diagnosis import first_line, is_of_the_asset
from lakehouse.spark.driver_rows import Local, compute_once
from lakehouse.spark.listeners import Evaluated, tell

_ANSWER = "__lakehouse_expect_{}"
"""The column with what a row answers to the expectation of a number: TRUE, FALSE or NULL."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The rows of a result by what its table expects of them.

    Args:
        taken: Those that the table takes.
        rejected: Those for its quarantine, with the names of what they break; None if the table has no quarantine.
        rejects: Whether there may be such rows.
    """

    taken: DataFrame
    rejected: DataFrame | None = None
    rejects: bool = True


def split(asset: str, rows: DataFrame, key: tuple[str, ...], expectations: Sequence[Expect]) -> Judged:
    """The rows that a table takes and those for its quarantine, without counting them.

    Raises:
        WriteError (UNKNOWN_CONDITION): Spark cannot evaluate an expectation over these rows.
    """
    leaving = [each for each in expectations if each.leaves_out]
    return _split(_with_answers(asset, rows, key, leaving), leaving) if leaving else Judged(rows)


def judge_rows(run: Run, rows: DataFrame, *, few: bool) -> Judged:
    """The rows of a result by what its table expects of them, which is evaluated and told.

    The rows are computed once: a second computation may give other rows, and a row that breaks an expectation in one of
    the two would be in neither table, or in the table unjudged.

    Raises:
        WriteError (UNKNOWN_CONDITION): Spark cannot evaluate an expectation over these rows.
        WriteError (SCHEMA): They have a column that only a quarantine has.
        ExpectationError: Rows break an expectation that fails the run.
    """
    expectations, key = run.table.expectations, run.table.key_columns
    if not expectations:
        return Judged(rows)
    if run.table.quarantines:
        _refuse_own_columns(run.name, rows.columns)
    with _blaming_conditions(run.name, rows, expectations):
        answered = compute_once(_with_answers(run.name, rows, key, expectations), few=few)
        evaluations = _evaluate(answered, key, expectations)
    _act(run, evaluations)
    rejects = any(each.broken and each.expect.quarantines for each in evaluations)
    return replace(_split(answered.frame if isinstance(answered, Local) else answered, expectations), rejects=rejects)


def _refuse_own_columns(asset: str, columns: Sequence[str]) -> None:
    own = fold(OWN_COLUMNS)
    problems = {name: "is a column that its quarantine has itself" for name in columns if name.lower() in own}
    if problems:
        raise WriteError.schema(asset, problems, "Rename it in the asset.")


def _split(answered: DataFrame, expectations: Sequence[Expect]) -> Judged:
    """The rows with their answers by what becomes of them."""
    broken = {nth: _is_broken(nth) for nth, each in enumerate(expectations) if each.leaves_out}
    taken = answered.where(~reduce(Column.__or__, broken.values())) if broken else answered
    answers = [_ANSWER.format(nth) for nth in range(len(expectations))]
    names = {expectations[nth].check_name: each for nth, each in broken.items() if expectations[nth].quarantines}
    if not names:
        return Judged(taken.drop(*answers))
    rejected = answered.where(reduce(Column.__or__, names.values()))
    # In the order of their names, because the order in which they are written decides no row.
    listed = F.array_compact(F.array(*(F.when(names[name], F.lit(name)) for name in sorted(names))))
    return Judged(taken.drop(*answers), rejected.withColumn(BROKEN_NAMES, listed).drop(*answers))


def evaluate(
    asset: str, rows: DataFrame, key: tuple[str, ...], expectations: Sequence[Expect]
) -> tuple[Evaluation, ...]:
    """What each expectation says of some rows, in one pass over them.

    Raises:
        WriteError (UNKNOWN_CONDITION): Spark cannot evaluate a condition over these rows.
    """
    if not expectations:
        return ()
    with _blaming_conditions(asset, rows, expectations):
        return _evaluate(_with_answers(asset, rows, key, expectations), key, expectations)


@contextmanager
def _blaming_conditions(asset: str, rows: DataFrame, expectations: Sequence[Expect]) -> Generator[None]:
    """Names the condition that fails over rows that Spark can compute, by computing once more what has failed.

    Raises:
        WriteError (UNKNOWN_CONDITION): It is an expectation that fails.
    """
    try:
        yield
    except PySparkException as error:
        may_be_condition = is_of_the_asset(error) and _can_be_computed(rows)
        culprit = _find_culprit(asset, rows, expectations, methodcaller("collect")) if may_be_condition else None
        if culprit is None:
            raise
        raise culprit from error


def _find_culprit(
    asset: str, rows: DataFrame, expectations: Sequence[Expect], evaluate: Callable[[DataFrame], object]
) -> WriteError | None:
    """The error of the first expectation that cannot be evaluated; None if each of them can."""
    for each in (each for each in expectations if not each.is_of_key):
        try:
            evaluate(rows.agg(F.count_if(F.expr(each.condition))))
        except PySparkException as error:
            return WriteError.unknown_condition(asset, each.check_name, each.condition, first_line(error))
    return None


def _can_be_computed(rows: DataFrame) -> bool:
    try:
        rows.write.format("noop").mode("overwrite").save()
    except PySparkException:
        return False
    return True


def judge_statement(run: Run, statement: Statement | Skip, judged: Column | None = None) -> Statement | Skip:
    """The statement, once what its table expects of the rows that it inserts and updates is evaluated and told.

    `judged` says which of these rows are judged; None for all of them.

    Raises:
        WriteError (UNKNOWN_CONDITION), ExpectationError: As of `judge_rows`.
    """
    expectations = run.table.expectations
    if not expectations:
        return statement
    match statement:
        case MergeRows(difference=difference):
            rows = difference.where(f"{OPERATION} <> '{DELETE}'")
        case Create(rows=rows):  # those of other statements have been computed once, for the comparison
            rows = rows.localCheckpoint()
            statement = Create(rows)
        case Insert(rows=rows) | Replace(rows=rows) | ReplaceRows(rows=rows) | ReplaceMatched(rows=rows):
            pass
        case DeleteMatched() | MarkOnly() | Skip():
            return statement
    judged_rows = rows if judged is None else rows.where(judged)
    _act(run, evaluate(run.name, judged_rows, run.table.key_columns, expectations))
    return statement


def _with_answers(asset: str, rows: DataFrame, key: tuple[str, ...], expectations: Sequence[Expect]) -> DataFrame:
    """The rows, each with its answer to each expectation."""
    answers = [_answer(each, key, expectations).alias(_ANSWER.format(nth)) for nth, each in enumerate(expectations)]
    try:
        answered = rows.select("*", *answers)
        fields = answered.schema.fields[-len(answers) :]
    except AnalysisException as error:
        raise _find_culprit(asset, rows, expectations, attrgetter("schema")) or error from error
    for each, field in zip(expectations, fields, strict=True):
        if not isinstance(field.dataType, BooleanType):
            problem = f"its value is of type {field.dataType.simpleString()}, and not a boolean"
            raise WriteError.unknown_condition(asset, each.check_name, each.condition, problem)
    return answered


def _answer(each: Expect, key: tuple[str, ...], expectations: Sequence[Expect]) -> Column:
    """What a row answers to an expectation. Of its key only rows are counted that no other expectation leaves out."""
    if not each.is_of_key:
        return F.expr(each.condition)
    conditions = [F.expr(other.condition) for other in expectations if other.leaves_out and not other.is_of_key]
    stays = reduce(Column.__and__, (F.coalesce(holds, F.lit(False)) for holds in conditions), F.lit(True))
    columns = [F.col(quote(name)) for name in key]
    is_alone = F.count_if(stays).over(Window.partitionBy(*columns)) == 1
    return reduce(Column.__and__, (column.isNotNull() for column in columns), is_alone) | ~stays


def _is_broken(nth: int) -> Column:
    """Whether a row with its answers breaks the expectation of a number."""
    return ~F.coalesce(F.col(_ANSWER.format(nth)), F.lit(False))


def _evaluate(
    answered: Local | DataFrame, key: tuple[str, ...], expectations: Sequence[Expect]
) -> tuple[Evaluation, ...]:
    """What each expectation says of rows with their answers: a Spark job counts them, unless they are at the driver."""
    broken = [_is_broken(nth) for nth in range(len(expectations))]
    if isinstance(answered, Local):
        answers = (answered.column(_ANSWER.format(nth)).to_pylist() for nth in range(len(expectations)))
        frame, counts = answered.frame, [answered.rows, *(answered.rows - each.count(True) for each in answers)]
    else:
        frame, (counts,) = answered, answered.agg(F.count(F.lit(1)), *map(F.count_if, broken)).collect()
    shown = [F.col(quote(name)).cast("string").alias(name) for name in key]

    def keys(is_broken: Column) -> tuple[dict[str, str], ...]:
        rows = frame.where(is_broken).limit(SHOWN_KEYS).select(*shown).collect()
        return tuple({name: "NULL" if value is None else value for name, value in row.asDict().items()} for row in rows)

    return tuple(
        Evaluation(each, counts[0], count, keys(is_broken) if count and key else ())
        for each, is_broken, count in zip(expectations, broken, counts[1:], strict=True)
    )


def _act(run: Run, evaluations: tuple[Evaluation, ...]) -> None:
    """Tells what was found, and fails if an expectation says so. Of no row nothing is said."""
    if not evaluations[0].rows:
        return
    tell(Evaluated(evaluations))
    for each in evaluations:
        if each.broken and each.expect.on_failure == "fail":
            appends = run.asset.past is PastRows.APPENDED
            raise ExpectationError(run.name, each.expect.check_name, each.clause, appends=appends)

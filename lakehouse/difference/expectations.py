"""What a table expects of its rows, evaluated in the plan of a write: counted and reported before any row is written.

The results go to the listeners: the run keeps them (lakehouse/materialization.py), and logs them as evaluations of
asset checks (lakehouse/dagster/expectation_checks.py), even if it fails.
"""

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import attrgetter, methodcaller

import pyarrow as pa
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from lakehouse.cursor.cursor import Fresh, Known
from lakehouse.cursor.find import find_cursor
from lakehouse.delta.expect import BROKEN_NAMES, NTH, OWN_COLUMNS, RUN_ID, SHOWN_KEYS, SUFFIX, Evaluation, Expect
from lakehouse.delta.log import Head, version_of
from lakehouse.delta.text import fold, quote
from lakehouse.difference.by_key import statement_by_key
from lakehouse.difference.row_comparison import DELETE, OPERATION, difference, with_promises
from lakehouse.difference.statements import (
    Create,
    DeleteMatched,
    Insert,
    MarkOnly,
    MergeRows,
    Planned,
    Replace,
    ReplaceMatched,
    ReplaceRows,
    Skip,
    Statement,
    WithQuarantine,
)
from lakehouse.errors import ExpectationError, TableError, WriteError
from lakehouse.read.asset import Asset, OtherTable, PastRows
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.spark.abilities import keep
from lakehouse.spark.broken_promises import Breach, breach_sql
from lakehouse.spark.diagnosis import first_line, is_of_the_asset
from lakehouse.spark.driver_rows import Local, compute_once
from lakehouse.spark.fitting import fit
from lakehouse.spark.progress import Evaluated, tell
from lakehouse.spark.table_version import TableVersion
from lakehouse.spark.types import comparable

_ANSWER = "__lakehouse_expect_{}"
"""The column with the answer of a row to the expectation with this number: TRUE, FALSE or NULL."""


@dataclass(frozen=True, slots=True)
class Judged:
    """The rows of a result, split by what its table expects of them."""

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
    """The rows of a result, split by what its table expects of them, which is evaluated and reported.

    The rows are computed once: a second computation may give other rows, and a row that breaks an expectation in only
    one of the two would be in neither table, or in the table unjudged.

    Raises:
        WriteError (UNKNOWN_CONDITION): Spark cannot evaluate an expectation over these rows.
        WriteError (SCHEMA): The rows have a column that only a quarantine has.
        ExpectationError: Rows break an expectation that fails the run.
    """
    expectations, key = run.table.expectations, run.table.key_columns
    if not expectations:
        return Judged(rows)
    if run.table.quarantines:
        own = fold(OWN_COLUMNS)
        problems = {name: "is a column that its quarantine has itself" for name in rows.columns if name.lower() in own}
        if problems:
            raise WriteError.schema(run.name, problems, "Rename it in the asset.")
    with _blaming_conditions(run.name, rows, expectations):
        answered = compute_once(_with_answers(run.name, rows, key, expectations), few=few)
        evaluations = _evaluate(answered, key, expectations)
    _act(run, evaluations)
    rejects = any(each.broken and each.expect.quarantines for each in evaluations)
    return replace(_split(answered.frame if isinstance(answered, Local) else answered, expectations), rejects=rejects)


def _split(answered: DataFrame, expectations: Sequence[Expect]) -> Judged:
    """The rows, given with their answers, split by what becomes of them."""
    broken = {nth: _is_broken(nth) for nth, each in enumerate(expectations) if each.leaves_out}
    taken = answered.where(~reduce(Column.__or__, broken.values())) if broken else answered
    answers = [_ANSWER.format(nth) for nth in range(len(expectations))]
    names = {expectations[nth].check_name: each for nth, each in broken.items() if expectations[nth].quarantines}
    if not names:
        return Judged(taken.drop(*answers))
    rejected = answered.where(reduce(Column.__or__, names.values()))
    # In the order of their names, so that the order in which they are declared changes no row.
    listed = F.array_compact(F.array(*(F.when(names[name], F.lit(name)) for name in sorted(names))))
    return Judged(taken.drop(*answers), rejected.withColumn(BROKEN_NAMES, listed).drop(*answers))


def evaluate(
    asset: str, rows: DataFrame, key: tuple[str, ...], expectations: Sequence[Expect]
) -> tuple[Evaluation, ...]:
    """How some rows meet each expectation, in one pass over the rows."""
    if not expectations:
        return ()
    with _blaming_conditions(asset, rows, expectations):
        return _evaluate(_with_answers(asset, rows, key, expectations), key, expectations)


@contextmanager
def _blaming_conditions(asset: str, rows: DataFrame, expectations: Sequence[Expect]) -> Generator[None]:
    """Names the condition that failed, if Spark can compute the rows themselves; to find out, both are tried again.

    Raises:
        WriteError (UNKNOWN_CONDITION): An expectation fails.
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
    """The statement, after the expectations of its table are evaluated on the rows that it inserts and updates.

    `judged` selects the rows that are judged; None for all of them.
    """
    expectations = run.table.expectations
    if not expectations:
        return statement
    match statement:
        case MergeRows(difference=difference):
            rows = difference.where(f"{OPERATION} <> '{DELETE}'")
        case Create(rows=rows):  # rows of other statements were computed once, for the comparison
            rows = keep(rows)
            statement = Create(rows)
        case ReplaceRows(differing=DataFrame() as rows):
            pass
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
    """What a row answers to an expectation. A unique key counts only rows that no other expectation leaves out."""
    if not each.is_of_key:
        return F.expr(each.condition)
    conditions = [F.expr(other.condition) for other in expectations if other.leaves_out and not other.is_of_key]
    stays = reduce(Column.__and__, (F.coalesce(holds, F.lit(False)) for holds in conditions), F.lit(True))
    columns = [F.col(quote(name)) for name in key]
    is_alone = F.count_if(stays).over(Window.partitionBy(*columns)) == 1
    return reduce(Column.__and__, (column.isNotNull() for column in columns), is_alone) | ~stays


def _is_broken(nth: int) -> Column:
    """Whether a row with its answers breaks the expectation with a number."""
    return ~F.coalesce(F.col(_ANSWER.format(nth)), F.lit(False))


def _evaluate(
    answered: Local | DataFrame, key: tuple[str, ...], expectations: Sequence[Expect]
) -> tuple[Evaluation, ...]:
    """How rows with their answers meet each expectation: a Spark job counts them, unless they are at the driver."""
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
    """Reports what was found, unless there is no row, and fails if an expectation demands it."""
    if not evaluations[0].rows:
        return
    tell(Evaluated(evaluations))
    for each in evaluations:
        if each.broken and each.expect.on_failure == "fail":
            appends = run.asset.past is PastRows.APPENDED
            raise ExpectationError(run.name, each.expect.check_name, each.clause, appends=appends)


def with_quarantine(
    spark: SparkSession,
    run: Run,
    statement: Statement | Skip,
    judged: Judged,
    touched: Touched | None,
    head: Head | None,
    *,
    one_each: bool = False,
) -> Planned:
    """The statement of the table, preceded by that of its quarantine if the table has one or had one.

    With `one_each` a key has at most one rejected row, because later runs may see only some of its rows.

    Raises:
        WriteError (BROKEN_PROMISE): While the rows are written: a key has two rejected rows, with `one_each`.
        WriteError (SCHEMA): The rows do not fit the quarantine.
        TableError (FOREIGN_TABLE): Another program made the table that is there.
    """
    had = run.cursor.mark.beside if isinstance(run.cursor, Known) else None
    if not run.table.quarantines and had is None:
        return statement
    own = _run_of_quarantine(spark, run, head, sets_all=touched is None or touched.is_everything)
    return WithQuarantine(own, _plan(spark, own, judged, touched, run.table.key_columns, one_each=one_each), statement)


def _run_of_quarantine(spark: SparkSession, run: Run, head: Head | None, *, sets_all: bool) -> Run:
    """The run as a writer of the quarantine: with the quarantine's epochs, and without a position in any source."""
    ref = run.ref.beside(SUFFIX)
    log = ref.log(lambda: spark)
    own_head = log.head()
    by_request = run.request.overrides_mark
    cursor = find_cursor(log, own_head, ref.name, run.partitions, positions=False, overrides_mark=by_request)
    if isinstance(cursor, Fresh) and cursor.foreign is not None:
        raise TableError.foreign_table(ref.name, ref.location, cursor.foreign, "quarantine")
    asset = Asset(ref.name, run.table.quarantine, ref, PastRows.COMPUTED)
    table = OtherTable(version_of(head), sets_all=sets_all)
    return Run(asset, run.run_id, cursor, own_head, slice=run.slice, owned=run.owned, other_table=table)


def _plan(
    spark: SparkSession, run: Run, judged: Judged, touched: Touched | None, key: tuple[str, ...], *, one_each: bool
) -> Statement | Skip:
    """The statement that brings the quarantine up to date. If no row is rejected, an empty one costs no Spark job.

    A quarantine that does not exist is created even without rows, so that it can be read from the first run on.
    """
    head, rejected, asset = run.head, judged.rejected, run.name.removesuffix(SUFFIX)
    if not judged.rejects and head is not None and run.ref.log(lambda: spark).live_rows(head.version) == 0:
        return Skip()
    if head is None:
        if rejected is None:
            return Skip()
        numbered = with_numbers(rejected if judged.rejects else rejected.limit(0), key, one_each=one_each)
        rows = with_promises(asset, numbered, touched)
        created = difference(rows, None, run.table.key_columns).drop(OPERATION)
        return Create(created.withColumn(RUN_ID, F.lit(run.run_id)))
    stored = TableVersion.of(spark, run.ref, head).rows()
    within = run.within(stored.schema)
    existing = (stored if within is None else stored.where(within)).drop(RUN_ID)
    rows = existing.limit(0)
    if rejected is not None and judged.rejects:
        rows = fit(run.ref, with_numbers(rejected, key, one_each=one_each), existing.schema, may_add=True)
    stamp = partial(_with_run_id, run_id=run.run_id)
    return statement_by_key(run, rows, touched, existing, head, Skip(), asset=asset, stamp=stamp)


def with_numbers(rejected: DataFrame, key: tuple[str, ...], *, one_each: bool = False) -> DataFrame:
    """The rows, each with its number among the rows of its key: by the order of values, so always the same.

    With `one_each` a key with two rows breaks a promise (`Breach.TWICE`).
    """
    order = [F.expr(text) for text in comparable(rejected.schema).values()]
    number = F.row_number().over(Window.partitionBy(*map(quote, key)).orderBy(*order))
    if one_each:
        twice = breach_sql(Breach.TWICE, {column: quote(column) for column in key})
        number = F.when(number > 1, F.raise_error(F.expr(twice))).otherwise(number)
    return rejected.withColumn(NTH, number)


def _with_run_id(changed: Local | DataFrame, run_id: str) -> Local | DataFrame:
    """The rows to write, with the id of the run that writes them. A row that stays keeps the run that put it there."""
    if not isinstance(changed, Local):
        return changed.withColumn(RUN_ID, F.lit(run_id))
    schema = StructType([*changed.schema.fields, StructField(RUN_ID, StringType())])
    column = pa.array([run_id] * changed.rows, pa.string())
    return Local(changed.spark, schema, changed.arrow.append_column(RUN_ID, column))

"""A full extract: its version compared with the table's, its keys, the columns that it lacks, and its corrections."""

from collections.abc import Callable, Iterator
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.cursor.cursor import Fresh, Known
from lakehouse.cursor.extract_version import ExtractVersion
from lakehouse.cursor.mark import Mark
from lakehouse.cursor.walk import Past, readable_mark, standing
from lakehouse.delta.commit_info import COLUMN_CHANGES, Commit
from lakehouse.delta.log import Head
from lakehouse.delta.text import fold, quote, same
from lakehouse.errors import RESTATE_FROM, ExtractError, WriteError
from lakehouse.read.asset import PastRows
from lakehouse.read.run import Run
from lakehouse.spark.broken_promises import Breach, breach_sql
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.driver_rows import Local, compute_once, is_empty, matching
from lakehouse.spark.table_version import TableVersion


def version_after(run: Run, version: ExtractVersion, *, refuses_older: bool) -> ExtractVersion:
    """The version of the table's extract after the run: the newer of the table's and the run's.

    Raises:
        ExtractError (UNKNOWN_EXTRACT): The order of the two is not known.
        ExtractError (OLDER_EXTRACT): The extract is older than the table's.
        WriteError: The run is to restate from another extract.
    """
    if "version" in run.request.allowed:
        return version
    match run.cursor:
        case Fresh():
            return version
        case Known(mark=mark) if mark.extract is not None:
            newest = mark.extract
        case Known(version=at):
            raise ExtractError.unknown_extract(run.name, str(version), f"its version {at} was not made from an extract")
        case lost:
            raise ExtractError.unknown_extract(run.name, str(version), lost.reason)
    if newest.kind != version.kind:
        raise ExtractError.unknown_extract(
            run.name, str(version), f"it holds extract {newest}, of type {newest.kind}, not {version.kind}"
        )
    if run.request.restate_from is not None and not version.is_named(run.request.restate_from):
        raise WriteError(
            f"'{run.name}' is to be restated from {run.request.restate_from}, but its extract is {version}.",
            f"Nothing was written. Deliver that extract, or materialize with the run tag "
            f"{RESTATE_FROM}{run.name}={version}.",
        )
    if not version.is_before(newest) or run.request.restate_from is not None:
        return version
    if refuses_older:
        keeps_past = run.asset.past is PastRows.KEPT
        raise ExtractError.older_extract(run.name, str(version), str(newest), keeps_past=keeps_past)
    return newest


def refuse_null_keys(rows: DataFrame, key_columns: tuple[str, ...]) -> DataFrame:
    """The extract, with a plan that fails at a row with NULL in its key, because the row would replace another one.

    The check is a projection: Spark may compute a condition before a join or condition of the asset has left rows out.
    """
    key = fold(key_columns)
    named = {name: quote(name) for name in rows.columns if name.lower() in key}
    is_null = " OR ".join(f"{column} IS NULL" for column in named.values())
    problem = breach_sql(Breach.NULL_KEY, named)
    first, *_ = named

    def check(field: StructField) -> Column:
        if field.name != first:
            return F.col(quote(field.name))
        kind = field.dataType.simpleString()
        value = f"CASE WHEN {is_null} THEN CAST(raise_error({problem}) AS {kind}) ELSE {quote(field.name)} END"
        return F.expr(value).alias(field.name, metadata=field.metadata)

    return rows.select(*map(check, rows.schema.fields))


def fill(run: Run, rows: DataFrame, stored: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """The extract with the stored values of the columns that it lacks; NULL for keys that are not stored.

    A column that Delta computes stays away, and is refused as missing: a stored value may not fit the other columns.
    """
    delivered = fold(rows.columns)
    lacking = [column for column in stored.columns if column.lower() not in delivered]
    if lacking and run.head is not None:
        declared = run.ref.log(lambda: stored.sparkSession).file_schema(run.head.version)
        computed = frozenset[str]() if declared is None else declared.computed_columns
        lacking = [column for column in lacking if column.lower() not in computed]
    if not lacking:
        return rows
    keys = {f"__stored_{index}": column for index, column in enumerate(key)}
    values = ", ".join(map(quote, lacking))
    named = stored.selectExpr(*(f"{quote(c)} AS {alias}" for alias, c in keys.items()), f"struct({values}) AS __stored")
    once = named.groupBy(*keys).agg(F.first("__stored").alias("__stored"))  # another writer may have doubled a key
    on = " AND ".join(same(quote(column), alias) for alias, column in keys.items())
    beside = rows.join(once, F.expr(on), "left")
    taken = (f"__stored.{quote(name)} AS {quote(name)}" for name in lacking)
    return beside.selectExpr(*map(quote, rows.columns), *taken)


def few_rows(few: DataFrame) -> DataFrame:
    """A frame of few rows, computed once, however often a plan reads them."""
    rows = compute_once(few, few=True)
    return rows.frame if isinstance(rows, Local) else rows


def corrected_mark(run: Run) -> Mark | None:
    """The newest mark, if the table already holds the version of the run's extract, which is then a correction."""
    mark = run.cursor.mark if isinstance(run.cursor, Known) else None
    return mark if mark is not None and mark.extract == run.facts.extract else None


def has_scope(mark: Mark, run: Run) -> bool:
    """Whether a commit is known to have taken an extract of the same scope as the run's."""
    return run.facts.scope is not None and mark.scope == run.facts.scope


def former_rows(
    run: Run,
    missing: DataFrame,
    key: tuple[str, ...],
    within: Callable[[DataFrame], DataFrame],
    current: str,
    head: Head,
) -> DataFrame | None:
    """The rows that the table held of the missing keys before the corrected extract took the keys over; None if none.

    Raises:
        WriteError: An extract of another scope took a key over or came after the one that did, or the past is gone.
    """
    if corrected_mark(run) is None or is_empty(missing):
        return None
    spark = missing.sparkSession
    pending, back, is_other = few_rows(missing.select(*map(quote, key))), list[DataFrame](), False
    for commit, mark in _deliveries(run, Past.of(run.ref.log(lambda: spark), head)):
        if mark is None:
            raise _correction_error(run, "the log of the table was cleaned up to that extract")
        is_other = is_other or not has_scope(mark, run)
        before = TableVersion(lambda: spark, run.ref, head.table_id, commit.version - 1).rows()
        try:
            current_rows = few_rows(matching(before.where(current), pending, key))
            in_scope = few_rows(within(current_rows))
            taken = few_rows(matching(before, matching(current_rows, in_scope, key, "left_anti"), key))
        except Exception as error:
            reason = why_unreadable(error)
            if reason is None:
                raise
            raise _correction_error(run, reason) from error
        if not is_empty(taken):
            if is_other:
                raise _correction_error(run, "an extract of another scope was delivered as well", commit.version - 1)
            back.append(taken)
        if is_empty(in_scope):
            break
        pending = in_scope.select(*map(quote, key))
    return reduce(lambda one, other: one.unionByName(other, allowMissingColumns=True), back) if back else None


def _deliveries(run: Run, past: Past) -> Iterator[tuple[Commit, Mark | None]]:
    """The commits that took an extract of the run's version, with their marks, newest first.

    The last mark is None if older commits are gone. The first commit of the table is left out: it took no key over.
    """
    commit = None
    for commit in standing(past.back()):
        if commit.operation in COLUMN_CHANGES:
            raise _correction_error(run, f"version {commit.version} ({commit.operation}) has changed its columns since")
        mark = readable_mark(commit, run.name)
        if commit.is_first or (mark is not None and mark.extract != run.facts.extract):
            return
        if mark is not None:
            yield commit, mark
    assert commit is not None, "a table has a commit"
    yield commit, None


def _correction_error(run: Run, reason: str, before: int | None = None) -> WriteError:
    """The error of a correction that lacks keys whose former rows are not known.

    `before` is the version to which the table can be restored; None if that does not help.
    """
    extract = run.facts.extract
    restore = "" if before is None else f"RESTORE the table to version {before} and deliver its extracts again. Or d"
    return WriteError(
        f"Extract {extract} of '{run.name}' lacks keys that an earlier extract {extract} had brought into its scope, "
        f"and it cannot be known which rows these keys had before: {reason}.",
        f"Nothing was written. {restore or 'D'}eliver the rows of all the scopes that these keys were in as one "
        f"extract {extract}, which names them: Snapshot(..., scope={{column: [values]}}).",
    )

"""What a write of a full extract is about: its version against the table's, its columns, and its scope."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.cursor.cursor import Fresh, Known
from lakehouse.cursor.definition import digest
from lakehouse.cursor.extract_version import ExtractVersion
from lakehouse.cursor.mark import Mark
from lakehouse.delta.text import fold, literal, quote, same
from lakehouse.difference.broken_promises import breach_sql
from lakehouse.errors import (
    RESTATE_FROM,
    DeletionsHeldBackError,
    EmptyExtractError,
    MissingKeyError,
    OlderExtractError,
    OutOfScopeError,
    UnknownExtractError,
    WriteError,
)
from lakehouse.read.run import Run
from lakehouse.read.touched import require
from lakehouse.spark.driver_rows import Local, compute_once, is_empty, small
from lakehouse.spark.fitting import Breach
from lakehouse.spark.types import column_types
from lakehouse.writes.writes import History, Snapshot, Write


def open_run(run: Run, write: Snapshot) -> Run:
    """The run with the version of the extract that the table holds once the run has committed.

    Args:
        run: What has been pinned.
        write: The extract.

    Raises:
        MissingKeyError, WriteError: The table declares no key; the asset has partitions, or reads changes.
        UnknownExtractError: The order of the extract and the table's cannot be told.
        OlderExtractError: The extract is older than the table's, and `on_older="fail"`.
        ColumnMissingError, EmptyExtractError, OutOfScopeError: The extract is not what it says.
    """
    if not run.table.key_columns:
        raise MissingKeyError(run.name, "Snapshot")
    if run.slice is not None or run.changes:
        raise WriteError(
            f"'{run.name}' returns a Snapshot, but it has partitions or reads Changes.",
            "Nothing was written. An extract is all that there is: leave partitions_def out, give Snapshot(scope=...), "
            "and annotate inputs with DataFrame.",
        )
    run = replace(run, extract=_after(run, write))
    again = _again(run)
    if is_ignored(run, write):
        return replace(run, scope=None if again is None else again.scope)
    _refuse_misfit(run, write)
    run = replace(run, scope=_scope_digest(write))
    # The commit tells a correction that this scope, too, was delivered since the extract that is corrected.
    return replace(run, must_record=run.must_record or (again is not None and not has_scope(again, run)))


def is_again(run: Run) -> bool:
    """Whether the table holds the version of the run's extract already."""
    return _again(run) is not None


def _again(run: Run) -> Mark | None:
    """The newest mark, if the table holds the version of the run's extract already."""
    mark = run.cursor.mark if isinstance(run.cursor, Known) else None
    return mark if mark is not None and mark.extract == run.extract else None


def has_scope(mark: Mark, run: Run) -> bool:
    """Whether a commit is known to have taken an extract of the same scope as the run's."""
    return run.scope is not None and mark.scope == run.scope


def _scope_digest(write: Snapshot) -> str | None:
    """The scope as a short text; None if its values are too many, or have no literals."""
    if isinstance(write.scope, Mapping):
        return digest({name.lower(): sorted(set(map(str, values))) for name, values in write.scope.items()})
    columns = sorted(write.scope_columns, key=str.lower)
    if not columns:
        return digest({})
    rows = small(write.rows.select(*map(quote, columns)).distinct())
    values = None if rows is None else rows.values(columns)
    if values is None:
        return None
    texts = [str(value[0]) if len(value) == 1 else str(value) for value in values]
    return digest({", ".join(columns).lower(): sorted(texts)})


def refusing_null_keys(run: Run, write: Snapshot) -> Snapshot:
    """The extract, whose plan fails at a row with NULL in its key: the row would take the place of another one.

    A projection, because Spark may compute a condition before a join or a condition of the asset has left rows out.
    """
    key = fold(run.table.key_columns)
    named = {name: quote(name) for name in write.rows.columns if name.lower() in key}
    is_null = " OR ".join(f"{column} IS NULL" for column in named.values())
    problem = breach_sql(Breach.NULL_KEY, named)
    first, *_ = named

    def checked(field: StructField) -> Column:
        if field.name != first:
            return F.col(quote(field.name))
        kind = field.dataType.simpleString()
        value = f"CASE WHEN {is_null} THEN CAST(raise_error({problem}) AS {kind}) ELSE {quote(field.name)} END"
        return F.expr(value).alias(field.name, metadata=field.metadata)

    return replace(write, rows=write.rows.select(*map(checked, write.rows.schema.fields)))


def is_ignored(run: Run, write: Snapshot) -> bool:
    """Whether the table keeps what it holds, because the extract is older."""
    return run.extract != ExtractVersion.of(write.version)


def ignored_extract(run: Run, write: Write) -> Snapshot | None:
    """The extract of a write that the table does not take, because the extract is older; None if there is none."""
    match write:
        case (Snapshot() as snapshot) | History(changes=Snapshot() as snapshot) if is_ignored(run, snapshot):
            return snapshot
        case _:
            return None


def _after(run: Run, write: Snapshot) -> ExtractVersion:
    """The version of the table's extract after the run: the newer one of its own and the run's."""
    version = ExtractVersion.of(write.version)
    if "version" in run.request.allowed:
        return version
    match run.cursor:
        case Fresh():
            return version
        case Known(mark=mark) if mark.extract is not None:
            newest = mark.extract
        case Known(version=at):
            raise UnknownExtractError(run.name, str(version), f"its version {at} was not made of an extract")
        case lost:
            raise UnknownExtractError(run.name, str(version), lost.reason)
    if newest.kind != version.kind:
        raise UnknownExtractError(
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
    if write.on_older == "fail":
        raise OlderExtractError(run.name, str(version), str(newest))
    return newest


def _refuse_misfit(run: Run, write: Snapshot) -> None:
    """Refuses an extract that is not what it says, before it is compared."""
    require(write.rows.columns, (*run.table.key_columns, *write.scope_columns), f"The extract of '{run.name}'")
    if write.max_deleted != 1 and "max_deleted" not in run.request.allowed and is_empty(write.rows):
        raise EmptyExtractError(run.name, str(run.extract))
    if isinstance(write.scope, Mapping):
        beyond = write.rows.where(f"NOT ({_scope_condition(write, write.rows)})")
        for row in beyond.select(*map(quote, write.scope_columns)).take(1):
            raise OutOfScopeError(run.name, str(run.extract), {name: str(row[name]) for name in write.scope_columns})


def fill(rows: DataFrame, stored: DataFrame, key: tuple[str, ...]) -> DataFrame:
    """The extract with the stored values of the columns that it lacks; NULL for keys that are not stored.

    Args:
        rows: The extract.
        stored: The rows that it is compared with.
        key: The columns that identify one of them.
    """
    delivered = fold(rows.columns)
    lacking = [column for column in stored.columns if column.lower() not in delivered]
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


def scope_of(write: Snapshot, rows: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Gives of stored rows those of which the extract is all that there is.

    Args:
        write: The extract, as the asset returned it.
        rows: Its rows.

    Raises:
        ColumnMissingError: The stored rows lack a column of the scope.
    """
    columns = write.scope_columns
    if isinstance(write.scope, Mapping) or not columns:
        values = None
    else:
        values = few_rows(rows.select(*map(quote, columns)).distinct())

    def within(stored: DataFrame) -> DataFrame:
        require(stored.columns, columns, "The table")
        if values is not None:
            return matching(stored, values, columns)
        return stored.where(_scope_condition(write, stored)) if columns else stored

    return within


def few_rows(few: DataFrame) -> DataFrame:
    """A frame of few rows, computed once, however often a plan reads them."""
    rows = compute_once(few, few=True)
    return rows.frame if isinstance(rows, Local) else rows


def _scope_condition(write: Snapshot, rows: DataFrame) -> str:
    """The condition that a row has one of the named values in each column of the scope."""
    assert isinstance(write.scope, Mapping)
    kinds = column_types(rows.schema)
    columns = (
        " OR ".join(same(quote(name), literal(value, kinds[name.lower()]), nulls=True) for value in values)
        for name, values in write.scope.items()
    )
    return " AND ".join(f"({column})" for column in columns)


def matching(frame: DataFrame, other: DataFrame, columns: tuple[str, ...], how: str = "left_semi") -> DataFrame:
    """The rows of a frame that have (`left_semi`) or have not (`left_anti`) the values of a row of another one."""
    values = other.selectExpr(*(f"{quote(name)} AS __value_{index}" for index, name in enumerate(columns)))
    on = " AND ".join(same(quote(name), f"__value_{index}") for index, name in enumerate(columns))
    return frame.join(values, F.expr(on), how)


def refuse_deletions(run: Run, write: Snapshot, deleted: int, stored: DataFrame) -> None:
    """Holds back more deletions than the extract may make.

    Args:
        run: The run.
        write: The extract.
        deleted: The rows that it would delete.
        stored: The rows of which it is all that there is.

    Raises:
        DeletionsHeldBackError: They are more than the share `max_deleted` of `stored`.
    """
    if not deleted or write.max_deleted is None or "max_deleted" in run.request.allowed:
        return
    rows = stored.count()
    if deleted > Fraction(str(write.max_deleted)) * rows:
        raise DeletionsHeldBackError(run.name, str(run.extract), deleted, rows, write.max_deleted)

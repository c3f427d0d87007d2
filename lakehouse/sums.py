"""What an `Aggregate` makes of its table: what the changes bring and take away, added to what the table holds.

A `Merge` may read a change twice; a sum must not. So before anything is added, the table's log has to show that it
holds the sums as of its position. Where it does not, all of them are computed anew and compared.
"""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lakehouse.aggregate import COUNT, IN_DOUBT, Aggregate
from lakehouse.changes import Nothing
from lakehouse.cursor import Known
from lakehouse.difference import DELETE, HELD, INSERT, OPERATION, UPDATE
from lakehouse.errors import MissingKeyError, WriteError
from lakehouse.keyed import is_one_task, written
from lakehouse.local import Local, small
from lakehouse.log import Head, Log, commits_between
from lakehouse.run import Run
from lakehouse.schema import check_padding, fit
from lakehouse.slip import may_concern
from lakehouse.sql import quote
from lakehouse.statement import Skip, Statement, Touch
from lakehouse.tables import Pinned

_DOUBT = "doubt"
"""The `OPERATION` of a group whose count or sum cannot be right."""
_WAS, _ROWS = "__lakehouse_was", "__lakehouse_rows"


def why_anew(log: Log, head: Head | None, run: Run, write: Aggregate) -> str | None:
    """Why the table may not hold the sums as of its position; None where it does, or everything is compared anyway.

    Args:
        log: The log of the run's table.
        head: Where that table stands.
        run: The run.
        write: What the asset returned.
    """
    changes, known = write.changes, run.cursor
    if head is None or changes.is_initial:
        return None
    if len(run.partitions) > 1:
        return "each of the run's partitions has a position of its own"
    if not isinstance(known, Known) or known.mark.aggregate != write.digest:
        return "its last commit had other sums, or none"
    read = known.mark.reads.get(changes.name)
    if read is None or read.version != changes.range.after:
        return "its last commit had read on, and has to be seen again"
    since = commits_between(log, run.asset, known.mark.base, head.version)
    if since is None:
        return "the log was cleaned up to its last commit"
    others = [c for c in since if c.version != known.version and may_concern(c, run.asset, run.partitions)]
    return f"version {others[-1].version} ({others[-1].operation}) is none of its own" if others else None


def check(run: Run, write: Aggregate, head: Head | None) -> None:
    """Refuses what a sum of changes cannot be.

    Raises:
        MissingKeyError: The table has no key.
        WriteError: The groups are not the table's key, or its partitions are no groups.
        SchemaError: A sum of something else than whole numbers or decimals.
    """
    groups = {name.lower() for name in write.groups}
    if not run.table.key_columns:
        raise MissingKeyError(run.asset, "Aggregate")
    if groups != {column.lower() for column in run.table.key_columns}:
        raise WriteError(
            f"'{run.asset}' groups by {', '.join(write.groups)}, and the key of its table is "
            f"{', '.join(run.table.key_columns)}. Nothing was written. Make them the same."
        )
    partitions = run.table.partitioned_by(head)
    if not groups >= {column.lower() for column in partitions}:
        raise WriteError(
            f"The table of '{run.asset}' is partitioned by {', '.join(partitions)}, and its groups are by "
            f"{', '.join(write.groups)}. Nothing was written. Partition it by columns of the groups."
        )
    write.check(run.asset)


def summed_up(spark: SparkSession, run: Run, write: Aggregate, head: Head) -> Statement | None:
    """The statement that adds the changes to the table's sums; None where one is in doubt: compute them all anew.

    Args:
        spark: The session.
        run: The run.
        write: What the asset returned.
        head: The table, which holds the sums as of the position.

    Raises:
        SchemaError: The result does not fit the table.
    """
    if not run.moves:
        return Skip()
    if isinstance(write.changes.content, Nothing):
        return Touch()
    target = Pinned(spark, run.ref, head.table_id, head.version).rows()
    check_padding(run.asset, write.rows, target.schema, run.table.key_columns)
    fit(run.asset, write.rows, target.schema, may_add=False)
    within = run.within(target.schema)
    found = _changed(write, target if within is None else target.where(within), head.partition_columns)
    found = found if within is None else found.where(within)
    changed = small(found) or found.localCheckpoint()
    if _is_in_doubt(changed):
        return None
    return written(run, changed, target.schema, head, Touch())


def _is_in_doubt(changed: Local | DataFrame) -> bool:
    if isinstance(changed, Local):
        return _DOUBT in changed.column(OPERATION).to_pylist()
    return not changed.where(f"{OPERATION} = '{_DOUBT}'").isEmpty()


def _changed(write: Aggregate, target: DataFrame, partitions: tuple[str, ...]) -> DataFrame:
    """What the changes make of the table's groups, in the form of `difference`, with one more operation."""
    groups = [quote(name) for name in write.groups]
    sums = {quote(name): write.exact(name) for name in write.sums}
    touched = write.touched
    totals = {name: f"try_cast({name} AS {kind})" for name, kind in sums.items()}
    was = ", ".join([f"{quote(write.count)} AS {COUNT}", *(f"{total} AS {name}" for name, total in totals.items())])
    there = touched.of(target).selectExpr(
        *groups,
        *(f"{total} AS {name}" for name, total in totals.items()),
        f"CAST({quote(write.count)} AS BIGINT) AS {COUNT}",
        f"FALSE AS {IN_DOUBT}",
        f"struct({was}) AS {_WAS}",
    )
    both = there.unionByName(write.images, allowMissingColumns=True)
    grouped = (both.coalesce(1) if is_one_task(touched) else both).groupBy(*groups)
    seen = [
        f"sum({COUNT}) AS {COUNT}",
        f"max({IN_DOUBT}) AS {IN_DOUBT}",
        f"count({_WAS}) AS {_ROWS}",
        f"first({_WAS}, TRUE) AS {_WAS}",
        *(f"try_sum({name}) AS {name}" for name in sums),
    ]
    return _operations(grouped.agg(*map(F.expr, seen)), write, target, partitions)


def _operations(grouped: DataFrame, write: Aggregate, target: DataFrame, partitions: tuple[str, ...]) -> DataFrame:
    """Each group's row as the table is to hold it, and what is to become of it; only those that differ."""
    own = {name.lower(): quote(name) for name in write.groups} | {write.count.lower(): COUNT}
    kinds = {column.name.lower(): column.dataType.simpleString() for column in target.schema.fields}
    sums = {name.lower(): f"try_cast({quote(name)} AS {kinds[name.lower()]})" for name in write.sums}
    was = {sums[name.lower()]: f"{_WAS}.{quote(name)}" for name in write.sums} | {COUNT: f"{_WAS}.{COUNT}"}
    texts = {column.name.lower() for column in target.schema.fields if isinstance(column.dataType, StringType)}
    doubts = [
        IN_DOUBT,
        f"{_ROWS} > 1",
        f"{COUNT} < 0",
        f"{_ROWS} = 1 AND coalesce({_WAS}.{COUNT} < 1, TRUE)",
        *(f"{total} IS NULL OR {_ROWS} = 1 AND {was[total]} IS NULL" for total in sums.values()),
        *(f"{COUNT} = 0 AND {total} <> 0" for total in sums.values()),
        # The table holds an empty text as NULL there, so these two groups are one row or two of one key.
        *(f"coalesce({own[c.lower()]}, '') = ''" for c in partitions if c.lower() in texts),
    ]
    differs = " OR ".join(f"{now} <> {before}" for now, before in was.items())
    operation = (
        f"CASE WHEN {' OR '.join(f'({doubt})' for doubt in doubts)} THEN '{_DOUBT}' "
        f"WHEN {_ROWS} = 0 AND {COUNT} > 0 THEN '{INSERT}' WHEN {_ROWS} = 1 AND {COUNT} = 0 THEN '{DELETE}' "
        f"WHEN {_ROWS} = 1 AND ({differs}) THEN '{UPDATE}' END"
    )
    held = ", ".join(f"{own[column.lower()]} AS {quote(column)}" for column in partitions)
    columns = [
        f"CAST({(own | sums)[c.name.lower()]} AS {kinds[c.name.lower()]}) AS {quote(c.name)}"
        for c in target.schema.fields
    ]
    told = [f"slice(array(struct({held})), 1, CAST({_ROWS} AS INT)) AS {HELD}"] if held else []
    return grouped.selectExpr(*columns, *told, f"{operation} AS {OPERATION}").where(f"{OPERATION} IS NOT NULL")

"""From which positions a run continues, which it carries on, and when its mark should be put down again."""

from lakehouse.cursor.cursor import Known
from lakehouse.cursor.mark import Position
from lakehouse.cursor.unread import DAY, WEEK
from lakehouse.log.log import Log
from lakehouse.read.run import Run


def position_of(run: Run, source: str, table_id: str) -> Position | None:
    """How far a source has been read. An `Append` also finds a renamed source by its table id.

    Otherwise a first read would add everything again. A copied directory has the same table id, so only names that
    the asset no longer reads count as former names.

    Args:
        run: The run.
        source: The name of the source.
        table_id: The id of its table.
    """
    reads = run.cursor.reads
    if source in reads or not run.asset.appends:
        return reads.get(source)
    former = [at for was, at in reads.items() if was not in run.asset.inputs]
    return next((at for at in former if at.table == table_id and not at.is_snapshot), None)


def former_reads(run: Run) -> dict[str, Position]:
    """Positions of sources that an `Append` no longer reads, because its rows from them stay."""
    if not run.asset.appends:
        return {}
    read = {changes.name for changes in run.changes} | run.snapshot_inputs.keys()
    tables = {changes.source_at.table_id for changes in run.changes}
    return {
        name: at
        for name, at in run.cursor.reads.items()
        if name not in read and at.table not in tables and not at.is_snapshot
    }


def own_mark_is_old(run: Run, log: Log, now: int) -> bool:
    """Whether log cleanup may soon remove the last own commit: it is a week old, or others have committed after it.

    Cleanup keeps the newest commit, but a burst of other commits can make the mark old before the next run.

    Args:
        run: The run.
        log: The log of its table.
        now: Milliseconds since the epoch.
    """
    cursor, head = run.cursor, run.head
    if not isinstance(cursor, Known) or head is None:
        return False
    if not run.asset.incremental and cursor.mark.extract is None:
        return False
    times = [at.timestamp for version in {cursor.version, head.version} for at in log.commits(version, version)]
    # Without times the table is gone, which the commit finds out.
    return bool(times) and (max(times) - min(times) > DAY or now - min(times) > WEEK)

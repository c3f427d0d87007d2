"""From a write to exactly one Delta commit (DESIGN sections 4 and 6).

The inputs are pinned, so a write that lost its commit may be planned and tried again. An exception never means
"not committed" until the log says so: after every attempt, however it ended, the log is searched for it.
"""

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeAlias, assert_never
from uuid import uuid4

from pyspark.sql import SparkSession

from lakehouse.conflicts import Conflict, Kind, classify, first_line
from lakehouse.cursor import Fresh, Known, find_cursor
from lakehouse.difference import broken_promise
from lakehouse.errors import (
    ConflictError,
    ForeignApplicationIdError,
    ForeignTableError,
    LakehouseError,
    StaleInputsError,
    UnknownOutcomeError,
    UnsafeTableError,
    UnsettledError,
)
from lakehouse.log import Commit, Head, Log
from lakehouse.lost import LostAttempt, Verdict, advice, describe, explained, sentence, verdict
from lakehouse.mark import Mark
from lakehouse.plan import plan
from lakehouse.retry import Retry
from lakehouse.run import Run
from lakehouse.statement import Create, Insert, MergeRows, Replace, ReplaceRows, Skip, Statement, Touch, execute
from lakehouse.table import UNSAFE_PROPERTIES
from lakehouse.writes import Write


@dataclass(frozen=True, slots=True)
class _Kept:
    """A statement whose comparison still holds while the table stays at `head`: the rivals changed other rows."""

    statement: Statement
    head: Head | None


@dataclass(frozen=True, slots=True)
class Committed:
    """The write is in the table, as `commit`."""

    commit: Commit
    statement: Statement
    lost: tuple[LostAttempt, ...] = ()
    recovered: bool = False


@dataclass(frozen=True, slots=True)
class AlreadyApplied:
    """Another run, or an earlier attempt that was taken for dead, had committed the same changes."""

    mark: Mark
    commit: Commit
    lost: tuple[LostAttempt, ...] = ()


@dataclass(frozen=True, slots=True)
class Unchanged:
    """There was nothing to commit; the table stays at `version`."""

    version: int


Outcome: TypeAlias = Committed | AlreadyApplied | Unchanged


@dataclass(frozen=True, slots=True)
class Clock:
    """Time and chance as arguments, so that tests neither sleep nor guess."""

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random


REAL_CLOCK = Clock()


def commit(
    spark: SparkSession,
    run: Run,
    write: Write,
    retry: Retry,
    clock: Clock = REAL_CLOCK,
    tell: Callable[[str], None] = lambda _: None,
) -> Outcome:
    """Makes the write true of its table in one commit, or says why not.

    Args:
        spark: The session.
        run: What the run has pinned.
        write: What the asset returned.
        retry: How often a lost commit is tried again.
        clock: Time and chance.
        tell: Takes one readable line about each attempt that was lost.

    Raises:
        ConflictError: Rivals won every attempt. Nothing was written.
        StaleInputsError: Another run of this asset committed first, and had read other versions.
        BrokenPromiseError, SchemaError, PlanError: The result itself. Nothing was written.
        UnknownOutcomeError: The commit may have landed, and the log cannot be read.
        UnsettledError: The commit is in the table, and rivals changed its rows just before it, again and again.
    """
    log = run.ref.log(lambda: spark)
    began = clock.now()
    lost: list[LostAttempt] = []
    kept: _Kept | None = None
    done: Committed | None = None
    slips = 0
    while True:
        head = log.head()
        check_target(run, head)
        found = _moved(log, head, run, done)
        if found is not None:
            return done or replace(found, lost=tuple(lost))
        statement = kept.statement if kept and kept.head == head else _planned(spark, run, write, head)
        if isinstance(statement, Skip):
            assert head is not None
            return done or Unchanged(head.version)
        base = -1 if head is None else head.version
        mark = run.mark(uuid4().hex, base, compared=_is_compared(statement))
        started, error = clock.now(), _attempt(spark, statement, run, mark)
        own = _find_attempt(log, mark, run, error)
        if own is not None:
            done = Committed(own, statement, tuple(lost), recovered=error is not None)
            slipped = _slipped(spark, log, run, write, mark, own) if _is_compared(statement) else None
            if slipped is None:
                return done
            slips += 1
            _leave_if_due(run, own, slipped, slips, clock.now() - began, retry)
            tell(f"A rival changed rows of {run.asset} just before version {own.version}; writing them again.")
            codes = frozenset({mark.code_version})
            run = replace(run, cursor=Known(mark, own.version, mark.generation, mark.epoch, mark.reads, codes))
            kept = None
            clock.sleep(retry.wait(slips, clock.random))
            continue
        conflict = Conflict(Kind.TWIN) if error is None else _classified(run, error)
        judged = log.head()
        attempt = _lost(spark, log, run, write, conflict, base, judged, clock.now() - started)
        lost.append(attempt)
        _give_up_if_due(run, attempt, lost, clock.now() - began, retry, error, done)
        reusable = _is_compared(statement) and conflict.kind is Kind.FILES
        kept = _Kept(statement, judged) if reusable and attempt.verdict is Verdict.OTHER_ROWS else None
        wait = retry.wait(len(lost), clock.random)
        tell(f"{sentence(run, attempt, len(lost))} Attempt {len(lost) + 1} in {wait:.1f} s.")
        clock.sleep(wait)


def check_target(run: Run, head: Head | None) -> None:
    """Refuses a table on which "exactly once" could not be kept, or that is somebody else's.

    Raises:
        UnsafeTableError, ForeignTableError: See there. Nothing was written.
    """
    if head is None:
        return
    for key, why in UNSAFE_PROPERTIES.items():
        if key in head.properties:
            raise UnsafeTableError(run.asset, run.ref.identifier, key, head.properties[key], why)
    if isinstance(run.cursor, Fresh) and run.cursor.foreign is not None and run.full is None:
        raise ForeignTableError(run.asset, run.ref.location, run.cursor.foreign)


def _planned(spark: SparkSession, run: Run, write: Write, head: Head | None) -> Statement:
    try:
        return plan(spark, run, write, head)
    except LakehouseError:
        raise
    except Exception as error:
        raise explained(run, error) from error


def _attempt(spark: SparkSession, statement: Statement, run: Run, mark: Mark) -> Exception | None:
    """Executes once. Whatever is raised is evidence, not yet an outcome."""
    try:
        execute(spark, statement, run, mark)
    except Exception as error:
        return error
    return None


def _moved(log: Log, head: Head | None, run: Run, done: Committed | None) -> AlreadyApplied | None:
    """The commit of a twin that took our epoch; None while the cursor is where this run found or brought it."""
    now = find_cursor(log, head, run.asset, run.partitions, reads=bool(run.changes), full=run.full is not None)
    if isinstance(now, Fresh) and now.foreign is not None and run.full is None:
        raise ForeignTableError(run.asset, run.ref.location, now.foreign)
    if (now.generation, now.epoch) == (run.cursor.generation, run.cursor.epoch):
        own = now if isinstance(now, Known) and run.is_own(now.mark) else None
        if own is None or own.is_slipped or run.changes or run.partitions:
            return None
        if done is not None and done.commit.version == own.version:
            return None
    known = now if isinstance(now, Known) else _newest_of(log, head, run)
    if known is None:
        raise StaleInputsError(run.asset, "another", -1 if head is None else head.version)
    if done is None and not run.is_covered_by(known):
        raise StaleInputsError(run.asset, known.mark.run, known.version)
    found = next(log.commits(known.version, known.version))
    return AlreadyApplied(known.mark, found)


def _newest_of(log: Log, head: Head | None, run: Run) -> Known | None:
    cursor = find_cursor(log, head, run.asset, run.partitions, reads=True)
    return cursor if isinstance(cursor, Known) else None


def _find_attempt(log: Log, mark: Mark, run: Run, error: Exception | None) -> Commit | None:
    """Our commit, if this attempt landed; its version is its own, whatever rivals committed since."""
    try:
        head = log.head()
        if head is None:
            return None
        for found in log.commits(head.version, mark.base + 1):
            if found.user_metadata and mark.attempt in found.user_metadata:
                return found
    except Exception as unreadable:
        raise UnknownOutcomeError(run.asset, mark.attempt, first_line(unreadable)) from (error or unreadable)
    return None


def _classified(run: Run, error: Exception) -> Conflict:
    conflict = classify(error)
    if conflict.kind is Kind.NOT_A_CONFLICT or broken_promise(run.asset, error) is not None:
        raise explained(run, error) from error
    return conflict


def _is_compared(statement: Statement) -> bool:
    """Whether the statement follows from a comparison with the table, and so holds only for what was compared."""
    match statement:
        case MergeRows() | ReplaceRows() | Touch():
            return True
        case Insert(compared=compared):
            return compared
        case Create() | Replace() | Skip():
            return False
        case _:
            assert_never(statement)


def _slipped(spark: SparkSession, log: Log, run: Run, write: Write, mark: Mark, own: Commit) -> Verdict | None:
    """Whose rows a rival changed after they were compared and before our transaction began; None if not ours.

    Delta's own check covers what comes after the transaction's snapshot; the comparison was made on `base`.
    """
    if own.version == mark.base + 1:
        return None
    between = tuple(rival for rival in log.commits(own.version - 1, mark.base + 1) if not rival.is_quiet)
    judged = verdict(spark, run, write, between) if between else Verdict.OTHER_ROWS
    return None if judged is Verdict.OTHER_ROWS else judged


def _leave_if_due(run: Run, own: Commit, slipped: Verdict, slips: int, elapsed: float, retry: Retry) -> None:
    """Ends a write whose commits rivals keep slipping in before: it is in the table, and the next run mends it.

    Raises:
        UnsettledError: They have done so too often, or the table says that it is not to be overruled.
    """
    disagrees = slipped is Verdict.SAME_ROWS and run.table.on_same_rows == "fail"
    if disagrees or not retry.allows(slips, elapsed):
        raise UnsettledError(run.asset, own.version, slips, slipped.value)


def _lost(
    spark: SparkSession,
    log: Log,
    run: Run,
    write: Write,
    conflict: Conflict,
    base: int,
    head: Head | None,
    seconds: float,
) -> LostAttempt:
    rivals = () if head is None else tuple(log.commits(head.version, base + 1))
    return LostAttempt(conflict, rivals, verdict(spark, run, write, rivals), seconds)


def _give_up_if_due(
    run: Run,
    attempt: LostAttempt,
    lost: list[LostAttempt],
    elapsed: float,
    retry: Retry,
    error: Exception | None,
    done: Committed | None,
) -> None:
    disagrees = attempt.verdict is Verdict.SAME_ROWS and run.table.on_same_rows == "fail"
    if retry.allows(len(lost), elapsed) and not disagrees:
        return
    if done is not None:
        raise UnsettledError(run.asset, done.commit.version, len(lost), attempt.verdict.value) from error
    if attempt.conflict.kind is Kind.TWIN and error is None:
        raise ForeignApplicationIdError(run.asset, run.application_id, run.cursor.epoch + 1)
    unread = "; ".join(f"the changes of {c.name} {c.range} are still unread" for c in run.changes)
    raise ConflictError(
        run.asset, len(lost), elapsed, describe(attempt), unread or "its inputs are as they were", advice(run, attempt)
    ) from error

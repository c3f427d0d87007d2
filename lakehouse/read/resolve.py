"""From a plan to `Changes`; if a read shows that the plan cannot be carried out, another plan takes its place."""

from collections.abc import Callable
from dataclasses import replace

from lakehouse.cursor.generation import FIRST_GENERATION, application_id
from lakehouse.cursor.walk import readable_mark
from lakehouse.delta.commit_info import SCHEMA_CHANGES, Commit
from lakehouse.delta.log import NOTHING_READ, Head, Log, VersionRange, commit_at
from lakehouse.delta.text import fold
from lakehouse.errors import ReadError
from lakehouse.read.content import Everything, Feed, Nothing, SourceRead
from lakehouse.read.decide import Reconcile, Refuse
from lakehouse.read.feed_reader import Feeds
from lakehouse.read.feed_trust import Source, why_laid_out_meanwhile
from lakehouse.read.read_plan import (
    Batch,
    FirstRead,
    InputFacts,
    LacksFeed,
    ReadArchive,
    ReadFeed,
    ReadNothing,
    ReadPlan,
)
from lakehouse.spark.diagnosis import why_unreadable
from lakehouse.spark.driver_rows import small
from lakehouse.spark.progress import watching


def read_changes(
    plan: ReadPlan,
    facts: InputFacts,
    feeds: Feeds,
    ahead: Callable[[], None] = lambda: None,
    cause: BaseException | None = None,
) -> SourceRead:
    """The changes of a source, up to the version that the source is pinned at.

    `ahead` is called before Spark reads a feed, to fetch in the meantime what is needed later. `cause` is the error
    because of which an earlier plan could not be carried out.

    Raises:
        ReadError (CHANGE_FEED_DISABLED): A first read of a source that keeps no feed.
        ReadError (START): A run tag names a version outside the source's history.
        ReadError (GAP): The changes cannot be read, and no fallback is allowed.
    """
    source = facts.source
    match plan:
        case LacksFeed():
            raise ReadError.change_feed_disabled(facts.asset.name, facts.name, source.at.ref.identifier)
        case Refuse(reason=reason, remedy=remedy, after=after):
            raise ReadError.gap(facts.asset.name, facts.name, after, source.head.version, reason, remedy) from cause
        case FirstRead():
            return _everything(source, None)
        case Reconcile(reason=reason, for_cost=for_cost):
            return _everything(source, reason, for_cost=for_cost)
        case ReadNothing():
            return nothing_of(plan)
        case ReadFeed():
            outcome, error = _read_feed(plan, feeds, ahead)
        case ReadArchive():
            outcome, error = _read_archive(plan)
    return outcome if isinstance(outcome, SourceRead) else read_changes(outcome, facts, feeds, ahead, error)


def _read_feed(
    plan: ReadFeed, feeds: Feeds, ahead: Callable[[], None]
) -> tuple[SourceRead | ReadPlan, BaseException | None]:
    """The feed of the commits that one run reads; or what is read instead, and the error if there was one.

    A feed whose rows come to the driver is read here. A larger feed is read while the result is written, and
    lakehouse/commit/failed_plan.py recognizes a gap in it.
    """
    source, batch = plan.facts.source, plan.batch
    ahead()
    try:
        content = feeds.read(batch.at, batch.included, source.log, stable=batch.has_one_schema)
        if isinstance(content, str):
            return plan.without_feed(content, is_believed=False), None
        changes = _of_batch(plan, content)
        moved = None if changes.is_empty else why_laid_out_meanwhile(source, batch.at)
    except Exception as error:
        reason = why_unreadable(error)
        if reason is None:
            raise
        return plan.without_feed(reason), error
    return (changes, None) if moved is None else (plan.without_feed(moved, is_believed=False), None)


def nothing_of(plan: ReadNothing) -> SourceRead:
    """The changes of a source in which no commit changed a row, by the log alone."""
    batch = plan.batch
    return _of_batch(plan, Nothing(None if batch.commits else batch.position.commit))


def _of_batch(plan: ReadNothing | ReadFeed, content: Feed | Nothing) -> SourceRead:
    batch, facts = plan.batch, plan.facts
    key = _key(facts.source, batch)
    return SourceRead(batch.at, batch.range, content, batch.commits, batch.behind, key, facts.refusal)


def _key(source: Source, batch: Batch) -> tuple[str, ...]:
    """The columns that identify a row in the whole batch; empty unless all its commits are read, under one schema."""
    if batch.included != batch.commits or any(commit.operation in SCHEMA_CHANGES for commit in batch.commits):
        return ()
    if not source.key:
        return ()
    promised = source.key if source.trusts_key else ()
    return unique_key(source.log, source.head, source.at.ref.name, promised, batch.commits)


def _read_archive(plan: ReadArchive) -> tuple[SourceRead | ReadPlan, BaseException | None]:
    """What an archive holds of the range; or what is read instead, if it cannot be read."""
    archived, source = plan.archived, plan.facts.source
    at = replace(source.at, version=archived.upto)
    try:
        feed = archived.feed(at)
        with watching(at.spark):
            rows = small(feed) or feed
    except Exception as error:
        if why_unreadable(error) is None:
            raise
        return plan.without_archive(), error
    content = Feed(rows, "the archive", archived=True, newest=commit_at(source.log, at.version))
    behind = source.head.version - at.version
    return SourceRead(at, archived.range, content, behind=behind, refusal=plan.facts.refusal), None


def _everything(source: Source, reason: str | None, *, for_cost: bool = False) -> SourceRead:
    version = source.at.version
    content = Everything(reason, commit_at(source.log, version), for_cost)
    return SourceRead(source.at, VersionRange(NOTHING_READ, version), content, behind=source.head.version - version)


def unique_key(
    log: Log, head: Head, asset: str, promised: tuple[str, ...], commits: tuple[Commit, ...]
) -> tuple[str, ...]:
    """The columns in which each row that the commits touched is unique after them; empty if no such columns are known.

    In an asset's own table, these are the columns of the key by which every commit was compared with the version just
    before it, if the asset made all of these commits, with one key. This need not be the declared key: the rows of a
    `History` are identified by the entity and the start.

    In a table that no asset has ever written, these are the promised columns, because Delta enforces no key. In a
    partitioned table nothing is assumed, because a key may be in several partitions.
    """
    if head.partition_columns or any(commit.operation == "RESTORE" for commit in commits):
        return ()
    with_rows = [commit for commit in commits if not commit.is_quiet]
    marks = [readable_mark(commit, asset) for commit in with_rows]
    compared = [
        mark
        for mark, commit in zip(marks, with_rows, strict=True)
        if mark is not None and not mark.partitions and mark.compared and mark.base + 1 == commit.version
    ]
    if any(mark is not None for mark in marks):
        keys = {fold(mark.key) for mark in compared}
        return compared[0].key if len(compared) == len(with_rows) and len(keys) == 1 else ()
    never_written = log.epoch(application_id(asset, (), FIRST_GENERATION), head.version) == 0
    return promised if never_written else ()

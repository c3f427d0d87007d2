"""A pinned source, and whether the feed of its commits is believed: judged by its log, and by the number of rows."""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.cursor.mark import mark_in
from lakehouse.delta.commit_info import REPLACING, RETYPING, Commit, count_of
from lakehouse.delta.log import Head, Log, padded_type
from lakehouse.read.content import AFTER, BEFORE, CHANGE, DELETE, INSERT, VERSION
from lakehouse.spark.driver_rows import Local
from lakehouse.spark.table_version import TableVersion
from lakehouse.spark.types import as_struct, paths


@dataclass(frozen=True, slots=True)
class Source:
    """A source as one run found it.

    Args:
        at: The source, pinned: at its newest version, or at an older one where the inputs of the run agree.
        log: Its log.
        head: Where it stood.
        key: The declared key columns of the source; empty if it declares none.
        trusts_key: Whether the key is believed to be unique if no asset has ever written the table.
        is_exact: Whether a run reads up to the pinned version, whatever the limits of the input.
    """

    at: TableVersion
    log: Log
    head: Head
    key: tuple[str, ...] = ()
    trusts_key: bool = False
    is_exact: bool = False


def why_disbelieved(
    source: Source, at: TableVersion, commits: tuple[Commit, ...], later: tuple[Commit, ...], *, is_recomputed: bool
) -> str | None:
    """Why the feed of a batch would make a table wrong, judged by the log; None if it would not."""
    maps = source.head.maps_columns or any(commit.freed_columns != frozenset() for commit in commits)
    wrong = why_unreliable(source.log, commits, at, maps=maps)
    if wrong is None and not source.head.maps_columns:
        wrong = _why_laid_out_behind(source, at, later)
    if wrong is None and is_recomputed:
        return why_retyped(source.log, commits, source.at, source.head)
    return wrong


def why_off(log: Log, head: Head, read: Iterable[Commit], commits: tuple[Commit, ...]) -> str | None:
    """Why the feed lacks a commit, by when the log shows that it was switched off and on; None if it lacks none.

    Where the log does not show that, the feed counts as on, because a read finds out.
    """
    may_switch = REPLACING | {"RESTORE"}
    turns = {each.version for each in commits if each.keeps_feed is not None or each.operation in may_switch}
    if not commits or (head.keeps_feed and not turns):
        return None
    is_as_at_head = not turns and commits[-1].version == head.version
    is_on = head.keeps_feed if is_as_at_head else _was_on(log, commits[0].version - 1)
    of_read = {commit.version for commit in read if not commit.is_quiet}
    for commit in commits:
        if commit.version in turns:
            is_on = _was_on(log, commit.version) if commit.keeps_feed is None else commit.keeps_feed
        if not is_on and commit.version in of_read:
            return f"its change data feed was off at version {commit.version} ({commit.operation})"
    return None


def _was_on(log: Log, version: int) -> bool:
    schema = log.file_schema(version)
    return schema is None or schema.keeps_feed


def why_unreliable(log: Log, commits: tuple[Commit, ...], at: TableVersion, *, maps: bool) -> str | None:
    """Why the feed of these commits would give wrong rows without an error; None if it would not."""
    commit = _changed_layout(log, commits)
    if commit is not None:
        return _laid_out_by(commit)
    taken = _names_taken_again(log, commits, at) if maps else None
    if not taken:
        return None
    names, more = sorted(taken), f" and {len(taken) - 3} more" if len(taken) > 3 else ""
    return f"the name of {' and '.join(names[:3])}{more} was dropped or renamed, and another column may have it now"


def why_laid_out_since(log: Log, later: Iterable[Commit], at: TableVersion) -> str | None:
    """Why a feed that ends before the commits `later` cannot be read after them; None if it can.

    Delta reads the files of an older commit with the newest version's partition columns: a column that has become a
    partition column is then NULL in every row (Delta: `CDCReaderBase`, legacy schema mode).

    `later` are the commits after the feed's last version, up to the newest that Spark may have seen.
    """
    suspects = [commit for commit in later if not commit.is_quiet and _may_change_layout(commit)]
    if not suspects:
        return None
    newest = max(suspects, key=lambda commit: commit.version)
    then, now = log.file_schema(at.version), log.file_schema(newest.version)
    if then is None or now is None:
        return next((_laid_out_by(commit) for commit in suspects if commit.may_change_layout), None)
    return None if now.reads_as(then) else _laid_out_by(newest)


def _why_laid_out_behind(source: Source, at: TableVersion, later: tuple[Commit, ...]) -> str | None:
    """Why the feed is wrong because a commit between the batch and the head changed the source's layout; else None."""
    newest = later[-1].version if later else at.version
    if newest < source.head.version:  # the rest is read only if the layout differs
        then, now = (source.log.file_schema(version) for version in (at.version, source.head.version))
        if then is not None and now is not None and now.reads_as(then):
            return None
        return why_laid_out_since(source.log, source.log.commits(source.head.version, at.version + 1), at)
    return why_laid_out_since(source.log, later, at)


def why_laid_out_meanwhile(source: Source, at: TableVersion) -> str | None:
    """Why the feed is wrong if the layout of the source changed after the pin: Spark read it by the newest version.

    A log that only Spark can read is not read once more, because that would take three statements.
    """
    if source.head.maps_columns or source.log.file_schema(at.version) is None:
        return None
    now = source.log.head()
    if now is None or now.version <= source.head.version:
        return None
    return why_laid_out_since(source.log, source.log.commits(now.version, source.head.version + 1), at)


def why_retyped(log: Log, commits: tuple[Commit, ...], at: TableVersion, head: Head) -> str | None:
    """Why rows that no commit has touched may give other results now: a result may depend on the type of a column.

    Delta itself widens a SMALLINT to an INT for an append that evolves the schema, without any feature of the table.
    """
    is_likely = head.widens_types or any(commit.operation in RETYPING for commit in commits)
    if not commits or (not is_likely and all(commit.is_quiet for commit in commits)):
        return None
    # Before the first commit of a table there are no types.
    since = max(commits[0].version - 1, 0)
    before, after = (_types(log, at, version) for version in (since, commits[-1].version))
    if before is None or after is None:
        return "a column's type may have been changed" if is_likely else None
    changed = [name for name, kind in after.items() if before.get(name, kind) != kind]
    return f"the type of {' and '.join(changed[:3])} was changed" if changed else None


def _types(log: Log, at: TableVersion, version: int) -> Mapping[str, str] | None:
    """The type of each column at a version, names in lower case; None if it is no longer known."""
    if at.ref.why_only_spark() is None:
        schema = log.file_schema(version)
        return None if schema is None else schema.types
    try:
        schema = replace(at, version=version).rows().schema
    except Exception:
        return None
    return {column.name.lower(): padded_type(column.metadata) or column.dataType.json() for column in schema.fields}


def _names_taken_again(log: Log, commits: Iterable[Commit], at: TableVersion) -> frozenset[str]:
    """Columns whose names belonged to other columns during the commits: no feed shows that all their values changed."""
    freed = _freed_by(log, commits)
    if freed == frozenset():
        return frozenset()
    schema = log.file_schema(at.version)
    names = paths(at.rows().schema if schema is None else as_struct(schema))
    return names if freed is None else freed & names


def _changed_layout(log: Log, commits: Iterable[Commit]) -> Commit | None:
    """The first commit that removed files whose layout differs from the table's layout after it.

    Delta's feed reads a removed file as if it belonged to the version that removed it. A former partition column is
    then NULL in the deleted rows, and a number too large for the column's new type becomes another number.
    """
    for commit in commits:
        if commit.is_first or commit.is_quiet or not _may_change_layout(commit):
            continue
        before, after = log.file_schema(commit.version - 1), log.file_schema(commit.version)
        if before is None or after is None:
            if commit.may_change_layout:
                return commit
        elif not after.reads_as(before):
            return commit
    return None


def _may_change_layout(commit: Commit) -> bool:
    return commit.may_change_layout or commit.overwrites_all


def _laid_out_by(commit: Commit) -> str:
    return f"version {commit.version} ({commit.operation}) may have changed its partitioning or its columns' types"


def _freed_by(log: Log, commits: Iterable[Commit]) -> frozenset[str] | None:
    """The names that commits took from columns, and that other columns may have now; None if it may be any name.

    A RESTORE that undoes a rename or a drop takes names from columns, and gives others back.
    """
    names = frozenset[str]()
    for commit in commits:
        freed = commit.freed_columns
        if commit.operation == "REPLACE COLUMNS":
            freed = None  # it names only the columns that remain
        elif commit.operation == "RESTORE" and not _restores_no_name(log, commit):
            freed = None
        if freed is None:
            return None
        names |= freed
    return names


def _restores_no_name(log: Log, restore: Commit) -> bool:
    """Whether the commits that a RESTORE undoes are all known, and freed no name."""
    if restore.restored_version is None:
        return False
    undone = tuple(log.commits(restore.version - 1, restore.restored_version + 1))
    is_known = len(undone) == restore.version - 1 - restore.restored_version
    return is_known and _freed_by(log, undone) == frozenset()


@dataclass(frozen=True, slots=True)
class Telling:
    """A commit that tells its changes itself.

    Args:
        commit: The commit.
        growth: By how many rows the table grew, by the files of the commit; None if they lack statistics.
    """

    commit: Commit
    growth: int | None

    def why_contradicted(self, images: Counter[str]) -> str | None:
        """Why the feed of the commit is not believed, as half a sentence; None if nothing contradicts the feed.

        `images` counts its images by their type.
        """
        words = f"the feed of version {self.commit.version} ({self.commit.operation}) tells"
        if images[BEFORE] != images[AFTER]:
            return f"{words} {count_of(images[BEFORE], 'row')} before an update and {images[AFTER]:,} after it"
        growth = images[INSERT] + images[AFTER] - images[DELETE] - images[BEFORE]
        if self.growth is not None and growth != self.growth:
            return f"{words} a growth of {count_of(growth, 'row')}, and its files say {self.growth:,}"
        return None


def telling(log: Log, commits: Iterable[Commit]) -> tuple[Telling, ...]:
    """The commits that tell their changes themselves. Own commits are left out, because Delta writes their changes."""
    others = {commit.version: commit for commit in commits if not commit.is_quiet and mark_in(commit) is None}
    if not others:
        return ()
    return tuple(Telling(others[version], growth) for version, growth in log.growths(others).items())


def find_contradiction(commits: Iterable[Telling], images: Mapping[int, Counter[str]]) -> str | None:
    """Why a feed is not believed: which commit tells other changes than its files hold, and how; None if none does."""
    reasons = (each.why_contradicted(images.get(each.commit.version, Counter())) for each in commits)
    return next(filter(None, reasons), None)


def images_of(rows: Local | DataFrame) -> dict[int, Counter[str]]:
    """How many images of each type the feed has of each version: a Spark job for rows that are not at the driver."""
    images = dict[int, Counter[str]]()
    for version, change, count in _counts(rows):
        images.setdefault(version, Counter())[change] += count
    return images


def _counts(rows: Local | DataFrame) -> Iterable[tuple[int, str, int]]:
    if not isinstance(rows, Local):
        return [(row[0], row[1], row[2]) for row in rows.groupBy(VERSION, CHANGE).count().collect()]
    table = pa.table({"version": rows.column(VERSION), "change": rows.column(CHANGE)})
    grouped = table.group_by(["version", "change"]).aggregate([([], "count_all")])
    return zip(*(grouped.column(name).to_pylist() for name in ("version", "change", "count_all")), strict=True)

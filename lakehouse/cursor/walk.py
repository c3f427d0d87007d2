"""The commits of a table from the newest back: those that stand after a RESTORE, and the marks of an asset in them."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from lakehouse.cursor.generation import Generation
from lakehouse.cursor.mark import FORMAT, Mark, NewerFormatError, parse, repeats_metadata
from lakehouse.delta.commit_info import Commit
from lakehouse.delta.log import Head, Log
from lakehouse.errors import FULL_REFRESH, ReadError, UnreadableLogError


@dataclass(frozen=True, slots=True)
class Past:
    """The commits up to the head of a table. Each is read once, however often the walk passes it."""

    log: Log
    head: Head
    _read: list[Commit]
    _rest: Iterator[Commit]

    @classmethod
    def of(cls, log: Log, head: Head) -> Self:
        return cls(log, head, [], log.commits(head.version))

    def back(self, before: int | None = None, after: int = -1) -> Iterator[Commit]:
        """The commits from the newest, or from just before version `before`, back to just after version `after`.

        They end at the first commit that is missing. No commit beyond them is read.
        """
        first = 0 if before is None else max(0, self.head.version - before + 1)
        for place in range(first, self.head.version - after):
            while place >= len(self._read):
                commit = next(self._rest, None)
                if commit is None or commit.version != self.head.version - len(self._read):
                    return
                self._read.append(commit)
            yield self._read[place]

    def epoch(self, application_id: str) -> int | None:
        """See `Log.epoch`."""
        return self.log.epoch(application_id, self.head.version)


def standing(commits: Iterable[Commit]) -> Iterator[Commit]:
    """The commits whose rows the table still has, newest first, without those that a RESTORE or an emptying undid.

    The last one may be the commit that emptied the table, or a RESTORE that does not name the restored version.
    """
    undone_above: int | None = None
    for commit in commits:
        if undone_above is not None and commit.version > undone_above:
            continue
        if commit.operation == "RESTORE" and commit.restored_version is not None:
            undone_above = commit.restored_version
            continue
        yield commit
        if commit.operation == "RESTORE" or commit.empties:
            return


def standing_by_generation(past: Past) -> Iterator[tuple[Commit, Generation | None]]:
    """The commits that stand, each with the generation that began after it; None if none did.

    The newest RESTORE names the generation, or the newest commit that emptied the table.
    """
    generations = dict[int, Generation | None]()

    def observed_commits() -> Iterator[Commit]:
        newest: Generation | None = None
        for commit in past.back():
            generations[commit.version] = newest
            if newest is None and hides(commit):
                newest = Generation.after(commit.version)
            yield commit

    for commit in standing(observed_commits()):
        yield commit, generations[commit.version]


def hides(commit: Commit) -> bool:
    """Whether epochs begin again after this commit, because it restored the table, or emptied it."""
    return commit.operation == "RESTORE" or (commit.empties and not commit.is_first)


def readable_mark(commit: Commit, asset: str) -> Mark | None:
    """The asset's own mark in a commit; None also if the mark is damaged."""
    try:
        return mark_of(commit, asset)
    except UnreadableLogError:
        return None


def mark_of(commit: Commit, asset: str) -> Mark | None:
    """The asset's own mark in a commit, whichever partitions it wrote.

    Raises:
        UnreadableLogError: The mark is damaged.
        ReadError (NEWER_MARK): A newer version of the library wrote the mark.
    """
    if repeats_metadata(commit):
        return None
    try:
        mark = parse(commit.user_metadata)
    except NewerFormatError as error:
        if error.asset != asset:
            return None
        raise ReadError.newer_mark(asset, commit.version, error.number, FORMAT) from error
    except ValueError as error:
        raise UnreadableLogError.unreadable_log(
            asset,
            f"version {commit.version} carries a damaged mark: {error}",
            f"RESTORE the table to an earlier version of its own. Or materialize once with the run tag "
            f"{FULL_REFRESH}=true, which compares every row and writes a new mark (not for a History or Snapshot).",
            damaged=commit.version,
        ) from error
    return mark if mark is not None and mark.asset == asset else None

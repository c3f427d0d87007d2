"""What a commit tells of its changes, weighed against the files that it added and removed.

The feed of a commit that tells its changes itself is whatever its writer put there. By Delta's rules its inserts less
its deletes are the rows by which the table grew, and each row before an update has one after it. If that is not so, the
feed would make a wrong table without an error: a row of an old key stays, a sum loses a row twice.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import pyarrow as pa
from pyspark.sql import DataFrame

from lakehouse.changes.latest_images import AFTER, BEFORE, CHANGE, DELETE, INSERT, VERSION
from lakehouse.cursor.mark import is_mark
from lakehouse.frames.driver_rows import Local
from lakehouse.log.commit_info import Commit
from lakehouse.log.log import Log
from lakehouse.log.rows import counted


@dataclass(frozen=True, slots=True)
class Contradicted:
    """The feed of a range is not believed: a commit tells other changes than its files hold.

    Args:
        reason: Which commit, and how, as the second half of a sentence.
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Images:
    """How many images of each type the feed of one commit has."""

    inserted: int = 0
    before: int = 0
    after: int = 0
    deleted: int = 0

    @classmethod
    def of(cls, types: Mapping[str, int]) -> Self:
        return cls(*(types.get(change, 0) for change in (INSERT, BEFORE, AFTER, DELETE)))

    @property
    def growth(self) -> int:
        """By how many rows the table grew, if these are all images."""
        return self.inserted + self.after - self.deleted - self.before


@dataclass(frozen=True, slots=True)
class Telling:
    """A commit that tells its changes itself.

    Args:
        commit: The commit.
        growth: By how many rows the table grew, by the files of the commit; None if no statistics say it.
    """

    commit: Commit
    growth: int | None

    def why_contradicted(self, images: Images) -> str | None:
        """Why the feed of the commit is not believed, as the second half of a sentence; None if nothing contradicts it.

        Args:
            images: What its feed has.
        """
        words = f"the feed of version {self.commit.version} ({self.commit.operation}) tells"
        if images.before != images.after:
            return f"{words} {counted(images.before, 'row')} before an update and {images.after:,} after it"
        if self.growth is not None and images.growth != self.growth:
            return f"{words} a growth of {counted(images.growth, 'row')}, and its files say {self.growth:,}"
        return None


def telling(log: Log, commits: Iterable[Commit]) -> tuple[Telling, ...]:
    """The commits that tell their changes themselves. Our own are left out, because Delta writes their changes.

    Args:
        log: The log of the table.
        commits: Commits of the table.
    """
    others = {commit.version: commit for commit in commits if not commit.is_quiet and not is_mark(commit.user_metadata)}
    if not others:
        return ()
    return tuple(Telling(others[version], growth) for version, growth in log.growths(others).items())


def contradicted(commits: Iterable[Telling], images: Mapping[int, Images]) -> Contradicted | None:
    """The first contradiction; None if there is none.

    Args:
        commits: The commits to weigh.
        images: The images of each version that has some.
    """
    reasons = (each.why_contradicted(images.get(each.commit.version, Images())) for each in commits)
    return next((Contradicted(reason) for reason in reasons if reason is not None), None)


def images_of(rows: Local | DataFrame) -> dict[int, Images]:
    """How many images the feed has of each version. Rows that are not at the driver are counted by a job of Spark."""
    types = dict[int, Counter[str]]()
    for version, change, count in _counts(rows):
        types.setdefault(version, Counter())[change] += count
    return {version: Images.of(counter) for version, counter in types.items()}


def _counts(rows: Local | DataFrame) -> Iterable[tuple[int, str, int]]:
    if not isinstance(rows, Local):
        return [(row[0], row[1], row[2]) for row in rows.groupBy(VERSION, CHANGE).count().collect()]
    table = pa.table({"version": rows.column(VERSION), "change": rows.column(CHANGE)})
    grouped = table.group_by(["version", "change"]).aggregate([([], "count_all")])
    return zip(*(grouped.column(name).to_pylist() for name in ("version", "change", "count_all")), strict=True)

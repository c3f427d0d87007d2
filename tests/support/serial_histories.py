"""Whether a table's concurrent history equals some serial history: an independent judge, in plain Python.

It uses nothing of the library. It is given what the writers were promised (each acknowledged write as a function from
the rows before it to the rows after it, and the token that its commit carries), and what the table shows: its commits,
its change data feed, its rows.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

Rows: TypeAlias = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Write:
    """An acknowledged write.

    Args:
        token: The word that its commit carries.
        effect: What it makes of the rows that it found.
        version: The version that the writer was told; None if it was not told any.
    """

    token: str
    effect: Callable[[Rows], Rows]
    version: int | None = None


@dataclass(frozen=True)
class Commit:
    """One version, as the log and the feed show it: its `userMetadata`, and (change type, row) of each change."""

    version: int
    says: str
    changes: tuple[tuple[str, tuple[Any, ...]], ...]


def violations(
    commits: Iterable[Commit], rows: Iterable[tuple[Any, ...]], acknowledged: Iterable[Write], refused: Iterable[str]
) -> list[str]:
    """What contradicts a serial history in the order of the commits; empty where nothing does.

    Args:
        commits: The table's versions.
        rows: What the table holds in the end.
        acknowledged: The writes that were reported as committed.
        refused: The tokens of writes that were reported as not committed.
    """
    line = sorted(commits, key=lambda commit: commit.version)
    writes = list(acknowledged)
    return [
        *_gaps(line),
        *_unanswered(line, writes, refused),
        *_replayed(line, Counter(rows), writes),
    ]


def _gaps(line: list[Commit]) -> Iterator[str]:
    if [commit.version for commit in line] != list(range(len(line))):
        yield f"the versions are {[commit.version for commit in line]}"


def _unanswered(line: list[Commit], writes: list[Write], refused: Iterable[str]) -> Iterator[str]:
    """An acknowledged write is in one commit, a refused one in none, and each commit with changes has its write."""
    for write in writes:
        found = [commit.version for commit in line if write.token in commit.says]
        if len(found) != 1:
            yield f"{write.token} was acknowledged once and committed as {found}"
        elif write.version is not None and found != [write.version]:
            yield f"{write.token} was acknowledged as version {write.version} and is {found[0]}"
    for token in refused:
        yield from (f"{token} was refused and is version {c.version}" for c in line if token in c.says)
    for commit in line:
        owners = [write.token for write in writes if write.token in commit.says]
        if len(owners) != (1 if commit.changes else min(len(owners), 1)):
            yield f"version {commit.version} changed rows for {owners or 'nobody'}"


def _replayed(line: list[Commit], held: Rows, writes: list[Write]) -> Iterator[str]:
    """Each version's feed leads from the rows before it to those its write promised; the last, to the table's."""
    rows: Rows = Counter()
    for commit in line:
        promised = rows
        for write in writes:
            if write.token in commit.says:
                promised = write.effect(promised)
        after = rows.copy()
        after.subtract(row for kind, row in commit.changes if kind in ("delete", "update_preimage"))
        if missing := [row for row, count in after.items() if count < 0]:
            yield f"version {commit.version} took away rows that were not there: {missing}"
        after.update(row for kind, row in commit.changes if kind in ("insert", "update_postimage"))
        rows = +after
        if rows != +promised:
            yield f"version {commit.version}: promised but absent {promised - rows}, there but not promised {rows - promised}"
    if rows != held:
        yield f"the feed leads to {rows - held} that the table lacks, and lacks {held - rows} that it holds"

"""Random logs: a file that a reader within its limit may still read, or that is promised, never counts as unneeded."""

import json
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from lakehouse.delta.growth import Entry
from lakehouse.delta.log import Head
from lakehouse.upkeep.readers import Reader, ReaderKind, Readers, past_of

HOUR = 3_600_000
NOW = 100_000 * HOUR
VECTORS = ("-)5G[f-%[IMsW2-f$ka&", "NACQ.kwJZuR9=PYWgHme", "FM^b(3:&lWFZY{LvaML$")
FILES = tuple(f"part-{number}.parquet" for number in range(5))

Use = tuple[str, str | None]
"""A data file with its vector."""


@dataclass(frozen=True)
class Commit:
    """What one commit does: data files with their vectors that it adds and removes, and whether it tells changes."""

    added: frozenset[Use]
    removed: frozenset[Use]
    tells: bool

    def lines(self, version: int, at: int) -> list[str]:
        actions = [{"commitInfo": {"timestamp": at, "operation": "WRITE"}}]
        actions += [{"add": described(use)} for use in self.added] + [
            {"remove": described(use)} for use in self.removed
        ]
        actions += [{"cdc": {"path": f"_change_data/{version}.parquet", "size": 5}}] * self.tells
        return [json.dumps(action) for action in actions]


def described(use: Use) -> dict[str, Any]:
    path, vector = use
    of = {"storageType": "u", "pathOrInlineDv": vector, "offset": 1, "sizeInBytes": 34, "cardinality": 1}
    return {"path": path, "size": 10} | ({} if vector is None else {"deletionVector": of})


@st.composite
def histories(draw: st.DrawFn) -> list[Commit]:
    """Commits one after the other; a removed file may come back, as after a RESTORE."""
    live, commits = dict[str, str | None](), list[Commit]()
    for _ in range(draw(st.integers(1, 12))):
        touched = draw(st.lists(st.tuples(st.sampled_from(FILES), st.sampled_from([None, *VECTORS])), max_size=3))
        before = dict(live)
        for path, vector in touched:
            if path in live and draw(st.booleans()):
                del live[path]
            else:
                live[path] = vector
        removed = frozenset(use for use in before.items() if use not in live.items())
        added = frozenset(use for use in live.items() if use not in before.items())
        commits.append(Commit(added, removed, draw(st.booleans())))
    return commits


def paths_of(uses: frozenset[Use]) -> set[str]:
    entry: Entry = (0, [json.dumps({"remove": described(use)}) for use in uses])
    return {file.path for file in past_of([entry]).files}


@given(
    histories(),
    st.lists(st.integers(0, 40), min_size=12, max_size=12),
    st.integers(-1, 12),
    st.integers(1, 400),
    st.integers(1, 400),
    st.integers(1, 200),
)
def test_what_is_read_or_promised_is_never_unneeded(
    commits: list[Commit], pauses: list[int], read: int, limit: int, registered: int, promised: int
) -> None:
    ages = [sum(pauses[: len(commits) - version]) for version in range(len(commits))]
    times = [NOW - age * HOUR for age in ages]
    past = past_of((version, commit.lines(version, times[version])) for version, commit in enumerate(commits))
    kept = {"delta.deletedFileRetentionDuration": "interval 1000 hours"}
    head = Head(len(commits) - 1, "id", kept | {"lakehouse.timeTravel": f"interval {promised} hours"}, ())
    first = read + 1 if read + 1 < len(commits) else None
    slow = Reader(
        "slow",
        ReaderKind.TABLE,
        timedelta(hours=limit),
        read=read,
        first=first,
        since=None if first is None else times[first],
    )
    named = Reader("bi", ReaderKind.REGISTERED, timedelta(hours=registered))
    readers = Readers("t", head, (slow, named), NOW)
    unneeded = {file.path for file in readers.unneeded_files(past)}

    def named_after(version: int) -> set[str]:
        after = range(version + 1, len(commits))
        uses = frozenset(use for each in after for use in commits[each].added | commits[each].removed)
        return paths_of(uses) | {f"_change_data/{each}.parquet" for each in after if commits[each].tells}

    live = set[Use]()
    for commit in commits:
        live = (live - commit.removed) | commit.added
    needed = paths_of(frozenset(live))
    if first is not None and ages[first] <= limit:
        needed |= named_after(read)
    needed |= named_after(
        -1 + next((v for v, age in enumerate(ages) if age <= max(registered, promised)), len(commits))
    )
    assert unneeded.isdisjoint(needed), "it may be read"
    assert unneeded == {file.path for file in past.files} - needed, "and all else may go"

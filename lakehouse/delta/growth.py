"""The data files of a table: by how many rows a commit made the table grow, and what the files of a version hold.

A commit may tell its changes itself, in files of changed rows (Delta: PROTOCOL.md, "Add CDC File"). Nothing keeps
such files from contradicting the data files of the table. The feed of every other commit is made from its data files.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Self, TypeAlias

from lakehouse.delta.text import Literal, own_literal, quote

Entry: TypeAlias = tuple[int, Sequence[str]]
"""A version, and the lines of its file in the log."""


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a commit added or removed.

    Args:
        path: Its path, as the log writes it.
        written: How many rows are in the file; None if the action does not record it.
        deleted: How many of these rows its deletion vector deletes.
    """

    path: str
    written: int | None
    deleted: int

    @classmethod
    def of(cls, action: Mapping[str, Any]) -> Self:
        """The file of an `add` or a `remove` action."""
        statistics: Mapping[str, Any] = json.loads(action.get("stats") or "{}")
        vector: Mapping[str, Any] = action.get("deletionVector") or {}
        return cls(action["path"], statistics.get("numRecords"), int(vector.get("cardinality") or 0))


@dataclass(frozen=True, slots=True)
class FileChanges:
    """The files that one commit added and removed."""

    added: tuple[DataFile, ...]
    removed: tuple[DataFile, ...]

    @classmethod
    def of(cls, lines: Iterable[str]) -> Self:
        actions: list[dict[str, Any]] = [json.loads(line) for line in lines if '"path"' in line]
        added, removed = (
            tuple(DataFile.of(action[kind]) for action in actions if kind in action) for kind in ("add", "remove")
        )
        return cls(added, removed)

    @property
    def written(self) -> dict[str, int]:
        """How many rows each file has, for the files whose action records it."""
        return {file.path: file.written for file in (*self.added, *self.removed) if file.written is not None}

    def growth(self, written: Mapping[str, int]) -> int | None:
        """By how many rows the table grew; None if the rows of a file are not known."""
        more, fewer = _live(self.added, written), _live(self.removed, written)
        return None if more is None or fewer is None else more - fewer


def tells_changes(lines: Iterable[str]) -> bool:
    """Whether a commit tells its changes itself."""
    return any('"cdc"' in line and "cdc" in json.loads(line) for line in lines)


def growths(
    versions: Collection[int],
    entries: Callable[[Collection[int]], Iterator[Entry]],
    written_at: Callable[[int], Mapping[str, int]],
) -> dict[int, int | None]:
    """By how many rows the table grew in each commit that tells its changes itself; None if no statistics show it.

    A `remove` often has no statistics, so the rows of a removed file are looked up where the file was added: in the
    same commits, then in the version before them, then in the commits between them.

    Args:
        versions: The commits.
        entries: Reads the log's files of some commits, leaving out files that are gone.
        written_at: Reads how many rows are in each file of a version, where statistics show it. The cost grows with the
            table.
    """
    telling = {version: FileChanges.of(lines) for version, lines in entries(versions) if tells_changes(lines)}
    written = dict(chain.from_iterable(changes.written.items() for changes in telling.values()))

    def unknown_versions() -> list[int]:
        recorded = {v: each for v, each in telling.items() if all(file.written is not None for file in each.added)}
        return [v for v, changes in recorded.items() if changes.growth(written) is None]

    missing = unknown_versions()
    if missing:
        first, last = min(missing), max(missing)
        written |= written_at(first - 1)
        if unknown_versions():
            between = [version for version in range(first, last) if version not in telling]
            for _, lines in entries(between):
                written |= FileChanges.of(lines).written
    return {version: changes.growth(written) for version, changes in sorted(telling.items())}


def _live(files: Iterable[DataFile], written: Mapping[str, int]) -> int | None:
    """How many rows of some files are not deleted; None if that is not known for a file."""
    rows = 0
    for file in files:
        of_file = written.get(file.path) if file.written is None else file.written
        if of_file is None:
            return None
        rows += of_file - file.deleted
    return rows


FILE_COLUMNS = ("path", "size_bytes", "num_records", "partition")
"""Columns of deltalake's list of files; only a partitioned table has the last one."""


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A file that a version of a table uses.

    Args:
        bytes: How large it is.
        rows: How many rows are in it; None if its statistics do not show it.
        deleted: How many of these rows its deletion vector deletes; None if that is not known.
        partition: The condition that selects its partition; empty if the table has none.
    """

    bytes: int
    rows: int | None
    deleted: int | None = 0
    partition: str = ""


def live_files(files: Mapping[str, list[Any]], deleted: Mapping[str, int] | None) -> list[LiveFile]:
    """The files of a version.

    `files` is deltalake's list of them. `deleted` counts deleted rows by file name; None if that is not known.
    """
    partitions: list[Mapping[str, Any]] = files.get("partition") or [{}] * len(files["path"])
    listed = zip(files["path"], files["size_bytes"], files["num_records"], partitions, strict=True)

    def condition(partition: Mapping[str, Literal]) -> str:
        return " AND ".join(
            f"{quote(column)} {'IS NULL' if value is None else f'= {own_literal(value)}'}"
            for column, value in partition.items()
        )

    return [
        LiveFile(size, rows, None if deleted is None else deleted.get(name_of(path), 0), condition(partition))
        for path, size, rows, partition in listed
    ]


def name_of(path: str) -> str:
    """The name of a data file, which is unique; only some of deltalake's lists have whole addresses."""
    return path.rpartition("/")[2]

"""The files of a table that its newest version does not use, by the commits in its log.

Delta: PROTOCOL.md, "Add File and Remove File", "Add CDC File", "Deletion Vector Files".
"""

import json
from base64 import b85decode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from lakehouse.delta.growth import Entry

_UUID = 20
"""Characters of an encoded UUID at the end of the path of a deletion vector; a directory stands in front of it."""
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_B85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_TO_B85 = str.maketrans(_Z85, _B85)


@dataclass(frozen=True, slots=True)
class PastFile:
    """A file that the newest version of a table does not use: data, changed rows, or deleted rows.

    Args:
        path: Its path below the table, as the log writes it: encoded as in an address.
        bytes: How large it is; 0 if the log does not say.
        version: The last commit that names the file. A reader that has read this commit does not need the file.
        removed: When that commit was made, in milliseconds since the epoch.
    """

    path: str
    bytes: int
    version: int
    removed: int


@dataclass(slots=True)
class _Named:
    """What commits have said of a file so far."""

    bytes: int = 0
    version: int = -1
    removed: int = 0
    uses: set[str] = field(default_factory=set[str])
    """Why the newest version needs it: a data file with its vector, a vector with its data file."""


@dataclass(frozen=True, slots=True)
class TablePast:
    """What commits say of the past of a table.

    Args:
        files: The files that they named and that the newest version does not use, oldest first.
        times: When each of the commits was made, in milliseconds since the epoch.
    """

    files: tuple[PastFile, ...]
    times: Mapping[int, int]

    def first_since(self, time: int) -> int | None:
        """The first commit made at a time or later; None if there is none."""
        return min((version for version, at in self.times.items() if at >= time), default=None)


def past_of(entries: Iterable[Entry]) -> TablePast:
    """The past of a table by some of its commits.

    A file that only earlier commits named is not among its files. A vector that earlier commits gave to another file
    may be, although it is in use; VACUUM leaves out what is in use.

    The commits come oldest first, without a gap up to the newest.
    """
    named, times, at = dict[str, _Named](), dict[int, int](), 0
    for version, lines in entries:
        actions: list[dict[str, Any]] = [json.loads(line) for line in lines if '"path"' in line or "commitInfo" in line]
        at = times[version] = max(at, _committed(actions))  # a clock that was behind makes no file older
        for path, size, use, is_added in _uses_in(actions):
            file = named.setdefault(path, _Named())
            file.bytes, file.version, file.removed = max(file.bytes, size), version, at
            (file.uses.add if is_added else file.uses.discard)(use)
    past = (PastFile(path, file.bytes, file.version, file.removed) for path, file in named.items() if not file.uses)
    return TablePast(tuple(sorted(past, key=lambda file: (file.version, file.path))), times)


def _committed(actions: Sequence[Mapping[str, Any]]) -> int:
    """When a commit was made, in milliseconds since the epoch; without a word of it, when its files were removed."""
    info = next((action["commitInfo"] for action in actions if "commitInfo" in action), dict[str, Any]())
    removals = (action["remove"] for action in actions if "remove" in action)
    removed = max((removal.get("deletionTimestamp") or 0 for removal in removals), default=0)
    return int(info.get("inCommitTimestamp") or info.get("timestamp") or removed)


def _uses_in(actions: Sequence[Mapping[str, Any]]) -> Iterator[tuple[str, int, str, bool]]:
    """What a commit says of files, in order: path, bytes, by what it is in use, and whether it is from now on."""
    # A commit that gives a file another vector removes the file and adds it.
    for kind in ("cdc", "remove", "add"):
        for action in (action[kind] for action in actions if kind in action):
            yield from ((path, size, use, kind == "add") for path, size, use in _files_of(action))


def _files_of(action: Mapping[str, Any]) -> Iterator[tuple[str, int, str]]:
    """The files below the table that an action names: path, bytes, and by what it is in use if the action adds it."""
    path, vector = str(action["path"]), _vector(action.get("deletionVector") or {})
    name = "" if vector is None else f"{vector[0]} {vector[2]}"
    if not path.startswith("/") and "://" not in path:  # a clone names files of another table
        yield path, int(action.get("size") or 0), name
    if vector is not None:
        yield vector[0], vector[1], f"{path} {vector[2]}"


def _vector(described: Mapping[str, Any]) -> tuple[str, int, int] | None:
    """Path, bytes so far, and place of a deletion vector in a file below the table; None if it is not in one."""
    if described.get("storageType") != "u":
        return None
    text, offset = str(described["pathOrInlineDv"]), int(described.get("offset") or 0)
    directory, encoded = text[:-_UUID], text[-_UUID:]
    file = f"deletion_vector_{UUID(bytes=b85decode(encoded.translate(_TO_B85)))}.bin"
    # In front of a vector stands its length, and behind it a checksum; each has four bytes.
    return f"{directory}/{file}" if directory else file, offset + int(described["sizeInBytes"]) + 8, offset

"""Tables of this machine's files that this process has opened: each is opened again only after its log has moved.

To open a table costs about nine microseconds a file of it, and a step asks a dozen times where its tables stand.
"""

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TypeAlias

import pyarrow as pa
from deltalake import DeltaTable

from lakehouse.log.size import Size, total

KEPT = 16
"""Tables that stay open: those of a run, and of a sensor's tick."""
_Stamp: TypeAlias = tuple[int, ...]
"""When the log's directory changed, and which file its newest commit is."""


@dataclass(frozen=True)
class Opened:
    """A table as its log had it.

    Args:
        delta: The table, which nobody moves to another version.
        stamp: What its log was like then; None if the log moved meanwhile.
    """

    delta: DeltaTable
    stamp: _Stamp | None

    @cached_property
    def size(self) -> Size | None:
        """What its files hold, as `Log.size` says it."""
        files = pa.table(self.delta.get_add_actions())
        counts, sizes = (files.column(name).to_pylist() for name in ("num_records", "size_bytes"))
        each = (None if rows is None else Size(rows, size or 0, 1) for rows, size in zip(counts, sizes, strict=True))
        return total([Size(0, 0), *each])


_tables: OrderedDict[str, Opened] = OrderedDict()
_lock = Lock()


def newest(path: str) -> Opened:
    """The newest version of the table in a directory.

    Raises:
        TableNotFoundError: There is none.
        DeltaError, OSError: Its log cannot be read.
    """
    with _lock:
        opened = _tables.get(path)
    if opened is not None and opened.stamp is not None and opened.stamp == _stamp(path, opened.delta.version()):
        return opened
    before = _directory(path)
    delta = DeltaTable(path)
    stamp = _stamp(path, delta.version())
    opened = Opened(delta, stamp if stamp is not None and stamp[0] == before else None)
    with _lock:
        _tables[path] = opened
        _tables.move_to_end(path)
        while len(_tables) > KEPT:
            _tables.popitem(last=False)
    return opened


def _stamp(path: str, version: int) -> _Stamp | None:
    """What changes whenever a commit is added, removed or replaced; None if the version is not the newest.

    The next commit's file is looked for as well: a file system may give two changes of a directory one time.
    """
    log = Path(path) / "_delta_log"
    directory = _directory(path)
    try:
        commit = (log / f"{version:020}.json").stat()
    except OSError:
        return None
    if directory is None or (log / f"{version + 1:020}.json").exists():
        return None
    return (directory, commit.st_ino, commit.st_mtime_ns, commit.st_size)


def _directory(path: str) -> int | None:
    try:
        return (Path(path) / "_delta_log").stat().st_mtime_ns
    except OSError:
        return None

"""The files of a log, on this machine or in an object store, and the tables that this process has opened."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import Any, TypeAlias

import pyarrow as pa
from deltalake import DeltaTable
from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector

from lakehouse.delta.location import Location, Storage
from lakehouse.delta.log import Size, total

LOG = "_delta_log"


class LocalFiles:
    """The directory `_delta_log` of a table on this machine."""

    at_once = 1
    """How many files to ask for at once: one, because reading a file costs no round trip."""

    def __init__(self, path: str) -> None:
        self._directory = Path(path) / LOG

    def is_there(self) -> bool:
        """Whether there can be a log at all."""
        return self._directory.is_dir()

    def lines(self, name: str) -> Iterator[str]:
        """The lines of a file, lazily.

        Raises:
            FileNotFoundError: There is no such file.
        """
        with (self._directory / name).open(encoding="utf-8") as lines:
            yield from lines

    def names(self) -> list[str]:
        """The names of the files that are there."""
        return [file.name for file in self._directory.glob("*")]  # none if the directory is gone


_TOLD, _AT_MOST = 256, 1 << 20
"""For how many commits together `deltalake` is told a size, and that size in bytes."""


class StoredFiles:
    """The same in an object store, read through the store access of `deltalake`.

    `deltalake` asks for the size of an object before it reads the object, unless it is told the size; and it asks while
    no other thread of this process can run, for as long as the store takes to answer. So it is told a size that few
    commits reach, and the store returns as many bytes as there are.
    """

    at_once = 32

    def __init__(self, location: Location) -> None:
        self._location = location
        self._stores = dict[int, DeltaStorageHandler]()

    def is_there(self) -> bool:
        return True  # to find out would cost as much as to open the log

    def lines(self, name: str) -> Iterator[str]:
        content = self._read(self._store_of(int(name.removesuffix(".json")) // _TOLD), name)
        if len(content) == _AT_MOST:
            content = self._read(self._store, name)
        # Not `splitlines`: a text within JSON may hold characters that end a line to Python (U+0085, U+2028).
        yield from filter(None, content.decode().split("\n"))

    def names(self) -> list[str]:
        listed = self._store.get_file_info_selector(FileSelector(LOG, allow_not_found=True))
        return [info.base_name for info in listed]

    @cached_property
    def _store(self) -> DeltaStorageHandler:
        return DeltaStorageHandler(self._location.address, self._location.store_options)

    def _store_of(self, block: int) -> DeltaStorageHandler:
        """The store, which is told a size for each commit of a block of versions."""
        if block not in self._stores:
            versions = range(_TOLD * block, _TOLD * (block + 1))
            sizes = {f"{LOG}/{version:020}.json": _AT_MOST for version in versions}
            self._stores[block] = DeltaStorageHandler(self._location.address, self._location.store_options, sizes)
        return self._stores[block]

    def _read(self, store: DeltaStorageHandler, name: str) -> bytes:
        with store.open_input_file(f"{LOG}/{name}") as file:
            return file.read()


def files_of(location: Location) -> LocalFiles | StoredFiles:
    """The log's files at a location that this process can read."""
    return LocalFiles(location.path) if location.storage is Storage.FILES else StoredFiles(location)


KEPT = 256
"""How many tables of this machine stay open: those of a run, and of a sensor's tick. A table of few files takes 63 KB,
one of 20,000 files 6 MB. Opening it again takes at least 2.4 ms, twenty times as long as seeing that it has not moved.

A step asks a dozen times where a table stands, and each opening costs nine microseconds per file (ADR 39). The tables
are not passed through a run, because the sensor, checks and report have no run. A table is opened again only if its log
has moved, so a commit rewritten in place that is not the newest is not noticed; only a repair by hand rewrites one.
"""
_Stamp: TypeAlias = tuple[int, ...]
"""When the log's directory changed, and which file its newest commit is."""


@dataclass(frozen=True)
class Opened:
    """A table as it was opened.

    Args:
        delta: The table, which must not be moved to another version.
        stamp: The stamp of its log at that time; None if the log moved meanwhile.
    """

    delta: DeltaTable
    stamp: _Stamp | None

    @cached_property
    def size(self) -> Size | None:
        """What its files hold, as in `Log.size`."""
        files = table_from(self.delta.get_add_actions())
        counts, sizes = (files.column(name).to_pylist() for name in ("num_records", "size_bytes"))
        each = (None if rows is None else Size(rows, size or 0, 1) for rows, size in zip(counts, sizes, strict=True))
        return total([Size(0, 0), *each])


def table_from(stream: Any) -> pa.Table:
    """What deltalake lists, as a table. `pa.table` would load pandas to ask whether the list is a frame of pandas."""
    return pa.RecordBatchReader.from_stream(stream).read_all()


_tables: OrderedDict[str, Opened] = OrderedDict()
_lock = Lock()


def newest(path: str, last: Opened | None = None) -> Opened:
    """The newest version of the table in a directory.

    `last` is the table as the caller last had it, because callers may hold more tables than stay open here.

    Raises:
        TableNotFoundError: There is no table.
        DeltaError, OSError: Its log cannot be read.
    """
    with _lock:
        opened = _tables.get(path, last)
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
    """A value that changes whenever a commit is added, removed or replaced; None if the version is not the newest.

    The next commit's file is looked for as well: a file system may give two changes of a directory the same time.
    """
    log = Path(path) / LOG
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
        return (Path(path) / LOG).stat().st_mtime_ns
    except OSError:
        return None

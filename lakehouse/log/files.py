"""The files of a log, on this machine or in an object store: what `FileLog` needs of either."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

from deltalake.fs import DeltaStorageHandler
from pyarrow.fs import FileSelector

from lakehouse.log.location import Location, Storage

LOG = "_delta_log"


class LogFiles(Protocol):
    """The directory `_delta_log` of one table."""

    at_once: int
    """How many files are worth asking for at once: one where a file costs no round trip."""

    def is_there(self) -> bool:
        """Whether there can be a log at all; where that costs as much as opening it, yes."""
        ...

    def lines(self, name: str) -> Iterator[str]:
        """The lines of a file, lazily.

        Raises:
            FileNotFoundError: There is none.
        """
        ...

    def names(self) -> list[str]:
        """The names of the files that are there."""
        ...


class LocalFiles:
    """A log on this machine."""

    at_once = 1

    def __init__(self, path: str) -> None:
        self._directory = Path(path) / LOG

    def is_there(self) -> bool:
        return self._directory.is_dir()

    def lines(self, name: str) -> Iterator[str]:
        with (self._directory / name).open(encoding="utf-8") as lines:
            yield from lines

    def names(self) -> list[str]:
        return [file.name for file in self._directory.glob("*")]  # of a directory that is gone: none


class StoredFiles:
    """A log in an object store, read over the store that `deltalake` brings."""

    at_once = 32

    def __init__(self, location: Location) -> None:
        self._store = DeltaStorageHandler(location.address, location.store_options)

    def is_there(self) -> bool:
        return True

    def lines(self, name: str) -> Iterator[str]:
        with self._store.open_input_file(f"{LOG}/{name}") as file:
            content = file.read()
        # Not `splitlines`: a text within JSON may hold characters that end a line to Python (U+0085, U+2028).
        yield from filter(None, content.decode().split("\n"))

    def names(self) -> list[str]:
        listed = self._store.get_file_info_selector(FileSelector(LOG, allow_not_found=True))
        return [info.base_name for info in listed]


def files_of(location: Location) -> LogFiles:
    """The log's files at a location that this process can read."""
    return LocalFiles(location.path) if location.storage is Storage.FILES else StoredFiles(location)

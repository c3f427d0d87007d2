"""The log of a table whose files this process can read itself: milliseconds, no Spark job, no JVM.

Metadata and the head are read through the `deltalake` package. Rows are read through Spark, because deltalake misreads
the rows of tables with some features, but never their log. Only `first_rows` reads rows here, and only of tables whose
features deltalake reads as Spark does. What a commit records of itself is read from the commit's own file: deltalake's
history lists the log's directory first, so it costs more the longer the history is. Files of this machine and of an
object store are read alike (ADR 3).
"""

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pyarrow.compute as pc
from deltalake import DeltaTable, QueryBuilder
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakehouse.delta.commit_info import Commit
from lakehouse.delta.growth import FILE_COLUMNS, Entry, LiveFile, growths, live_files, name_of
from lakehouse.delta.limits import limits
from lakehouse.delta.location import Location, Storage
from lakehouse.delta.log import BRING_IT_BACK, READ_IT_LATER, FileSchema, Head, Size, keeps_feed
from lakehouse.delta.log_files import Opened, files_of, newest, table_from
from lakehouse.errors import UnreadableLogError

_FRAMING = re.compile(r"\x1b\[[0-9;]*m|\u21b3|<\?xml[^>]*>|^\s+\d+: .*$|^\s+at \S+:\d+:\d+$", re.MULTILINE)
"""What deltalake puts between the causes of an error, and the frames of its own stack after them."""
_COLLATED = "string collate UTF8_BINARY"
_COLLATED_PROBLEM = (
    f"its schema has the type '{_COLLATED}', which Delta's protocol does not know. A client of Spark Connect has "
    "written the text of a Python function, or of cast(StringType()), into a new column"
)
_COLLATED_REMEDY = "Write the table again, with CAST(column AS STRING) in SQL text, mode overwrite and overwriteSchema."
_FEATURE = re.compile(r"Feature '([^']+)' is not supported")
"""How deltalake names a table feature that it does not know."""
_CATALOG_MANAGED = "catalog-managed table"
"""How deltalake refuses a table to which only its catalog may commit."""
_COORDINATOR = "delta.coordinatedCommits.commitCoordinator"
"""The prefix of properties that name a commit coordinator; deltalake may then miss the newest commits."""
_VECTORS = "deletionVectors"
"""The feature of a table whose rows may be deleted without rewriting their file."""
_MAPS_COLUMNS = 2
"""The version of the reader protocol that implies column mapping; later versions name each feature."""
_READS_ROWS = frozenset({_VECTORS, "timestampNtz", "vacuumProtocolCheck", "v2Checkpoint"})
"""The features of a table whose rows deltalake reads as Spark does (a test compares them)."""
_CODE = re.compile(r"<Code>(\w+)</Code>")
"""The code by which S3 names an error."""


class FileLog:
    """The log of the Delta table at a location that this process can read.

    Args:
        location: Where the table's directory is.
        table: The table's name in messages.
    """

    def __init__(self, location: Location, table: str) -> None:
        self._location = location
        self._files = files_of(location)
        self._table = table
        self._newest: DeltaTable | None = None
        self._opened: Opened | None = None

    def head(self) -> Head | None:
        self._newest = delta = self._open()
        if delta is None:
            return None
        metadata = delta.metadata()
        properties = {str(key): str(value) for key, value in metadata.configuration.items()}
        if any(name.startswith(_COORDINATOR) for name in properties):
            raise UnreadableLogError.unknown_feature(self._table, "catalogManaged", "the package deltalake")
        return Head(
            version=delta.version(),
            table_id=str(metadata.id),
            properties=properties,
            partition_columns=tuple(metadata.partition_columns),
        )

    def size(self) -> Size | None:
        opened = self._open_at()
        return Size(0, 0) if opened is None else opened.size

    def first_rows(self, version: int, most: int) -> list[dict[str, Any]] | None:
        """Some rows of a version; None if it is gone, or the table has a feature whose rows deltalake may misread."""
        table = self._if_kept(version)
        protocol = None if table is None else table.protocol()
        if table is None or protocol is None or protocol.min_reader_version == _MAPS_COLUMNS:
            return None
        if not _READS_ROWS.issuperset(protocol.reader_features or ()):
            return None
        import pyarrow as pa

        query = QueryBuilder().register("rows", table).execute(f"SELECT * FROM rows LIMIT {most:d}")
        return pa.table(query.read_all()).to_pylist()

    def live_rows(self, version: int) -> int | None:
        delta = self._if_kept(version)
        if delta is None:
            return None
        counts = table_from(delta.get_add_actions()).column("num_records")
        written = int(pc.sum(counts).as_py() or 0)
        if counts.null_count or written > limits().vector_rows:
            return None
        deleted = _deletions(delta)
        return None if deleted is None else written - sum(deleted.values())

    def live_files(self, version: int) -> list[LiveFile] | None:
        """The files of a version; None if the version is gone, or has a feature that this process does not know."""
        try:
            delta = self._at(version)
            files = None if delta is None else table_from(delta.get_add_actions())
        except (DeltaError, OSError):
            return None
        if delta is None or files is None:
            return None
        few = int(pc.sum(files.column("num_records")).as_py() or 0) <= limits().purge_rows
        named = files.select([name for name in FILE_COLUMNS if name in files.column_names])
        return live_files(named.to_pydict(), _deletions(delta) if few else None)

    def file_schema(self, version: int) -> FileSchema | None:
        try:
            delta = self._table_at(version)
            fields: list[dict[str, Any]] = json.loads(delta.schema().to_json(), object_hook=_in_order)["fields"]
            metadata = delta.metadata()
        except (DeltaError, OSError, ValueError):
            return None
        properties = {key: str(value) for key, value in metadata.configuration.items()}
        return FileSchema(tuple(metadata.partition_columns), tuple(fields), keeps_feed(properties))

    def commits(self, newest: int, oldest: int = 0) -> Iterator[Commit]:
        version = newest
        for page in self._pages(newest, oldest):
            for commit in page:
                if commit is None:
                    # The oldest were cleaned up, or one is missing: the commits that are there show the caller which.
                    present = self._present(oldest, version)
                    yield from (commit for v in present if (commit := self._commit(v)) is not None)
                    return
                yield commit
                version -= 1

    def partition_values(self) -> list[Mapping[str, str | None]]:
        """The combinations of partition values for which the table has rows now: each once, in no particular order."""
        delta = self._newest or self._open()
        return [] if delta is None else [*delta.partitions()]

    def partition_values_in(self, version: int) -> list[Mapping[str, str | None]] | None:
        """The combinations of partition values whose rows a commit may have changed, each once.

        None if an action does not record the partition of its file; a `remove` need not record it.

        Raises:
            UnreadableLogError: The commit cannot be read.
        """
        values = dict[tuple[tuple[str, str | None], ...], None]()
        try:
            for action in _actions_on_files(self._files.lines(f"{version:020}.json")):
                named: dict[str, str | None] | None = action.get("partitionValues")
                if not named:
                    return None
                values[tuple(named.items())] = None
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error
        return [dict(combination) for combination in values]

    def growths(self, versions: Collection[int]) -> Mapping[int, int | None]:
        return growths(versions, self.entries, self._written_at)

    def entries(self, versions: Collection[int]) -> Iterator[Entry]:
        """The lines of some commits, several read at once where that is faster; a commit that is gone is left out."""
        listed, at_once = list(versions), self._files.at_once
        for first in range(0, len(listed), at_once):
            page = listed[first : first + at_once]
            if len(page) == 1:
                read = [self._lines(page[0])]
            else:
                with ThreadPoolExecutor(len(page)) as readers:
                    read = list(readers.map(self._lines, page))
            yield from ((version, lines) for version, lines in zip(page, read, strict=True) if lines is not None)

    def epoch(self, application_id: str, version: int) -> int | None:
        # As of the version whose marks the cursor reads: a concurrent run may have committed since.
        delta = self._at(version)
        return 0 if delta is None else delta.transaction_version(application_id) or 0

    def _pages(self, newest: int, oldest: int) -> Iterator[Iterator[Commit | None]]:
        """The commits from `newest` down to `oldest` in growing pages, each read at once; mostly one is enough."""
        page = 1
        while newest >= oldest:
            versions = range(newest, max(oldest - 1, newest - page), -1)
            if len(versions) == 1:
                yield iter([self._commit(newest)])
            else:
                with ThreadPoolExecutor(len(versions)) as readers:
                    yield iter(list(readers.map(self._commit, versions)))
            newest, page = versions[-1] - 1, min(4 * page, self._files.at_once)

    def _commit(self, version: int) -> Commit | None:
        """A commit, from its own file; None if the file is not there."""
        try:
            info, path = self._info_and_path(version)
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error
        identity = info.get("txnId") or path
        return Commit.of(version, int(info.get("inCommitTimestamp") or info.get("timestamp") or 0), info, identity)

    def _info_and_path(self, version: int) -> tuple[dict[str, Any], str | None]:
        """The `commitInfo` of a commit, and the path of its first file; the path only if there is no transaction id."""
        info, path = dict[str, Any](), None
        for line in self._files.lines(f"{version:020}.json"):
            if "commitInfo" not in line and (path is not None or '"path"' not in line):
                continue
            action: dict[str, Any] = json.loads(line)
            info = action.get("commitInfo", info)
            path = path or next((of.get("path") for of in action.values() if "path" in of), None)
            if info and ("txnId" in info or path is not None):
                break
        return info, path

    def entries_after(self, version: int, newest: int) -> Iterator[Entry]:
        """The lines of the commits after a version up to another, oldest first, as far as the log still has them."""
        return self.entries(self._present(version + 1, newest + 1)[::-1])

    def _lines(self, version: int) -> list[str] | None:
        try:
            return list(self._files.lines(f"{version:020}.json"))
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise self._unreadable(error) from error

    def _written_at(self, version: int) -> Mapping[str, int]:
        """How many rows are in each file of a version, where statistics show it; empty if the version is gone."""
        try:
            files = table_from(self._table_at(version).get_add_actions())
        except (DeltaError, OSError, ValueError):
            return {}
        listed: Any = zip(files.column("path").to_pylist(), files.column("num_records").to_pylist(), strict=True)
        return {path: rows for path, rows in listed if rows is not None}  # a path is as the log writes it

    def _present(self, oldest: int, below: int) -> list[int]:
        """The versions in `[oldest, below)` that have a file, newest first."""
        names = (name.removesuffix(".json") for name in self._files.names() if name.endswith(".json"))
        return sorted((v for name in names if name.isdecimal() and oldest <= (v := int(name)) < below), reverse=True)

    def _at(self, version: int) -> DeltaTable | None:
        """The table at a version, opened again only if the log last opened another version."""
        if self._newest is None or self._newest.version() != version:
            self._newest = self._open(version)
        return self._newest

    def _if_kept(self, version: int) -> DeltaTable | None:
        """The table at a version; None if it cannot be opened, as after a cleanup that left some of its commits."""
        try:
            return self._at(version)
        except UnreadableLogError:
            return None

    def _open(self, version: int | None = None) -> DeltaTable | None:
        opened = self._open_at(version)
        return None if opened is None else opened.delta

    def _open_at(self, version: int | None = None) -> Opened | None:
        try:
            if not self._files.is_there():
                return None
            if version is None and self._location.storage is Storage.FILES:
                self._opened = newest(self._location.path, self._opened)
                return self._opened
            return Opened(self._table_at(version), None)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise self._unreadable(error) from error

    def _table_at(self, version: int | None) -> DeltaTable:
        if self._location.storage is Storage.FILES:
            return DeltaTable(self._location.path, version=version)
        return DeltaTable(self._location.address, version=version, storage_options=self._location.store_options)

    def _unreadable(self, error: Exception) -> UnreadableLogError:
        if _CATALOG_MANAGED in str(error):
            return UnreadableLogError.unknown_feature(self._table, "catalogManaged", "the package deltalake")
        feature = _FEATURE.search(str(error))
        if feature is not None:
            return UnreadableLogError.unknown_feature(self._table, feature.group(1), "the package deltalake")
        if "gap" in str(error) or "contiguous" in str(error):
            return UnreadableLogError.unreadable_log(
                self._table, "a commit file is missing in its middle", BRING_IT_BACK
            )
        if _COLLATED in str(error):
            return UnreadableLogError.unreadable_log(self._table, _COLLATED_PROBLEM, _COLLATED_REMEDY)
        causes = " ".join(_FRAMING.sub(" ", str(error)).split())
        code = _CODE.search(causes)
        answer = "" if code is None else f"the store answers {code.group(1)}: "
        return UnreadableLogError.unreadable_log(self._table, answer + causes[:300], READ_IT_LATER)


def _in_order(field: dict[str, Any]) -> dict[str, Any]:
    """A field with its metadata in a fixed order: `deltalake` gives the metadata in another order each time."""
    match field:
        case {"name": str(), "metadata": metadata}:
            return field | {"metadata": dict(sorted(metadata.items()))}
        case _:
            return field


def _deletions(delta: DeltaTable) -> dict[str, int] | None:
    """How many rows are deleted in each file that has a deletion vector, by file name; None if that is not known.

    This takes a value for each row of such a file.
    """
    if _VECTORS not in (delta.protocol().reader_features or ()):
        return {}
    try:
        vectors = table_from(delta.deletion_vectors())
    except DeltaError:  # deltalake reads no vectors if it does not know a feature, such as typeWidening
        return None
    listed: Any = zip(vectors.column("filepath").to_pylist(), vectors.column("selection_vector"), strict=True)
    return {name_of(path): len(rows) - int(pc.sum(rows.values).as_py() or 0) for path, rows in listed}


def _actions_on_files(lines: Iterable[str]) -> Iterator[Mapping[str, Any]]:
    """The actions of a commit on files with rows: on files that it adds or removes, and on files of its feed."""
    for line in lines:
        if "partitionValues" in line or '"remove"' in line:
            actions: dict[str, Any] = json.loads(line)
            yield from (actions[kind] for kind in ("add", "remove", "cdc") if kind in actions)

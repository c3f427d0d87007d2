"""The kinds of write as a closed set: what an asset's annotation says before there is a result."""

from enum import Enum

from lakehouse.results.aggregate import Aggregate
from lakehouse.results.writes import Append, History, Merge, Overwrite, Snapshot


class Kind(Enum):
    """The write that an asset returns."""

    APPEND = Append
    OVERWRITE = Overwrite
    MERGE = Merge
    AGGREGATE = Aggregate
    HISTORY = History
    SNAPSHOT = Snapshot

    @property
    def needs_key(self) -> bool:
        """Whether the table must declare a key, because rows are found by it."""
        return self not in (Kind.APPEND, Kind.OVERWRITE)

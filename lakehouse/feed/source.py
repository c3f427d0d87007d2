"""What is read: a table as one run found it."""

from dataclasses import dataclass

from lakehouse.log.log import Head, Log
from lakehouse.spark.snapshot import TableVersion


@dataclass(frozen=True, slots=True)
class SourceState:
    """A source as a run found it, as a value.

    Args:
        name: Its name.
        table_id: Its table id.
        version: Its newest version.
        mapped: Which of its partitions are read, as a digest; None if all are.
    """

    name: str
    table_id: str
    version: int
    mapped: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """A source as one run found it.

    Args:
        at: The source, pinned at its latest version.
        log: Its log.
        head: Where it stood.
        key: The declared key columns of the source; empty if it declares none.
        trusts_key: Whether the key is believed of commits that no asset made.
    """

    at: TableVersion
    log: Log
    head: Head
    key: tuple[str, ...] = ()
    trusts_key: bool = False

    @property
    def state(self) -> SourceState:
        return SourceState(self.at.ref.name, self.head.table_id, self.head.version, self.at.mapped)

"""What is read: a table as one run found it."""

from dataclasses import dataclass

from lakehouse.log.log import Head, Log
from lakehouse.spark.snapshot import TableVersion


@dataclass(frozen=True, slots=True)
class Source:
    """A source as one run found it.

    Args:
        at: The source, pinned at its latest version.
        log: Its log.
        head: Where it stood.
        key: The declared key columns of the source; empty if it declares none.
    """

    at: TableVersion
    log: Log
    head: Head
    key: tuple[str, ...] = ()

"""What matters for conflicts in a commit: the terms in which `lakehouse.conflicts.rules` asks and answers."""

from dataclasses import dataclass
from enum import Enum

from lakehouse.delta.table import Isolation


class Engine(Enum):
    """The engine that commits. The two engines have different rules."""

    OPEN_SOURCE = "open-source Delta 4.4"
    DATABRICKS = "Databricks"


class Operation(Enum):
    """What a commit does to a table, as far as it matters for conflicts."""

    BLIND_APPEND = "blind append"
    READING_APPEND = "append that reads the table"
    CHANGE = "UPDATE, DELETE or MERGE"
    OVERWRITE = "overwrite"
    OPTIMIZE = "OPTIMIZE"
    FEATURE = "enabling a table feature"
    CLUSTERING = "CLUSTER BY of a table that is clustered"
    METADATA = "change of schema or properties"
    DROPPED_FEATURE = "dropping a table feature"
    CREATION = "creation of the table"
    REPLACEMENT = "RESTORE, CLONE or CONVERT"


class Limit(Enum):
    """What makes a statement on Databricks lose row-level concurrency, or makes an OPTIMIZE conflict with other writes.

    No write of this library has such a limit. They come from the matrix that Databricks has published, with which a
    test compares the rules (tests/conflicts).
    """

    Z_ORDER = "OPTIMIZE with ZORDER BY"
    COMPLEX_TYPE = "a condition on a struct, array or map"
    SUBQUERY = "a condition with a subquery"
    NON_DETERMINISTIC = "a condition that is not deterministic"


class Verdict(Enum):
    """The closed set of answers, mildest first.

    AVOIDABLE: the two conflict unless each writes its own part, or the table is created before both. CAN: on this table
    they conflict however the statements are written; only taking turns helps.
    """

    CANNOT = "cannot conflict"
    AVOIDABLE = "avoidable"
    CAN = "can conflict"


@dataclass(frozen=True, slots=True)
class Traits:
    """What Delta's checks see of an operation's commit: what it read, and the actions that it writes."""

    reads: bool = False
    adds: bool = False
    removes: bool = False
    metadata: bool = False
    protocol: bool = False
    same_rows: bool = False
    """No row changes (`dataChange=false`), so Delta commits it under snapshot isolation: added files do not matter."""


TRAITS = {
    Operation.BLIND_APPEND: Traits(adds=True),
    Operation.READING_APPEND: Traits(reads=True, adds=True),
    Operation.CHANGE: Traits(reads=True, adds=True, removes=True),
    Operation.OVERWRITE: Traits(reads=True, adds=True, removes=True),
    Operation.OPTIMIZE: Traits(reads=True, adds=True, removes=True, same_rows=True),
    Operation.FEATURE: Traits(metadata=True),
    Operation.CLUSTERING: Traits(),  # what it writes is not the table's metadata, but a domain of its own
    Operation.METADATA: Traits(metadata=True),
    Operation.DROPPED_FEATURE: Traits(metadata=True, protocol=True),
    Operation.CREATION: Traits(adds=True, metadata=True, protocol=True),
    Operation.REPLACEMENT: Traits(reads=True, adds=True, removes=True),
}
WRITES_ROWS = frozenset({Operation.BLIND_APPEND, Operation.READING_APPEND, Operation.CHANGE, Operation.OVERWRITE})


@dataclass(frozen=True, slots=True)
class Layout:
    """The properties of a table on which conflicts depend.

    Args:
        partitioned: Whether it has partition columns.
        clustered: Whether it has liquid clustering; not together with `partitioned`.
        isolation: The `delta.isolationLevel` that it carries.
        deletion_vectors: Whether it keeps deletion vectors.
        row_level: Whether the runtime may compare rows. Databricks does if the table has deletion vectors and no
            partitions; open-source Delta never does. It is False only for tables of the published matrix.
        identity: Whether it has an identity column.

    Raises:
        ValueError: The table is both partitioned and clustered.
    """

    partitioned: bool = False
    clustered: bool = False
    isolation: Isolation = Isolation.SERIALIZABLE
    deletion_vectors: bool = False
    row_level: bool = True
    identity: bool = False

    def __post_init__(self) -> None:
        if self.partitioned and self.clustered:
            raise ValueError("A Delta table is partitioned or clustered, not both.")


@dataclass(frozen=True, slots=True)
class ConcurrentWrite:
    """One write as a rival sees it.

    Args:
        operation: What it does.
        within: The partitions that its statement names as literals and that all its rows are in; None if it names
            none. A join on the partition column names none.
        application: Its application id (`txnAppId`), if it commits with one.
        evolves: Whether it also changes the schema (adds a column).
        inserts: Whether it may insert rows. An UPDATE or DELETE may not, but no write of this library is only that.
        limits: What keeps it from row-level concurrency; see `Limit`.
    """

    operation: Operation
    within: frozenset[str] | None = None
    application: str | None = None
    evolves: bool = False
    inserts: bool = True
    limits: frozenset[Limit] = frozenset()

    @property
    def traits(self) -> Traits:
        return TRAITS[self.operation]

    @property
    def declares(self) -> bool:
        """Whether its commit contains the table's metadata, whatever its rows are."""
        return self.traits.metadata or self.evolves

    @property
    def numbers_rows(self) -> bool:
        """Whether it may give rows new values of an identity column."""
        return self.inserts and self.operation in WRITES_ROWS


@dataclass(frozen=True, slots=True)
class Foreseen:
    """Whether a write can lose to another one that commits first."""

    verdict: Verdict
    why: str
    exceptions: tuple[str, ...] = ()
    remedy: str = ""


TAKE_TURNS = "Let the writers of the table take turns, in one Dagster pool."
ALONE = "Do it while no writer of the table is under way."
OTHER_PARTITIONS = "Name the partitions of each as literals in its statement, and let them differ."

"""What an asset declares about its Delta table and its inputs, in the form in which Dagster keeps it: metadata."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast

from lakehouse.delta.expect import NTH, SUFFIX, Expect, as_expectations
from lakehouse.delta.location import scheme_of
from lakehouse.delta.log import Head, limit_from
from lakehouse.delta.policy import Policy, as_names
from lakehouse.delta.text import fold, name_parts, quote


class Isolation(Enum):
    """The levels that `delta.isolationLevel` names; open-source Delta creates tables with the first one only."""

    SERIALIZABLE = "Serializable"
    WRITE_SERIALIZABLE = "WriteSerializable"


class Declared(Mapping[str, Any]):
    """A frozen dataclass that is its own metadata: fields that differ from their defaults, under the class's prefix."""

    __slots__ = ()
    _PREFIX: ClassVar[str]
    _stored: Mapping[str, Any]

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, Any]) -> Self:
        """The declaration in an asset's metadata. What is not declared has its default."""
        options = {f.name for f in fields(cast("Any", cls)) if f.init}
        declared = {
            name.removeprefix(cls._PREFIX): getattr(value, "value", value)
            for name, value in metadata.items()
            if name.startswith(cls._PREFIX)
        }
        return cls(**{name: value for name, value in declared.items() if name in options})

    def _keep(self) -> None:
        """Stores the fields that differ from their defaults. Call it in the last line of `__post_init__`."""
        values = [(f, getattr(self, f.name)) for f in fields(cast("Any", self)) if f.init]
        stored = {self._PREFIX + f.name: _plain(value) for f, value in values if value not in (f.default, (), {})}
        object.__setattr__(self, "_stored", stored)

    def __getitem__(self, name: str) -> Any:
        return self._stored[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._stored)

    def __len__(self) -> int:
        return len(self._stored)


def _plain(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, Policy):
        return value.given
    if isinstance(value, Expect):
        return value.metadata
    return [_plain(each) for each in cast("tuple[Any, ...]", value)] if isinstance(value, tuple) else value


RESERVED_COLUMNS = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})
"""Names of the change data feed's own columns; a table that keeps a feed cannot hold them."""

UNSAFE_PROPERTIES = {
    "delta.setTransactionRetentionDuration": (
        "transaction identifiers would expire, and with them the proof that a change was applied once"
    ),
}

FEED, VECTORS = "delta.enableChangeDataFeed", "delta.enableDeletionVectors"
Columns: TypeAlias = str | tuple[str, ...] | list[str] | None


@dataclass(frozen=True, slots=True)
class Table(Declared):
    """A Delta table as its asset declares it: a frozen `Mapping`, given as the asset's `metadata=`.

    Args:
        key: The column or columns that identify a row (of a `History`: an entity). A `Merge`, an `Aggregate`,
            a `Snapshot` and a `History` need a key.
        partition_by: The column or columns that the files are partitioned by; in a partitioned asset, the
            columns that hold its partition keys.
        cluster_by: The column or columns of liquid clustering; not together with `partition_by`.
        properties: Delta table properties, set when the table is created. The change data feed is on, and with a
            key deletion vectors are, unless they are switched off here.
        name: A catalog name (`catalog.schema.table`) instead of a path under the IO manager's root; a part that has
            dots of its own is written in backticks.
        path: An address of its own instead of a path under that root: absolute, or with a scheme (`s3a://...`). With
            `name`, this is where a run creates the table, which is then an external table of the catalog.
        on_gap: What to do if the changes of a source can no longer be read: `"reconcile"` compares the full
            result with the table and writes the difference; `"fail"` leaves the decision to you.
        columns: Descriptions by column, kept as comments in the table and shown in Dagster.
        policy: What a run of this table may do; a field that is not given takes the IO manager's value.
        expect: What must hold of each row that a run writes: one condition, or several.
        trust_key: For a table that another program writes: whether its readers rely on the key to identify a row.
            The change feed then gives the rows of touched keys, and a key in two rows gives wrong results. By default
            the rows are read from the table.
        readers: For a table that another program writes: its readers other than the tables here, each with the longest
            time that it may be behind: `{"bi": "14 days"}`. A reader of an asset's own table is registered in it:
            `lakehouse readers TABLE --register NAME`.
        owns: The condition of the rows that runs may rewrite, `"day >= date_sub(:today, 90)"`; all other rows stay
            unchanged. By default runs may rewrite all rows.

    Raises:
        ValueError: A combination that no Delta table can have.
        TypeError: Column names that are not texts, a policy that is not a `Policy`, or an expectation that is not an
            `Expect`.
    """

    _PREFIX: ClassVar[str] = "lakehouse/"
    key: Columns = None
    partition_by: Columns = None
    cluster_by: Columns = None
    properties: Mapping[str, str] | None = None
    name: str | None = None
    path: str | None = None
    on_gap: Literal["reconcile", "fail"] = "reconcile"
    columns: Mapping[str, str] | None = None
    policy: Policy = Policy()
    expect: Expect | tuple[Expect, ...] | list[Expect] = ()
    trust_key: bool = False
    readers: Mapping[str, str] | None = None
    owns: str | None = None
    _stored: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("key", "partition_by", "cluster_by"):
            object.__setattr__(self, name, _columns(name, getattr(self, name)))
        object.__setattr__(self, "properties", dict(self.properties or {}))
        object.__setattr__(self, "columns", dict(self.columns or {}))
        object.__setattr__(self, "policy", _policy(self.policy))
        object.__setattr__(self, "expect", as_expectations(self.expect))
        object.__setattr__(self, "readers", dict(self.readers or {}))
        for reader, limit in (self.readers or {}).items():
            if limit_from(limit) is None:
                raise ValueError(f"The limit of the reader {reader!r} is a time such as '14 days', not {limit!r}.")
        if not isinstance(cast("Any", self.owns), str | None) or self.owns == "":
            raise ValueError(f"owns is a condition on columns of the table, not {self.owns!r}.")
        if self.trust_key and not self.key:
            raise ValueError("trust_key is about the declared key: give key.")
        if self.partition_by and self.cluster_by:
            raise ValueError("A Delta table is partitioned or clustered, not both: give partition_by or cluster_by.")
        if self.on_gap not in ("reconcile", "fail"):
            raise ValueError(f"on_gap is 'reconcile' or 'fail', not {self.on_gap!r}.")
        for unsafe, why in UNSAFE_PROPERTIES.items():
            if unsafe.lower() in self.properties_in_lower_case:
                raise ValueError(f"Table property {unsafe} is refused: {why}.")
        _isolation(self.properties_in_lower_case)
        if self.name is not None and not name_parts(self.name):
            raise ValueError(f"name is a catalog name such as catalog.schema.table, not {self.name!r}.")
        if self.path is not None and scheme_of(self.path) is None and not self.path.startswith("/"):
            raise ValueError(f"path is absolute or has a scheme, such as s3a://bucket/orders, not {self.path!r}.")
        self._keep()

    @property
    def key_columns(self) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self.key)

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self.partition_by)

    def partitioned_by(self, head: Head | None) -> tuple[str, ...]:
        """The partition columns of the existing table, or of the table that will be created."""
        return self.partition_columns if head is None else head.partition_columns

    @property
    def cluster_columns(self) -> tuple[str, ...]:
        return cast("tuple[str, ...]", self.cluster_by)

    @property
    def expectations(self) -> tuple[Expect, ...]:
        return cast("tuple[Expect, ...]", self.expect)

    @property
    def quarantines(self) -> bool:
        """Whether rows that break an expectation are put into a quarantine."""
        return any(each.quarantines for each in self.expectations)

    @property
    def asks_for_unique_keys(self) -> bool:
        """Whether a row is judged by the other rows of its key, so that a run has to see all of them."""
        return any(each.is_of_key for each in self.expectations)

    @property
    def quarantine(self) -> "Table":
        """The declaration of its quarantine: next to it, with the same layout, and a row per number within a key."""
        name, path = self.name, self.path
        if name is not None:
            *before, last = name_parts(name)
            name = ".".join(map(quote, (*before, last + SUFFIX)))
        path = None if path is None else path.rstrip("/") + SUFFIX
        layout = (self.partition_by, self.cluster_by, self.properties)
        policy = Policy(deletion_vectors=self.policy.deletion_vectors)
        return Table((*self.key_columns, NTH), *layout, name=name, path=path, policy=policy)

    def under(self, outer: Policy) -> "Table":
        """This table, with its manager's choice of deletion vectors if its own policy does not choose."""
        vectors = self.policy.within(outer).deletion_vectors
        return replace(self, policy=replace(self.policy, deletion_vectors=vectors))

    @property
    def external_path(self) -> str | None:
        """Where a run creates an external table of a catalog; None for any other table."""
        return self.path.rstrip("/") if self.path is not None and self.name is not None else None

    @property
    def all_properties(self) -> dict[str, str]:
        """The properties of a new table: as declared, else with a feed and, with a key, deletion vectors (ADR 39)."""
        has_vectors = bool(self.key) and self.policy.deletion_vectors is not False
        defaults = {FEED: "true"} | ({VECTORS: "true"} if has_vectors else {})
        declared = self.properties_in_lower_case
        return {name: on for name, on in defaults.items() if name.lower() not in declared} | dict(self.properties or {})

    @property
    def maps_columns(self) -> bool:
        """Whether a new table maps its columns to other names in its files, so that any text can be a column's name."""
        return self.properties_in_lower_case.get("delta.columnmapping.mode", "none").lower() != "none"

    @property
    def properties_in_lower_case(self) -> dict[str, str]:
        """The declared properties under their names in lower case, because Delta ignores the case."""
        return {name.lower(): value for name, value in (self.properties or {}).items()}

    @property
    def isolation(self) -> Isolation | None:
        """The declared isolation level; None leaves the level to the engine."""
        return _isolation(self.properties_in_lower_case)

    @property
    def reader_limits(self) -> dict[str, timedelta]:
        """How long each reader that the table declares may be behind."""
        limits = {reader: limit_from(limit) for reader, limit in (self.readers or {}).items()}
        return {reader: limit for reader, limit in limits.items() if limit is not None}

    @property
    def descriptions(self) -> dict[str, str]:
        return dict(self.columns or {})


def _isolation(properties: Mapping[str, str]) -> Isolation | None:
    declared = properties.get("delta.isolationlevel")
    for level in Isolation:
        if declared is not None and declared.lower() == level.value.lower():
            return level
    if declared is not None:
        levels = " or ".join(level.value for level in Isolation)
        raise ValueError(
            f"delta.isolationLevel is {levels}, not {declared!r}; open-source Delta has Serializable only."
        )
    return None


def _policy(value: Any) -> Policy:
    """The policy, given as itself or by its fields, as metadata holds it."""
    if isinstance(value, Mapping):
        return Policy(**cast("Mapping[str, Any]", value))
    if not isinstance(value, Policy):
        raise TypeError(f"policy is a Policy(...), not {value!r}.")
    return value


def _columns(argument: str, value: Any) -> tuple[str, ...]:
    columns = as_names(argument, value)
    if any(not column for column in columns):
        raise ValueError(f"{argument} names a column without a name.")
    if len(fold(columns)) < len(columns):
        raise ValueError(f"{argument} names a column twice: {', '.join(columns)}.")
    for reserved in RESERVED_COLUMNS & fold(columns):
        raise ValueError(f"{argument} names {reserved}, a column of Delta's change data feed; rename it in the asset.")
    return columns


@dataclass(frozen=True, slots=True)
class Read(Declared):
    """How one input is read: the options of `dg.AssetIn(metadata=Read(...))`.

    Args:
        start: Where a first read starts. `"snapshot"`: the whole source as inserts. A version: the changes
            after it. A timestamp: the changes committed after it; without a zone it is in UTC, wherever it runs.
        clamp: Whether a start outside the source's available history means the closest available version instead of
            an error.
        max_versions: At most this many versions in one run, not counting versions without rows and versions that are
            left out; the next run reads on from there.
        max_bytes: At most this many bytes of changes in one run, by the bytes that these commits record. A commit is
            never split, so a larger commit is read alone.
        exclude_operations: Operations whose commits are left out whole (`"DELETE"`).
        exclude_metadata: Texts; a commit whose `userMetadata` contains one of them is left out whole.
        archive: The asset that keeps this source's feed (`Append(changes.log())`); it is read where the feed itself
            can no longer answer.

    Raises:
        ValueError: A limit below one, or a start that is neither a snapshot, a version nor a time.
    """

    _PREFIX: ClassVar[str] = "lakehouse/read/"
    start: Literal["snapshot"] | int | datetime | str = "snapshot"
    clamp: bool = False
    max_versions: int | None = None
    max_bytes: int | None = None
    exclude_operations: tuple[str, ...] = ()
    exclude_metadata: tuple[str, ...] = ()
    archive: str | None = None
    _stored: Mapping[str, Any] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.start, str) and self.start != "snapshot":
            object.__setattr__(self, "start", _timestamp(self.start))
        if isinstance(self.start, datetime) and self.start.tzinfo is None:
            object.__setattr__(self, "start", self.start.replace(tzinfo=UTC))
        if not _is_start(self.start):
            raise ValueError(f"start is 'snapshot', a version or a timestamp, not {self.start!r}.")
        if isinstance(self.start, int) and self.start < 0:
            raise ValueError(f"start is a version from 0, not {self.start}.")
        for name in ("exclude_operations", "exclude_metadata"):
            given: str | tuple[str, ...] = getattr(self, name)
            texts = (given,) if isinstance(given, str) else tuple(given)
            if not all(text.strip() for text in texts):
                raise ValueError(f"{name} holds an empty text, which is in every commit.")
            object.__setattr__(self, name, texts)
        for name in ("max_versions", "max_bytes"):
            limit = getattr(self, name)
            if limit is not None and limit < 1:
                raise ValueError(f"{name} is at least 1, not {limit}.")
        self._keep()

    @property
    def is_whole(self) -> bool:
        """Whether every change of the source is read sooner or later: the read has no late start and no exclusions."""
        return self.start == "snapshot" and not self.excludes

    @property
    def excludes(self) -> bool:
        """Whether the options leave out commits."""
        return bool(self.exclude_operations or self.exclude_metadata)

    def leaves_out(self, operation: str, metadata: str | None) -> bool:
        """Whether a commit is left out."""
        return operation in self.exclude_operations or any(text in (metadata or "") for text in self.exclude_metadata)


def _is_start(value: Any) -> bool:
    return isinstance(value, int | datetime | str) and not isinstance(value, bool)


def _timestamp(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"start is 'snapshot', a version or an ISO timestamp, not {text!r}.") from error

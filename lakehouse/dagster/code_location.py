"""A code location, parsed once; and what a definition says: how inputs are read, how the result is written."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, TypeAlias, TypeGuard, cast

import dagster as dg
from dagster._core.definitions.assets.graph.asset_graph import AssetGraph
from pyspark.sql import DataFrame, SparkSession

from lakehouse.cursor.standings import Logs, Ways
from lakehouse.dagster.slices import slice_of
from lakehouse.delta.location import BRANCH, Location, branch_here
from lakehouse.delta.log import Log
from lakehouse.delta.partition_keys import Slice
from lakehouse.delta.policy import Policy
from lakehouse.delta.table import Read, Table
from lakehouse.errors import DefinitionError, SetupError
from lakehouse.read.asset import PastRows
from lakehouse.read.changes import Changes
from lakehouse.server.rendezvous import SCRATCH
from lakehouse.spark.table_version import TableRef
from lakehouse.writes.aggregate import Aggregate
from lakehouse.writes.append import Append
from lakehouse.writes.history import History
from lakehouse.writes.merge import Merge
from lakehouse.writes.overwrite import Overwrite
from lakehouse.writes.snapshot import Snapshot
from lakehouse.writes.view import View
from lakehouse.writes.write import Declaration, Write

InputKind: TypeAlias = type[Changes] | type[DataFrame]

_READS = ("Changes", "pyspark.sql.DataFrame")
KINDS: tuple[type[Write], ...] = (Append, Overwrite, Merge, Aggregate, History, Snapshot, View)
_WRITES = (*(kind.__name__ for kind in KINDS), "pyspark.sql.DataFrame")


@dataclass(frozen=True, slots=True)
class AssetTable:
    """What a code location defines about one table.

    Args:
        key: Its asset key.
        definition: Its definition, with the inputs as Dagster resolves them; None if the code location has none.
        declared: What is declared of it.
        partitions_def: Its partitions in Dagster; None if it has none.
        manager: The key of its IO manager, which also reads the table wherever it is an input.
        root: Where the tables of that manager are; None if the manager is not a `DeltaIOManager`.
        inputs: The table behind each input of the asset.
        changes: The inputs that are read as `Changes`, and how.
        policy: What its runs may do: by its own policy, else by that of its manager, if the definitions have it.
    """

    key: dg.AssetKey
    definition: dg.AssetsDefinition | None = None
    declared: Table = field(default_factory=Table)
    partitions_def: dg.PartitionsDefinition[Any] | None = None
    manager: str = "io_manager"
    root: Location | None = None
    inputs: Mapping[str, dg.AssetKey] = field(default_factory=dict[str, dg.AssetKey])
    changes: Mapping[str, Read] = field(default_factory=dict[str, Read])
    policy: Policy = Policy()

    @property
    def name(self) -> str:
        return self.key.to_user_string()

    @property
    def asset(self) -> dg.AssetsDefinition | None:
        """The asset that makes the table; None if no asset of the code location does."""
        return self.definition if self.definition is not None and self.definition.is_materializable else None

    @property
    def is_spec(self) -> bool:
        """Whether a spec says that the table is there, and no asset makes it."""
        return self.definition is not None and not self.definition.is_executable

    @property
    def upstream(self) -> set[str]:
        """The names of the tables that are upstream of it in Dagster."""
        deps = () if self.definition is None else self.definition.specs_by_key[self.key].deps
        return {dep.asset_key.to_user_string() for dep in deps}

    @property
    def values(self) -> frozenset[dg.AssetKey]:
        """The tables whose rows its function takes; its other inputs pass no value."""
        given = () if self.asset is None else self.asset.op.input_defs
        taken = {each.name for each in given if not each.dagster_type.is_nothing}
        return frozenset(key for name, key in self.inputs.items() if name in taken)

    @property
    def is_written(self) -> bool:
        """Whether its IO manager writes what one function returns."""
        return is_function(self.asset) and not writes_nothing(self.asset)

    @property
    def kind(self) -> type[Write]:
        """How the result of its asset is written."""
        assert self.asset is not None, f"no asset makes {self.name}"
        return write_kind(self.name, result_annotation(self.asset))

    @property
    def past(self) -> PastRows | None:
        """What becomes of the rows of earlier runs; None if no annotation says how a result is written."""
        kind = _kind_of_annotation(result_annotation(self.asset)) if is_function(self.asset) else None
        return None if kind is None else kind.past

    @property
    def declaration(self) -> Declaration:
        """What a kind of write looks at to refuse a definition."""
        return Declaration(self.name, self.declared, self.partitions_def is not None, self.changes)

    @property
    def stands_alone(self) -> bool:
        """Whether the asset makes this table and no other."""
        return self.asset is not None and len(list(self.asset.keys)) == 1

    @property
    def ref(self) -> TableRef | None:
        """Where the table is; None if no `DeltaIOManager` has it."""
        return None if self.root is None else self.ref_below(self.root)

    def ref_below(self, root: Location) -> TableRef:
        """Where the table is if its IO manager has this root."""
        return table_ref(root, self.key, self.declared)

    def slice(self, partitions: Iterable[str]) -> Slice | None:
        """The part of the table that belongs to some partitions; None if the table has no partitions."""
        definition = self.partitions_def
        return None if definition is None else slice_of(self.name, self.declared, definition, partitions)


@dataclass(frozen=True)
class CodeLocation:
    """The tables of a code location. Each object counts once, however often Dagster lists it.

    Args:
        tables: Each table that is defined, in the order of the definitions.
        root_of: Gives the root of an IO manager by its key; None if the manager is not a `DeltaIOManager`.
    """

    tables: Mapping[dg.AssetKey, AssetTable]
    root_of: Callable[[str], Location | None]

    @classmethod
    def of(
        cls,
        definitions: Iterable[Any],
        root_of: Callable[[str], Location | None],
        policy_of: Callable[[str], Policy] = lambda _: Policy(),
    ) -> Self:
        """The tables that assets make, and those that are declared by specs or by Dagster's older source assets."""
        tables = dict[dg.AssetKey, AssetTable]()
        for table in (table for definition in resolve(definitions) for table in _tables_of(definition, root_of)):
            outer = policy_of(table.manager)
            policy = table.declared.policy.within(outer)
            tables[table.key] = replace(table, declared=table.declared.under(outer), policy=policy)
        return cls(tables, root_of)

    def __getitem__(self, key: dg.AssetKey) -> AssetTable:
        """What is defined about a table; the defaults, if nothing defines the table."""
        table = self.tables.get(key)
        return AssetTable(key, root=self.root_of("io_manager")) if table is None else table

    @cached_property
    def by_name(self) -> dict[str, AssetTable]:
        """Its tables by their names, in the order of the definitions."""
        return {table.name: table for table in self.tables.values()}

    def followed_by(self, table: AssetTable) -> tuple[AssetTable, ...]:
        """The tables whose changes a table reads."""
        return tuple(self[table.inputs[name]] for name in table.changes)

    def followers_of(self, table: str) -> frozenset[str]:
        """The tables that read the changes of a table."""
        return frozenset(self._followers.get(table, ()))

    @cached_property
    def _followers(self) -> Mapping[str, Collection[str]]:
        followers = dict[str, list[str]]()
        for table in self.tables.values():
            for source in self.followed_by(table):
                followers.setdefault(source.name, []).append(table.name)
        return followers

    def keeps_changes_of(self, table: str) -> bool:
        """Whether a `History` or an `Append` reads the changes of a table."""
        pasts = (self.by_name[name].past for name in self.followers_of(table))
        return any(past is not None and past.is_final for past in pasts)

    @cached_property
    def ways(self) -> Ways:
        """Which tables lead to which, as far as their marks record it."""
        made = [table for table in self.tables.values() if table.is_written and table.stands_alone and table.root]
        inputs = {
            table.name: sorted(key.to_user_string() for key in table.values if self[key].root and key != table.key)
            for table in made
        }
        return Ways(
            {name: sources for name, sources in inputs.items() if sources},
            frozenset(table.name for table in made if table.policy.inputs == "agree"),
            frozenset(table.name for table in made if table.partitions_def is not None),
        )

    def logs(self, spark: Callable[[], SparkSession] | None = None) -> Logs:
        """A function from a table's name to its log; without Spark it gives None for a log that only Spark can read."""

        def log_of(name: str) -> Log | None:
            ref = self[dg.AssetKey.from_user_string(name)].ref
            if ref is None or (spark is None and ref.why_only_spark() is not None):
                return None
            return ref.log(spark or _no_session)

        return log_of

    @property
    def refs(self) -> tuple[TableRef, ...]:
        """Where its tables are; only those that a `DeltaIOManager` has."""
        return tuple(filter(None, (table.ref for table in self.tables.values())))


def _no_session() -> SparkSession:
    raise AssertionError("the log is read without Spark")


def resolve(definitions: Iterable[Any]) -> list[dg.AssetsDefinition]:
    """The assets of a code location with the keys of their inputs as Dagster resolves them.

    A key that no asset has may mean a table of the same group whose key ends in it, or the asset of a `table_name`.
    """
    assets = [_as_asset(each) for each in definitions]
    try:
        made = AssetGraph.normalize_assets(assets)
    except dg.DagsterInvalidDefinitionError:  # a part of a code location may lack the source of an input
        made = [_resolve_among(each, assets) for each in assets]
    return list(made[: len(assets)])  # after them Dagster lists the keys that nothing defines


def _as_asset(definition: Any) -> dg.AssetsDefinition:
    match definition:
        case dg.AssetSpec():
            return dg.AssetsDefinition(specs=[definition])
        case dg.SourceAsset():
            return AssetGraph.normalize_assets([definition])[0]
        case _:
            return definition


def _resolve_among(asset: dg.AssetsDefinition, assets: Iterable[dg.AssetsDefinition]) -> dg.AssetsDefinition:
    others = [dg.AssetsDefinition(specs=[spec]) for other in assets if other is not asset for spec in other.specs]
    try:
        return AssetGraph.normalize_assets([asset, *others])[0]
    except dg.DagsterInvalidDefinitionError:
        return asset


def _tables_of(asset: dg.AssetsDefinition, root_of: Callable[[str], Location | None]) -> Iterator[AssetTable]:
    # If two inputs read one table, Dagster keeps only one of them.
    inputs: Mapping[str, dg.AssetKey] = asset.keys_by_input_name if asset.is_materializable else {}
    reads = changes_of(asset) if is_function(asset) else {}
    changes = {name: read for name, read in reads.items() if name in inputs}
    for spec in asset.specs:
        manager = asset.get_io_manager_key_for_asset_key(spec.key)
        table, root = Table.from_metadata(spec.metadata), root_of(manager)
        yield AssetTable(spec.key, asset, table, spec.partitions_def, manager, root, inputs, changes)


def input_kind(asset: str, name: str, annotation: Any) -> InputKind:
    """How an input is read: as `Changes`, or as a `DataFrame` at one pinned version.

    Raises:
        DefinitionError (UNSUPPORTED_ANNOTATION): The annotation is neither of them, or is missing.
    """
    if annotation is Changes:
        return Changes
    if _is_frame(annotation):
        return DataFrame
    raise DefinitionError.unsupported_annotation(asset, f"its input '{name}'", name_of_annotation(annotation), _READS)


def write_kind(asset: str, annotation: Any) -> type[Write]:
    """How the result is written; a plain `DataFrame` is an `Overwrite`.

    Raises:
        DefinitionError (UNSUPPORTED_ANNOTATION): The annotation is not a write, or is missing.
    """
    kind = _kind_of_annotation(annotation)
    if kind is not None:
        return kind
    raise DefinitionError.unsupported_annotation(asset, "its result", name_of_annotation(annotation), _WRITES)


def _kind_of_annotation(annotation: Any) -> type[Write] | None:
    return Overwrite if _is_frame(annotation) else next((kind for kind in KINDS if annotation is kind), None)


def write_of(result: Any) -> Write:
    """The write that an asset's function returned, in a `dg.Output` or by itself; a `DataFrame` is an `Overwrite`."""
    value = cast("Any", result).value if isinstance(result, dg.Output | dg.MaterializeResult) else result
    return Overwrite(value) if isinstance(value, DataFrame) else cast("Write", value)


def result_annotation(asset: dg.AssetsDefinition) -> Any:
    """What the function of an asset is annotated to return, whether or not that is a write."""
    return asset.op.output_defs[0].dagster_type.typing_type


def writes_nothing(asset: dg.AssetsDefinition) -> bool:
    """Whether the asset is annotated `-> None` or `-> dg.MaterializeResult`: its result goes to no IO manager.

    The outputs of its checks do not count.
    """
    outputs = (asset.op.output_def_named(name) for name in asset.keys_by_output_name)
    return all(output.dagster_type.is_nothing for output in outputs) or _returns_no_value(asset)


def _returns_no_value(asset: dg.AssetsDefinition) -> bool:
    """Whether a function is annotated with a `MaterializeResult` without a value, which Dagster turns into `Any`."""
    annotation = getattr(function_of(asset), "__annotations__", dict[str, Any]()).get("return")
    return annotation is dg.MaterializeResult or annotation in ("dg.MaterializeResult", "MaterializeResult")


def changes_of(asset: dg.AssetsDefinition) -> dict[str, Read]:
    """The inputs that are read as `Changes`, and how."""
    return {
        input_.name: Read.from_metadata(input_.metadata or {})
        for input_ in asset.op.input_defs
        if input_.dagster_type.typing_type is Changes
    }


def maps_partitions(asset: dg.AssetsDefinition, source: dg.AssetKey) -> bool:
    """Whether a run reads only those of the source's partitions that are mapped to it.

    An asset without partitions reads the whole table, unless it names a mapping. A mapping of all partitions also means
    the whole table, because the set of keys grows, and the table may hold rows that are in no partition.
    """
    mapping = asset.get_partition_mapping_for_dep(source)
    if isinstance(mapping, dg.AllPartitionMapping):
        return False
    return mapping is not None or asset.partitions_def is not None


def is_function(asset: Any) -> TypeGuard[dg.AssetsDefinition]:
    """Whether one function computes the asset. A graph of ops has no function whose annotations say how to read."""
    return (
        isinstance(asset, dg.AssetsDefinition) and asset.is_executable and isinstance(asset.node_def, dg.OpDefinition)
    )


def function_of(asset: dg.AssetsDefinition) -> Any:
    """The function that a decorator made into the asset; None if the op was made without a decorator."""
    return getattr(asset.op.compute_fn, "decorated_fn", None)


def table_ref(root: Location, key: dg.AssetKey, table: Table) -> TableRef:
    """Where an asset's table is: its catalog name, its own address, or its key as a directory below the root.

    Raises:
        DefinitionError: The key would leave the root, or leads to where Spark keeps its own files.
    """
    name = key.to_user_string()
    if table.name is not None:
        return TableRef.in_catalog(name, table.name)
    if table.path is not None:
        return TableRef.at(name, Location(table.path.rstrip("/"), root.options))
    parts = key.path
    if parts[0] == SCRATCH or any(part in ("", ".", "..") or "/" in part or "\\" in part for part in parts):
        raise DefinitionError(
            f"Asset key '{name}' cannot be a directory below {root.address}, where {SCRATCH} belongs to Spark. "
            f"Rename the asset."
        )
    return TableRef.at(name, root.below(name))


def is_shared(table: Table) -> bool:
    """Whether this process works on a branch, and a table has a place of its own, which no branch may write."""
    return branch_here() is not None and (table.name or table.path) is not None


def refuse_shared(name: str, table: Table) -> None:
    """Refuses to write, on a branch, a table that is the same on every branch.

    Raises:
        SetupError (VARIABLE): The table has a place of its own.
    """
    if is_shared(table):
        own = f"'{name}' has a place of its own ({table.name or table.path}), which is the same on each branch"
        raise SetupError.variable(BRANCH, branch_here(), f"{own}. Nothing was written. Run it without a branch.")


def archive_ref(root: Location, name: str) -> TableRef:
    """Where a run looks for the table of an archive: at its key below the root of the reading asset's own manager."""
    return table_ref(root, dg.AssetKey.from_user_string(name), Table())


def _is_frame(annotation: Any) -> bool:
    """Whether it is a DataFrame class. Subclasses count: importing that of Spark Connect would take a second."""
    return isinstance(annotation, type) and issubclass(annotation, DataFrame)


def name_of_annotation(annotation: Any) -> str | None:
    """The annotation for a message, with the library of a DataFrame; None if there is none."""
    if annotation is Any or annotation is None:
        return None
    name = getattr(annotation, "__name__", str(annotation))
    return f"{annotation.__module__.split('.')[0]}.{name}" if name == "DataFrame" else name

"""Every part of the library sees the inputs that Dagster resolves, however they are declared. Random, without Spark."""

import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame
from toposort import CircularDependencyError

from lakehouse import Changes, DeltaIOManager, Merge, Overwrite, Table, explain, incremental
from lakehouse.dagster.code_location import CodeLocation
from lakehouse.dagster.definitions.checked import Checked
from lakehouse.dagster.definitions.checks import checkable_tables
from lakehouse.dagster.follow.watch import Watch
from lakehouse.dagster.io_manager import code_location_of
from lakehouse.spark.table_version import TableRef
from tests.support.raises import raises_code

ROUNDS = 150
MANAGER = DeltaIOManager(spark=object(), root="/lake")
PREFIXES: tuple[list[str], ...] = ([], ["x"], ["x", "y"], ["z"])
GROUPS = (None, "gold", "silver")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::dagster.BetaWarning")


@dataclass
class Said:
    """How one function declares its inputs: parameters with how they are read, `ins`, `deps`."""

    parameters: dict[str, Any] = field(default_factory=dict[str, Any])
    ins: dict[str, dg.AssetIn] = field(default_factory=dict[str, dg.AssetIn])
    deps: list[Any] = field(default_factory=list[Any])

    def by_name(self, key: dg.AssetKey, kind: Any) -> None:
        self.parameters[key.path[-1]] = kind

    def by_key(self, key: dg.AssetKey, kind: Any) -> None:
        self.parameters["read"] = kind
        self.ins["read"] = dg.AssetIn(key)

    def by_prefix(self, key: dg.AssetKey, kind: Any) -> None:
        self.parameters[key.path[-1]] = kind
        self.ins[key.path[-1]] = dg.AssetIn(key_prefix=list(key.path[:-1]))

    def by_relative_key(self, key: dg.AssetKey, kind: Any) -> None:
        self.parameters["near"] = kind
        self.ins["near"] = dg.AssetIn(key.path[-1])

    def as_nothing(self, key: dg.AssetKey, _: Any) -> None:
        self.ins["after"] = dg.AssetIn(key, dagster_type=dg.Nothing)

    def as_dep(self, key: dg.AssetKey, _: Any) -> None:
        self.deps.append(dg.AssetDep(key))

    def as_relative_dep(self, key: dg.AssetKey, _: Any) -> None:
        self.deps.append(key.path[-1])

    def as_dep_by_table_name(self, key: dg.AssetKey, _: Any) -> None:
        self.deps.append(dg.AssetDep("its_" + "_".join(key.path), metadata={"dagster/table_name": table_name(key)}))


WAYS = (
    Said.by_name,
    Said.by_key,
    Said.by_prefix,
    Said.by_relative_key,
    Said.as_nothing,
    Said.as_dep,
    Said.as_relative_dep,
    Said.as_dep_by_table_name,
)


def table_name(key: dg.AssetKey) -> str:
    return "shop.main." + "_".join(key.path)


def function_with(parameters: Mapping[str, Any], returns: Any) -> Callable[..., Any]:
    def compute(**_: Any) -> Any: ...

    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD
    given = [inspect.Parameter(name, kinds, annotation=kind) for name, kind in parameters.items()]
    signed: Any = compute
    signed.__signature__ = inspect.Signature(given, return_annotation=returns)
    return signed


def random_definitions(chance: Random) -> tuple[list[Any], list[str]]:
    """Definitions of two to six tables that read some of the others, and the ways in which they declare that."""
    keys = [dg.AssetKey([*chance.choice(PREFIXES), chance.choice("abcde")]) for _ in range(chance.randint(2, 6))]
    keys = list(dict.fromkeys(keys))
    assets, used = list[Any](), list[str]()
    for at, key in enumerate(keys):
        group = chance.choice(GROUPS)
        metadata = {**Table(key="id"), "dagster/table_name": table_name(key)}
        spec = dg.AssetSpec(key, group_name=group, metadata=metadata)
        among = keys[:at] if chance.random() < 0.9 else [other for other in keys if other != key]
        sources = chance.sample(among, min(len(among), chance.randint(0, 3)))
        if not sources:
            shapes = (spec, dg.AssetsDefinition(specs=[spec]), dg.SourceAsset(key, metadata, group_name=group))
            assets.append(chance.choice(shapes))
            continue
        said, is_one_of_two = Said(), chance.random() < 0.15
        for source in sources:
            way, kind = chance.choice(WAYS), chance.choice((Changes, DataFrame))
            used.append(way.__name__)
            way(said, source, DataFrame if is_one_of_two else kind)
        if is_one_of_two:
            out = dg.AssetOut(key=key, group_name=group, io_manager_key="memory")
            outs = {"one": out, "more": dg.AssetOut(key=[*key.path, "more"], io_manager_key="memory")}
            decorate: Any = dg.multi_asset(outs=outs, ins=said.ins, deps=said.deps, name="_".join(key.path))
            assets.append(decorate(function_with(said.parameters, inspect.Signature.empty)))
            used.append("multi_asset")
            continue
        decorate = dg.asset(key=key, group_name=group, metadata=metadata, ins=said.ins, deps=said.deps)
        assets.append(decorate(function_with(said.parameters, Overwrite)))
    chance.shuffle(assets)
    return assets, used


def answers(defs: dg.Definitions, asset: dg.AssetsDefinition, key: dg.AssetKey) -> Iterator[tuple[str, Any, Any]]:
    """Each part of the library that knows a table's inputs: its answer, and the right one by Dagster's asset graph."""
    location, resolved = code_location_of(defs), asset.keys_by_input_name
    table, name, inputs = location[key], key.to_user_string(), names(resolved.values())
    yield "definitions", dict(table.inputs), dict(resolved)
    instance: Any = None  # used only for when checks were made
    checked = Checked.of(table, location, dict.fromkeys([key, *location.tables], MANAGER), instance)
    yield "checks", names_of(checked.sources.values()), inputs
    yield "managers of checks", set(checkable_tables(location)[key].resources), {key, *resolved.values()}
    yield "run", set(MANAGER.asset_of(asset, key).inputs.values()), inputs
    followed = {resolved[each.name] for each in asset.op.input_defs if each.dagster_type.typing_type is Changes}
    watched = Watch(location).tables.get(key)
    are_ours = all(location[source].ref is not None for source in followed)
    yield "sensor and condition", set() if watched is None else watched.source_keys, followed if are_ours else set()
    tables = [source.name for source in location.tables.values() if name in location.followers_of(source.name)]
    yield "upkeep", {*tables}, names(followed)
    read = [resolved[each.name] for each in asset.op.input_defs if not each.dagster_type.is_nothing]
    tables_read = [key.to_user_string() for key in read if location[key].ref is not None]
    if tables_read:  # there are no tables: `explain` names the first one that it misses
        yield "explain", f"'{tables_read[0]}'" in explain(defs, key).why, True


def is_circular(graph: Any) -> bool:
    try:
        return not graph.toposorted_asset_keys
    except CircularDependencyError:
        return True


def names_a_source_twice(node: Any) -> bool:
    asset, deps = node.assets_def, [dep.asset_key for dep in node.to_asset_spec().deps]
    inputs = asset.node_def.input_defs if node.is_materializable else ()
    return len(deps) > len({*deps}) or len(inputs) > len(asset.keys_by_input_name)


def names(keys: Iterable[dg.AssetKey]) -> set[str]:
    return {key.to_user_string() for key in keys}


def names_of(refs: Iterable[TableRef]) -> set[str]:
    return {ref.name for ref in refs}


def test_whoever_asks_names_the_inputs_that_dagster_resolves():
    done = Counter[str]()
    for seed in range(ROUNDS):
        try:
            assets, ways = random_definitions(Random(seed))
            given = dg.Definitions(assets=assets, resources={"io_manager": MANAGER, "memory": dg.mem_io_manager})
            graph = given.resolve_asset_graph()
        except (dg.DagsterInvalidDefinitionError, dg.DagsterInvariantViolationError):  # refused by Dagster
            continue
        if any(map(names_a_source_twice, graph.asset_nodes)):  # refused by this library
            continue
        if is_circular(graph):
            done["circle"] += 1
            with raises_code("DEFINITION", match="so none of them could be made first"):
                incremental(given)
            continue
        done.update(ways)
        for defs in (given, incremental(given)):
            for key in graph.materializable_asset_keys:
                asset = graph.get(key).assets_def
                if len(list(asset.keys)) > 1:
                    assert code_location_of(defs)[key].inputs == asset.keys_by_input_name, (seed, key)
                    continue
                for who, answer, truth in answers(defs, asset, key):
                    assert answer == truth, (seed, key, who)
    assert min(done[way.__name__] for way in WAYS) > 5, done
    assert min(done["multi_asset"], done["circle"]) > 1, done


@dg.asset(key=["gold", "orders_by_kind"], group_name="gold", metadata=Table(key="id"))
def orders_by_kind(orders_clean: Changes) -> Merge:
    touched = orders_clean.touched("id")
    return Merge(touched.rows, touched)


def test_a_list_without_the_source_of_one_input_resolves_the_others():
    @dg.asset(key=["silver", "orders"], group_name="gold")
    def orders() -> Overwrite: ...

    @dg.asset(key=["gold", "totals"], group_name="gold")
    def totals(orders: Changes) -> Overwrite: ...

    @dg.asset(key=["gold", "rates"], group_name="gold")
    def rates(unlisted: Changes) -> Overwrite: ...

    tables = CodeLocation.of([orders, totals, rates], lambda _: MANAGER.location)
    assert tables[totals.key].inputs == {"orders": orders.key}
    assert tables[rates.key].inputs == {"unlisted": dg.AssetKey("unlisted")}

"""What the graph of the assets says of tables: their order and groups, what is behind, what a selection names."""

import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from lakehouse.cli.command import UsageError, no_such
from lakehouse.cursor.unread import TableState
from lakehouse.errors import in_short
from lakehouse.status.table_status import TableStatus

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.code_location import CodeLocation

_IS_KEY = re.compile(r"[\w/.-]+")
"""What Dagster takes for an asset key; a selection has other characters, too."""


def groups_in_order(defs: "dg.Definitions", names: Collection[str]) -> dict[str, str]:
    """The group of each table. Groups and their tables are in the order of the graph: sources first."""
    graph = defs.resolve_asset_graph()
    groups = {key.to_user_string(): graph.get(key).group_name for key in graph.toposorted_asset_keys}
    places = {group: place for place, group in enumerate(dict.fromkeys(groups.values()))}
    order = sorted((name for name in groups if name in names), key=lambda name: places[groups[name]])
    return {name: groups[name] for name in order} | {name: "" for name in names if name not in groups}


def behind(
    code_location: "CodeLocation", names: Iterable[str], statuses: Iterable[TableStatus]
) -> dict[str, tuple[str, ...]]:
    """The tables whose next run has something to read, each with those of its sources that run before it.

    A table that follows one that is behind is behind as soon as that one has run. Left out are tables with partitions,
    because somebody has to name the partition, and gaps, because somebody has to look at them first.

    Args:
        code_location: The definitions.
        names: The names of the tables, in the order of the graph.
        statuses: Where the tables stand that exist.
    """
    tables, states, chain = (
        code_location.by_name,
        {each.name: each.state for each in statuses},
        dict[str, tuple[str, ...]](),
    )
    for name in names:
        table, state = tables.get(name), states.get(name, TableState.MISSING)
        if table is None or not table.is_written or table.partitions_def is not None:
            continue
        before = tuple(source.name for source in code_location.followed_by(table) if source.name in chain)
        if state in (TableState.BEHIND, TableState.MISSING) or (before and state is TableState.UP_TO_DATE):
            chain[name] = before
    return chain


def select_assets(
    words: Sequence[str], defs: "dg.Definitions", code_location: "CodeLocation", *, by_partition: bool
) -> tuple[list[str], list[str]]:
    """The assets that the words of a command line name, and those that a selection leaves out, in the graph's order.

    Args:
        words: Asset keys, and selections as Dagster writes them: `gold/x+`, `+gold/x`, `group:gold`, `*`.
        defs: The definitions.
        code_location: Their tables.
        by_partition: Whether the run is of a partition: a selection leaves out assets without partitions, else those
            with partitions.

    Raises:
        UsageError: A word is neither, or no function makes an asset that it names.
    """
    from lakehouse.dagster.definitions.explaining import explainable

    names, tables = explainable(code_location), code_location.by_name
    chosen, left_out = set[str](), set[str]()
    for word in words:
        if word in names:
            chosen.add(word)
            continue
        selection = _resolve(word, defs, names, tables) & {*names}
        fitting = {name for name in selection if (tables[name].partitions_def is not None) == by_partition}
        if not fitting:
            without = "with" if by_partition else "without"
            raise UsageError(f"{word} selects no asset {without} partitions that a function makes.")
        chosen |= fitting
        left_out |= selection - fitting
    order = groups_in_order(defs, names)
    return [name for name in order if name in chosen], [name for name in order if name in left_out - chosen]


def _resolve(word: str, defs: "dg.Definitions", names: Sequence[str], tables: Collection[str]) -> set[str]:
    """The assets of a selection."""
    import dagster as dg

    name = word.strip("+")
    if word in tables or (name not in tables and _IS_KEY.fullmatch(name)):
        raise UsageError(no_such("asset", name, names, tables))
    try:
        with warnings.catch_warnings(action="ignore"):  # Dagster warns of a beta parameter that it gives itself
            keys = dg.AssetSelection.from_string(word).resolve(defs.resolve_asset_graph())
    except dg.DagsterError as error:
        raise UsageError(f"{in_short(error)}. A selection is written gold/x+, +gold/x, group:gold.") from error
    return {key.to_user_string() for key in keys}

"""What the graph and Dagster's history show of tables: order, groups, selections, what is behind or was compared."""

import os
import re
import warnings
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lakehouse.cli.command import DAGSTER_HOME, UsageError, no_such
from lakehouse.cursor.unread import TableState
from lakehouse.errors import in_short
from lakehouse.status.table_status import TableStatus

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.code_location import CodeLocation
    from lakehouse.dagster.definitions.past_checks import MadeCheck


_IS_KEY = re.compile(r"[\w/.-]+")
"""What Dagster accepts as an asset key; a selection contains other characters, too."""


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

    They include each table that follows one of them, because it is behind as soon as its source has run. Tables with
    partitions are left out, because a user has to name the partition; so are gaps, which a user has to look at first.
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
        by_partition: Whether the run is of a partition. If so, a selection leaves out assets without partitions, else
            those with partitions.

    Raises:
        UsageError: A word is neither of these, or it names an asset that no function makes.
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


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is known of a table's comparisons with a recompute.

    Args:
        at: When the last one was made, in milliseconds since the epoch; None if none was.
        equal: Whether the table was right then; None if none was made.
        of: What was compared, if not the whole table: a partition, a part of the keys.
        impossible: Why no recompute can give what the table must hold; None if one can.
    """

    at: int | None = None
    equal: bool | None = None
    of: str = ""
    impossible: str | None = None


@dataclass(frozen=True, slots=True)
class Comparisons:
    """The comparisons of the tables.

    Args:
        by_table: The comparisons of each table that an asset makes; without Dagster's event log, only those that are
            impossible.
        unknown: Why Dagster's event log is not at hand, as a clause; None if it is.
    """

    by_table: dict[str, Comparison]
    unknown: str | None = None


def comparisons(code_location: "CodeLocation") -> Comparisons:
    """When each table of a code location was last compared, by the instance of Dagster that `DAGSTER_HOME` names."""
    import dagster as dg

    from lakehouse.dagster.definitions.past_checks import last_compared
    from lakehouse.dagster.definitions.recompute import why_not_recomputed

    made = (table for table in code_location.tables.values() if table.asset is not None)
    reasons = {table.key: why_not_recomputed(table) for table in made}
    impossible = {key.to_user_string(): Comparison(impossible=why) for key, why in reasons.items() if why is not None}
    if not os.environ.get(DAGSTER_HOME):
        return Comparisons(impossible, f"the variable {DAGSTER_HOME} is not set")
    try:
        with dg.DagsterInstance.get() as instance:
            made = {key: last_compared(instance, key) for key, why in reasons.items() if why is None}
    except Exception as error:  # its storage may be anywhere, and the tables' logs still give the rest
        return Comparisons(impossible, in_short(error))
    return Comparisons(impossible | {key.to_user_string(): _comparison(last) for key, last in made.items()})


def _comparison(last: "MadeCheck | None") -> Comparison:
    from lakehouse.dagster.definitions.past_checks import PART, PARTITION

    if last is None:
        return Comparison()
    named = ((PARTITION, last.text(PARTITION)), (PART, last.text(PART)))
    of = ", ".join(f"{name} {text}" for name, text in named if text is not None)
    return Comparison(int(last.at * 1000), last.evaluation.passed, of)

"""`cut`: the newest versions of several tables that belong to one state of their sources, to be read together."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import dagster as dg

from lakehouse.cursor.cuts import greatest_cut, who_is_behind
from lakehouse.cursor.standings import Standings, StandsFor
from lakehouse.dagster.follow.watch import THREADS
from lakehouse.dagster.io_manager import code_location_of, managers_of
from lakehouse.delta.log import Head, Log, files_kept, log_kept
from lakehouse.errors import ReadError


@dataclass(frozen=True, slots=True)
class Cut:
    """Versions of tables that belong to one state of their sources.

    Args:
        versions: The version of each table.
        stands_for: The version of each source.
        queries: SQL that reads each table at its version.
        until: From when on Delta may have removed files of a version, in milliseconds since the epoch; None for a
            newest version.
        behind: Which tables hold a newer cut back, as clauses.
    """

    versions: Mapping[str, int]
    stands_for: StandsFor
    queries: Mapping[str, str]
    until: Mapping[str, int | None]
    behind: Sequence[str] = ()


def cut(defs: dg.Definitions, *tables: str) -> Cut:
    """The newest versions of tables that belong to one state of their sources, by the logs alone.

    Args:
        defs: The definitions of the code location.
        tables: The keys of the tables, their parts joined by "/"; all tables that assets make, if none is named.

    Raises:
        ReadError: A table does not exist, what it stands for is not known, there is no cut, or the cut can no longer be
            read.
    """
    code_location = code_location_of(defs)
    manager = next(iter(managers_of(defs.resources).values()), None)
    standings = Standings(code_location.ways, code_location.logs(None if manager is None else manager.session))
    with ThreadPoolExecutor(THREADS) as readers:
        list(readers.map(standings.head, tables or code_location.ways.inputs))
    names = tables or tuple(name for name in code_location.ways.inputs if standings.head(name) is not None)
    heads = {name: _head(standings, name) for name in names}
    for name, head in heads.items():
        why = standings.of(name, head.version).why_inexact
        if why is not None:
            raise ReadError(f"'{name}' is in no cut: {why}.", "Nothing was read. Name the other tables alone.")
    newest = {name: standings.of(name, head.version) for name, head in heads.items()}
    behind = tuple(map(str, who_is_behind(newest)))
    versions = greatest_cut(standings.exact, {name: head.version for name, head in heads.items()}, {}, {})
    if versions is None:
        raise ReadError(
            f"No versions of {', '.join(names)} belong to one state of their sources: {'; '.join(behind)}.",
            "Nothing was read. With Policy(inputs='agree') the tables meet; or name fewer of them.",
        )
    stands_for = {source: at for name in names for source, at in (standings.exact(name, versions[name]) or {}).items()}
    refs: dict[str, Any] = {name: code_location[dg.AssetKey.from_user_string(name)].ref for name in versions}
    queries = {name: f"SELECT * FROM {refs[name].identifier} VERSION AS OF {at}" for name, at in versions.items()}
    until = {name: _until(standings.log(name), heads[name], version) for name, version in versions.items()}
    old = next((name for name, at in until.items() if at is not None and at < time.time() * 1000), None)
    if old is not None:
        raise ReadError(
            f"The newest versions of {', '.join(names)} that belong to one state of their sources can no longer be "
            f"read: version {versions[old]} of {old} has been replaced for longer than its files are kept.",
            f"Nothing was read. A newer cut waits for {'; and for '.join(behind)}: materialize these tables.",
        )
    return Cut(versions, stands_for, queries, until, behind)


def _head(standings: Standings, name: str) -> Head:
    head = standings.head(name)
    if head is None:
        raise ReadError(f"There is no table '{name}'.", "Nothing was read. `lakehouse status` lists the tables.")
    return head


def _until(log: Log | None, head: Head, version: int) -> int | None:
    """When the files of a version may be removed: not before the next commit is as old as files are kept."""
    if version == head.version or log is None:
        return None
    retention = int(min(files_kept(head), log_kept(head)).total_seconds() * 1000)
    return min((commit.timestamp for commit in log.commits(version + 1, version + 1)), default=0) + retention

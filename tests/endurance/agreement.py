"""Whether every table stands for one state of each source, whichever way leads to it; derived from the marks alone."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tests.reliability.checker import Asset
from tests.reliability.delta_files import History
from tests.reliability.laws import bag


def torn(tables: Iterable[Asset], opened: Callable[[Path], History]) -> list[str]:
    """The own commits that read one source in two ways, at versions with different rows."""
    return list(_torn({table.name: table for table in tables}, opened))


def _torn(tables: dict[str, Asset], opened: Callable[[Path], History]) -> Iterator[str]:
    for name, table in tables.items():
        if len(table.sources) == 1:
            continue
        for version in opened(table.path).entries:
            if _mark(opened(table.path), name, version, follow=False) is None:
                continue
            for source, versions in _stands_for(tables, opened, name, version).items():
                history = opened(next(iter(table.sources.values())).parent / source)
                low, high = min(versions), max(versions)
                if low < high and bag(history.rows(low)) != bag(history.rows(high)):
                    yield f"{name} at version {version} stands for versions {low} and {high} of {source}"


def _stands_for(
    tables: dict[str, Asset], opened: Callable[[Path], History], name: str, version: int
) -> dict[str, set[int]]:
    """The versions of each source, a table that no asset makes, that this version of a table stands for."""
    if name not in tables:
        return {name: {version}}
    mark = _mark(opened(tables[name].path), name, version, follow=True)
    found: dict[str, set[int]] = {}
    for each, at in (mark or {}).get("reads", {}).items():
        for source, versions in _stands_for(tables, opened, each, at["version"]).items():
            found.setdefault(source, set()).update(versions)
    return found


def _mark(history: History, name: str, version: int, *, follow: bool) -> dict[str, Any] | None:
    """The asset's mark in a commit; with `follow` the mark that holds there, from this or an earlier commit."""
    while version in history.entries:
        entry = history.entries[version]
        body = json.loads(entry.info.get("userMetadata") or "{}").get("lakehouse", {})
        if body.get("asset") == name:
            return body
        if not follow:
            return None
        version = entry.restored if entry.restored is not None else version - 1
    return None

"""How commits changed a table's files, read from its log."""

import json
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Files:
    """Files that commits added and removed, and the bytes that they added, change files included."""

    added: int
    removed: int
    written: int


def version(table: Path) -> int:
    return max(int(path.stem) for path in (table / "_delta_log").glob("*.json"))


def since(table: Path, version: int) -> Files:
    """The files that the commits after a version added and removed."""
    added = removed = written = 0
    for path in sorted((table / "_delta_log").glob("*.json")):
        if int(path.stem) <= version:
            continue
        for line in path.read_text().splitlines():
            action = json.loads(line)
            match action:
                case {"add": {"size": size}}:
                    added += 1
                    # A file that only got a deletion vector is added again under its old name.
                    known = action["add"].get("deletionVector")
                    written += known["sizeInBytes"] if known else size
                case {"cdc": {"size": size}}:
                    written += size
                case {"remove": _}:
                    removed += 1
                case _:
                    pass
    return Files(added, removed, written)

"""A table's history as its log, its feed and its rows show it, read without the library."""

import json
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tests.support.lake import Lake
from tests.support.serial_histories import Commit, Write, violations
from tests.support.writers import Answer, Source


@dataclass(frozen=True)
class History:
    """The versions of a table, and the rows that it holds."""

    commits: tuple[Commit, ...]
    rows: tuple[tuple[Any, ...], ...]

    @classmethod
    def of(cls, lake: Lake, name: str) -> "History":
        path = lake.root / name
        feed = lake.spark.read.option("readChangeFeed", "true").option("startingVersion", "0")
        changes: dict[int, list[Any]] = defaultdict(list)
        for row in feed.load(str(path), format="delta").collect():
            changes[row["_commit_version"]].append((row["_change_type"], (row.id, row.g, row.v)))
        commits: list[Commit] = []
        for file in sorted((path / "_delta_log").glob("*.json")):
            version, actions = int(file.stem), map(json.loads, file.read_text().splitlines())
            says = next(action["commitInfo"] for action in actions if "commitInfo" in action).get("userMetadata", "")
            commits.append(Commit(version, says, tuple(changes[version])))
        return cls(tuple(commits), tuple(lake.rows(name)))

    @classmethod
    def parse(cls, said: Any) -> "History":
        """Builds a history from its fields in JSON."""
        commits = (
            Commit(one["version"], one["says"], tuple((kind, tuple(row)) for kind, row in one["changes"]))
            for one in said["commits"]
        )
        return cls(tuple(commits), tuple(map(tuple, said["rows"])))

    def violations(self, said: Iterable[Answer], source: Source) -> list[str]:
        """What the table shows that contradicts each serial history of the writes that the writers were told of."""
        listed = list(said)
        kept = [Write(one.token, one.effect(source), one.version) for one in listed if one.kept]
        return violations(self.commits, self.rows, kept, [one.token for one in listed if not one.kept])

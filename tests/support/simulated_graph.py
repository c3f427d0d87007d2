"""Graphs of tables, reduced to versions and what these stand for, with a naive form of the rules of agreement."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Vector = dict[str, int]


@dataclass
class Graph:
    """Tables in the order in which they follow from each other, and the versions of each.

    Args:
        inputs: What each table reads.
        head: The newest version of each source.
        versions: For each version of each table: what it stands for, and the version that it read of each input.
        cut: Chooses the version of each input, instead of the naive search.
        limit: Gives how far a table may read, instead of the naive rule.
    """

    inputs: Mapping[str, list[str]]
    head: Vector
    versions: dict[str, list[tuple[Vector, Vector]]] = field(default_factory=dict)
    cut: Callable[["Graph", str, Vector], Mapping[str, int] | None] | None = None
    limit: Callable[["Graph", str], Mapping[str, int]] | None = None

    def __post_init__(self) -> None:
        self.versions = {table: [] for table in self.inputs}

    def sources(self, name: str) -> set[str]:
        return {name} if name in self.head else set().union(*(self.sources(each) for each in self.inputs[name]))

    def shared(self, table: str) -> set[str]:
        pairs = itertools.combinations(self.inputs[table], 2)
        return set().union(*(self.sources(a) & self.sources(b) for a, b in pairs), set())

    @property
    def meeting(self) -> list[str]:
        return [table for table in self.inputs if self.shared(table)]

    def group(self, table: str) -> tuple[set[str], set[str]]:
        groups: list[tuple[set[str], set[str]]] = []
        for meeting in self.meeting:
            shared, members, ahead = self.shared(meeting), set(), list(self.inputs[meeting])
            while ahead:
                name = ahead.pop()
                if name in self.inputs and self.sources(name) & shared:
                    members.add(name)
                    ahead += self.inputs[name]
            groups.append((members, shared))
        while pair := next(((a, b) for a, b in itertools.combinations(groups, 2) if a[0] & b[0]), None):
            a, b = pair
            groups = [g for g in groups if g is not a and g is not b] + [(a[0] | b[0], a[1] | b[1])]
        return next((g for g in groups if table in g[0]), (set(), set()))

    def stands(self, name: str, version: int) -> Vector:
        return {name: version} if name in self.head else self.versions[name][version][0]

    def newest(self, name: str) -> int:
        return self.head[name] if name in self.head else len(self.versions[name]) - 1

    def naive_limit(self, table: str) -> Vector:
        members, shared = self.group(table)
        others = [other for other in members if other != table and self.versions[other]]
        last = self.versions[table][-1][0] if self.versions[table] else {}
        foremost: Vector = {}
        for source in shared & self.sources(table):
            at = [self.versions[u][-1][0][source] for u in others if source in self.sources(u)]
            if at:
                foremost[source] = max(at)
        if all(last.get(source, -1) >= version for source, version in foremost.items()):
            return {}
        return {source: max(version, last.get(source, -1)) for source, version in foremost.items()}

    def naive_cut(self, table: str, limit: Mapping[str, int]) -> Vector | None:
        """The cut found by lowering each input version by version until all ways to a source end at one version."""
        names = self.inputs[table]
        cut = {name: self.newest(name) for name in names}
        bounds = [dict(limit)]
        while min(cut.values()) >= 0:
            before = dict(cut)
            for name in names:
                while cut[name] >= 0 and any(
                    at > bound.get(source, at)
                    for bound in bounds
                    for source, at in self.stands(name, cut[name]).items()
                ):
                    cut[name] -= 1
            if min(cut.values()) < 0:
                return None
            bounds = [self.stands(name, cut[name]) for name in names]
            agree = all(
                a[source] == b[source] for a, b in itertools.combinations(bounds, 2) for source in a.keys() & b.keys()
            )
            if agree and cut == before:
                return cut
        return None

    def run(self, table: str) -> bool:
        """Runs a table; whether it moved on."""
        limit = dict(self.limit(self, table)) if self.limit is not None else self.naive_limit(table)
        cut = self.cut(self, table, limit) if self.cut is not None else self.naive_cut(table, limit)
        position = self.versions[table][-1][1] if self.versions[table] else dict.fromkeys(self.inputs[table], -1)
        if cut is None or dict(cut) == position or any(cut[name] < at for name, at in position.items()):
            return False
        together: Vector = {}
        for name, version in cut.items():
            for source, at in self.stands(name, version).items():
                assert together.setdefault(source, at) == at, f"{table} is torn over {source}"
        self.versions[table].append((together, dict(cut)))
        return True


def random_graph(chance: random.Random, **rules: Any) -> Graph:
    head = {f"S{i}": 0 for i in range(chance.randrange(1, 4))}
    inputs: dict[str, list[str]] = {}
    for i in range(chance.randrange(3, 9)):
        every = [*head, *inputs]
        inputs[f"T{i}"] = chance.sample(every, min(len(every), chance.choice([1, 1, 2, 2, 3])))
    return Graph(inputs, head, **rules)


def live(graph: Graph, chance: random.Random, rounds: int) -> Counter[str]:
    """Runs in random order while sources move, then once all tables above each table, then at rest; counts failures."""

    def step(table: str) -> bool:
        for source in graph.head:
            graph.head[source] += chance.random() < 0.7
        return graph.run(table)

    def before(table: str) -> set[str]:
        return {table}.union(*(before(name) for name in graph.inputs[table] if name in graph.inputs))

    advances, troubles = Counter[str](), Counter[str]()
    for table in graph.inputs:
        graph.run(table)
    for _ in range(rounds):
        for table in chance.sample(list(graph.inputs), len(graph.inputs)):
            advances[table] += step(table)
    troubles["starved"] = sum(10 * advances[table] < rounds for table in graph.meeting)
    for table in graph.meeting:
        graph.head = {source: version + 1 for source, version in graph.head.items()}
        had = len(graph.versions[table])
        for name in [name for name in graph.inputs if name in before(table)]:
            step(name)
        troubles["not met in one run"] += len(graph.versions[table]) == had
    for _ in range(2 * len(graph.inputs)):
        for table in graph.inputs:
            graph.run(table)
    for table, versions in graph.versions.items():
        stands = versions[-1][0] if versions else dict.fromkeys(graph.sources(table), -1)
        troubles["behind at rest"] += any(at < graph.head[source] for source, at in stands.items())
    return troubles

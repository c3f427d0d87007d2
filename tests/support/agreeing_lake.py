"""Random graphs of real tables whose inputs agree, edits and runs in random order, and an oracle from the log of edits."""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Append, Changes, History, Merge, Overwrite, Policy, Read, Table, View
from lakehouse.cursor.find import find_cursor
from lakehouse.cursor.standings import Standings, Ways
from lakehouse.errors import ReadError
from tests.support.lake import Lake

Rows = dict[int, int]
SCHEMA = "id INT, v INT"
ADD = "SELECT coalesce(x.id, y.id) AS id, coalesce(x.v, 0) + coalesce(y.v, 0) AS v FROM {} x FULL JOIN {} y ON x.id = y.id"
JOIN = "SELECT x.id AS id, x.v * 2 + y.v AS v FROM {} x JOIN {} y ON x.id = y.id"


def _keep_odd(**inputs: Any) -> Merge:
    (changes,) = inputs.values()
    touched = changes.touched("id")
    return Merge(touched.rows.where("v % 2 = 1"), touched)


def _one_more(**inputs: Any) -> Merge:
    (changes,) = inputs.values()
    touched = changes.touched("id")
    return Merge(touched.rows.withColumn("v", F.col("v") + 1), touched)


def _add(**inputs: Any) -> View:
    return View(ADD.format(*inputs))


def _join(**inputs: Any) -> View:
    return View(JOIN.format(*inputs))


def _overwrite(**inputs: Any) -> DataFrame:
    one, other = inputs.values()
    return one.join(other.withColumnRenamed("v", "w"), "id").selectExpr("id", "v * 2 + w AS v")


def _history(**inputs: Any) -> History:
    (changes,) = inputs.values()
    return History(changes, track=("v",))


def _append(**inputs: Any) -> Append:
    (changes,) = inputs.values()
    return Append(changes.appended())


def _joined(one: Rows, other: Rows) -> Rows:
    return {id_: 2 * v + other[id_] for id_, v in one.items() if id_ in other}


@dataclass(frozen=True)
class Kind:
    """How a table follows from its inputs: as an asset, and as plain Python."""

    asset: Callable[..., Any]
    returns: type
    reads: tuple[type, ...]
    rows: Callable[..., Rows]


KINDS = {
    "odd": Kind(_keep_odd, Merge, (Changes,), lambda a: {i: v for i, v in a.items() if v % 2 == 1}),
    "more": Kind(_one_more, Merge, (Changes,), lambda a: {i: v + 1 for i, v in a.items()}),
    "add": Kind(
        _add, View, (Changes, Changes), lambda a, b: {i: a.get(i, 0) + b.get(i, 0) for i in a.keys() | b.keys()}
    ),
    "join": Kind(_join, View, (Changes, Changes), _joined),
    "look up": Kind(_join, View, (Changes, DataFrame), _joined),
    "overwrite": Kind(_overwrite, Overwrite, (DataFrame, DataFrame), _joined),
    "history": Kind(_history, History, (Changes,), lambda a: a),
    "append": Kind(_append, Append, (Changes,), lambda a: a),
}


@dataclass
class AgreeingLake:
    """A graph on disk.

    Args:
        lake: Its tables.
        chance: Draws the graph, the edits and the runs.
        kinds: How each table follows from its inputs, in the order in which they follow from each other.
        inputs: What each table reads.
        states: The rows of each source at each of its versions, computed from the edits.
    """

    lake: Lake
    chance: random.Random
    kinds: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    states: dict[str, list[Rows]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for i in range(self.chance.randrange(1, 3)):
            rows = {n: self.chance.randrange(9) for n in range(1, 6)}
            self.lake.create(f"s{i}", rows.items(), SCHEMA)
            self.states[f"s{i}"] = [rows]
        self.lake.create("events", [(1, 1), (2, 2)], SCHEMA)
        self.states["events"] = [{1: 1, 2: 2}]
        self._add("t0", "odd", "s0")
        self._add("t1", "more", "s0")
        for i in range(2, self.chance.randrange(4, 8)):
            kind = self.chance.choice([*KINDS][:6])
            tables = [name for name in (*self.states, *self.inputs) if name != "events"]
            self._add(f"t{i}", kind, *self.chance.sample(tables, len(KINDS[kind].reads)))
        self._add("meeting", "add", "t0", "t1")
        self._add("history", "history", "t0")
        self._add("log", "append", "events")

    def _add(self, name: str, kind: str, *inputs: str) -> None:
        self.kinds[name], self.inputs[name] = kind, inputs

    @property
    def ways(self) -> Ways:
        return Ways(self.inputs, frozenset(self.inputs))

    def standings(self) -> Standings:
        return Standings(self.ways, lambda name: self.lake.ref(name).log(lambda: self.lake.spark))

    def edit(self) -> str:
        """One random statement on a source; what it was."""
        name = self.chance.choice([*self.states])
        rows, what = dict(self.states[name][-1]), "insert"
        if name != "events":
            what = self.chance.choice(["insert", "update", "delete", "optimize", "restore"])
        match what:
            case "insert":
                id_ = max([*rows, 0]) + 1
                rows[id_] = self.chance.randrange(9)
                self.lake.insert(name, [(id_, rows[id_])])
            case "update":
                self.lake.sql(f"UPDATE {{{name}}} SET v = v + 1 WHERE id % 2 = 0")
                rows = {id_: v + (id_ % 2 == 0) for id_, v in rows.items()}
            case "delete":
                gone = min([*rows, 99])
                self.lake.sql(f"DELETE FROM {{{name}}} WHERE id = {gone}")
                rows.pop(gone, None)
            case "optimize":
                self.lake.sql(f"OPTIMIZE {{{name}}}")
            case _:
                version = self.chance.randrange(len(self.states[name]))
                self.lake.sql(f"RESTORE TABLE {{{name}}} TO VERSION AS OF {version}")
                rows = self.states[name][version]
        self.states[name] += [rows] * (self.lake.version(name) + 1 - len(self.states[name]))
        return f"{what} {name}"

    def act_on(self, name: str) -> str:
        """A foreign statement on an asset's table that must do no harm; what it was."""
        what = self.chance.choice(["optimize", "restore"])
        if what == "optimize" or self.kinds[name] in ("history", "append"):
            self.lake.sql(f"OPTIMIZE {{{name}}}")
        elif self.lake.version(name) > 1:
            version = self.chance.randrange(1, self.lake.version(name))
            self.lake.sql(f"RESTORE TABLE {{{name}}} TO VERSION AS OF {version}")
        return f"{what} {name}"

    def run(self, name: str, **options: Any) -> str:
        """Runs a table, and checks its rows against the source versions that it then stands for; what happened."""
        kind = KINDS[self.kinds[name]]

        def asset(**inputs: Any) -> Any:
            return kind.asset(**inputs)

        asset.__name__ = name
        asset.__annotations__ = dict(zip(self.inputs[name], kind.reads, strict=True)) | {"return": kind.returns}
        key = None if kind.returns is Append else "id"
        table = Table(key=key, policy=Policy(inputs="agree", max_changed=None))
        followed = [source for source, how in zip(self.inputs[name], kind.reads, strict=True) if how is Changes]
        reads = {source: Read(max_versions=1) for source in followed if self.chance.random() < 0.3}
        if kind.returns is View:
            reads = {}
        try:
            self.lake.materialize(asset, table, reads=reads, ways=self.ways, **options)
        except ReadError as error:
            if error.code != "NO_CUT":
                raise
            return f"run {name}: waits without a table"
        return f"run {name}: {self.check(name)}"

    def check(self, name: str) -> dict[str, int]:
        """What the table stands for, after checking that its rows are those of the oracle."""
        standings, log = self.standings(), self.lake.ref(name).log(lambda: self.lake.spark)
        standing = standings.through(name, find_cursor(log, log.head(), name).reads)
        stands_for = standing.exact
        assert stands_for is not None, f"{name}: {standing.why_inexact}"
        assert self.rows(name) == self.oracle(name, stands_for), f"{name} at {stands_for}"
        return dict(stands_for)

    def rows(self, name: str) -> Rows:
        if self.kinds[name] != "history":
            return dict(self.lake.rows(name))
        current = self.lake.frame(name).where("__END_AT IS NULL").select("id", "v").collect()
        return {row[0]: row[1] for row in current}

    def oracle(self, name: str, stands_for: Mapping[str, int]) -> Rows:
        """The rows that a table must have at these versions of its sources, from the record of edits alone."""
        if name in self.states:
            return self.states[name][stands_for[name]]
        return KINDS[self.kinds[name]].rows(*(self.oracle(each, stands_for) for each in self.inputs[name]))

    def is_at_the_heads(self, name: str) -> bool:
        """Whether the rows are those of the newest sources; a commit in which no row changed is not read again."""
        self.check(name)
        return self.rows(name) == self.oracle(name, {source: len(states) - 1 for source, states in self.states.items()})

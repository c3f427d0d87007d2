"""Writers of one table `t`, as threads of one JVM or processes of one server; each reports what it was promised."""

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from pyspark.sql import DataFrame

from lakehouse import Append, Changes, Merge, Read, Retry, Table
from lakehouse.commit.outcome import Committed
from lakehouse.commit.rivals import ConflictKind, classify
from lakehouse.delta.partition_keys import PartitionKey, Slice
from lakehouse.delta.policy import Clock
from lakehouse.errors import StaleInputsError
from lakehouse.spark.session import _clone, is_connect
from lakehouse.writes.write import Write
from tests.support.lake import Lake
from tests.support.serial_histories import Rows

STEPS = 2
PATIENT = Retry(attempts=40, wait_initial=0.05, wait_max=0.5)
COLUMNS = "id int, g string, v int"
TABLES = {"no partitions": Table(key="id"), "partitions": Table(key="id", partition_by="g")}


@dataclass(frozen=True)
class Answer:
    """What the writer of one commit was told.

    Args:
        token: The word that its commit carries.
        kept: Whether it was told that the table has the commit.
        writer: The writer, by the name of its method.
        g: The group that it writes.
        number: The number of its commit, or the version of the source that it has read up to.
        version: The version that it was told; None if it was not told any.
        lost: How many earlier attempts it lost to rivals.
    """

    token: str
    kept: bool
    writer: str
    g: str
    number: int
    version: int | None = None
    lost: int = 0

    def effect(self, source: "Source") -> Callable[[Rows], Rows]:
        """What the write makes of the rows that it found."""
        match self.writer:
            case "following":
                return lambda rows: _of(rows, lambda g: g != self.g) + source.at(self.number, self.g)
            case "growing":
                return lambda rows: rows | Counter(grown(self.g, self.number))
            case "inserting":
                return lambda rows: rows + Counter([inserted(self.g, self.number)])
            case "updating":
                return lambda rows: Counter(
                    {(i, g, 2 * v + 1) if g == self.g else (i, g, v): n for (i, g, v), n in rows.items()}
                )
        raise AssertionError(self.writer)


def _of(rows: Rows, wanted: Callable[[str], bool]) -> Rows:
    return Counter({row: n for row, n in rows.items() if wanted(row[1])})


def grown(g: str, number: int) -> list[tuple[int, str, int]]:
    return [(100 + m, g, m) for m in range(number)]


def inserted(g: str, number: int) -> tuple[int, str, int]:
    return (200 + number, g, number)


class Source:
    """The rows of each version of the table `src`, which has three groups; the same seed gives the same rows."""

    def __init__(self, seed: int) -> None:
        chance = random.Random(seed)
        self.versions = [{n: (n, "ab"[n % 2], n) for n in range(6)}]
        for step in range(STEPS):
            new = dict(self.versions[-1])
            for id_ in chance.sample(sorted(new), 3):
                new[id_] = (*new[id_][:2], chance.randrange(100, 200))
            for id_ in chance.sample(sorted(new), 1):
                del new[id_]
            new[10 + step] = (10 + step, chance.choice("ab"), 10 + step)
            self.versions.append(new)

    def at(self, version: int, g: str) -> Rows:
        return Counter(row for row in self.versions[version].values() if row[1] == g)

    def make(self, lake: Lake) -> None:
        lake.create("src", self.versions[0].values(), COLUMNS)

    def move(self, lake: Lake) -> None:
        """Commits the versions after the first one."""
        for rows in self.versions[1:]:
            lake.values(rows.values(), COLUMNS).createOrReplaceTempView("new_src")
            lake.sql(
                "MERGE INTO {src} t USING new_src s ON t.id = s.id "
                "WHEN MATCHED AND t.v <> s.v THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
                "WHEN NOT MATCHED BY SOURCE THEN DELETE"
            )


def follow(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def slice_(g: str) -> Slice:
    return Slice((PartitionKey(g, {"g": g}, {}),))


@dataclass(frozen=True)
class Writers:
    """The writers: each method is one, and yields what it was told about each of its commits."""

    lake: Lake
    table: Table

    def begin(self, source: Source) -> Iterator[Answer]:
        """Creates the table with the rows that the writers need: an UPDATE that finds nothing would not be a commit."""
        source.make(self.lake)
        yield from self.following("a", upto=0)
        yield from self.following("b", upto=0)
        yield from self.inserting("y", 0, 0)
        source.move(self.lake)

    def following(self, g: str, upto: int = STEPS) -> Iterator[Answer]:
        """The asset in partition g, one source version per run until it has read `upto`."""
        read = -1
        while read < upto:
            step = self.lake.begin(follow, self.table, name="t", slice=slice_(g))
            inputs: Any = self.lake.read(step, follow, {"src": Read(max_versions=1)})
            read = inputs["src"].range.upto
            yield self._commit(step, follow(**inputs), "following", g, read)

    def growing(self, g: str) -> Iterator[Answer]:
        """An asset that appends to partition g the rows that it lacks."""
        for number in range(1, STEPS + 1):

            def grow(frame: DataFrame) -> Append:
                return Append(frame)

            grow.__annotations__ = {"return": Append}
            step = self.lake.begin(grow, self.table, name="t", slice=slice_(g))
            yield self._commit(step, grow(self.lake.values(grown(g, number), COLUMNS)), "growing", g, number)

    def _commit(self, step: Any, write: Write, writer: str, g: str, number: int) -> Answer:
        try:
            outcome = step.commit(write, PATIENT, Clock())
        except StaleInputsError:
            outcome = None
        if isinstance(outcome, Committed):
            return Answer(step.run.run_id, True, writer, g, number, outcome.commit.version, len(outcome.lost))
        return Answer(step.run.run_id, False, writer, g, number)

    def inserting(self, g: str, first: int = 1, last: int = STEPS) -> Iterator[Answer]:
        """Another program that appends blindly."""
        for number in range(first, last + 1):
            id_, _, v = inserted(g, number)
            token, lost = self._foreign(f"INSERT INTO {{t}} VALUES ({id_}, '{g}', {v})")
            yield Answer(token, True, "inserting", g, number, lost=lost)

    def updating(self, g: str) -> Iterator[Answer]:
        """Another program that updates the rows it finds, by UPDATE and by MERGE, and tries again after a conflict."""
        update = f"UPDATE {{t}} SET v = 2 * v + 1 WHERE g = '{g}'"
        merge = (
            f"MERGE INTO {{t}} t USING (SELECT '{g}' AS g) s ON t.g = s.g WHEN MATCHED THEN UPDATE SET v = 2 * t.v + 1"
        )
        for number, statement in enumerate((update, merge)):
            token, lost = self._foreign(statement)
            yield Answer(token, True, "updating", g, number, lost=lost)

    def tidying(self, _: str) -> Iterator[Answer]:
        """Upkeep: it promises nothing and changes nothing."""
        for _step in range(STEPS):
            self._foreign("OPTIMIZE {t}")
        return iter(())

    def _foreign(self, statement: str) -> tuple[str, int]:
        """Repeats a foreign statement until it commits; the commit's token, and how many attempts lost to rivals."""
        token, lost = uuid4().hex, 0
        spark: Any = self.lake.spark
        own = _clone(spark) if is_connect(spark) else spark.newSession()
        own.conf.set("spark.databricks.delta.commitInfo.userMetadata", token)
        table = self.lake.ref("t").identifier
        while True:
            try:
                own.sql(statement.format(t=table)).collect()
            except Exception as error:
                if classify(error).kind is not ConflictKind.FILES:
                    raise
                lost += 1
            else:
                return token, lost


# Seven at once: an asset and its twin, the same asset in another partition, an append, and three foreign programs.
CAST = (
    ("following", "a"),
    ("following", "a"),
    ("following", "b"),
    ("growing", "x"),
    ("inserting", "y"),
    ("updating", "y"),
    ("tidying", ""),
)

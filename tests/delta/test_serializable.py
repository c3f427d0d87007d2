"""Concurrent writers of one table, through our commit and beside it: what they did is what some serial order does.

The order is the log's. The judge (tests/serial.py) is told what each writer was promised and knows nothing of us.
"""

import json
import os
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from pyspark.sql import DataFrame

from lakehouse import Append, Changes, Merge, Read, Retry, Table
from lakehouse.commit import Clock, Committed
from lakehouse.conflicts import Kind, classify
from lakehouse.errors import StaleInputsError
from lakehouse.partitions import PartitionKey, Slice
from tests.lake import Lake
from tests.serial import Commit, Rows, Write, violations

HISTORIES = int(os.environ.get("LAKEHOUSE_EXAMPLES", "1"))
STEPS = 2
PATIENT = Retry(attempts=40, wait_initial=0.05, wait_max=0.5)
COLUMNS = "id int, g string, v int"


def follow(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def slice_(g: str) -> Slice:
    return Slice((PartitionKey(g, {"g": g}, {}),))


@dataclass
class Source:
    """The table `src` of three groups, and what each of its versions holds."""

    lake: Lake
    chance: random.Random
    versions: list[dict[int, tuple[int, str, int]]] = field(default_factory=list)

    def make(self) -> None:
        first = {n: (n, "ab"[n % 2], n) for n in range(6)}
        self.lake.create("src", first.values(), COLUMNS)
        self.versions.append(first)
        for step in range(STEPS):
            new = dict(self.versions[-1])
            for id_ in self.chance.sample(sorted(new), 3):
                new[id_] = (*new[id_][:2], self.chance.randrange(100, 200))
            for id_ in self.chance.sample(sorted(new), 1):
                del new[id_]
            fresh = 10 + step
            new[fresh] = (fresh, self.chance.choice("ab"), fresh)
            self._write(new)
            self.versions.append(new)

    def _write(self, new: dict[int, tuple[int, str, int]]) -> None:
        self.lake.values(new.values(), COLUMNS).createOrReplaceTempView("new_src")
        self.lake.sql(
            "MERGE INTO {src} t USING new_src s ON t.id = s.id "
            "WHEN MATCHED AND t.v <> s.v THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT * "
            "WHEN NOT MATCHED BY SOURCE THEN DELETE"
        )

    def at(self, version: int, g: str) -> Rows:
        return Counter(row for row in self.versions[version].values() if row[1] == g)


@dataclass
class History:
    """What the writers of the table `t` did, and were told."""

    lake: Lake
    source: Source
    table: Table
    acknowledged: list[Write] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def following(self, g: str, upto: int = STEPS) -> None:
        """Our asset in partition g: one version of the source a run, until it has read so far."""
        read = -1
        while read < upto:
            step = self.lake.begin(follow, self.table, name="t", slice=slice_(g))
            inputs: Any = self.lake.read(step, follow, {"src": Read(max_versions=1)})
            read = inputs["src"].range.upto

            def effect(rows: Rows, read: int = read) -> Rows:
                return Counter({r: n for r, n in rows.items() if r[1] != g}) + self.source.at(read, g)

            self._commit(step, follow(**inputs), effect)

    def growing(self, g: str) -> None:
        """Our asset in partition g, as an append of what the partition lacks."""
        for n in range(1, STEPS + 1):
            rows = [(100 + m, g, m) for m in range(n)]

            def grow(frame: DataFrame = self.lake.values(rows, COLUMNS)) -> Append:
                return Append(frame)

            grow.__annotations__ = {"return": Append}
            step = self.lake.begin(grow, self.table, name="t", slice=slice_(g))
            self._commit(step, grow(), lambda before, rows=rows: before | Counter(rows))

    def _commit(self, step: Any, write: Any, effect: Callable[[Rows], Rows]) -> None:
        try:
            outcome = step.commit(write, PATIENT, Clock())
        except StaleInputsError:
            outcome = None
        if isinstance(outcome, Committed):
            self.acknowledged.append(Write(step.run, effect, outcome.commit.version))
        else:
            self.refused.append(step.run)

    def inserting(self, g: str, first: int = 1, last: int = STEPS) -> None:
        """Another program that appends blindly."""
        for n in range(first, last + 1):
            row = (200 + n, g, n)
            self._foreign(
                f"INSERT INTO {{t}} VALUES ({row[0]}, '{g}', {n})", lambda rows, row=row: rows + Counter([row])
            )

    def updating(self, g: str) -> None:
        """Another program that updates what it finds, and tries again when it lost."""

        def doubled(rows: Rows) -> Rows:
            return Counter({(r[0], g, 2 * r[2] + 1) if r[1] == g else r: n for r, n in rows.items()})

        for _ in range(STEPS):
            self._foreign(f"UPDATE {{t}} SET v = 2 * v + 1 WHERE g = '{g}'", doubled)

    def tidying(self) -> None:
        """Upkeep: it promises nothing and changes nothing."""
        for _ in range(STEPS):
            self._foreign("OPTIMIZE {t}", None)

    def _foreign(self, statement: str, effect: Callable[[Rows], Rows] | None) -> None:
        token = uuid4().hex
        spark: Any = self.lake.spark
        own = (getattr(spark, "newSession", None) or spark.cloneSession)()  # classic, or Connect
        own.conf.set("spark.databricks.delta.commitInfo.userMetadata", token)
        table = self.lake.ref("t").identifier
        while True:
            try:
                own.sql(statement.format(t=table)).collect()
            except Exception as error:
                if classify(error).kind is not Kind.FILES:
                    raise
            else:
                break
        if effect is not None:
            self.acknowledged.append(Write(token, effect))

    def violations(self) -> list[str]:
        return violations(self._commits(), self.lake.rows("t"), self.acknowledged, self.refused)

    def _commits(self) -> Iterator[Commit]:
        """The table's log and feed, read without the library."""
        feed = self.lake.spark.read.option("readChangeFeed", "true").option("startingVersion", "0")
        changes: dict[int, list[Any]] = defaultdict(list)
        for row in feed.load(str(self.lake.root / "t"), format="delta").collect():
            changes[row["_commit_version"]].append((row["_change_type"], (row.id, row.g, row.v)))
        for file in sorted((self.lake.root / "t" / "_delta_log").glob("*.json")):
            version, actions = int(file.stem), map(json.loads, file.read_text().splitlines())
            says = next(action["commitInfo"] for action in actions if "commitInfo" in action).get("userMetadata", "")
            yield Commit(version, says, tuple(changes[version]))


TABLES = {"no partitions": Table(key="id"), "partitions": Table(key="id", partition_by="g")}


def begun(lake: Lake, table: Table, seed: int) -> History:
    history = History(lake, Source(lake, random.Random(seed)), table)
    history.source.make()
    history.following("b", upto=0)
    history.inserting("y", 0, 0)  # an UPDATE that finds nothing would be no commit
    return history


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_writers_at_the_same_time_leave_a_serial_history(lake: Lake, seed: int) -> None:
    table = list(TABLES.values())[seed % 2]
    history = begun(lake, table, seed)
    writers = [
        partial(history.following, "a"),
        partial(history.following, "a"),  # a twin
        partial(history.following, "b"),
        partial(history.growing, "x"),
        partial(history.inserting, "y"),
        partial(history.updating, "y"),
        history.tidying,
    ]
    history.source.chance.shuffle(writers)
    with ThreadPoolExecutor(len(writers)) as threads:
        for done in [threads.submit(writer) for writer in writers]:
            done.result()
    assert history.violations() == []
    held = Counter(lake.rows("t"))
    assert all(history.source.at(STEPS, g) <= held for g in "ab")
    assert sum(row[1] == "y" for row in held) == STEPS + 1


def test_a_writer_that_overwrites_what_it_did_not_see_is_found(lake: Lake) -> None:
    """Read, change, overwrite: the rival's row was there, acknowledged, and is gone."""
    history = begun(lake, TABLES["no partitions"], 0)
    seen = lake.values([*lake.rows("t"), (300, "z", 1)], COLUMNS)
    history.inserting("y")
    writer = seen.write.format("delta").mode("overwrite").option("userMetadata", "overwriter")
    writer.save(str(lake.root / "t"))
    history.acknowledged.append(Write("overwriter", lambda rows: rows + Counter([(300, "z", 1)])))
    (violation,) = history.violations()
    assert "promised but absent" in violation and "(201, 'y', 1)" in violation


def test_a_writer_that_repeats_a_commit_whose_answer_it_lost_is_found(lake: Lake) -> None:
    history = begun(lake, TABLES["no partitions"], 0)
    rows = lake.values([(300, "z", 1)], COLUMNS).write.format("delta").mode("append").option("userMetadata", "twice")
    for _ in range(2):
        rows.save(str(lake.root / "t"))
    history.acknowledged.append(Write("twice", lambda before: before + Counter([(300, "z", 1)])))
    assert "twice was acknowledged once and committed as [2, 3]" in history.violations()

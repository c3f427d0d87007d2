"""A source that never rests: `python -m tests.endurance.sources NAME ROOT SEED JOURNAL`; lines on its input are orders.

Spark, on the server of the lakehouse, writes two of the sources, and delta-rs two.
"""

import json
import os
import random
import sys
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from queue import Queue
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Field, write_deltalake

from lakehouse import LocalSpark
from tests.support.client import local_spark

PERIOD = 1.0
"""Seconds from one commit of a source to the next, if the machine is fast enough."""
REST = "rest"
"""The order to end."""
MEMORY = "2g"
"""The memory of Spark's server. It compiles little, because that would take half of two cores."""
FEED = {"delta.enableChangeDataFeed": "true"}
FIRST, MOST, CUSTOMERS, SHELVES = 400, 800, 60, 30
"""Rows of a source at the beginning and at most; customers; rows of an extract."""
CITIES, PRODUCTS, KINDS = ("Oslo", "Rome", "Lima", "Kyiv", "Quito", None), "abcdefgh", "abcde"
BASE = {
    "orders": {"id": "BIGINT", "customer": "BIGINT", "product": "STRING", "amount": "BIGINT", "token": "STRING"},
    "extracts": {"number": "BIGINT", "id": "BIGINT", "price": "BIGINT", "shelf": "STRING"},
    "customers": {"id": "BIGINT", "city": "STRING", "tier": "BIGINT", "token": "STRING"},
    "events": {"id": "BIGINT", "order_id": "BIGINT", "kind": "STRING", "points": "BIGINT", "token": "STRING"},
}
ARROW = {"BIGINT": pa.int64(), "STRING": pa.string()}


@dataclass
class Source(ABC):
    """A source, and the edits of it.

    Args:
        name: Its name.
        path: Its directory.
        chance: Draws the edits.
    """

    name: str
    path: Path
    chance: random.Random

    @property
    def columns(self) -> dict[str, str]:
        return BASE[self.name]

    def rows(self, ids: range) -> list[tuple[Any, ...]]:
        """New rows with these ids."""
        draw, now = self.chance, time.time_ns()
        match self.name:
            case "orders":
                return [
                    (i, draw.randrange(CUSTOMERS), draw.choice(PRODUCTS), draw.randrange(500), f"{now}-{i}")
                    for i in ids
                ]
            case "customers":
                return [(i, draw.choice(CITIES), draw.randrange(4), f"{now}-{i}") for i in ids]
            case "events":
                return [
                    (i, draw.randrange(2 * FIRST), draw.choice(KINDS), draw.randrange(99), f"{now}-{i}") for i in ids
                ]
            case _:
                number = now // 10**9
                return [(number, i, draw.randrange(9), draw.choice(PRODUCTS)) for i in ids if draw.random() < 0.95]

    def changed(self) -> dict[str, str]:
        """The values that an update gives, as SQL."""
        number = self.chance.randrange(500)
        values = {"orders": {"amount": f"{number}"}, "events": {"points": f"{number % 99}"}}
        values |= {"customers": {"tier": f"{number % 4}"}}
        token = {"token": f"concat('{time.time_ns()}-', id)"}
        return values[self.name] | token | dict.fromkeys(self.extras(), f"{number}")

    def edit(self) -> None:
        """One commit."""
        draw = self.chance.random()
        match self.name:
            case "extracts" if draw < 0.1:
                self.delete(f"number < {int(time.time()) - 60}")
            case "extracts":
                self.insert(self.rows(range(SHELVES)))
            case "customers" if draw < 0.2:
                self.delete(f"id = {self.chance.randrange(CUSTOMERS)}")
            case "customers" if draw < 0.6 and (absent := self.absent()) is not None:
                self.insert(self.rows(range(absent, absent + 1)))
            case "customers":
                self.update(f"id % 9 = {self.chance.randrange(9)}")
            case _ if draw < 0.5:
                self.update(f"id % 50 = {self.chance.randrange(50)}")
            case _:
                low, high, rows = self.ids()
                if rows > MOST or draw < 0.6:
                    self.delete(f"id < {low + 10}" if rows > MOST else f"id % 200 = {self.chance.randrange(200)}")
                else:
                    self.insert(self.rows(range(high + 1, high + 6)))

    def carry_out(self, act: str) -> None:
        match act:
            case "edit":
                self.edit()
            case "restore":
                self.restore()
            case "column":
                self.add_column()
            case "clock":
                self.step_clock()
            case "compact":
                self.compact()
            case _:
                raise ValueError(f"no act of {self.name}: {act}")

    @abstractmethod
    def extras(self) -> list[str]:
        """The columns that the source has got since its creation."""

    @abstractmethod
    def create(self) -> None: ...
    @abstractmethod
    def ids(self) -> tuple[int, int, int]:
        """The smallest id, the largest, and how many rows there are."""

    @abstractmethod
    def absent(self) -> int | None:
        """The id of a customer that is missing; None if none is."""

    @abstractmethod
    def insert(self, rows: list[tuple[Any, ...]]) -> None: ...
    @abstractmethod
    def update(self, condition: str) -> None: ...
    @abstractmethod
    def delete(self, condition: str) -> None: ...
    @abstractmethod
    def restore(self) -> None:
        """Goes back by a few versions."""

    @abstractmethod
    def add_column(self) -> None: ...

    @abstractmethod
    def compact(self) -> None: ...

    def step_clock(self) -> None:
        """Commits as a writer whose clock is an hour behind: links a handmade log entry, unless that version exists."""
        absent = self.absent()
        if absent is None:  # no customer is missing: one is deleted, and comes back in the past
            absent = self.chance.randrange(CUSTOMERS)
            self.delete(f"id = {absent}")
        file, then = self.path / f"by-hand-{time.time_ns()}.parquet", time.time() - 3600
        pq.write_table(self.arrow(self.rows(range(absent, absent + 1))), file)
        info = {"timestamp": int(1000 * then), "operation": "WRITE", "operationParameters": {"mode": "Append"}}
        add = {"path": file.name, "size": file.stat().st_size, "partitionValues": {}, "dataChange": True}
        more = {"modificationTime": int(1000 * then), "stats": json.dumps({"numRecords": 1})}
        entry = self.path / f"by-hand-{time.time_ns()}.json"
        entry.write_text("\n".join(json.dumps(action) for action in ({"commitInfo": info}, {"add": add | more})))
        os.utime(entry, (then, then))
        version = DeltaTable(str(self.path)).version() + 1
        os.link(entry, self.path / "_delta_log" / f"{version:020}.json")
        entry.unlink()

    def arrow(self, rows: list[tuple[Any, ...]]) -> pa.Table:
        columns = zip(*rows, strict=True)
        arrays = [pa.array(column, ARROW[kind]) for column, kind in zip(columns, self.columns.values(), strict=True)]
        return pa.table(arrays, names=list(self.columns))


@dataclass
class SparkSource(Source):
    spark: LocalSpark = field(kw_only=True)

    def sql(self, text: str) -> list[Any]:
        return self.spark.spark_session.sql(text.format(t=f"delta.`{self.path}`")).collect()

    def carry_out(self, act: str) -> None:
        """Carries out an act; `sql ...` is a statement on any table of the lakehouse."""
        if act.startswith("sql "):
            self.sql(act.removeprefix("sql "))
        else:
            super().carry_out(act)

    def create(self) -> None:
        columns = ", ".join(f"{name} {kind}" for name, kind in self.columns.items())
        self.sql(f"CREATE TABLE {{t}} ({columns}) USING delta TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')")
        self.insert(self.rows(range(SHELVES if self.name == "extracts" else FIRST)))

    def ids(self) -> tuple[int, int, int]:
        return tuple(self.sql("SELECT min(id), max(id), count(*) FROM {t}")[0])

    def absent(self) -> int | None:
        return None

    def insert(self, rows: list[tuple[Any, ...]]) -> None:
        values = ", ".join(str(row) for row in rows)
        self.sql(f"INSERT INTO {{t}} ({', '.join(self.columns)}) VALUES {values}")

    def update(self, condition: str) -> None:
        values = ", ".join(f"{name} = {value}" for name, value in self.changed().items())
        self.sql(f"UPDATE {{t}} SET {values} WHERE {condition}")

    def delete(self, condition: str) -> None:
        self.sql(f"DELETE FROM {{t}} WHERE {condition}")

    def restore(self) -> None:
        version = self.sql("DESCRIBE HISTORY {t} LIMIT 1")[0]["version"]
        self.sql(f"RESTORE TABLE {{t}} TO VERSION AS OF {max(version - self.chance.randrange(1, 12), 1)}")

    def compact(self) -> None:
        self.sql("OPTIMIZE {t}")

    def add_column(self) -> None:
        self.sql(f"ALTER TABLE {{t}} ADD COLUMNS (extra_{len(self.extras())} BIGINT)")

    def extras(self) -> list[str]:
        return [name for name in self.spark.spark_session.table(f"delta.`{self.path}`").columns if "extra" in name]


@dataclass
class DeltaRsSource(Source):
    @property
    def table(self) -> DeltaTable:
        return DeltaTable(str(self.path))

    def create(self) -> None:
        first = CUSTOMERS if self.name == "customers" else FIRST
        write_deltalake(str(self.path), self.arrow(self.rows(range(first))), configuration=FEED)

    def ids(self) -> tuple[int, int, int]:
        ids = self._ids()
        return min(ids), max(ids), len(ids)

    def _ids(self) -> list[int]:
        return self.table.to_pyarrow_table(columns=["id"])["id"].to_pylist()

    def absent(self) -> int | None:
        return min(set(range(CUSTOMERS)) - set(self._ids()), default=None)

    def insert(self, rows: list[tuple[Any, ...]]) -> None:
        write_deltalake(self.table, self.arrow(rows), mode="append", schema_mode="merge")

    def update(self, condition: str) -> None:
        self.table.update(updates=self.changed(), predicate=condition)

    def delete(self, condition: str) -> None:
        self.table.delete(condition)

    def restore(self) -> None:
        table = self.table
        table.restore(max(table.version() - self.chance.randrange(1, 12), 1))

    def compact(self) -> None:
        self.table.optimize.compact()

    def add_column(self) -> None:
        self.table.alter.add_columns([Field(f"extra_{len(self.extras())}", "long")])

    def extras(self) -> list[str]:
        return [column.name for column in self.table.schema().fields if "extra" in column.name]


def source_of(name: str, root: Path, seed: str) -> Source:
    chance = random.Random(f"{seed} {name}")
    if name in ("orders", "extracts"):
        return SparkSource(name, root / name, chance, spark=local_spark(root, MEMORY))
    return DeltaRsSource(name, root / name, chance)


def hear(orders: Queue[str]) -> None:
    """Puts the lines of the input into a queue, and the order to end once the input has ended."""
    for line in sys.stdin:
        orders.put(line.strip())
    orders.put(REST)


def main() -> None:
    name, root, seed, journal = sys.argv[1:]
    source, orders = source_of(name, Path(root), seed), Queue[str]()
    threading.Thread(target=hear, args=[orders], daemon=True).start()
    source.create()
    with Path(journal).open("a") as lines:
        for number in count(1):
            began = time.time()
            act = orders.get() if orders.qsize() else "compact" if number % 100 == 0 else "edit"
            if act == REST:
                return
            try:
                source.carry_out(act)
                problem = None
            except Exception as error:  # the machine is broken on purpose; the next edit tries again
                problem = f"{type(error).__name__}: {error}"[:300]
            lines.write(json.dumps({"at": began, "act": act, "took": time.time() - began, "problem": problem}) + "\n")
            lines.flush()
            took = time.time() - began
            time.sleep(max(PERIOD - took, took))  # a slow machine has others to serve too


if __name__ == "__main__":
    main()

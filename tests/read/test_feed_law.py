"""The feed means what the table means: each version and its feed give the next version, value by value, for every type.

Where the table of exactness calls a value inexact, the feed may give another value; nowhere else.
"""

import random
from collections import Counter
from typing import Any

import pytest
from pyspark.sql import DataFrame

from lakehouse import Aggregate, Append, Changes, Merge, Table
from lakehouse.delta.text import quote
from lakehouse.read.content import AFTER, BEFORE, CHANGE, DELETE, INSERT
from lakehouse.read.feed_reader import fit
from lakehouse.read.feed_trust import telling
from lakehouse.spark.driver_rows import small
from lakehouse.spark.exactness import are_exact, inexact_in_sql
from lakehouse.spark.table_version import TableVersion
from tests.support.lake import Lake
from tests.support.slow import slow

VALUES = {
    "i8": ("tinyint", ["1Y", "-128Y"]),
    "i64": ("bigint", ["0L", "9223372036854775807L"]),
    "n": ("decimal(20,4)", ["1.5", "-12345678901.2345"]),
    "f": ("float", ["float('NaN')", "-0.0F", "0.0F"]),
    "d": ("double", ["double('Infinity')", "1e-300D"]),
    "b": ("boolean", ["true", "false"]),
    "bin": ("binary", ["X''", "X'00FF'"]),
    "s": ("string", ["''", "'a'", "'\u00e9'", "CAST(X'FF41' AS STRING)"]),
    "c": ("char(4)", ["'new'", "'abcd'"]),
    "v": ("varchar(4)", ["'new'", "'ab '"]),
    "day": ("date", ["DATE'2024-02-29'", "DATE'1500-01-01'", "DATE'0001-01-01'"]),
    "at": ("timestamp", ["TIMESTAMP'2024-03-31 01:30:00.123456Z'", "TIMESTAMP'1850-01-01 00:00:00Z'"]),
    "ntz": ("timestamp_ntz", ["TIMESTAMP_NTZ'1582-10-10 00:00:00'", "TIMESTAMP_NTZ'2024-03-31 02:30:00'"]),
    "st": ("struct<x:int,y:string>", ["named_struct('x', 1, 'y', 'a')", "named_struct('x', NULL, 'y', NULL)"]),
    "ar": ("array<date>", ["array()", "array(DATE'2024-01-01', NULL)", "array(DATE'1500-01-01')"]),
}
"""Each type in which a feed is read, with values that other systems have got wrong."""
LAYOUTS = ["", "PARTITIONED BY (day)", "PARTITIONED BY (s)", "PARTITIONED BY (b, i8)", "CLUSTER BY (id)"]


def _value(chance: random.Random, name: str) -> str:
    kind, values = VALUES[name]
    return f"CAST({chance.choice([*values, 'NULL'])} AS {kind if '(' not in kind or name == 'n' else 'string'})"


def _rows(chance: random.Random, ids: range) -> str:
    return " UNION ALL ".join(
        f"SELECT {n} AS id, {', '.join(f'{_value(chance, name)} AS {name}' for name in VALUES)}" for n in ids
    )


def _act(chance: random.Random, step: int) -> str:
    some = f"id % {chance.randint(2, 3)} = {chance.randint(0, 1)}"
    changed = chance.sample([name for name in VALUES if name not in ("s", "day", "b", "i8")], 3)
    match chance.choice(["insert", "update", "delete", "merge", "optimize", "overwrite"]):
        case "insert":
            return f"INSERT INTO {{t}} {_rows(chance, range(10 * step, 10 * step + 3))}"
        case "update":
            return f"UPDATE {{t}} SET {', '.join(f'{name} = {_value(chance, name)}' for name in changed)} WHERE {some}"
        case "delete":
            return f"DELETE FROM {{t}} WHERE {some}"
        case "merge":
            rows = _rows(chance, range(chance.randint(0, 3), 6))
            return (
                f"MERGE INTO {{t}} t USING ({rows}) s ON t.id = s.id WHEN MATCHED AND s.id = 4 THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
            )
        case "optimize":
            return "OPTIMIZE {t}"
        case _:
            return f"INSERT OVERWRITE {{t}} {_rows(chance, range(4))}"


def _texts(rows: DataFrame, *more: str) -> list[tuple[Any, ...]]:
    """Each value as a text that is equal only for the same bytes; a text as its bytes."""
    texts = [
        f"hex(CAST({quote(c.name)} AS BINARY))"
        if c.dataType.simpleString() in ("string", "binary")
        else f"CAST({quote(c.name)} AS STRING)"
        for c in rows.schema.fields
        if c.name not in more and not c.name.startswith("_")
    ]
    return [tuple(row) for row in rows.selectExpr(*texts, *more).collect()]


def check(lake: Lake, seed: int, steps: int) -> None:
    chance = random.Random(seed)
    listed = ", ".join(["id int", *(f"{name} {kind}" for name, (kind, _) in VALUES.items())])
    vectors = chance.choice(["true", "false"])
    lake.spark.sql(
        f"CREATE TABLE {lake.ref('t').identifier} ({listed}) USING delta {chance.choice(LAYOUTS)} TBLPROPERTIES "
        f"('delta.enableChangeDataFeed' = 'true', 'delta.enableDeletionVectors' = '{vectors}')"
    )
    lake.sql(f"INSERT INTO {{t}} {_rows(chance, range(6))}")
    first = lake.version("t")
    for step in range(1, steps):
        lake.sql(_act(chance, step))
    before: Counter[tuple[Any, ...]] = Counter()
    weighed = {each.commit.version: each for each in telling(lake.source("t").log, lake.commits("t"))}
    for version in range(first, lake.version("t") + 1):
        at = TableVersion(lambda: lake.spark, lake.ref("t"), "", version)
        now = Counter(_texts(at.rows()))
        feed = fit(at.feed(version, version), {}, at.rows())
        doubts = {c.name: inexact_in_sql(quote(c.name), c.dataType) for c in at.rows().schema.fields}
        flags = {name: f"coalesce({' OR '.join(told) or 'false'}, false)" for name, told in doubts.items()}
        told = _texts(feed, CHANGE, *flags.values())
        _check_renderings(feed, [row[-len(flags) :] for row in told], list(flags))
        doubtful = {row[0] for row in told if any(row[-len(flags) :])}
        images = [(row[-len(flags) - 1], row[: -len(flags) - 1]) for row in told]
        if version in weighed:
            types = Counter(change for change, _ in images)
            assert weighed[version].why_contradicted(types) is None, f"seed {seed}, version {version}"
        expected = before.copy()
        expected.subtract(row for change, row in images if change in (DELETE, BEFORE))
        expected.update(row for change, row in images if change in (INSERT, AFTER))
        assert _certain(expected, doubtful) == _certain(now, doubtful), f"seed {seed}, version {version}"
        before = now


def _certain(rows: Counter[tuple[Any, ...]], doubtful: set[Any]) -> dict[tuple[Any, ...], int]:
    return {row: count for row, count in rows.items() if count and row[0] not in doubtful}


def _check_renderings(feed: DataFrame, flags: list[tuple[bool, ...]], names: list[str]) -> None:
    """One table serves the driver and SQL: at the driver a column is exact if SQL finds no inexact row in it."""
    atoms = [name for name in names if name not in ("st", "ar")]
    local = small(feed.select(*map(quote, atoms)))
    assert local is not None
    for name in atoms:
        exact = are_exact(local.column(name), local.schema[name].dataType)
        assert exact == (not any(row[names.index(name)] for row in flags)), name


@pytest.mark.parametrize("seed", [1, *map(slow, range(2, 40))])
def test_a_version_and_its_feed_give_the_next_version(lake: Lake, seed: int) -> None:
    check(lake, seed, steps=4)


KEYED = Table(key="id")


@pytest.mark.slow
def test_a_char_column_of_the_feed_is_compared_as_that_of_the_table(lake: Lake) -> None:
    """Spark pads what is compared with a CHAR; Delta's feed does not show which column is a CHAR."""

    def summed(src: Changes) -> Aggregate:
        return Aggregate(src, by="g", count="n", sums={"v": "v"}, where="status <> 'void'")

    def new(src: Changes) -> Append:
        return Append(src.appended().where("status = 'new'"))

    def kept(src: Changes) -> Merge:
        touched = src.touched("id")
        return Merge(touched.rows.where("status = 'new'"), touched)

    lake.spark.sql(
        f"CREATE TABLE {lake.ref('src').identifier} (id int, g int, v int, status char(10)) USING delta "
        f"TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    )
    lake.keys["src"] = ("id",)
    lake.trust_key = True
    lake.sql("INSERT INTO {src} VALUES (1, 1, 10, 'new'), (2, 1, 20, 'void')")
    for change in (None, "INSERT INTO {src} VALUES (3, 1, 30, 'void'), (4, 1, 40, 'new'), (5, 2, 50, 'old')"):
        if change is not None:
            lake.sql(change)
        lake.materialize(summed, Table(key="g"))
        lake.materialize(new)
        lake.materialize(kept, KEYED)
    assert lake.rows("summed") == [(1, 2, 50), (2, 1, 50)]
    assert [row[0] for row in lake.rows("new")] == [row[0] for row in lake.rows("kept")] == [1, 4]

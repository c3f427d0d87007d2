"""The assets of the property tests, each with the same query in plain Python."""

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pyspark.sql import functions as F

from lakehouse import Aggregate, Append, Changes, Merge, Overwrite, Table
from tests.support.model import Row


def copy(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def log(src: Changes) -> Append:
    return Append(src.log())


def kept(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.where("v < 50 or v is null"), touched)


def totals(src: Changes) -> Merge:
    touched = src.touched("k")
    grouped = touched.rows.groupBy("k").agg(F.count("*").alias("n"), F.sum("v").alias("total"), F.max("v").alias("top"))
    return Merge(grouped, touched)


def tidied(src: Changes) -> Merge:
    touched = src.touched(k="nullif(translate(upper(k), 'B', 'A'), 'C')", odd="v % 2 = 1")
    return Merge(touched.rows.groupBy("k", "odd").agg(F.count("*").alias("n"), F.max("v").alias("top")), touched)


def sums(src: Changes) -> Aggregate:
    return Aggregate(src, "k", "n", {"total": "v", "half": "CAST(v / 2 AS DECIMAL(5,1))"})


def tens(src: Changes) -> Aggregate:
    return Aggregate(src, {"ten": "v div 10", "k": "upper(k)"}, "n", {"odd": "v % 2"}, where="id > 1 OR v < 70")


def members(src: Changes) -> Merge:
    touched = src.touched("k")
    return Merge(touched.rows.select("k", "id", "v"), touched)


def named(src: Changes, dim: Changes) -> Merge:
    touched = src.touched("id") | dim.touched("k").via(src.source, "id")
    joined = src.source.join(dim.source, src.source.k.eqNullSafe(dim.source.k), "left").select(
        "id", "v", dim.source.name
    )
    return Merge(touched.of(joined), touched)


def latest(src: Changes) -> Overwrite:
    return Overwrite(src.source.select("id", "v"))


def archive(src: Changes) -> Append:
    return Append(src.log().select("id", "k", "v", "change_type", "commit_version"))


def _kept(src: Iterable[Row], _: Iterable[Row]) -> list[tuple[Any, ...]]:
    return [row for row in src if row[2] is None or row[2] < 50]


def _totals(src: Iterable[Row], _: Iterable[Row]) -> list[tuple[Any, ...]]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in src:
        groups[row[1]].append(row)
    result: list[tuple[Any, ...]] = []
    for k, rows in groups.items():
        values = [row[2] for row in rows if row[2] is not None]
        result.append((k, len(rows), sum(values) if values else None, max(values) if values else None))
    return result


def _tidied(src: Iterable[Row], _: Iterable[Row]) -> list[tuple[Any, ...]]:
    groups: dict[Any, list[Any]] = defaultdict(list)
    for _id, k, v in src:
        tidy = {"a": "A", "b": "A"}.get(k)
        groups[tidy, None if v is None else v % 2 == 1].append(v)
    return [(*group, len(vs), max((v for v in vs if v is not None), default=None)) for group, vs in groups.items()]


def _sums(src: Iterable[Row], _: Iterable[Row]) -> list[tuple[Any, ...]]:
    groups: dict[Any, list[int]] = defaultdict(list)
    for _id, k, v in src:
        groups[k].append(v or 0)
    return [(k, len(vs), sum(vs), Decimal(5 * sum(vs)).scaleb(-1)) for k, vs in groups.items()]


def _tens(src: Iterable[Row], _: Iterable[Row]) -> list[tuple[Any, ...]]:
    groups: dict[Any, list[int]] = defaultdict(list)
    for id_, k, v in src:
        if (id_ is not None and id_ > 1) or (v is not None and v < 70):
            groups[None if v is None else v // 10, k and k.upper()].append(0 if v is None else v % 2)
    return [(*group, len(odds), sum(odds)) for group, odds in groups.items()]


def _members(src: Iterable[Row], _: Iterable[Row]) -> list[tuple[Any, ...]]:
    return [(k, id_, v) for id_, k, v in src]


def _named(src: Iterable[Row], dim: Iterable[Row]) -> list[tuple[Any, ...]]:
    names = {k: name for k, name, _ in dim}
    return [(id_, v, names.get(k)) for id_, k, v in src]


def _latest(src: Iterable[Row], _: Iterable[Row]) -> list[tuple[Any, ...]]:
    return [(id_, v) for id_, _k, v in src]


@dataclass(frozen=True)
class Case:
    """An asset, its table, and what the table must hold."""

    asset: Callable[..., Any]
    table: Table
    oracle: Callable[[Iterable[Row], Iterable[Row]], list[tuple[Any, ...]]]

    def __repr__(self) -> str:
        return self.asset.__name__


CASES = [
    Case(kept, Table(key="id"), _kept),
    Case(totals, Table(key="k"), _totals),
    Case(tidied, Table(key=["k", "odd"]), _tidied),
    Case(sums, Table(key="k"), _sums),
    Case(tens, Table(key=["ten", "k"]), _tens),
    Case(members, Table(key=["k", "id"]), _members),
    Case(named, Table(key="id"), _named),
    Case(latest, Table(key="id"), _latest),
]

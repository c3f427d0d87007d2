"""The tables of the histories: the asset of each, and the query whose rows the table must hold."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from lakehouse import Aggregate, Append, Changes, History, Merge, Overwrite
from tests.support.views import asset_of


@dataclass(frozen=True)
class Kind:
    """A table of a history.

    Args:
        asset: The asset that makes the table.
        key: The key of the table; empty if none is declared.
        expected: The query over `{src}` that gives all expected rows, in columns of the names that `holds` gives.
        holds: The query over the table `{made}` that must give the same rows.
    """

    asset: Callable[..., Any]
    key: tuple[str, ...]
    expected: str
    holds: str = "SELECT * FROM {made}"


def merged(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.select("id", "g", "v", "at", "n"), touched)


def grouped(src: Changes) -> Merge:
    touched = src.touched("g")
    return Merge(touched.rows.groupBy("g").agg({"v": "max", "id": "count"}).toDF("g", "top", "ids"), touched)


def sums(src: Changes) -> Aggregate:
    return Aggregate(src, "g", "c", {"s": "CAST(v AS DECIMAL(12,4))"})


def archive(src: Changes) -> Append:
    return Append(src.log().select("id", "g", "v", "n", "change_type"))


def past(src: Changes) -> History:
    return History(src)


def replaced(src: Changes) -> Overwrite:
    return Overwrite(src.source.select("id", "g", "v"))


def view(name: str, key: tuple[str, ...], sql: str) -> Kind:
    return Kind(asset_of(name, sql.format(src="src"), ["src"]), key, sql)


_NET = "sum(CASE WHEN change_type IN ('insert', 'update_postimage') THEN 1 ELSE -1 END)"
KINDS: Mapping[str, Kind] = {
    "merged": Kind(merged, ("id",), "SELECT id, g, v, at, n FROM {src}"),
    "grouped": Kind(grouped, ("g",), "SELECT g, max(v) AS top, count(id) AS ids FROM {src} GROUP BY g"),
    "sums": Kind(
        sums, ("g",), "SELECT g, count(*) AS c, sum(CAST(coalesce(v, 0) AS DECIMAL(12,4))) AS s FROM {src} GROUP BY g"
    ),
    "archive": Kind(
        archive,
        (),
        "SELECT id, g, v, n, 1 AS net FROM {src}",
        f"SELECT id, g, v, n, {_NET} AS net FROM {{made}} GROUP BY id, g, v, n HAVING {_NET} <> 0",
    ),
    "past": Kind(
        past, ("id",), "SELECT id, g, v, at, n FROM {src}", "SELECT id, g, v, at, n FROM {made} WHERE __END_AT IS NULL"
    ),
    "replaced": Kind(replaced, ("id",), "SELECT id, g, v FROM {src}"),
    "kept": view("kept", ("id",), "SELECT id, upper(g) AS g, v, n.y AS y FROM {src} WHERE v > 3 OR v IS NULL"),
    "whole": view("whole", ("id",), "SELECT * FROM {src}"),
    "counted": view("counted", ("g",), "SELECT g, count(*) AS c, max(at) AS last FROM {src} GROUP BY g"),
    "days": view(
        "days",
        ("day", "g"),
        "SELECT CAST(at AS DATE) AS day, g, count(DISTINCT v) AS c FROM {src} GROUP BY CAST(at AS DATE), g",
    ),
    "first": view(
        "first",
        ("g",),
        "SELECT g, id, v FROM (SELECT *, row_number() OVER (PARTITION BY g ORDER BY v DESC, id) AS place FROM {src}) WHERE place = 1",
    ),
    "fields": view("fields", ("x",), "SELECT n.x AS x, count(*) AS c, max(g) AS g FROM {src} GROUP BY n.x"),
    "meeting": view(
        "meeting",
        (),
        "SELECT a.id AS one, b.id AS other, a.g FROM {src} a JOIN {src} b ON a.g = b.g AND a.v < b.v",
    ),
}

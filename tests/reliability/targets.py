"""The tables of the random histories, and what each must hold, given its source's rows."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from lakehouse import Append, Changes, Merge, Table
from tests.reliability.laws import differs
from tests.support.assets import _sums, _totals, sums, totals
from tests.support.model import Row

Rows = list[dict[str, Any]]


def kept(src: Changes) -> Merge:
    touched = src.touched("id")
    return Merge(touched.rows.where("v < 50 or v is null").select("id", "k", "v"), touched)


def archive(src: Changes) -> Append:
    return Append(src.log().select("id", "k", "v", "change_type", "commit_version"))


def _kept(src: list[Row]) -> Rows:
    return [dict(zip(("id", "k", "v"), row, strict=True)) for row in src if row[2] is None or row[2] < 50]


def _grouped(src: list[Row]) -> Rows:
    return [dict(zip(("k", "n", "total", "top"), row, strict=True)) for row in _totals(src, [])]


def _summed(src: list[Row]) -> Rows:
    return [dict(zip(("k", "n", "total", "half"), row, strict=True)) for row in _sums(src, [])]


def _replayed(log: Rows) -> Counter[Row]:
    """The source's rows by its archived feed: inserts and post-images, less deletes and pre-images."""
    counted: Counter[Row] = Counter()
    for row in log:
        added = row["change_type"] in ("insert", "update_postimage")
        counted[row["id"], row["k"], row["v"]] += 1 if added else -1
    return Counter({row: times for row, times in counted.items() if times})


@dataclass(frozen=True)
class Target:
    """An asset of the machine, and what its table must hold, given the source's rows."""

    asset: Callable[..., Any]
    table: Table
    problem: Callable[[list[Row], Rows], str | None]

    @property
    def name(self) -> str:
        return self.asset.__name__

    @property
    def appends(self) -> bool:
        return self.asset is archive


def _archived(src: list[Row], log: Rows) -> str | None:
    found, due = _replayed(log), Counter(src)
    return None if found == due else f"the archive tells {dict(found)}, the source held {dict(due)}"


TARGETS = {
    target.name: target
    for target in (
        Target(kept, Table(key="id"), lambda src, rows: differs(_kept(src), rows)),
        Target(totals, Table(key="k"), lambda src, rows: differs(_grouped(src), rows)),
        Target(sums, Table(key="k"), lambda src, rows: differs(_summed(src), rows)),
        Target(archive, Table(), _archived),
    )
}

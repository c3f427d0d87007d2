"""Seven tables below one source, the edits that keep it moving, and what each table must hold, in plain Python.

Every version of a row of `src` has a token of its own, so a lost or repeated change can be seen. After each edit an
extract of `src` is delivered: rows in `extracts` whose number is the version of `src`.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Aggregate, Append, Changes, Expect, History, Merge, Snapshot, Table
from tests.reliability.checker import Asset
from tests.reliability.delta_files import History as Files
from tests.reliability.delta_files import Row
from tests.reliability.laws import Law, appends, differs, equals, folds, takes
from tests.support.lake import Lake

SRC = "id int, k string, v int, token string"
FIRST = [(n, "abc"[n % 3], 10 * n, f"first-{n}") for n in range(5)]


def current(src: Changes) -> Merge:
    """The rows with a small v, by id."""
    touched = src.touched("id")
    return Merge(touched.rows.where("v < 50"), touched)


def archive(src: Changes) -> Append:
    """Every version that a row ever had."""
    kept = src.log().where("change_type IN ('insert', 'update_postimage')")
    return Append(kept.select("id", "token", "commit_version"))


def totals(current: Changes) -> Aggregate:
    """The number of rows and their sum by k, of `current`."""
    return Aggregate(current, by="k", count="n", sums={"total": "v"})


def past(src: Changes) -> History:
    """Every version that a row ever had, with the interval in which it was there."""
    return History(src)


def judged(src: Changes) -> Merge:
    """The rows with a small v, by id; all other rows are in its quarantine."""
    touched = src.touched("id")
    return Merge(touched.rows, touched)


def kept(extracts: DataFrame) -> Snapshot:
    """The newest extract."""
    number = extracts.agg(F.max("number")).collect()[0][0]
    return Snapshot(extracts.where(F.col("number") == number).drop("number"), version=number)


def kept_past(extracts: DataFrame) -> History:
    """The values of k and v in the extracts, and from which extract to which they held."""
    return History(kept(extracts), track=("k", "v"))


def _current(sources: Mapping[str, list[Row]]) -> list[Row]:
    return [row for row in sources["src"] if row["v"] < 50]


def _totals(sources: Mapping[str, list[Row]]) -> list[Row]:
    groups: dict[Any, list[Row]] = defaultdict(list)
    for row in sources["current"]:
        groups[row["k"]].append(row)
    return [{"k": k, "n": len(rows), "total": sum(row["v"] for row in rows)} for k, rows in groups.items()]


def _archived(before: list[Row], after: list[Row], version: int) -> list[Row]:
    known = {row["token"] for row in before}
    return [
        {"id": row["id"], "token": row["token"], "commit_version": version}
        for row in after
        if row["token"] not in known
    ]


def delivered(extracts: list[Row]) -> tuple[int, list[Row]]:
    """The number and the rows of the newest extract among the delivered rows."""
    newest = max(row["number"] for row in extracts)
    columns = ("id", "k", "v", "token")
    return newest, [{name: row[name] for name in columns} for row in extracts if row["number"] == newest]


def _number(extracts: list[Row]) -> int:
    return delivered(extracts)[0]


def _kept(sources: Mapping[str, list[Row]]) -> list[Row]:
    return delivered(sources["extracts"])[1]


@dataclass(frozen=True)
class Step:
    """One asset of the pipeline.

    Args:
        asset: Its function.
        table: What it declares.
        source: The table that it reads.
        law: What it must hold.
        tokens: The column of tokens, if the table has each of them once.
        extract: Gives the number of the newest extract in `source`, if the table is kept from extracts.
    """

    asset: Callable[..., Any]
    table: Table
    source: str
    law: Law
    tokens: str | None = None
    extract: Callable[[list[Row]], int] | None = None

    @property
    def name(self) -> str:
        return self.asset.__name__

    def at(self, root: Path) -> Asset:
        return Asset(
            self.name, root / self.name, {self.source: root / self.source}, self.law, self.tokens, self.extract
        )


STEPS = {
    step.name: step
    for step in (
        Step(current, Table(key="id"), "src", equals(_current)),
        Step(archive, Table(), "src", appends(_archived), "token"),
        Step(totals, Table(key="k"), "current", equals(_totals)),
        Step(past, Table(key="id"), "src", folds(("k", "v", "token")), "token"),
        Step(judged, Table(key="id", expect=Expect("v < 50", "quarantine")), "src", equals(_current)),
        Step(kept, Table(key="id"), "extracts", equals(_kept), extract=_number),
        Step(kept_past, Table(key="id"), "extracts", takes(delivered, ("k", "v")), extract=_number),
    )
}


def create(lake: Lake, **properties: str) -> None:
    lake.create("src", FIRST, SRC, **properties)
    lake.create("extracts", [(0, *row) for row in FIRST], f"number int, {SRC}")


def edit(lake: Lake, number: int) -> None:
    """Makes one commit to the source, of four kinds in turn, and delivers an extract of the source after it."""
    token = f"edit-{number}"
    match number % 4:
        case 0:
            lake.insert("src", [(100 + number, "b", number, f"{token}-a"), (200 + number, "c", 60, f"{token}-b")])
        case 1:  # some rows cross the limit of `current`
            lake.sql(f"UPDATE {{src}} SET v = 60 - v, token = concat('{token}-', id) WHERE id % 2 = {number // 4 % 2}")
        case 2:  # one row goes, another moves to another group
            lake.sql(
                f"MERGE INTO {{src}} t USING (SELECT min(id) AS lo, max(id) AS hi FROM {{src}}) s ON t.id IN (s.lo, s.hi) "
                f"WHEN MATCHED AND t.id = s.lo THEN DELETE "
                f"WHEN MATCHED THEN UPDATE SET k = 'a', v = 1, token = '{token}'"
            )
        case _:
            lake.sql(f"UPDATE {{src}} SET k = 'b', token = concat('{token}-', id) WHERE v < 20")
    lake.insert("extracts", [(lake.version("src"), *row) for row in lake.rows("src")])


def wrong_quarantine(root: Path) -> str | None:
    """What is wrong with the quarantine of `judged`, which must be up to date; None if it is right."""
    src, quarantine = Files(root / "src"), Files(root / "judged_quarantine")
    due = [row for row in src.rows(src.newest) if row["v"] >= 50]
    found = quarantine.rows(quarantine.newest)
    if any((row["__n"], row["__broken"]) != (1, ["v_lt_50"]) for row in found):
        return f"the quarantine holds {found}"
    return differs(due, [{name: row[name] for name in ("id", "k", "v", "token")} for row in found])


def assets(root: Path) -> list[Asset]:
    """The tables that exist, for the checker."""
    return [step.at(root) for step in STEPS.values() if (root / step.name / "_delta_log").is_dir()]

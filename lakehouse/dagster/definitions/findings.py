"""What a check finds out: whether a table's keys, columns and feed are what they should be."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Self, TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.cursor.standings import Standing
from lakehouse.delta.commit_info import NO_ROWS, Rows, count_of
from lakehouse.delta.log import NOTHING_READ, FileSchema
from lakehouse.delta.text import quote

Figure: TypeAlias = str | int | float
DIFFERING = "differing"
"""The figure of a comparison with a recompute: how many keys or rows differ."""
FROZEN_SINCE = "frozen rows as of version"
"""The figure that names, as a text, the version with which the next comparison compares the frozen rows."""
SHOWN = 20
"""How many records of a kind are shown at most, be they keys, commits or partitions."""


class Grade(Enum):
    """How a check ended. WARNS: something needs a look, or could not be found out. FAILED: something is wrong."""

    PASSED = "passed"
    WARNS = "warns"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check of one table.

    Args:
        grade: How it ended.
        sentence: What was found, in one sentence or a few.
        figures: Numbers and short texts by name; numbers are plotted over time.
        records: A table of details, each record with the same columns; empty where there are none.
    """

    grade: Grade
    sentence: str
    figures: Mapping[str, Figure] = field(default_factory=dict[str, Figure])
    records: tuple[Mapping[str, Figure], ...] = ()

    @classmethod
    def unavailable(cls, why: str) -> Self:
        """The finding of a check that cannot be made now."""
        return cls(Grade.WARNS, why)

    def with_frozen(
        self, asset: str, since: int, upto: int, changed: Rows = NO_ROWS, keys: Sequence[Mapping[str, str | None]] = ()
    ) -> "Finding":
        """The finding with what became of the frozen rows; changed rows stay compared with the same version."""
        figures = {**self.figures, "frozen rows changed": changed.total}
        if not changed.total:
            stay = f"stayed as they were at version {since}" if since < upto else f"are compared from version {upto} on"
            sentence = f"{self.sentence.rstrip('.')}. Its frozen rows {stay}."
            return replace(self, sentence=sentence, figures={**figures, FROZEN_SINCE: str(upto)})
        sentence = (
            f"Between versions {since} and {upto} of '{asset}' frozen rows changed ({changed}): something wrote them "
            f"beside its runs. RESTORE it to version {since}, and the next run reads on from there. Or thaw them, and "
            f"a run computes them. {self.sentence}"
        )
        named = (
            {**{name: value or "NULL" for name, value in key.items()}, "what": "frozen, and changed"} for key in keys
        )
        records = (*named, *self.records)[:SHOWN]
        return Finding(Grade.FAILED, sentence, {**figures, FROZEN_SINCE: str(since)}, records)


def inputs_agree(asset: str, standing: Standing) -> Finding:
    """Inputs agree if they stood for the same version of each source that they share."""
    figures = {source: version for source, version in standing.sources.items() if version != NOTHING_READ}
    if standing.why_inexact is None:
        at = ", ".join(f"version {version} of {source}" for source, version in figures.items())
        return Finding(Grade.PASSED, f"'{asset}' stands for one state of its sources: {at}.", figures)
    if not standing.torn:
        return Finding.unavailable(f"Whether the inputs of '{asset}' agree is not known: {standing.why_inexact}.")
    why = f"'{asset}' holds a state that its sources never had: {standing.why_inexact}"
    remedy = "With Policy(inputs='agree') its next runs read its inputs where they agree"
    return Finding(Grade.WARNS, f"{why}. {remedy}.", figures)


def lasting(seconds: float) -> str:
    """A duration in its largest unit: "40 seconds", "3 hours", "12 days"."""
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= 2 * size:
            return count_of(int(seconds // size), unit)
    return count_of(max(0, int(seconds)), "second")


def keys(asset: str, rows: DataFrame, key: Sequence[str]) -> Finding:
    """A key holds if no two rows have the same key. NULL in a column of the key is worth a warning."""
    columns = [F.col(quote(column)) for column in key]
    counts = rows.groupBy(*columns).agg(F.count("*").alias("__rows"))
    incomplete = F.greatest(*(column.isNull().cast("int") for column in columns), F.lit(0)) == 1
    wrong = (F.col("__rows") > 1) | incomplete
    (totals,) = counts.agg(
        F.coalesce(F.sum("__rows"), F.lit(0)).alias("rows"),
        F.count_if(F.col("__rows") > 1).alias("repeated"),
        F.count_if(incomplete).alias("incomplete"),
    ).collect()
    figures = {"rows": totals["rows"], "keys repeated": totals["repeated"], "keys with NULL": totals["incomplete"]}
    name = ", ".join(key)
    if not totals["repeated"] and not totals["incomplete"]:
        return Finding(
            Grade.PASSED, f"The key ({name}) identifies every row: {count_of(totals['rows'], 'row')}.", figures
        )
    shown = [column.cast("string").alias(name) for column, name in zip(columns, key, strict=True)]
    repeated = counts.where(wrong).orderBy(F.col("__rows").desc()).limit(SHOWN).select(*shown, "__rows").collect()
    if totals["repeated"]:
        grade = Grade.FAILED
        sentence = (
            f"The key ({name}) of '{asset}' does not identify its rows: {count_of(totals['repeated'], 'key')} in more "
            f"than one row, {count_of(totals['incomplete'], 'key')} with NULL. Declare a finer key, or correct the "
            "rows: what is read by the key is otherwise read wrong."
        )
    else:
        grade = Grade.WARNS
        sentence = (
            f"NULL stands in {count_of(totals['incomplete'], 'key')} ({name}) of '{asset}', each of one row. A run "
            "takes NULL for a key like any other. Other programs may not: in SQL, NULL equals nothing."
        )
    records = tuple(
        {**{n: "NULL" if row[n] is None else row[n] for n in key}, "rows": row["__rows"]} for row in repeated
    )
    return Finding(grade, sentence, figures, records)


@dataclass(frozen=True, slots=True)
class Drift:
    """How the columns of one table differ from an earlier version's.

    Args:
        table: The table.
        since: The version that it is compared with.
        differences: What became of each column that differs, by its name.
    """

    table: str
    since: int
    differences: Mapping[str, str]

    @classmethod
    def between(cls, table: str, since: int, before: FileSchema, after: FileSchema) -> "Drift":
        """The drift of a table from one version's columns to another's."""
        added = {name: "added" for name in after.types if name not in before.types}
        dropped = {name: "dropped or renamed" for name in before.types if name not in after.types}
        retyped = {
            name: f"{_plain(before.types[name])} became {_plain(kind)}"
            for name, kind in after.types.items()
            if before.types.get(name, kind) != kind
        }
        return cls(table, since, {**added, **dropped, **retyped})


def _plain(kind: str) -> str:
    """A type without the quotes in which the log has its name."""
    return kind.strip('"')


def schema(
    asset: str, declared: Collection[str], own: Drift | None, sources: Collection[Drift], columns: int
) -> Finding:
    """A schema drifts when a declared column is not there, or when columns have changed since the last run.

    Args:
        asset: The asset's name.
        declared: Columns that `Table(columns=...)` describes and the table lacks.
        own: The table's drift since its asset last wrote; None if the log does not show it.
        sources: Each source's drift since the table last read it, where the log shows it.
        columns: How many columns the table has.
    """
    records = [
        {"table": asset, "column": name, "what": "is described in Table(columns=...) but not in the table"}
        for name in declared
    ] + [
        {"table": drift.table, "column": name, "what": f"{what} since version {drift.since}"}
        for drift in ([] if own is None else [own]) + list(sources)
        for name, what in drift.differences.items()
    ]
    if not records:
        note = " Its own earlier columns are unknown: its log does not tell." if own is None else ""
        return Finding(
            Grade.PASSED, f"'{asset}' and its sources have the columns they had.{note}", {"columns": columns}
        )
    first = records[0]
    sentence = (
        f"Columns differ: {first['column']} of '{first['table']}' {first['what']}"
        f"{f', and {len(records) - 1} more' if len(records) > 1 else ''}. If the asset should follow, change its code "
        "and its code_version; if not, put the column back."
    )
    return Finding(Grade.WARNS, sentence, {"columns": columns, "columns that differ": len(records)}, tuple(records))

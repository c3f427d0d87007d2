"""Whether a table and its sources still have the columns that the asset knows."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from lakehouse.checking.finding import Finding, Grade
from lakehouse.log.log import FileSchema


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
    """A schema drifts when a column that is declared is not there, or somebody changed columns since the last run.

    Args:
        asset: The asset's name.
        declared: Columns that `Table(columns=...)` describes and the table lacks.
        own: The table's drift since its asset last wrote; None if the log cannot tell.
        sources: Each source's drift since the table last read it, where the log can tell.
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

"""The tables of docs/conflicts.md are the rules, printed; `python -m tests.conflicts.test_document` prints them."""

from pathlib import Path

from lakehouse.conflicts.operations import ConcurrentWrite, Layout, Operation
from lakehouse.conflicts.rules import MATRICES, PAIRS, Group, foresee
from lakehouse.delta.table import Isolation
from tests.support.for_each import for_each

DOCUMENT = Path(__file__).parents[2] / "docs" / "conflicts.md"
SHORT = {
    Operation.OVERWRITE: "overwrite, `replaceWhere`",
    Operation.FEATURE: "enabling a feature¹",
    Operation.CLUSTERING: "CLUSTER BY³",
    Operation.DROPPED_FEATURE: "dropping a feature²",
}
LOSERS = [one for one in Operation if one not in (Operation.CREATION, Operation.FEATURE, Operation.DROPPED_FEATURE)]
WINNERS = [one for one in Operation if one is not Operation.CREATION]
CASES = {"both name other partitions": ("a", "b"), "one names none": ("a", None), "both name the same one": ("a", "a")}


def table(headings: list[str], rows: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def word(operation: Operation) -> str:
    return SHORT.get(operation, operation.value)


def cell(loser: ConcurrentWrite, winner: ConcurrentWrite, layout: Layout) -> str:
    found = foresee(loser, winner, layout)
    return ", ".join(name.removeprefix("Concurrent").removesuffix("Exception") for name in found.exceptions) or "-"


def of_open_source() -> str:
    """Every pair on a table without partitions: the writer in a row loses to the writer in a column."""
    rows = [
        [word(loser), *(cell(ConcurrentWrite(loser), ConcurrentWrite(winner), Layout()) for winner in WINNERS)]
        for loser in LOSERS
    ]
    return table(["loser \\ winner", *map(word, WINNERS)], rows)


def of_partitions() -> str:
    """The effect of naming partitions on two changes of a partitioned table."""
    change = Operation.CHANGE
    sides = {
        name: [ConcurrentWrite(change, None if one is None else frozenset({one})) for one in pair]
        for name, pair in CASES.items()
    }
    found = {name: foresee(*pair, Layout(partitioned=True)) for name, pair in sides.items()}
    return table(
        ["two MERGEs", "verdict", "what to do"], [[k, v.verdict.value, v.remedy or "-"] for k, v in found.items()]
    )


def of_databricks(*, row_level: bool) -> str:
    """One of the published matrices: the cell of a pair in either order."""
    levels = [Isolation.WRITE_SERIALIZABLE, Isolation.SERIALIZABLE]
    rows = [
        [named(pair[0]), named(pair[1]), *(MATRICES[row_level, level][frozenset(pair)].value for level in levels)]
        for pair in PAIRS
    ]
    return table(["one", "other", *(level.value for level in levels)], rows)


def named(group: Group) -> str:
    return group.value


TABLES = {
    "open source": of_open_source(),
    "partitions": of_partitions(),
    "Databricks, files": of_databricks(row_level=False),
    "Databricks, rows": of_databricks(row_level=True),
}


@for_each("name", TABLES)
def test_the_document_holds_the_table_that_the_rules_give(name: str):
    assert TABLES[name] in DOCUMENT.read_text()


if __name__ == "__main__":
    print("\n\n".join(TABLES.values()))  # noqa: T201

"""What Databricks documents about write conflicts: its two matrices, and what keeps row-level concurrency off.

Documented, not measured: this project runs on open-source Delta. The pages, each also on learn.microsoft.com:

- "Row-level concurrency" (docs.databricks.com/aws/en/optimizations/isolation/row-level-concurrency): the matrices,
  their notes on INSERT, identity columns and REORG, what a table needs, the limits. The runtime that it asks for was
  14.2 and became 14.3.
- "Isolation levels and write conflicts on Databricks" (docs.databricks.com/optimizations/isolation-level.html): changes
  of metadata, and that a clustered table has row-level concurrency unless its deletion vectors are off.
- "DELTA_CONCURRENT_APPEND error condition": when rows cannot be compared after all.
"""

from enum import Enum

from lakehouse.conflicts.operations import (
    OTHER_PARTITIONS,
    TAKE_TURNS,
    ConcurrentWrite,
    Foreseen,
    Layout,
    Limit,
    Operation,
    Verdict,
)
from lakehouse.declare.isolation import Isolation


class Documented(Enum):
    """A cell of the matrices."""

    NEVER = "cannot conflict"
    FILES = "can conflict"
    SAME_ROW = "can conflict when both modify the same row"
    Z_ORDER = "can conflict when ZORDER BY is used"
    NO_VECTORS = "can conflict without deletion vectors, or when ZORDER BY is used"


class Group(Enum):
    """The rows and columns of the matrices."""

    INSERT = "INSERT"
    CHANGE = "UPDATE, DELETE, MERGE INTO"
    OPTIMIZE = "OPTIMIZE"


GROUP = {
    Operation.BLIND_APPEND: Group.INSERT,
    Operation.READING_APPEND: Group.CHANGE,  # an INSERT with a subquery on its own table counts as a MERGE
    Operation.CHANGE: Group.CHANGE,
    Operation.OPTIMIZE: Group.OPTIMIZE,  # and a REORG that rewrites files; one that upgrades changes the protocol
}
"""The operations that the matrices know. An overwrite is not among them, nor what changes metadata."""

PAIRS = (
    (Group.INSERT, Group.INSERT),
    (Group.CHANGE, Group.INSERT),
    (Group.CHANGE, Group.CHANGE),
    (Group.OPTIMIZE, Group.INSERT),
    (Group.OPTIMIZE, Group.CHANGE),
    (Group.OPTIMIZE, Group.OPTIMIZE),
)
_D = Documented
MATRICES = {
    (row_level, isolation): dict(zip(map(frozenset, PAIRS), cells, strict=True))
    for row_level, isolation, cells in (
        (False, Isolation.WRITE_SERIALIZABLE, (_D.NEVER, _D.NEVER, _D.FILES, _D.NEVER, _D.NO_VECTORS, _D.NO_VECTORS)),
        (False, Isolation.SERIALIZABLE, (_D.NEVER, _D.FILES, _D.FILES, _D.NEVER, _D.NO_VECTORS, _D.NO_VECTORS)),
        (True, Isolation.WRITE_SERIALIZABLE, (_D.NEVER, _D.NEVER, _D.SAME_ROW, _D.NEVER, _D.Z_ORDER, _D.Z_ORDER)),
        (True, Isolation.SERIALIZABLE, (_D.NEVER, _D.SAME_ROW, _D.SAME_ROW, _D.NEVER, _D.Z_ORDER, _D.Z_ORDER)),
    )
}
"""Both matrices, by row-level concurrency and isolation level; a cell holds for its pair in either order."""

_FILES = ("ConcurrentAppendException", "ConcurrentDeleteReadException", "ConcurrentDeleteDeleteException")
_ROWS = "Keep each writer to rows of its own."


def row_level(loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout) -> bool:
    """Whether the rows of the two writes are compared, and not their files."""
    possible = table.row_level and table.deletion_vectors and not table.partitioned
    return possible and not (loser.limits | winner.limits) - {Limit.Z_ORDER}


def by_matrix(loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout) -> Foreseen:
    """The cell of two data writes whose partitions do not separate them.

    The matrices speak of pairs. A blind append reads nothing, so of its pairs it is the other one that fails.
    """
    cell = MATRICES[row_level(loser, winner, table), table.isolation][
        frozenset({GROUP[loser.operation], GROUP[winner.operation]})
    ]
    z_order = Limit.Z_ORDER in loser.limits | winner.limits
    match cell:
        case Documented.NEVER:
            return Foreseen(Verdict.CANNOT, f"So it is documented for {table.isolation.value}.")
        case Documented.SAME_ROW:
            return Foreseen(Verdict.AVOIDABLE, "Rows are compared; both may change the same one.", _FILES, _ROWS)
        case Documented.Z_ORDER | Documented.NO_VECTORS if table.deletion_vectors and not z_order:
            return Foreseen(Verdict.CANNOT, "With deletion vectors OPTIMIZE is reconciled with other writes.")
        case Documented.Z_ORDER | Documented.NO_VECTORS:
            why = "ZORDER BY is used." if z_order else "The table keeps no deletion vectors."
            remedy = "Use liquid clustering." if z_order else "Enable deletion vectors."
            if _vague(loser, winner, table):
                return Foreseen(Verdict.AVOIDABLE, why, _FILES, f"{remedy} Or: {OTHER_PARTITIONS}")
            return Foreseen(Verdict.CAN, why, _FILES, f"{remedy} Or: {TAKE_TURNS}")
        case Documented.FILES:
            return _files(loser, winner, table)


def _files(loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout) -> Foreseen:
    if _vague(loser, winner, table):
        return Foreseen(Verdict.AVOIDABLE, "Partitions are not told apart.", _FILES, OTHER_PARTITIONS)
    limits = sorted(limit.value for limit in (loser.limits | winner.limits) - {Limit.Z_ORDER})
    because = f" ({', '.join(limits)})" if limits else ""
    why = f"Files are compared, not rows{because}; both may touch the same file."
    rows = "" if table.partitioned else " Or meet the conditions of row-level concurrency."
    return Foreseen(Verdict.CAN, why, _FILES, TAKE_TURNS + rows)


def _vague(loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout) -> bool:
    """Whether partitions would separate the two writes, if both named theirs."""
    return table.partitioned and (loser.within is None or winner.within is None)

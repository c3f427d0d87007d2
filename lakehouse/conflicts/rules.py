"""The conflict rules: whether a write can lose its commit to another one, on Delta and as Databricks documents it."""

from enum import Enum

from lakehouse.conflicts.operations import (
    ALONE,
    OTHER_PARTITIONS,
    TAKE_TURNS,
    ConcurrentWrite,
    Engine,
    Foreseen,
    Layout,
    Limit,
    Operation,
    Verdict,
)
from lakehouse.delta.table import Isolation


class Documented(Enum):
    """What a cell of the matrices says."""

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
"""The operations that the matrices cover. An overwrite is not among them, nor is a change of metadata."""

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
    """The answer of the matrices for two data writes that partitions do not separate.

    The matrices are about pairs. A blind append reads nothing, so in a pair with one, the other write is what fails.
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


def foresee(
    loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout | None = None, engine: Engine = Engine.OPEN_SOURCE
) -> Foreseen:
    """Whether `loser` can fail because `winner` committed first, both having begun at the same version.

    Args:
        loser: The write that commits second.
        winner: The write that committed first.
        table: The layout of the table; by default that of a new table in open-source Delta.
        engine: The engine that commits.
    """
    table = table or Layout()
    declared = _foresee_before_data(loser, winner, table, engine)
    if declared is not None:
        return declared
    outcome = _same_application(loser, winner) or _data(loser, winner, table, engine)
    if not table.identity:
        return outcome
    if engine is Engine.DATABRICKS:
        why = "A table with an identity column takes no concurrent transactions, as documented."
    elif loser.numbers_rows and winner.numbers_rows:
        why = "Rows with new identity values move the column's high-water mark, which is metadata."
    else:
        return outcome
    return Foreseen(Verdict.CAN, why, ("MetadataChangedException", *outcome.exceptions), TAKE_TURNS)


def _same_application(loser: ConcurrentWrite, winner: ConcurrentWrite) -> Foreseen | None:
    if loser.application is None or loser.application != winner.application:
        return None
    why = "Both carry one application id, so the second would repeat the first."
    return Foreseen(Verdict.CAN, why, ("ConcurrentTransactionException",), TAKE_TURNS)


def _data(loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout, engine: Engine) -> Foreseen:
    """The last check: the files, or on Databricks the rows, that the loser has read and the winner changed."""
    if not (loser.traits.reads and (winner.traits.adds or winner.traits.removes)):
        nothing = "has read nothing of the table" if not loser.traits.reads else "finds every file as it was"
        return Foreseen(Verdict.CANNOT, f"The write {nothing}.")
    if table.partitioned and _apart(loser, winner):
        return Foreseen(Verdict.CANNOT, "Their statements name different partitions, as literals.")
    if engine is Engine.DATABRICKS and {loser.operation, winner.operation} <= GROUP.keys():
        return by_matrix(loser, winner, table)
    return _by_files(loser, winner, table)


def _foresee_before_data(
    loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout, engine: Engine
) -> Foreseen | None:
    """The checks before the check of data: replacement, creation, protocol, metadata, the clustering columns."""
    if loser.operation is Operation.REPLACEMENT:
        why = "It writes the very next version or none: whatever was committed meanwhile defeats it."
        return Foreseen(Verdict.CAN, why, ("ConcurrentWriteException",), ALONE)
    if loser.operation is Operation.CREATION:
        ahead = "Create the table ahead of its concurrent writers."
        why = "The table was made by another writer meanwhile."
        return Foreseen(Verdict.AVOIDABLE, why, ("ProtocolChangedException",), ahead)
    if winner.operation is Operation.CREATION:
        return Foreseen(Verdict.CANNOT, "A write that does not create the table begins when it is there.")
    if loser.traits.same_rows and engine is Engine.OPEN_SOURCE:
        return None  # OPTIMIZE begins another transaction by itself and commits as long as its files are there
    if winner.traits.protocol:
        return Foreseen(Verdict.CAN, "The table's protocol was changed.", ("ProtocolChangedException",), ALONE)
    if _moves_metadata(loser, winner, table, engine):
        features = loser.traits.metadata and winner.operation is Operation.FEATURE
        exceptions = ("MetadataChangedException", "ProtocolChangedException")[: 1 + features]
        return Foreseen(Verdict.CAN, "The table's schema or properties were changed.", exceptions, ALONE)
    if loser.operation is Operation.CLUSTERING and winner.operation in (loser.operation, Operation.REPLACEMENT):
        why = "Both say what the clustering columns are."
        return Foreseen(Verdict.CAN, why, ("ConcurrentTransactionException",), ALONE)
    return None


def _moves_metadata(loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout, engine: Engine) -> bool:
    """Whether the winner's metadata defeats the loser.

    Open-source Delta lets a writer commit after some features have been enabled. A RESTORE repeats the metadata, which
    defeats only a loser with metadata of its own. The same holds for an insert that moves the high-water mark of an
    identity column.
    """
    own = loser.declares or (table.identity and loser.numbers_rows)
    match winner.operation:
        case Operation.METADATA:
            return True
        case Operation.FEATURE:
            return own or winner.evolves or engine is Engine.DATABRICKS
        case Operation.REPLACEMENT:
            return own or winner.evolves
        case _:
            return winner.evolves or (table.identity and loser.declares and winner.numbers_rows)


def _by_files(loser: ConcurrentWrite, winner: ConcurrentWrite, table: Layout) -> Foreseen:
    """The answer from the files of the partitions that the loser read. Predicates on other columns do not count."""
    follows_blind = table.isolation is Isolation.WRITE_SERIALIZABLE and not loser.declares
    blind = winner.operation is Operation.BLIND_APPEND
    added = winner.traits.adds and not loser.traits.same_rows and not (blind and follows_blind)
    removed = winner.traits.removes
    if not (added or removed):
        why = "it changes no row" if loser.traits.same_rows else "under WriteSerializable it may come before them"
        return Foreseen(Verdict.CANNOT, f"Rows were only added, and {why}.")
    exceptions = ("ConcurrentAppendException",) * added + ("ConcurrentDeleteReadException",) * removed
    exceptions += ("ConcurrentDeleteDeleteException",) * (removed and loser.traits.removes)
    what = "files were added where it reads" if added else "files that it read were removed"
    if not table.partitioned:
        clustered = ", clustered or not" if table.clustered else ""
        why = f"The table has no partitions{clustered}, so it reads all of it, and {what}."
        return Foreseen(Verdict.CAN, why, exceptions, f"{TAKE_TURNS} Or partition the table.")
    if loser.within is not None and winner.within is not None:
        return Foreseen(Verdict.CAN, f"Both name the same partition, and {what}.", exceptions, TAKE_TURNS)
    return Foreseen(Verdict.AVOIDABLE, f"Partitions are not told apart, and {what}.", exceptions, OTHER_PARTITIONS)


def _apart(loser: ConcurrentWrite, winner: ConcurrentWrite) -> bool:
    return loser.within is not None and winner.within is not None and not loser.within & winner.within

"""Which writers of one table can conflict, and with which outcome: the conflict rules applied to the definitions."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, product

from lakehouse.conflicts.operations import ConcurrentWrite, Engine, Foreseen, Layout, Operation, Verdict
from lakehouse.conflicts.rules import foresee
from lakehouse.delta.table import VECTORS, Isolation, Table


def layout(table: Table, engine: Engine) -> Layout:
    """The layout of a table as declared; the rest has the defaults of a new table.

    Databricks gives deletion vectors to a clustered table. For others a workspace setting decides, so none are assumed.
    """
    properties = {name.lower(): value for name, value in table.all_properties.items()}
    databricks = engine is Engine.DATABRICKS
    default = Isolation.WRITE_SERIALIZABLE if databricks else Isolation.SERIALIZABLE
    vectors = str(databricks and bool(table.cluster_columns))
    return Layout(
        partitioned=bool(table.partition_columns),
        clustered=bool(table.cluster_columns),
        isolation=table.isolation or default,
        deletion_vectors=properties.get(VECTORS.lower(), vectors).lower() == "true",
        identity="delta.feature.identitycolumns" in properties,
    )


FOREIGN = {
    "another program's append": ConcurrentWrite(Operation.BLIND_APPEND),
    "another program's UPDATE, DELETE or MERGE": ConcurrentWrite(Operation.CHANGE),
    "an OPTIMIZE": ConcurrentWrite(Operation.OPTIMIZE),
    "a change of its schema or properties": ConcurrentWrite(Operation.METADATA),
}
"""Writers that no definition names."""

_SAME_ASSET = "another run of it"
_SAME_PARTITION = "another run of the same partition"
_OTHER_PARTITION = "a run of another partition"
_NEW_COLUMN = "a run of another partition that adds a column"
_FIRST_RUN = "another partition's first run, with no table yet"
_HERE, _THERE = frozenset({"this one"}), frozenset({"another one"})


@dataclass(frozen=True, slots=True)
class Writer:
    """A writer of a table, as the definitions declare it.

    Args:
        name: The key of the asset, or a name for another writer.
        location: Where the table is. Writers of one location write one table.
        declared: What the writer declares about the table.
        operation: The operation of its runs that conflicts with most others.
        sliced: Whether each run names its partitions as literals and writes nothing else.
        pool: The Dagster pool in which its runs wait.
        is_asset: Whether Dagster materializes it. Otherwise it is an op of an upkeep job.
    """

    name: str
    location: str
    declared: Table
    operation: Operation
    sliced: bool = False
    pool: str | None = None
    is_asset: bool = True


@dataclass(frozen=True, slots=True)
class ConflictPair:
    """Two writers that may write one table at the same time, and whether the first can lose to the second."""

    writer: str
    rival: str
    foreseen: Foreseen
    avoided_by: str
    declared: bool = True


def conflict_pairs(writers: Iterable[Writer], engine: Engine = Engine.OPEN_SOURCE) -> tuple[ConflictPair, ...]:
    """Each writer with another run of itself, with each other writer, and with foreign writers, table by table."""
    return tuple(pair for table in _by_table(writers) for pair in _on_one_table(table, engine))


def in_one_line(pairs: Sequence[ConflictPair]) -> str:
    """The rivals of one writer, each with what avoids the conflict; those that no definition names are only counted."""
    declared = [f"{pair.rival} ({pair.avoided_by.rstrip('.')})" for pair in pairs if pair.declared]
    others = sum(not pair.declared for pair in pairs)
    outside = f"{others} kinds of other programs (a lost commit is tried again)" if others else ""
    return "; ".join(filter(None, (*declared, outside)))


def pools(writers: Iterable[Writer]) -> dict[str, str]:
    """The pool of each location whose writers have to take turns.

    A table whose only writer is a partitioned asset has no pool: its partitions do not conflict, and a pool would make
    them wait for each other. The rules are those of the stricter engine, open-source Delta.
    """
    return {
        table[0].location: pool_name(table[0])
        for table in _by_table(writers)
        if any(_conflict(writer, rival) for writer, rival in product(table, table))
    }


def pool_name(writer: Writer) -> str:
    """The pool of a writer's table, the same for every writer of the table."""
    return "table:" + "_".join((writer.declared.name or writer.name).split())


def warnings(writers: Iterable[Writer]) -> dict[str, tuple[str, ...]]:
    """What a user should know before an asset runs, by asset. Assets without a warning are left out."""
    by_asset = {
        writer.name: tuple(_warnings(writer, table))
        for table in _by_table(writers)
        for writer in table
        if writer.is_asset
    }
    return {name: sentences for name, sentences in by_asset.items() if sentences}


def _warnings(writer: Writer, writers: Sequence[Writer]) -> Iterator[str]:
    names = ", ".join(other.name for other in writers if other.is_asset and other is not writer)
    table = layout(writer.declared, Engine.OPEN_SOURCE)
    if table.isolation is Isolation.WRITE_SERIALIZABLE:
        yield "delta.isolationLevel is WriteSerializable: open-source Delta refuses to create such a table."
    if names:
        yield f"Its table is written by {names} too: each finds the other's rows foreign until it has adopted them."
    if table.partitioned and not writer.sliced:
        yield "Its table has partitions, but the asset has none: its statements name no partition."
    if table.identity:
        yield "Its table may have identity columns: no two writes that insert rows can be under way at once."


def _conflict(writer: Writer, rival: Writer) -> bool:
    """Whether two concurrent runs can conflict. Two runs of the same partition do not count."""
    table = layout(writer.declared, Engine.OPEN_SOURCE)
    loser, winner = _side_by_side(writer, rival)
    return foresee(loser, winner, table).verdict is not Verdict.CANNOT


def _by_table(writers: Iterable[Writer]) -> Iterator[Sequence[Writer]]:
    ordered = sorted(writers, key=lambda writer: (writer.location, not writer.is_asset, writer.name))
    for _, table in groupby(ordered, key=lambda writer: writer.location):
        yield tuple(table)


def _on_one_table(table: Sequence[Writer], engine: Engine) -> Iterator[ConflictPair]:
    for writer in table:
        if not writer.is_asset:
            continue
        yield from _with_itself(writer, engine)
        for rival in table:
            if rival is not writer:
                loser, winner = _side_by_side(writer, rival)
                yield _pair(writer, rival.name, loser, winner, engine, _turns(writer, rival))
        for name, winner in FOREIGN.items():
            yield replace(_pair(writer, name, _writing(writer), winner, engine), declared=False)


def _with_itself(writer: Writer, engine: Engine) -> Iterator[ConflictPair]:
    if not writer.sliced:
        yield _pair(writer, _SAME_ASSET, *_side_by_side(writer, writer), engine, _turns(writer, writer))
        return
    loser, winner = _side_by_side(writer, writer)
    created = ConcurrentWrite(Operation.CREATION, _HERE)
    once = "Start a partition once; a second run finds its changes applied."
    ahead = "Materialize one partition before the others."
    yield _pair(writer, _OTHER_PARTITION, loser, winner, engine, _turns(writer, writer))
    yield _pair(writer, _SAME_PARTITION, loser, loser, engine, _turns(writer, writer) or once)
    yield _pair(writer, _NEW_COLUMN, loser, replace(winner, evolves=True), engine, _turns(writer, writer) or ahead)
    yield _pair(writer, _FIRST_RUN, created, created, engine, _turns(writer, writer) or ahead)


def _side_by_side(writer: Writer, rival: Writer) -> tuple[ConcurrentWrite, ConcurrentWrite]:
    """Two concurrent runs. If both are of one partitioned writer, they are of different partitions."""
    loser = _writing(writer)
    if rival is not writer:
        return loser, _writing(rival, of_it=False)
    if not writer.sliced:
        return loser, loser
    return loser, replace(loser, within=_THERE, application=f"{writer.name}/another one")


def _writing(writer: Writer, *, of_it: bool = True) -> ConcurrentWrite:
    """One run of a writer. Which partitions another writer names is unknown, so it is assumed to name none."""
    return ConcurrentWrite(writer.operation, _HERE if writer.sliced and of_it else None, writer.name)


def _turns(writer: Writer, rival: Writer) -> str:
    return f"pool {writer.pool}" if writer.pool is not None and writer.pool == rival.pool else ""


def _pair(
    writer: Writer, rival: str, loser: ConcurrentWrite, winner: ConcurrentWrite, engine: Engine, avoided_by: str = ""
) -> ConflictPair:
    foreseen = foresee(loser, winner, layout(writer.declared, engine), engine)
    nothing = foreseen.verdict is Verdict.CANNOT
    return ConflictPair(
        writer.name,
        rival,
        foreseen,
        "" if nothing else avoided_by or foreseen.remedy,
    )

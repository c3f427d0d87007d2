"""A table against a full recompute of what it has read: all of it, or the rows of some keys."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from inspect import Parameter, signature
from math import ceil
from typing import Any, Self, TypeAlias

import dagster as dg
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.cursor.mark import Position
from lakehouse.dagster.code_location import AssetTable, function_of, maps_partitions, write_of
from lakehouse.dagster.definitions.findings import DIFFERING, SHOWN, Finding, Grade
from lakehouse.dagster.definitions.past_checks import CHECK
from lakehouse.delta.commit_info import SCHEMA_CHANGES, Commit, count_of
from lakehouse.delta.log import NOTHING_READ, Log, VersionRange, commits_between
from lakehouse.delta.partition_keys import Slice
from lakehouse.delta.text import fold, quote
from lakehouse.errors import FULL_REFRESH
from lakehouse.read.asset import PastRows
from lakehouse.read.changes import Changes, read_of
from lakehouse.read.content import Everything, SourceRead
from lakehouse.spark.driver_rows import MORE, bag_difference
from lakehouse.spark.table_version import TableRef, TableVersion
from lakehouse.spark.types import comparable, partition_types

Sample: TypeAlias = int | float | None
"""About how many keys a check compares, or the share of them; None: all keys, unless the table is large."""
LARGE = 10_000_000
"""Rows above which a table is compared by a sample, if no size of the sample is given."""
OF_LARGE = 1_000_000
"""About how many keys of a large table are compared at once."""


@dataclass(frozen=True, slots=True)
class Part:
    """One of the parts into which a hash of the key divides all possible keys, whether or not a table has them.

    The part is a predicate on the key alone. Whatever an asset computes, the rows of its result that satisfy the
    predicate are therefore all the rows that the table must hold for the keys in the part. The sources are not
    restricted, because an asset whose rows depend on other keys would be recomputed as wrongly as it was materialized.
    So each file is read, however small the part. Parts are taken in turn: in a random choice, a key may wait for ever.

    Args:
        number: Which part, from 0.
        of: How many parts there are.
    """

    number: int = 0
    of: int = 1

    def following(self, of: int) -> Self:
        """The part that is compared after this one was right, so that `of` checks in a row compare each key once."""
        return replace(self, number=(self.number + 1) % of, of=of)

    def again(self, of: int) -> Self:
        """The part that is compared after this one was wrong: the same, for as long as there are as many parts."""
        return replace(self, number=self.number % of, of=of)

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The part for which `str` gave the text; None for any other text."""
        number, _, of = text.partition(" of ")
        return cls(int(number) - 1, int(of)) if number.isdecimal() and of.isdecimal() and int(of) else None

    @property
    def is_all(self) -> bool:
        return self.of == 1

    def holds(self, key: Iterable[str], schema: StructType) -> Column:
        """The condition that a row's key is in the part.

        Equal keys have equal hashes on both sides of a comparison if both have these types.
        """
        texts = {name.lower(): text for name, text in comparable(schema).items()}
        columns = [F.expr(texts[column]) for column in sorted(fold(key))]
        return F.pmod(F.xxhash64(*columns), F.lit(self.of)) == self.number

    def __str__(self) -> str:
        return f"{self.number + 1} of {self.of}"


def parts(rows: int, sample: Sample) -> int:
    """Into how many parts the keys of a table are divided.

    If the sample is a number of keys, the number of parts is a power of two, so that a growing table keeps its parts
    for as long as possible: each key is compared once in as many checks as there are parts.

    Args:
        rows: How many rows the table has.
        sample: How many keys are compared at once, or their share.
    """
    match sample:
        case float():
            return ceil(1 / sample)
        case int():
            return _power_of_two(rows / sample)
        case None:
            return _power_of_two(rows / OF_LARGE) if rows > LARGE else 1


def _power_of_two(least: float) -> int:
    return 1 << max(0, ceil(least) - 1).bit_length()


_DUE, _EXTRA = "__due", "__extra"


def recompute(
    asset: str, expected: DataFrame, table: DataFrame, key: Sequence[str], versions: str, of: str = ""
) -> Finding:
    """A table is right when it holds, row for row, what a recompute of the same versions of its sources gives.

    Args:
        asset: The asset's name.
        expected: The recomputed rows, in the table's columns and types.
        table: The table's rows.
        key: The columns of its key: differing keys are shown, never other columns. Empty if it has none.
        versions: The versions of its sources, as the end of a sentence.
        of: Which rows of the table these are, as a clause after "rows"; empty if these are all rows.
    """
    differing = bag_difference(expected, table)
    if key:
        more = F.col(MORE)
        due, extra = F.sum(F.greatest(more, F.lit(0))), F.sum(F.greatest(-more, F.lit(0)))
        differing = differing.groupBy(*map(quote, key)).agg(due.alias(_DUE), extra.alias(_EXTRA))
    count, rows = differing.count(), table.count()
    figures = {"rows": rows, DIFFERING: count}
    against = f"{count_of(rows, 'row')}{of} against a full recompute of {versions}"
    if not count:
        return Finding(Grade.PASSED, against, figures)
    sentence = (
        f"{against}: {count_of(count, 'key' if key else 'row')} differ{'s' if count == 1 else ''}. Something wrote to "
        f"'{asset}' besides its runs, its result does not follow from its inputs alone, or a source has two rows of a "
        f"key that it declares. A run with the tag {FULL_REFRESH}=true sets it right."
    )
    return Finding(Grade.FAILED, sentence, figures, _examples(differing, key) if key else ())


def _examples(by_key: DataFrame, key: Sequence[str]) -> tuple[dict[str, str], ...]:
    shown = [F.col(quote(column)).cast("string").alias(column) for column in key]
    examples = by_key.orderBy(*map(quote, key)).limit(SHOWN).select(*shown, _DUE, _EXTRA).collect()
    return tuple(
        {
            **{column: "NULL" if row[column] is None else row[column] for column in key},
            "what": _what(row[_DUE], row[_EXTRA]),
        }
        for row in examples
    )


def _what(due: int, extra: int) -> str:
    if not extra:
        return "missing from the table"
    return "other values" if due else "not in the recompute"


PROOF = "full_recompute"
"""Definition metadata: when the table is compared with a full recompute, or why it cannot be."""
Concerning: TypeAlias = Callable[[Sequence[Commit]], Collection[Commit]]


def why_not_recomputed(table: AssetTable) -> str | None:
    """Why a table need not hold what a full recompute of its sources gives, as a clause; None if it must.

    For a `History`, this is about its current rows.
    """
    asset = table.asset
    if asset is None or not table.is_written:
        return "no function of it returns a table"
    match table.past:
        case PastRows.APPENDED:
            return "it appends: what was added stays, whatever became of its sources since"
        case PastRows.DELIVERED:
            return "it takes extracts, and earlier extracts are not kept"
        case PastRows.COMPUTED | PastRows.KEPT | None:
            pass
    inputs = {input_.name for input_ in asset.op.input_defs}
    function: Any = function_of(asset) or asset.op.compute_fn
    parameters = signature(function).parameters.values()
    named = {parameter.name for parameter in parameters if parameter.kind is not Parameter.VAR_KEYWORD}
    more = sorted(named - inputs)
    if more:
        return f"its function takes more than tables: {', '.join(more)}"
    if not inputs:
        return "its function reads no table"
    return _why_partial(table, asset, inputs)


def _why_partial(table: AssetTable, asset: dg.AssetsDefinition, inputs: Collection[str]) -> str | None:
    """Why the versions of its sources that a table has read do not determine its rows, as a clause; None if they do."""
    for name in sorted(inputs):
        if name not in table.changes:
            return f"'{name}' is a snapshot input: rows that were written already do not follow its changes"
        if not table.changes[name].is_whole:
            return f"its input '{name}' starts late or leaves commits out"
        if table.partitions_def is None and maps_partitions(asset, table.inputs[name]):
            return f"it reads only some partitions of '{name}'"
    return None


def whole(
    spark: SparkSession,
    source: TableRef,
    at: Position,
    slice_: Slice | None = None,
    concerning: Concerning | None = None,
) -> Changes:
    """A source as of a position, presented as inserts.

    Args:
        spark: The session.
        source: The source.
        at: How far the table, or the partition, has read it.
        slice_: The partitions of the source that a run reads; None for all rows.
        concerning: Picks the commits that may have changed a row of those partitions; None: any may have.
    """
    version = _last_alike(source.log(lambda: spark), source.name, at.version, concerning)
    rows = TableVersion(lambda: spark, source, at.table, version)
    if slice_ is not None:
        rows = replace(rows, where=slice_.predicate(partition_types(rows.rows().schema)), mapped=at.mapped)
    return Changes(SourceRead(rows, VersionRange(NOTHING_READ, version), Everything()))


def recomputed_rows(
    asset: dg.AssetsDefinition, inputs: Mapping[str, Changes], table: DataFrame
) -> tuple[DataFrame, DataFrame]:
    """The rows that the asset's function makes of its inputs, and the rows of its table that must equal them."""
    write = write_of(function_of(asset)(**inputs))
    return write.rows_to_compare(table, {name: read_of(changes) for name, changes in inputs.items()})


def _last_alike(log: Log, source: str, version: int, concerning: Concerning | None) -> int:
    """The last version with the same rows: the newest can always be read, older ones only while files are kept."""
    head = log.head()
    commits = commits_between(log, source, version, version if head is None else head.version) or ()
    changing = [commit for commit in commits if not commit.is_quiet]
    stops = {commit.version for commit in (changing if concerning is None else concerning(changing))}
    for commit in commits:
        if commit.version in stops or commit.operation in SCHEMA_CHANGES | {"ADD COLUMNS", "ADD COLUMN"}:
            break
        version = commit.version
    return version


def proof(table: AssetTable, cron_schedule: str | None) -> str:
    """When a table is compared with a full recompute, or why it is not."""
    reason = why_not_recomputed(table)
    if reason is not None:
        return f"Never compared with a recompute: {reason}."
    of = " Of its partitions one is compared each time." * (table.partitions_def is not None)
    of += " Its current rows are compared: its sources no longer have the past." * (table.past is PastRows.KEPT)
    if cron_schedule is None:
        return (
            f"Never compared with a recompute, unless somebody runs the check {CHECK}: the definitions name no "
            f'schedule, as incremental(definitions, nightly_checks="0 3 * * *") does.{of}'
        )
    return f"Compared with a recompute at night ({cron_schedule}) by the check {CHECK}.{of}"

"""How many files of a table can hold the keys of a step, by the statistics in its log, if the log has them."""

from collections.abc import Callable, Iterable, Mapping

from pyspark.sql import DataFrame

from lakehouse.delta.file_ranges import FileRanges, FileShare
from lakehouse.delta.text import Literal
from lakehouse.spark.driver_rows import Local
from lakehouse.views.analysis import RangesOf
from lakehouse.views.explained import Shares, sought_by
from lakehouse.views.on_spark.key_conditions import literal_values
from lakehouse.views.plan import Image, Restriction, SourceRows, Sql

_MANY = 10_000
"""Of more keys nothing is said: they would be sorted for the words alone."""


def file_shares(
    sql: Iterable[Sql],
    keys: Callable[[str], Local | DataFrame],
    frame_of: Callable[[str], DataFrame],
    ranges_of: RangesOf,
) -> Shares:
    """How many of the files can hold the keys, by the table and by what its rows are sought by.

    Args:
        sql: What was carried out.
        keys: The rows of each step.
        frame_of: The rows of a table.
        ranges_of: What the files of a table say.
    """
    places = {part for one in sql for part in one if isinstance(part, SourceRows) and part.image is Image.NOW}
    shares = dict[tuple[str, str], FileShare]()
    for place in places:
        share = _share(place, keys, frame_of(place.table), ranges_of) if place.any_of else None
        which = place.table, sought_by(place)
        if share is not None and (which not in shares or shares[which].holding < share.holding):
            shares[which] = share
    return shares


def _share(
    place: SourceRows, keys: Callable[[str], Local | DataFrame], frame: DataFrame, ranges_of: RangesOf
) -> FileShare | None:
    """How many of a table's files can hold a row with one of the keys; None if that is not known."""
    alternatives = list[list[dict[str, list[Literal]]]]()
    for alternative in place.any_of:
        values = [literals for one in alternative if (literals := _few(frame, one, keys)) is not None]
        if not values:
            return None
        alternatives.append(values)
    columns = {column for values in alternatives for each in values for column in each}
    ranges = ranges_of(place.table, columns)
    if ranges is None or not ranges.files or not columns:
        return None
    holding = frozenset[int]().union(*(_files_of(values, ranges) for values in alternatives))
    if 2 * len(holding) <= ranges.files:
        return FileShare(ranges.files, len(holding), ())
    pairs = (pair for values in alternatives for each in values for pair in each.items())
    scattered = dict.fromkeys(column for column, literals in pairs if ranges.is_scattered(column, literals))
    return FileShare(ranges.files, len(holding), tuple(scattered))


def _files_of(values: Iterable[Mapping[str, list[Literal]]], ranges: FileRanges) -> frozenset[int]:
    """The numbers of the files that can hold a row which has one of the values in each column."""
    files = frozenset(range(ranges.files))
    for column, literals in (pair for each in values for pair in each.items()):
        of_column = ranges.holding(column, literals)
        files = files if of_column is None else files & of_column
    return files


def _few(
    frame: DataFrame, restriction: Restriction, keys: Callable[[str], Local | DataFrame]
) -> dict[str, list[Literal]] | None:
    """The values of keys that are not too many for words."""
    rows = keys(restriction.step)
    return literal_values(frame, restriction, rows) if isinstance(rows, Local) and rows.rows <= _MANY else None

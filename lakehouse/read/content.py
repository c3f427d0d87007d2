"""What a range of changes holds: the whole source, nothing, or the change data feed, with times and newest images."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql.types import StructField

from lakehouse.delta.commit_info import Commit
from lakehouse.spark.driver_rows import Local, is_empty
from lakehouse.spark.exactness import are_exact, inexact_in


@dataclass(frozen=True, slots=True)
class Times:
    """The times of a range of versions, in milliseconds since the epoch.

    Args:
        since: The time of the version after which the range begins; None if nothing was read before.
        of: The time of each version of the range; where everything is compared, that of the last one alone.
        upto: The time of its last version.
    """

    since: int | None
    upto: int
    of: Mapping[int, int] = field(default_factory=dict[int, int])


def times_of(commits: Iterable[tuple[int, int]], before: tuple[int, int] | None = None) -> dict[int, int]:
    """The time of each version: what its commit says, yet later by a millisecond than the version before at least.

    Args:
        commits: Versions and what their commits say, in the order of the versions; some may be missing.
        before: The version before them, and its time; None if nothing was read before.
    """
    times: dict[int, int] = {}
    for version, timestamp in commits:
        times[version] = timestamp if before is None else max(timestamp, before[1] + version - before[0])
        before = version, times[version]
    return times


CHANGE, VERSION, TIMESTAMP = "_change_type", "_commit_version", "_commit_timestamp"
INSERT, DELETE, BEFORE, AFTER = "insert", "delete", "update_preimage", "update_postimage"


def rows_after(images: Local, key: Sequence[str], columns: Sequence[str]) -> Local | None:
    """The source's rows with the keys of a range, at its end; None if the images may be inexact.

    None also if a key is NULL, because in SQL a unique key may be NULL in many rows.

    Args:
        images: The feed of the range.
        key: The columns that identify a row of the source, in each of the range's versions.
        columns: The source's columns.
    """
    if images.values(key) is None or not _tell_exactly(images, columns):
        return None
    key_columns = [images.column(column) for column in key]
    if any(column.null_count for column in key_columns):
        return None
    places, numbers = _newest(key_columns, images.arrow.column(VERSION))
    after = np.isin(images.arrow.column(CHANGE).to_numpy(), (INSERT, AFTER))[places]
    if np.bincount(numbers[after]).max(initial=0) > 1:
        return None  # the key does not identify a row after all
    return images.take(places[after]).select(columns)


def _newest(key: Sequence[Any], versions: Any) -> tuple[Any, Any]:
    """The places of the images of each key's newest version, and the number of the key of each image."""
    names = [str(index) for index, _ in enumerate(key)]
    table: Any = pa.table([*key, versions, pa.array(np.arange(len(versions)))], names=[*names, "version", "place"])
    table = table.sort_by([*((name, "ascending") for name in names), ("version", "descending")]).combine_chunks()
    begins = np.zeros(len(table), bool)
    begins[:1] = True
    for name in names:
        values = table.column(name)
        begins[1:] |= pc.not_equal(values[1:], values[:-1]).to_numpy()
    numbers: Any = np.cumsum(begins) - 1
    of_image = table.column("version").to_numpy()
    is_newest = of_image == of_image[begins][numbers]
    return table.column("place").to_numpy()[is_newest], numbers[is_newest]


def _tell_exactly(images: Local, columns: Sequence[str]) -> bool:
    """Whether the values of the feed equal those of the source."""
    kinds = {field.name.lower(): field.dataType for field in images.schema.fields}
    return all(are_exact(images.arrow.column(column), kinds[column.lower()]) for column in columns)


@dataclass(frozen=True, slots=True)
class Everything:
    """The whole source counts as inserted: a first read, or a comparison of everything.

    Args:
        reason: Why the known position is not continued; None at a first read.
        newest: The commit of the version that is read; None if it was cleaned up.
    """

    reason: str | None = None
    newest: Commit | None = None

    @property
    def committed(self) -> int:
        """When the version that is read was committed, in milliseconds since the epoch."""
        return 0 if self.newest is None else self.newest.timestamp


@dataclass(frozen=True, slots=True)
class Nothing:
    """No row changed in the range.

    Args:
        since: The digest of the commit that was read last; None if it is not known.
    """

    since: str | None = None


@dataclass(frozen=True, slots=True)
class Feed:
    """The change data feed of the range.

    Args:
        rows: The rows that changed, with the feed's three columns; at the driver if they are few.
        via: How they were read if the plain feed could not answer; None if it could.
        commits: The commits that were read; none if an archive has them.
        archived: Whether the rows come from an archive, and not from Delta's feed.
        newest: The commit at the end of the range, if an archive has the range; None if that was cleaned up.
    """

    rows: DataFrame | Local
    via: str | None = None
    commits: tuple[Commit, ...] = ()
    archived: bool = False
    newest: Commit | None = None

    @property
    def frame(self) -> DataFrame:
        return self.rows.frame if isinstance(self.rows, Local) else self.rows


def tells_otherwise(feed: Feed, columns: Iterable[StructField]) -> bool:
    """Whether the feed has a value in one of the columns that may be another one in the table.

    An expression over such a value may give a key that no row has.
    """
    inexact = inexact_in(columns)
    return inexact is not None and not is_empty(feed.frame.where(inexact))


Content: TypeAlias = Everything | Nothing | Feed

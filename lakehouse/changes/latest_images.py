"""The rows of a source from the images in its change data feed, without reading the source.

If the columns of the touched keys identify a row, the newest image of each key is its row, or shows that it was
deleted. A projection of a keyed source therefore costs as much as its feed holds, whatever the size of the source's
files.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakehouse.frames.driver_rows import Local
from lakehouse.frames.exactness import are_exact

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

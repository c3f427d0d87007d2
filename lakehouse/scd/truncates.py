"""What a result of `type1` says of itself: that its events must have held every truncate, whatever its key.

Touched rows have the truncates only if `touched(also=...)` was asked for them; otherwise a later run would bring back
what a truncate took away. So the key's columns carry the condition until the result is written.
"""

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from lakehouse.sql.text import quote

_MARK = "lakehouse.apply_as_truncates"


def with_truncates(frame: DataFrame, keys: tuple[str, ...], condition: str) -> DataFrame:
    """The frame, whose key columns say by which condition events were applied as truncates."""
    return _with_metadata(frame, {key: {**frame.schema[key].metadata, _MARK: condition} for key in keys})


def truncates_of(schema: StructType) -> str | None:
    """The condition by which events were applied as truncates; None if none were."""
    return next((field.metadata[_MARK] for field in schema.fields if _MARK in field.metadata), None)


def without_mark(frame: DataFrame) -> DataFrame:
    """The frame as a table is to hold it."""
    marked = {field.name: dict(field.metadata) for field in frame.schema.fields if _MARK in field.metadata}
    for metadata in marked.values():
        del metadata[_MARK]
    return _with_metadata(frame, marked) if marked else frame


def _with_metadata(frame: DataFrame, metadata: dict[str, dict[str, Any]]) -> DataFrame:
    return frame.select(
        *(
            F.col(quote(name)).alias(name, metadata=metadata[name]) if name in metadata else F.col(quote(name))
            for name in frame.columns
        )
    )

"""A write accepts what a table can be written from, and refuses anything else where it is created."""

from typing import Any

import pandas as pd
import pytest

from lakehouse import Aggregate, Append, History, Merge, Overwrite, Snapshot
from tests.support.for_each import for_each
from tests.support.rows_without_spark import UNREAD_KEYS, UNREAD_ROWS

WRONG: list[tuple[Any, tuple[Any, ...], str]] = [
    (Append, ([{"a": 1}],), "The argument `rows` of Append is a DataFrame of Spark, and not: list."),
    (Overwrite, (None,), "The argument `rows` of Overwrite is a DataFrame of Spark, and not: NoneType."),
    (
        Merge,
        (pd.DataFrame(), UNREAD_KEYS),
        "a DataFrame of Spark, or the Events of scd.type1 and scd.type2, and not: DataFrame of pandas.",
    ),
    (
        Merge,
        (UNREAD_KEYS, UNREAD_ROWS),
        "a DataFrame of Spark, or the Events of scd.type1 and scd.type2, and not: Touched.",
    ),
    (Merge, (UNREAD_ROWS, "id"), r"touched keys, as changes.touched\(...\) gives them, and not: str."),
    (Snapshot, ("rows", 1), "The argument `rows` of Snapshot is a DataFrame of Spark, and not: str."),
    (History, (UNREAD_ROWS,), "the Changes of an input, or a Snapshot, and not: DataFrame of pyspark."),
    (Aggregate, (None, "k", "n", ["v"]), "sums are a mapping from columns to SQL texts, not"),
]


@for_each("write, arguments, text", WRONG)
def test_an_argument_of_another_type_is_refused(write: Any, arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        write(*arguments)

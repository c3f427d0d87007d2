"""`touched_by`: the keys of a query's result that changes of its tables touch, for assets that write rows in Python."""

from collections.abc import Sequence
from typing import Any, cast

from pyspark.sql import DataFrame

from lakehouse.delta.text import quote
from lakehouse.errors import ReadError
from lakehouse.read.changes import Changes, read_of
from lakehouse.read.content import SourceRead, Use
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import EveryKey, SomeKeys
from lakehouse.spark.driver_rows import Local
from lakehouse.views.on_spark.running import PinnedTable
from lakehouse.views.view_text import ViewText


def touched_by(sql: str, keys: str | Sequence[str], /, **tables: Changes | DataFrame) -> Touched:
    """The keys of the rows that a query's result gained or lost because its tables changed.

    No key is left out, whatever the query: outer joins, joins of a table with itself, windows. A key may combine
    columns of several tables that changed together.

    Args:
        sql: One query of Spark SQL over the tables.
        keys: The columns of the key in the query's result.
        tables: The tables by the names that the query has for them. A `DataFrame` is a snapshot, whose changes touch
            no key.

    Raises:
        ReadError: No changes are given, or no column is named.
        ViewError: Changes cannot be followed through the query, or the query names other tables.
    """
    columns = (keys,) if isinstance(keys, str) else tuple(keys)
    reads = {name: read_of(table) for name, table in tables.items() if isinstance(table, Changes)}
    if not columns or not reads:
        raise ReadError("touched_by() needs the columns of a key, and the changes of at least one source.")
    if not isinstance(cast("Any", sql), str):
        raise TypeError(f"touched_by() takes a query as SQL text, and not: {type(sql).__name__}.")
    for read in reads.values():
        read.uses.add(Use.KEYS)
    return _touched_keys(
        ViewText(sql), columns, reads, {name: table for name, table in tables.items() if name not in reads}
    )


def _touched_keys(
    text: ViewText, columns: tuple[str, ...], reads: dict[str, SourceRead], snapshots: dict[str, Any]
) -> Touched:
    from lakehouse.views.algebra import Query
    from lakehouse.views.input_refusals import refuse_other_inputs
    from lakehouse.views.on_spark.bound_text import BoundText
    from lakehouse.views.on_spark.computing import find_keys, number_of, touched_keys
    from lakehouse.views.query import names_in
    from lakehouse.views.view_text import NotFollowedError

    refuse_other_inputs(text, {**reads, **snapshots}, "touched_by")
    every: dict[str, PinnedTable] = {**reads, **snapshots}
    tables = {name: every[text.input_of(name)] for name in names_in(text.text)}
    spark = next(iter(reads.values())).source.sparkSession
    bound = BoundText.of(spark, text, tables)
    try:
        read = bound.analysis.read
        plan = bound.plan(columns) if isinstance(read, Query) and read.why_whole is None else None
    except NotFollowedError:
        plan = None
    if bound.whole is not None or plan is None or plan.whole:
        return Touched(columns, EveryKey(), None, tuple(reads.values()))
    match find_keys(bound, plan):
        case None:
            none = SomeKeys(columns, Local.empty(bound.rows.select(*map(quote, columns))), 0)
            return Touched(columns, none, None, tuple(reads.values()))
        case str():
            return Touched(columns, EveryKey(), None, tuple(reads.values()))
        case of_step:
            touched = touched_keys(bound, plan, bound.rows, of_step, number_of(of_step))
            assert touched is not None, "the query's own columns have the types of its keys"
            return touched

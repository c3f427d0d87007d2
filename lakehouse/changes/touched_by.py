"""The touched keys of a query whose key takes columns of several sources."""

from collections.abc import Callable, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.changes.changes import LOG_NAMES, Changes
from lakehouse.changes.content import Feed, tells_otherwise
from lakehouse.changes.latest_images import BEFORE, CHANGE, DELETE
from lakehouse.changes.touched import Touched, require
from lakehouse.changes.touched_keys import EveryKey, KeyRows, SomeKeys, UnreadRows
from lakehouse.errors import ReadError
from lakehouse.frames.driver_rows import Local
from lakehouse.frames.exactness import may_be_exact
from lakehouse.sql.text import quote


def touched_by(query: Callable[..., DataFrame], keys: str | Sequence[str], *changes: Changes) -> Touched:
    """The keys that rows of `query(*sources)` had or have because one of the sources changed.

    For each source the query is computed of its changed rows, before and after, beside the other sources as they are
    and as they were. So no key is left out, although a key may take columns of sources that changed together.

    Args:
        query: Takes a DataFrame for each of `changes`, in their order, and gives rows with the keys: inner joins,
            filters and projections. (Of an outer join a key may lack the side that is not there.)
        keys: The columns of the key in the query's result.
        changes: The sources.

    Raises:
        ReadError: No source, or no column is named.
        ColumnMissingError: The query's result lacks a column of the key.
    """
    columns = (keys,) if isinstance(keys, str) else tuple(keys)
    if not columns or not changes:
        raise ReadError("touched_by() needs the columns of a key, and the changes of at least one source.")
    now = query(*(of.whole for of in changes))
    require(now.columns, columns, "the result of touched_by()'s query")
    inputs = tuple(of.name for of in changes)
    if any(of.is_initial or _tells_otherwise(of) for of in changes):
        return Touched(columns, EveryKey(), None, inputs)
    both = [_now_and_before(of) for of in changes]
    touched = SomeKeys(columns, Local.empty(now.select(*map(quote, columns))), 0)
    for place, of in enumerate(changes):
        if not of.is_empty:
            of_changed = query(*both[:place], of.feed.drop(*LOG_NAMES), *both[place + 1 :])
            touched = touched.union(SomeKeys(columns, _rows(of_changed.select(*map(quote, columns)), changes)))
    return Touched(columns, touched, None, inputs)


def _rows(frame: DataFrame, changes: Sequence[Changes]) -> KeyRows:
    """Rows that may be brought to the driver where no feed has to be read for them."""
    unread = any(isinstance(of.content, Feed) and not isinstance(of.content.rows, Local) for of in changes)
    return UnreadRows(frame) if unread else frame


def _tells_otherwise(changes: Changes) -> bool:
    """Whether a value of the feed may be another one in the source, from which the query computes another key.

    A type that is never exact, such as MAP, does not count: nobody knows whether the query makes keys of it.
    """
    content = changes.content
    return isinstance(content, Feed) and tells_otherwise(content, filter(may_be_exact, content.frame.schema.fields))


def _now_and_before(changes: Changes) -> DataFrame:
    """The source's rows at the end of the range, and those that it no longer has."""
    if changes.is_empty:
        return changes.whole
    removed = changes.feed.where(F.col(CHANGE).isin(DELETE, BEFORE)).drop(*LOG_NAMES)
    return changes.whole.unionByName(removed)

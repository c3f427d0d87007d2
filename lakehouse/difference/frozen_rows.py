"""The rows outside of `Table(owns=...)`: no row changes sides unnoticed, and nothing is computed for their keys.

The row of a key can be owned in the result and frozen in the table only where columns outside the key decide.
"""

from collections.abc import Sequence
from dataclasses import replace
from logging import WARNING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from lakehouse.delta.commit_info import count_of
from lakehouse.delta.owned import Owned, RowCondition
from lakehouse.delta.text import quote, same
from lakehouse.errors import WriteError
from lakehouse.read.run import Run
from lakehouse.read.touched import Touched
from lakehouse.read.touched_keys import EveryKey, SomeKeys, UnreadRows
from lakehouse.spark.driver_rows import Local, collect_all, compute_once
from lakehouse.spark.progress import FrozenUnread, KeysLeftAlone, Message, tell
from lakehouse.spark.table_version import TableVersion

_SHOWN = 3
"""How many keys a message names."""


def refuse_changed_sides(run: Run, rows: DataFrame, stored: DataFrame) -> None:
    """Refuses a key whose row in the result is owned and whose row in the table is frozen, or the reverse.

    There can be one only where columns outside the key decide. `rows` and `stored` are the rows of the keys that the
    write is about.

    Raises:
        WriteError (CHANGED_SIDES): There is such a key.
    """
    if run.owned is None or not run.may_change_sides:
        return
    key, is_owned = run.table.key_columns, F.coalesce(F.expr(run.owned.predicate()), F.lit(False))
    names = [f"__key_{place}" for place in range(len(key))]
    columns = [F.col(quote(name)) for name in key]
    result = rows.select(*columns, is_owned.alias("__comes"))
    in_table = stored.select(
        *(column.alias(name) for column, name in zip(columns, names, strict=True)), is_owned.alias("__is")
    )
    on = F.expr(" AND ".join(same(quote(column), name) for column, name in zip(key, names, strict=True)))
    moved = result.join(in_table, on).where("__comes <> __is")
    shown = [F.col(quote(name)).cast("string").alias(name) for name in key]
    examples = moved.select(*shown, "__comes").limit(_SHOWN).collect()
    if examples:
        keys = ["; ".join(f"{name}={'NULL' if row[name] is None else row[name]}" for name in key) for row in examples]
        raise WriteError.changed_sides(run.name, str(run.owned), keys, enters=bool(examples[0]["__comes"]))


def without_frozen(run: Run, touched: Touched) -> Touched:
    """The touched keys without those whose rows are frozen, where the keys show it. Reports how many are left out."""
    match touched.touched:
        case SomeKeys() as keys if run.owned is not None and keys.values != []:
            owned = _of_owned(run, keys.distinct, touched.columns)
            if owned is None:
                return touched
            if keys.values is None:
                rows = owned if touched.few else UnreadRows(owned)
            else:
                rows = collect_all(owned)
                tell(KeysLeftAlone(len(keys.values) - rows.rows))
            return replace(touched, touched=SomeKeys(keys.columns, rows, keys.most))
        case SomeKeys() | EveryKey():
            return touched


def owned_keys(run: Run, keys: DataFrame, names: Sequence[str]) -> DataFrame:
    """The keys without those whose rows are frozen; `names` are the names of their columns in the table."""
    return _of_owned(run, keys, names) or keys


def _of_owned(run: Run, keys: DataFrame, names: Sequence[str]) -> DataFrame | None:
    """The keys whose rows may be owned; None if the keys do not show it.

    They show it if the table has their columns in the same types, and no text among them: a text of a feed differs from
    the table's where bytes are not UTF-8. Where a row can change sides, the keys that a frozen row leaves matter too.
    """
    if run.owned is None or run.head is None or run.may_change_sides or not run.owned.follows_from(names):
        return None
    stored = TableVersion.of(keys.sparkSession, run.ref, run.head).rows().schema
    of_table = {field.name.lower(): field.dataType for field in stored.fields}
    own = {name.lower(): field.dataType for name, field in zip(names, keys.schema.fields, strict=True)}
    if any(own[name] != of_table.get(name) or isinstance(own[name], StringType) for name in run.owned.columns):
        return None
    named = keys.toDF(*names)
    if run.owned.before is not None:
        named = _tell_unread(run, run.owned, run.owned.before, named)
    return named.where(run.owned.predicate()).toDF(*keys.columns)


def _tell_unread(run: Run, owned: Owned, before: RowCondition, keys: DataFrame) -> DataFrame:
    """The keys without those frozen before the last commit. Reports the keys that froze since, if they are few."""
    was_owned = "".join(before.pieces)
    rows = compute_once(keys.where(f"({was_owned}) OR ({owned})"), few=True)
    if not isinstance(rows, Local):
        return rows
    unread = collect_all(rows.frame.where(f"NOT coalesce({owned}, FALSE)"))
    if unread.rows:
        tell(FrozenUnread(unread.rows))
        examples = [", ".join(map(str, row.values())) for row in unread.arrow.slice(0, _SHOWN).to_pylist()]
        tell(
            Message(
                f"{count_of(unread.rows, 'key')} of {run.name} froze with changes that no run has read (for example "
                f"{'; '.join(examples)}). To read them, thaw {was_owned}.",
                WARNING,
            )
        )
    return rows.frame

"""Which rows of a table with `Table(owns=...)` a run may rewrite, and which tables cannot have `owns`.

Law: within its condition, the table equals its query over the versions read; outside, no run changes, adds or removes
a row.
"""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime

from pyspark.sql.types import StructType, TimestampType

from lakehouse.cursor.cursor import Cursor, Known
from lakehouse.cursor.definition import declares_owned
from lakehouse.cursor.walk import Past, readable_mark
from lakehouse.delta.log import Log, commit_at
from lakehouse.delta.owned import Owned, RowCondition, moment_of
from lakehouse.delta.table import Table
from lakehouse.delta.text import fold
from lakehouse.errors import DefinitionError
from lakehouse.read.asset import UNREAD, Asset, PastRows
from lakehouse.read.run import Run
from lakehouse.spark.types import char_type
from lakehouse.views.sql.owned_text import owned_at, read_owned


def owned_rows(
    asset: Asset, cursor: Cursor, log: Log, moment: datetime, thaw: str | None, *, is_empty: bool
) -> Owned | None:
    """The rows that a run may rewrite; None if it may rewrite all.

    A table without a row has no past yet, so the run that begins it computes all that its sources have.

    Raises:
        DefinitionError (CONDITION): A text is not a condition on one row.
    """
    last = cursor.mark.owned if isinstance(cursor, Known) else None
    moment = moment if last is None else max(moment, datetime.fromisoformat(last["moment"]))
    owns = str(asset.table.owns)
    owned = owned_at(asset.name, owns, moment, None if thaw == UNREAD else thaw)
    before = _before(asset.name, cursor, log, owns)
    if before is not None and before.pieces != owned.condition.pieces:
        thawed = replace(before, text="".join(before.pieces)) if thaw == UNREAD else owned.thaw
        owned = replace(owned, before=before, thaw=thawed)
    return None if is_empty else owned


def _before(asset: str, cursor: Cursor, log: Log, owns: str) -> RowCondition | None:
    """The condition of owned rows at the last commit, whose text may have been another; None if it is not known.

    The run that begins a table owns all of its rows, so its mark has no moment: rows freeze from its commit on.
    """
    match cursor:
        case Known(mark=mark) if mark.owned is not None:
            return read_owned(asset, mark.owned["where"], datetime.fromisoformat(mark.owned["moment"]))
        case Known(mark=mark, version=version) if declares_owned(mark.definition, owns):
            begun = commit_at(log, version)
            return None if begun is None else read_owned(asset, owns, moment_of(begun.timestamp / 1000))
        case _:
            return None


def rewritable_since(past: Past, asset: str, version: int, newest: Mapping[str, str]) -> tuple[int, str]:
    """A version, and the condition that holds for all rows that runs can have rewritten since.

    A later moment owns no more rows than an earlier one, so the earliest moment of each condition covers all moments.

    Args:
        past: The commits of the table.
        asset: The asset's name.
        version: The earliest version that is asked about.
        newest: The owned rows, as the newest mark of the asset records them.
    """
    earliest = {newest["where"]: newest["moment"]}
    for commit in past.back(after=version):
        mark = readable_mark(commit, asset)
        if commit.operation == "RESTORE" or (mark is not None and mark.owned is None):
            version = commit.version
            break
        if mark is not None and mark.owned is not None:
            texts, moment = mark.owned, mark.owned["moment"]
            for text in filter(None, (texts["where"], texts.get("thaw"))):
                earliest[text] = min(moment, earliest.get(text, moment))
    conditions = (read_owned(asset, text, datetime.fromisoformat(moment)) for text, moment in earliest.items())
    return version, " OR ".join(f"({''.join(each.pieces)})" for each in conditions)


def refuse_owned(asset: str, table: Table, past: PastRows, why_all_rows: str | None, *, is_partitioned: bool) -> None:
    """Refuses `owns` for a table whose past rows stay anyway, or whose frozen rows a run could not leave alone.

    Raises:
        DefinitionError: The table cannot have `owns`.
        DefinitionError (CONDITION): The text is not a condition on one row, or rows could come back into it.
    """
    why, remedy = _why_not_owned(past), "Leave owns out"
    if why is None and is_partitioned:
        why = "a run writes its own partitions alone, so the others stay as they are"
    elif why is None and not read_owned(asset, str(table.owns)).columns <= fold(table.key_columns):
        why, remedy = why_all_rows or _why_by_key(table), "Let owns go by columns of the key, which then decides"
    if why is not None:
        raise DefinitionError(f"Asset '{asset}' declares owns={table.owns!r}, but {why}. {remedy}.")


def _why_by_key(table: Table) -> str | None:
    """Why a condition on other columns than those of the key may part the rows of a key; None if it may do so."""
    by_key = (each for each in table.expectations if each.quarantines or each.is_of_key)
    return next((f"{each.check_name} goes by keys" for each in by_key), None)


def _why_not_owned(past: PastRows) -> str | None:
    """Why a condition cannot decide which rows runs may rewrite, as a clause; None if it can."""
    match past:
        case PastRows.COMPUTED:
            return None
        case PastRows.DELIVERED:
            return "an extract says of each row whether it is there, within its Snapshot(scope=...)"
        case PastRows.APPENDED:
            return "an Append never rewrites a row, so all of its past stays"
        case PastRows.KEPT:
            return "a History keeps its past by itself, whatever its source forgets"


_OF_TYPES = ":now goes with a timestamp alone, and :today with every other type"


def refuse_unknown_columns(run: Run, schema: StructType) -> None:
    """Refuses a condition on a column that the table lacks, or whose values a session or Delta may compare otherwise.

    Raises:
        DefinitionError (CONDITION): The condition is on such a column; or it thaws some rows of a key, and not all.
    """
    kinds = {field.name.lower(): field.dataType for field in schema.fields}
    padded = {field.name.lower(): kind for field in schema.fields if (kind := char_type(field)) is not None}
    thaw = None if run.request.thaw == UNREAD else run.request.thaw
    for text in filter(None, (run.table.owns, thaw)):
        condition = read_owned(run.name, text)
        for column in condition.columns - kinds.keys():
            why = f"its table has no column {column}. It has {', '.join(schema.names)}"
            raise DefinitionError.condition(run.name, text, why)
        for column in condition.columns & padded.keys():
            why = f"{column} is a {padded[column]}, which Delta compares without its blanks. Make it a STRING"
            raise DefinitionError.condition(run.name, text, why)
        by_key = _why_by_key(run.table)
        if by_key is not None and not condition.columns <= fold(run.table.key_columns):
            why = f"{by_key}, and the key ({', '.join(run.table.key_columns)}) does not decide it"
            raise DefinitionError.condition(run.name, text, why)
        for column, edge in condition.moving:
            if isinstance(kinds[column], TimestampType) != (edge == "now"):
                why = (
                    f"another time zone of a session would move its edge: {column} is a {kinds[column].simpleString()}"
                )
                raise DefinitionError.condition(run.name, text, f"{why}, and {_OF_TYPES}")

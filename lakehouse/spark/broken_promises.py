"""How a promise of a write can be broken: a text, as SQL for a plan, and the error that such a text becomes."""

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.delta.text import literal, quote
from lakehouse.errors import GO_ON_FROM, WriteError
from lakehouse.spark.diagnosis import causes, message

BROKEN = "lakehouse-broken-promise:"


class Breach(Enum):
    """How a promise can be broken: the closed set. The value is the `kind` in the text."""

    OUTSIDE = "outside"
    TWICE = "twice"
    NOT_APPENDED = "not appended"
    EMPTY = "empty"
    ELSEWHERE = "elsewhere"
    GONE = "gone"
    SEVERAL = "several"
    NULL_KEY = "null key"
    REQUIRED = "required"
    UNFIT = "unfit"
    EVENT = "event"


def breach_text(breach: Breach, **details: str) -> str:
    """The text of a broken promise whose details are known before the plan is computed."""
    return BROKEN + json.dumps({"kind": breach.value, **details})


def not_appended(source: str, version: Column, change: Column) -> Column:
    """The text to raise where a row of the feed that is read as appended was not appended."""
    begin = f'{BROKEN}{{"kind": "{Breach.NOT_APPENDED.value}", "source": {json.dumps(source)}, "version": '
    return F.concat(F.lit(begin), version.cast("string"), F.lit(', "change": "'), change, F.lit('"}'))


def broken_promise(asset: str, error: BaseException) -> WriteError | None:
    """The broken promise that an error of Spark reports; None if the error is about something else."""
    for cause in causes(error):
        text = message(cause)
        # It quotes the plan, not a row, and so do its own causes. PySpark does not know the conditions of some.
        if isinstance(cause, AnalysisException) or "AnalysisException: " in text.partition(BROKEN)[0]:
            return None
        problem = _problem_in(text)
        if problem is not None:
            return broken(asset, Breach(problem["kind"]), problem)
    return None


def broken(asset: str, breach: Breach, details: Mapping[str, Any]) -> WriteError:
    """A broken promise as an error."""
    key: Mapping[str, str | None] = details.get("key", {})
    where = ", ".join(f"{name}={'NULL' if value is None else value}" for name, value in key.items())
    match breach:
        case Breach.OUTSIDE:
            return WriteError.broken_promise(
                asset,
                f"has a row with {where}, which is not among its touched keys",
                "Compute the rows from touched.rows or touched.of(frame), so that they belong to touched keys.",
            )
        case Breach.TWICE:
            return WriteError.broken_promise(
                asset,
                f"has more than one row with the key {where}",
                "Aggregate or deduplicate the rows, or declare the finer key in Table(key=...).",
            )
        case Breach.NOT_APPENDED:
            return WriteError.broken_promise(
                asset,
                f"is of rows appended to '{details['source']}', whose version {details['version']} has changed others "
                f"({details['change']})",
                "Read them with touched() or net() instead of appended().",
            )
        case Breach.EMPTY:
            return WriteError.broken_promise(
                asset,
                f"is about a row with an empty text in column {details['column']}, which Delta would keep as NULL (as "
                f"it would '__HIVE_DEFAULT_PARTITION__'), because the table is partitioned by it",
                "Put another value in its place in an asset upstream of this one, or partition by another column.",
            )
        case Breach.ELSEWHERE:
            return WriteError.broken_promise(
                asset,
                "has a row whose key the table already holds outside the touched keys",
                "Touch the keys by columns that are a part of the table's key, or make Table(key=...) finer.",
            )
        case Breach.GONE:
            return WriteError.broken_promise(
                asset,
                "lacks rows that an earlier materialization appended",
                "An Append never removes rows; return an Overwrite or a Merge where rows can change.",
            )
        case Breach.SEVERAL:
            return WriteError.broken_promise(
                asset,
                f"follows a source that holds more than one row with {where} in one version",
                f"Name in Table(key=...) the columns that identify a row of the source. If the source has one row of "
                f"each key again, materialize once with the run tag {GO_ON_FROM}{asset}=now: the history takes the "
                f"rows of the source as they are then, and none of the changes before.",
            )
        case Breach.NULL_KEY:
            return WriteError.broken_promise(
                asset,
                f"is of an extract that has a row with NULL in its key ({where}), which names no row of the table",
                "Leave such rows out, or give them a key. If the extract is a CSV file, Spark has perhaps read a text "
                "as NULL: read the file with enforceSchema=False and mode='FAILFAST'.",
            )
        case Breach.REQUIRED:
            return WriteError.broken_promise(
                asset,
                f"has a row with NULL in column {details['column']}, which its statement declares NOT NULL, or a part "
                f"of the PRIMARY KEY",
                "Leave such rows out in the query, or give them a value there. TBLPROPERTIES ('lakehouse.key' = '...') "
                "in the place of PRIMARY KEY declares a key in which NULL is allowed.",
            )
        case Breach.UNFIT:
            return WriteError.broken_promise(
                asset,
                f"has a value in column {details['column']} that its declared type {details['type']} cannot hold",
                "Declare a wider type in the head of the statement, or leave such rows out in the query.",
            )
        case Breach.EVENT:
            return WriteError.bad_event(
                asset, details["rule"], details["key"], details["at"], tuple(details["columns"])
            )


def _problem_in(text: str) -> dict[str, Any] | None:
    """The details of a broken promise in the text of an error; None if it has none, or quotes a piece of a plan."""
    _, marker, json_text = text.partition(BROKEN)
    try:
        return json.JSONDecoder().raw_decode(json_text)[0] if marker else None
    except ValueError:
        return None


def breach_sql(breach: Breach, key: Mapping[str, str]) -> str:
    """The text of a broken promise about a key, as SQL; `key` has the SQL of each value by its column's name."""
    values = ", ".join(f"CAST({value} AS STRING) AS {quote(name)}" for name, value in key.items())
    begin = literal(f'{BROKEN}{{"kind": "{breach.value}", "key": ')
    return f"concat({begin}, to_json(struct({values}), map('ignoreNullFields', 'false')), '}}')"

"""Promises that are checked inside a plan: a row that breaks one raises a text that `BROKEN` marks.

`lakehouse/difference/broken_promises.py` finds the text in the error of Spark, and makes one of our errors of it.
"""

import json
from enum import Enum

from pyspark.sql import Column
from pyspark.sql import functions as F

BROKEN = "lakehouse-broken-promise:"


class Breach(Enum):
    """How a promise can be broken: the closed set, by the value that stands as `kind` in the text."""

    OUTSIDE = "outside"
    TWICE = "twice"
    NOT_APPENDED = "not appended"
    EMPTY = "empty"
    ELSEWHERE = "elsewhere"
    GONE = "gone"
    SEVERAL = "several"
    NULL_KEY = "null key"
    EVENT = "event"


def breach_text(breach: Breach, **details: str) -> str:
    """The text of a broken promise whose details are known before the plan is computed."""
    return BROKEN + json.dumps({"kind": breach.value, **details})


def not_appended(source: str, version: Column, change: Column) -> Column:
    """What is raised where a row of the feed, read as appended, is none."""
    begin = f'{BROKEN}{{"kind": "{Breach.NOT_APPENDED.value}", "source": {json.dumps(source)}, "version": '
    return F.concat(F.lit(begin), version.cast("string"), F.lit(', "change": "'), change, F.lit('"}'))

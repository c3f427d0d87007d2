"""Promises that are checked inside a plan: a row that breaks one raises a text that this prefix marks."""

import json

from pyspark.sql import Column
from pyspark.sql import functions as F

BROKEN = "lakehouse-broken-promise:"


def not_appended(source: str, version: Column, change: Column) -> Column:
    """What is raised where a row of the feed, read as appended, is none."""
    begin = f'{BROKEN}{{"kind": "not appended", "source": {json.dumps(source)}, "version": '
    return F.concat(F.lit(begin), version.cast("string"), F.lit(', "change": "'), change, F.lit('"}'))

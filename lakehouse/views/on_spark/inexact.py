"""Whether the change feeds tell the values from which the steps of a plan compute keys."""

import re
from collections.abc import Collection, Mapping

from pyspark.sql.types import StructField

from lakehouse.delta.text import fold
from lakehouse.read.content import Feed, SourceRead, tells_otherwise
from lakehouse.spark.driver_rows import Local
from lakehouse.spark.exactness import are_exact, may_be_exact
from lakehouse.views.algebra import Query, Scan, nodes_of
from lakehouse.views.on_spark.running import PinnedTable
from lakehouse.views.plan import CHANGES, Image, SourceRows, TouchedPlan

_LIST = re.compile(r"SELECT (?:DISTINCT )?\w+(?:, \w+)* FROM")
"""Columns that are handed on from one relation to the next."""


def why_every_key(query: Query, plan: TouchedPlan, tables: Mapping[str, PinnedTable]) -> str | None:
    """Why the keys of a plan may be others than those of the tables, as a clause; None if the feeds tell them."""
    for name, table in tables.items():
        if not isinstance(table, SourceRead) or not isinstance(table.content, Feed):
            continue
        used = _columns_of_changes(plan, name)
        fields = [field for field in table.content.frame.schema.fields if field.name.lower() in used]
        exact = [field for field in fields if may_be_exact(field)]
        if _may_differ(table.content, exact):
            return f"the change feed of '{table.name}' may tell other values than the table holds"
        for field in fields:
            if not may_be_exact(field) and _decides(query, plan, name, field.name):
                kind = field.dataType.simpleString()
                return f"keys are computed from the column {field.name} of '{table.name}', and no feed tells a {kind}"
    return None


def _columns_of_changes(plan: TouchedPlan, table: str) -> frozenset[str]:
    """The columns of a table's changes that the steps take, in lower case."""
    places = (place for step in plan.steps for place in step.sql if isinstance(place, SourceRows))
    of_changes = (place for place in places if place.table == table and place.image in CHANGES)
    return fold(column for place in of_changes for column in place.columns)


def _may_differ(feed: Feed, columns: Collection[StructField]) -> bool:
    """Whether a value may be another one in the table. Spark is asked only where the rows at the driver do not say."""
    images = feed.rows
    if isinstance(images, Local) and all(are_exact(images.column(one.name), one.dataType) for one in columns):
        return False
    return tells_otherwise(feed, columns)


def _decides(query: Query, plan: TouchedPlan, table: str, column: str) -> bool:
    """Whether a step computes with a column, and does not just list which rows moved. In doubt a step does."""
    scans = (node for node in nodes_of(query.root) if isinstance(node, Scan) and node.table == table)
    uniques = {unique for scan in scans for unique, own in scan.names.items() if own.lower() == column.lower()}
    own_name = re.compile(rf"\b{re.escape(column)}\b", re.IGNORECASE)
    for step in plan.steps:
        places = [place for place in step.sql if isinstance(place, SourceRows) and place.table == table]
        pairs = (pair for place in places for each in place.any_of for one in each for pair in one.pairs)
        if any(own_name.search(expression) for expression, _ in pairs):
            return True
        if any(place.image is Image.MOVED for place in places):
            continue
        texts = " ".join(_LIST.sub("", part) for part in step.sql if isinstance(part, str))
        if uniques & {*step.columns, *re.findall(r"\w+", texts)}:
            return True
        if any(column.lower() in fold(place.columns) for place in places):
            return True
    return False

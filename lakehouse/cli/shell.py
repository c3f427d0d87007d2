"""`lakehouse shell`: a Python prompt on the tables."""

import code
from argparse import ArgumentParser, Namespace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse.cli.answer import Answer
from lakehouse.cli.tables import tables_below
from lakehouse.cli.where import add_place, manager
from lakehouse.delta.location import scheme_of
from lakehouse.delta.text import quote

BANNER = """\
spark                               a session on the Spark that all runs share
tables()                            the names of the tables
table("gold/carrier_delays")        the rows of an asset's table, as a DataFrame
history("gold/carrier_delays")      its commits; the mark of each own one is in userMetadata
Ctrl-D ends.
"""


def add_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("--json", action="store_true", help="print what the prompt would know, and end")


def run(given: Namespace) -> Answer:
    tables = manager(given)
    names = at_hand(tables.session(), tables.root)
    if not given.json:
        code.interact(BANNER, local=names, exitmsg="")
    return Answer({"root": tables.root, "names": sorted(names)}, "")


def at_hand(spark: SparkSession, root: str) -> dict[str, Any]:
    """The names that the prompt knows, for tables below a root."""

    def tables() -> list[str]:
        return tables_below(root)

    def path(asset: str) -> str:
        if scheme_of(root) is None and asset not in tables():
            raise LookupError(f"There is no table {asset!r} below {root}. There are: {', '.join(tables()) or 'none'}.")
        return f"{root}/{asset}"

    def table(asset: str) -> DataFrame:
        return spark.read.format("delta").load(path(asset))

    def history(asset: str) -> DataFrame:
        return spark.sql(f"DESCRIBE HISTORY delta.{quote(path(asset))}")

    return {"spark": spark, "tables": tables, "table": table, "history": history}

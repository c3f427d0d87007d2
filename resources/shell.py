"""A Python prompt on the lakehouse's tables: `make shell`, or `python -m resources.shell`."""

import code
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from lakehouse import LakehouseError
from lakehouse.sql.text import quote
from resources.environments import declare_api, environment

BANNER = """\
spark                               a session on the Spark that all runs share
table("gold/carrier_delays")        the rows of an asset's table, as a DataFrame
history("gold/carrier_delays")      its commits; the mark of each own one is in userMetadata
Ctrl-D ends.
"""


def main() -> None:
    declare_api()
    try:
        resources = environment()
        names = at_hand(resources["spark"].spark_session, resources["io_manager"].root)
    except LakehouseError as error:
        sys.exit(str(error))
    code.interact(BANNER, local=names, exitmsg="")


def at_hand(spark: SparkSession, root: str) -> dict[str, Any]:
    """The names that the prompt knows, for tables below a root."""

    def table(asset: str) -> DataFrame:
        return spark.read.format("delta").load(f"{root}/{asset}")

    def history(asset: str) -> DataFrame:
        return spark.sql(f"DESCRIBE HISTORY delta.{quote(f'{root}/{asset}')}")

    return {"spark": spark, "table": table, "history": history}


if __name__ == "__main__":
    main()

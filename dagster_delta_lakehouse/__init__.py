"""The components of the library: what `dg scaffold defs dagster_delta_lakehouse.<name>` writes, and `defs.yaml` holds.

A component makes definitions from its YAML; `incremental` completes all those of a project, in its `definitions.py`.
Every command of `dg` imports this module, so before definitions are built only the library's declarations
(`lakehouse/delta`) are imported, which need neither PySpark nor Dagster.

Read: attributes, then sql_tables, delta_sources, one_lakehouse; yaml_assets.
"""

from dagster_delta_lakehouse.delta_sources import DeltaSources
from dagster_delta_lakehouse.one_lakehouse import Lakehouse
from dagster_delta_lakehouse.sql_tables import SqlTables
from dagster_delta_lakehouse.yaml_assets import Aggregate, History, Snapshot

__all__ = ["Aggregate", "DeltaSources", "History", "Lakehouse", "Snapshot", "SqlTables"]

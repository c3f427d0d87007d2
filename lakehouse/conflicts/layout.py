"""What conflicts depend on, read from a table's declaration."""

from lakehouse.conflicts.operations import Engine, Layout
from lakehouse.declare.isolation import Isolation
from lakehouse.declare.table import VECTORS, Table


def layout(table: Table, engine: Engine) -> Layout:
    """The layout of a table as declared; the rest has the defaults of a new table.

    Databricks gives deletion vectors to a clustered table. For other tables a workspace setting decides, so not here.
    """
    properties = {name.lower(): value for name, value in table.all_properties.items()}
    databricks = engine is Engine.DATABRICKS
    default = Isolation.WRITE_SERIALIZABLE if databricks else Isolation.SERIALIZABLE
    vectors = str(databricks and bool(table.cluster_columns))
    return Layout(
        partitioned=bool(table.partition_columns),
        clustered=bool(table.cluster_columns),
        isolation=table.isolation or default,
        deletion_vectors=properties.get(VECTORS.lower(), vectors).lower() == "true",
        identity="delta.feature.identitycolumns" in properties,
    )

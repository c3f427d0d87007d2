"""A lake whose tables have names in Spark's catalog instead of paths."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from pyspark.sql import Row, SparkSession

from lakehouse.spark.table_version import TableRef
from tests.support.lake import Lake


@dataclass
class Named(Lake):
    """Tables in one schema of the session's catalog, except those that are `elsewhere`."""

    elsewhere: dict[str, str] = field(default_factory=dict)

    @property
    def schema(self) -> str:
        return f"t{self.root.name}"

    def ref(self, name: str) -> TableRef:
        return TableRef.in_catalog(name, f"{self.elsewhere.get(name, self.schema)}.{name}")

    def sql(self, statement: str, **tables: str) -> list[Row]:
        names = {name: self.ref(name).identifier for name in ("src", "kept", "archive", "copy")}
        return super().sql(statement, **names, **tables)

    def directory(self, name: str) -> Path:
        found = self.spark.sql(f"DESCRIBE SCHEMA {self.schema}").where("info_name = 'Location'").first()
        assert found is not None
        return Path(found["info_value"].removeprefix("file:")) / name


@contextmanager
def named(spark: SparkSession, directory: Path) -> Iterator[Named]:
    """A lake in a schema that is dropped at the end of the block."""
    root = directory / uuid4().hex
    root.mkdir()
    lake = Named(spark, root)
    spark.sql(f"CREATE SCHEMA {lake.schema}")
    try:
        yield lake
    finally:
        spark.sql(f"DROP SCHEMA {lake.schema} CASCADE")

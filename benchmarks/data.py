"""Tables to measure on: built once into a cache, cloned for every contestant and every run."""

import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

ROWS_PER_FILE = 625_000
PROPERTIES = {"delta.enableChangeDataFeed": "true", "delta.enableDeletionVectors": "true"}
"""Of every table, ours and the rivals': downstream reads all of them incrementally, too."""
KEY = "id"


def cache() -> Path:
    """Where the tables are kept: LAKEHOUSE_BENCHMARKS, or a directory in the system's own temporary one."""
    named = os.environ.get("LAKEHOUSE_BENCHMARKS")
    root = Path(named) if named else Path(tempfile.gettempdir(), "lakehouse-benchmarks")
    root.mkdir(parents=True, exist_ok=True)
    return root


def rows(spark: SparkSession, count: int, columns: int) -> DataFrame:
    """Rows in the order of their key, every value a function of it: two columns (42 MB a million rows) or six (65)."""
    numbers = spark.range(0, count, 1, max(1, count // ROWS_PER_FILE))
    narrow = numbers.select(F.col("id"), (F.col("id") * 7 % 1_000_003).alias("value"))
    if columns == 2:
        return narrow
    return numbers.select(
        F.col("id"),
        (F.col("id") * 2_654_435_761 % 100_003).alias("customer"),
        (F.col("id") * 7 % 1_000_003).alias("value"),
        F.element_at(F.array(*map(F.lit, ("new", "paid", "sent", "done"))), (F.col("id") % 4 + 1).cast("int")).alias(
            "status"
        ),
        F.timestamp_seconds(F.lit(1_700_000_000) + F.col("id") % 31_536_000).alias("at"),
        F.sha1(F.col("id").cast("string")).alias("note"),
    )


def built(spark: SparkSession, count: int, columns: int) -> Path:
    """The directory of a table with so many rows, made on first use."""
    path = cache() / f"{count}x{columns}"
    if not path.exists():
        print(f"Building {count:,} rows x {columns} columns in {path} ...", flush=True)
        scratch = path.with_suffix(".part")
        shutil.rmtree(scratch, ignore_errors=True)
        rows(spark, count, columns).write.format("delta").options(**PROPERTIES).save(str(scratch))
        scratch.rename(path)
    return path


def clone(table: Path, to: Path) -> None:
    """A table of its own with the same rows, at no cost: its log is copied, its data files are hard links.

    Delta never changes a data file in place, so neither table sees what becomes of the other.
    """
    to.mkdir(parents=True)
    for path in sorted(table.rglob("*")):
        at = to / path.relative_to(table)
        if path.is_dir():
            at.mkdir(exist_ok=True)
        elif "_delta_log" in path.parts or "checkpoint" in path.parts:
            shutil.copy2(path, at)
        else:
            at.hardlink_to(path)


@dataclass(frozen=True, slots=True)
class Pair:
    """A source, a target that equals it, and room for what a contestant remembers between its steps."""

    root: Path

    @property
    def source(self) -> Path:
        return self.root / "source"

    @property
    def target(self) -> Path:
        return self.root / "target"

    @property
    def checkpoint(self) -> Path:
        return self.root / "checkpoint"

    @classmethod
    def of(cls, table: Path, root: Path) -> "Pair":
        clone(table, root / "source")
        clone(table, root / "target")
        return cls(root)


def name(table: Path) -> str:
    """The table as SQL names it."""
    return f"delta.`{table}`"

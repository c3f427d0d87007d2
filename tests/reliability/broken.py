"""A pipeline in plain Spark that keeps its position as the library does, and pipelines with one mistake each.

Each mistake is made in practice; the checker must see what it does to the tables.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar
from uuid import uuid4

from deltalake import DeltaTable
from pyspark.sql import DataFrame

from lakehouse.spark.progress import phase
from tests.support.lake import Lake

CHANGED = "_change_type IN ('insert', 'update_postimage')"


@dataclass
class Plain:
    """Keeps position, epoch and mark in the commit, and pins the range: right, but slower than the library.

    Args:
        lake: The tables.
        name: The table that it keeps: `archive` or `current`.
    """

    lake: Lake
    name: str
    source: ClassVar[str] = "src"
    side: Path = field(init=False)

    def __post_init__(self) -> None:
        self.side = self.lake.root.parent / f"cursor-{uuid4().hex}.json"

    def begin(self) -> Callable[[], None]:
        """Reads now; the function that it returns commits."""
        generation, epoch, after = self.position()
        base = self.lake.version(self.name) if self.exists() else -1
        upto = self.lake.version(self.source)
        if after >= upto:
            return lambda: None
        frame = self.feed(after, upto)

        def commit() -> None:
            at = self.end(upto)
            self.write(frame, self.mark(generation, epoch + 1, base, at), self.transaction(generation, epoch + 1, at))
            with phase("find in the log"):  # as the library does after its commit
                self.committed(at)

        return commit

    def run(self) -> None:
        self.begin()()

    def exists(self) -> bool:
        return (self.lake.root / self.name).is_dir()

    def position(self) -> tuple[str, int, int]:
        """The generation, its last epoch, and the last version read; goes back where a RESTORE went back."""
        generation, below = None, None
        for commit in reversed(self.lake.commits(self.name)) if self.exists() else ():
            if below is not None and commit.version > below:
                continue
            if commit.operation == "RESTORE":
                generation, below = generation or str(commit.version), commit.restored_version
            elif commit.user_metadata:
                mark = json.loads(commit.user_metadata)["lakehouse"]
                at = mark["reads"][self.source]["version"]
                return (generation, 0, at) if generation else (mark["generation"], mark["epoch"], at)
        return "0", 0, -1

    def feed(self, after: int, upto: int) -> DataFrame:
        if after < 0:
            frame = self.lake.spark.read.option("versionAsOf", str(upto)).table(self.lake.ref("src").identifier)
            return frame.selectExpr("*", "'insert' AS _change_type", f"bigint({upto}) AS _commit_version")
        reader = self.lake.spark.read.option("readChangeFeed", "true").option("startingVersion", str(after + 1))
        return reader.option("endingVersion", str(upto)).table(self.lake.ref("src").identifier)

    def end(self, upto: int) -> int:
        """The version up to which the mark will say that the source has been read."""
        return upto

    def mark(self, generation: str, epoch: int, base: int, upto: int) -> str:
        table = self.lake.source(self.source).head.table_id
        body = {"asset": self.name, "partition": None, "generation": generation, "epoch": epoch, "run": uuid4().hex}
        reads = {self.source: {"table": table, "version": upto}}
        return json.dumps({"lakehouse": body | {"attempt": uuid4().hex, "base": base, "reads": reads}})

    def transaction(self, generation: str, epoch: int, upto: int) -> tuple[str, int] | None:
        return f"{self.name}:{generation}", epoch

    def committed(self, upto: int) -> None:
        pass

    def changed(self, feed: DataFrame) -> DataFrame:
        """One row per touched id: its newest image, `gone` where it is no longer wanted."""
        feed.createOrReplaceTempView("feed")
        newest = "max_by(struct(*), struct(_commit_version, _change_type NOT IN ('delete', 'update_preimage')))"
        return feed.sparkSession.sql(
            f"SELECT r.id, r.k, r.v, r.token, r._change_type = 'delete' OR r.v >= 50 AS gone "
            f"FROM (SELECT {newest} AS r FROM feed GROUP BY id)"
        )

    def write(self, feed: DataFrame, mark: str, transaction: tuple[str, int] | None) -> None:
        if self.name == "archive":
            rows = feed.where(CHANGED).selectExpr("id", "token", "_commit_version AS commit_version")
            self.append(rows, mark, transaction)
        elif not self.exists():
            self.append(self.changed(feed).where("NOT gone").drop("gone"), mark, transaction)
        else:
            self.merge(
                self.changed(feed),
                "t.id = s.id WHEN MATCHED AND s.gone THEN DELETE WHEN MATCHED THEN UPDATE SET * "
                "WHEN NOT MATCHED AND NOT s.gone THEN INSERT (id, k, v, token) VALUES (s.id, s.k, s.v, s.token)",
                mark,
                transaction,
            )

    def append(self, rows: DataFrame, mark: str, transaction: tuple[str, int] | None) -> None:
        options = {"userMetadata": mark}
        if transaction is not None:
            options |= {"txnAppId": transaction[0], "txnVersion": str(transaction[1])}
        rows.write.format("delta").mode("append").options(**options).save(str(self.lake.root / self.name))

    def merge(self, rows: DataFrame, what: str, mark: str, transaction: tuple[str, int] | None) -> None:
        """A MERGE of rows `s` into the table `t`, in a session of its own: mark and transaction are its settings."""
        rows.createOrReplaceGlobalTempView("changed")
        own = self.lake.spark.newSession()
        own.conf.set("spark.databricks.delta.commitInfo.userMetadata", mark)
        if transaction is not None:
            own.conf.set("spark.databricks.delta.write.txnAppId", transaction[0])
            own.conf.set("spark.databricks.delta.write.txnVersion", str(transaction[1]))
        own.sql(f"MERGE INTO {self.lake.ref(self.name).identifier} t USING global_temp.changed s ON {what}").collect()


class SideFile(Plain):
    """The cursor is a file outside the table, written after the commit."""

    def position(self) -> tuple[str, int, int]:
        generation, epoch, _ = super().position()
        after: int = json.loads(self.side.read_text()) if self.side.exists() else -1
        return generation, epoch, after

    def committed(self, upto: int) -> None:
        self.side.write_text(json.dumps(upto))


class SourceVersion(Plain):
    """The transaction's version is the source's version, and the cursor is read from the table's transaction."""

    def position(self) -> tuple[str, int, int]:
        after = DeltaTable(self.lake.root / self.name).transaction_version("archive:0") if self.exists() else None
        return "0", -1 if after is None else after, -1 if after is None else after

    def transaction(self, generation: str, epoch: int, upto: int) -> tuple[str, int] | None:
        return f"{self.name}:{generation}", upto


class NoEpoch(Plain):
    """The commit carries its position and nothing that another run would contend for."""

    def transaction(self, generation: str, epoch: int, upto: int) -> tuple[str, int] | None:
        return None


class LatestTwice(Plain):
    """The latest version is looked up when the range is read, and once more when the position is recorded."""

    def end(self, upto: int) -> int:
        return self.lake.version(self.source)


class FilteredFeed(Plain):
    """The asset's filter is applied to the changes, before it is known which keys they touched."""

    def changed(self, feed: DataFrame) -> DataFrame:
        return super().changed(feed.where("v < 50"))


class NettedAway(Plain):
    """A key that was both deleted and inserted in the range is treated as unchanged."""

    def changed(self, feed: DataFrame) -> DataFrame:
        feed.createOrReplaceTempView("feed")
        kinds = "collect_set(_change_type)"
        both = f"array_contains({kinds}, 'delete') AND array_contains({kinds}, 'insert')"
        cancelled = feed.sparkSession.sql(f"SELECT id FROM feed GROUP BY id HAVING {both}")
        return super().changed(feed.join(cancelled, "id", "left_anti"))

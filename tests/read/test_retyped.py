"""Whether a type was changed, by the log alone: for ranges that begin with the table as for any others."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from lakehouse.read.feed_trust import why_retyped
from lakehouse.spark.table_version import TableRef, TableVersion
from tests.commit.test_situation import NO_SPARK


def made(directory: Path, *fields: dict[str, Any]) -> FileLog:
    """A table with a column `v`, and a commit for each later description of the column."""
    write_deltalake(str(directory), pa.table({"v": pa.array([1], pa.int32())}))
    log = directory / "_delta_log"
    lines = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    (described,) = [line["metaData"] for line in lines if "metaData" in line]
    for version, field in enumerate(fields, 1):
        column = {"name": "v", "type": "integer", "nullable": True, "metadata": {}} | field
        info = {"timestamp": version, "operation": "CHANGE COLUMN", "operationParameters": {"column": "{}"}}
        schema = json.dumps({"type": "struct", "fields": [column]})
        actions = [{"commitInfo": info}, {"metaData": described | {"schemaString": schema}}]
        (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, actions)))
    return FileLog(Location(str(directory)), "src")


def why(log: FileLog, directory: Path, oldest: int) -> str | None:
    head = log.head()
    assert head is not None
    commits = tuple(sorted(log.commits(head.version, oldest), key=lambda commit: commit.version))
    at = TableVersion(NO_SPARK, TableRef.at_path("src", str(directory)), head.table_id, head.version)
    return why_retyped(log, commits, at, head)


@pytest.mark.parametrize("oldest", [0, 1])
def test_a_comment_retypes_nothing_since_whichever_version(tmp_path: Path, oldest: int) -> None:
    assert why(made(tmp_path / "src", {"metadata": {"comment": "x"}}), tmp_path / "src", oldest) is None


@pytest.mark.parametrize("oldest", [0, 1])
def test_a_wider_type_is_told_since_whichever_version(tmp_path: Path, oldest: int) -> None:
    log = made(tmp_path / "src", {"type": "long"})
    assert why(log, tmp_path / "src", oldest) == "the type of v was changed"


def test_without_a_commit_nothing_is_told_of_a_table_that_may_widen_its_types(tmp_path: Path) -> None:
    log = made(tmp_path / "src")
    head = log.head()
    assert head is not None
    head = replace(head, properties={"delta.enableTypeWidening": "true"})
    at = TableVersion(NO_SPARK, TableRef.at_path("src", str(tmp_path / "src")), head.table_id, head.version)
    assert head.widens_types and why_retyped(log, (), at, head) is None

"""`lakehouse show`: what deltalake reads of a table is what Spark reads; other tables are read by Spark."""

import json
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.cli.main import main
from lakehouse.cli.table_rows import _plain  # pyright: ignore[reportPrivateUsage]
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Location
from tests.support.marked_tables import append

COLUMNS = """id INT, name STRING, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, price DECIMAL(10, 2), share DOUBLE,
    raw BINARY, is_open BOOLEAN, tags ARRAY<STRING>, place STRUCT<city: STRING, zip: INT>"""
ROWS = """SELECT INT(id) AS id, IF(id % 5 = 0, NULL, CONCAT('n', id)) AS name, DATE'2026-01-01' + INT(id % 3) AS day,
    TIMESTAMP'2026-01-01 12:00:00.123456' + MAKE_INTERVAL(0, 0, 0, INT(id)) AS at,
    TIMESTAMP_NTZ'2026-01-01 12:00:00' AS local, DECIMAL(id) / 4 AS price, id / 3D AS share, X'00FF' AS raw,
    id % 2 = 0 AS is_open, ARRAY(CONCAT('t', id), NULL) AS tags, NAMED_STRUCT('city', 'x', 'zip', INT(id)) AS place
    FROM range(40)"""


def rows_of_spark(spark: SparkSession, path: Path, version: int) -> list[Any]:
    frame: Any = spark.read.format("delta").option("versionAsOf", version).load(str(path))
    return sorted(map(json.dumps, map(_plain, frame.toArrow().to_pylist())))


def test_the_rows_that_deltalake_reads_are_those_of_spark_at_each_version(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "lake" / "orders"
    spark.sql(
        f"CREATE TABLE delta.`{path}` ({COLUMNS}) USING delta PARTITIONED BY (day) "
        "TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    )
    for statement in (
        "INSERT INTO {t} (id, name, day, at, local, price, share, raw, is_open, tags, place) " + ROWS,
        "DELETE FROM {t} WHERE id IN (1, 7, 8)",
        "UPDATE {t} SET name = 'other', day = NULL WHERE id IN (2, 30)",
        "INSERT INTO {t} SELECT * FROM {t} WHERE id = 3",
    ):
        spark.sql(statement.format(t=f"delta.`{path}`"))
    actions = [json.loads(line) for line in (path / "_delta_log" / f"{2:020}.json").read_text().splitlines()]
    assert any("deletionVector" in action.get("add", {}) for action in actions), "the case that decides"
    log = FileLog(Location(str(path)), "orders")
    for version in range(5):
        rows = log.first_rows(version, 1_000)
        assert rows is not None
        assert sorted(map(json.dumps, map(_plain, rows))) == rows_of_spark(spark, path, version), version


def test_a_table_whose_features_deltalake_does_not_read_as_spark_does_is_left_to_spark(
    spark: SparkSession, tmp_path: Path
) -> None:
    for name, feature in {"mapped": "columnMapping.mode' = 'name", "widened": "enableTypeWidening' = 'true"}.items():
        path = tmp_path / name
        spark.sql(f"CREATE TABLE delta.`{path}` (id INT) USING delta TBLPROPERTIES ('delta.{feature}')")
        assert FileLog(Location(str(path)), name).first_rows(0, 9) is None, name


def test_show_says_version_and_rows_and_refuses_what_is_not_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    append(tmp_path, "orders", 1, 2)
    append(tmp_path, "orders", 3)
    root = ["--root", str(tmp_path)]
    assert main(["show", "orders", *root, "--at", "0", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["table"], document["version"], len(document["rows"])) == ("orders", 0, 2)
    assert main(["show", "orders", *root, "--limit", "2"]) == 0
    assert "orders  version 1: 2 rows. --limit shows more, if there are more.\n" in capsys.readouterr().out
    for words, sentence in {
        ("orders", "--at", "7"): "orders has no version 7: its versions are 0 to 1.",
        ("order",): "There is no table order. Did you mean orders?",
        ("orders", "--limit", "0"): "--limit is a number of rows from 1.",
    }.items():
        with pytest.raises(SystemExit):
            main(["show", *words, *root])
        assert sentence in capsys.readouterr().err


def test_a_number_that_json_does_not_know_is_a_text() -> None:
    numbers = [_plain(float(number)) for number in ("nan", "inf", "-inf", "1.5")]
    assert json.loads(json.dumps(numbers, allow_nan=False)) == ["NaN", "Infinity", "-Infinity", 1.5]

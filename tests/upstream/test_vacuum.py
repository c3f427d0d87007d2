"""How Delta 4.4 treats VACUUM's RETAIN: it ignores it unless it is 0, and goes by the table's property."""

import os
import re
import shutil
import time

import pytest

from tests.support.lake import Lake

RETENTION = "delta.deletedFileRetentionDuration"
CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


DAYS_3 = 72 * 60 * 60


def _with_a_dead_file(lake: Lake, **properties: str) -> None:
    lake.create("t", [(1, 10)], "id int, v int", **properties)
    lake.sql("DELETE FROM {t} WHERE id = 1")


def _dead_for_3_days(lake: Lake) -> None:
    """Copies the table so that its file was deleted 72 hours ago, by the log and by the times in the file system."""
    shutil.copytree(lake.root / "t", lake.root / "old")
    for file in (lake.root / "old" / "_delta_log").glob("*.json"):
        then = re.sub(
            r'("deletionTimestamp":)(\d+)', lambda m: f"{m[1]}{int(m[2]) - 1000 * DAYS_3}", file.read_text("utf-8")
        )
        file.write_text(then, "utf-8")
        file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    for file in (lake.root / "old").glob("*.parquet"):
        os.utime(file, (time.time() - DAYS_3,) * 2)


def _files(lake: Lake, table: str) -> int:
    return len(list((lake.root / table).glob("*.parquet")))


@pytest.mark.slow
@pytest.mark.parametrize(("hours", "left"), [(24, 1), (0, 0)])
def test_a_shorter_retain_than_the_property_is_ignored_unless_it_is_0(lake: Lake, hours: int, left: int) -> None:
    _with_a_dead_file(lake)
    _dead_for_3_days(lake)
    lake.spark.conf.set(CHECK, "false")
    try:
        lake.sql(f"VACUUM {{old}} RETAIN {hours} HOURS")
    finally:
        lake.spark.conf.unset(CHECK)
    assert _files(lake, "old") == left


@pytest.mark.slow
def test_a_longer_retain_than_the_property_protects_nobody(lake: Lake) -> None:
    _with_a_dead_file(lake, **{RETENTION: "interval 1 seconds"})
    time.sleep(2)
    lake.sql("VACUUM {t} RETAIN 720 HOURS")
    assert _files(lake, "t") == 0


@pytest.mark.slow
def test_the_property_alone_decides_what_is_kept(lake: Lake) -> None:
    _with_a_dead_file(lake, **{RETENTION: "interval 30 days"})
    _dead_for_3_days(lake)
    lake.sql("VACUUM {old}")
    assert _files(lake, "old") == 1

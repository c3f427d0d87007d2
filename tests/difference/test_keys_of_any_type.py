"""Keys of instants, binaries, booleans or floating-point numbers are literals too: the cost follows the change."""

from datetime import UTC, datetime

import pytest

from lakehouse import Changes, Merge, Table
from lakehouse.commit.outcome import Committed, Outcome
from lakehouse.difference.statements import ReplaceRows
from tests.support.lake import Lake

KEY = ("device", "at", "ntz", "ok", "raw", "d", "f")
COLUMNS = "device int, at timestamp, ntz timestamp_ntz, ok boolean, raw binary, d double, f float, v int"


def _row(device: int, second: int, v: int) -> tuple[object, ...]:
    at = datetime(2024, 3, 31, 1, 30, second, 123456, UTC)
    return (device, at, at.replace(tzinfo=None), second % 2 == 0, bytes([0, second, 255]), second / 10, second / 4, v)


def _replaced(outcome: Outcome, inserted: int, updated: int, deleted: int) -> bool:
    assert isinstance(outcome, Committed) and isinstance(outcome.statement, ReplaceRows), outcome
    counts = outcome.statement.counts
    return (counts.inserted, counts.updated, counts.deleted) == (inserted, updated, deleted)


@pytest.mark.slow
def test_rows_by_device_and_time_are_replaced_by_their_keys(lake: Lake) -> None:
    def kept(src: Changes) -> Merge:
        touched = src.touched(*KEY)
        return Merge(touched.rows.where("v <> 0"), touched)

    lake.keys["src"] = KEY
    lake.trust_key = True
    lake.create("src", [_row(1, n, n + 1) for n in range(6)], COLUMNS)
    lake.materialize(kept, Table(key=KEY))
    lake.sql("UPDATE {src} SET v = v + 100 WHERE at > TIMESTAMP'2024-03-31 01:30:04Z'")
    lake.sql("UPDATE {src} SET v = 0 WHERE ntz < TIMESTAMP_NTZ'2024-03-31 01:30:01'")
    lake.insert("src", [_row(2, 7, 70)])
    assert _replaced(lake.materialize(kept, Table(key=KEY)), 1, 2, 1)
    assert lake.rows("kept") == [row for row in lake.rows("src") if row[-1] != 0]

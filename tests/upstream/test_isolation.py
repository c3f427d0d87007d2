"""What Serializable forbids and WriteSerializable allows: a short transaction during a long one that reads and inserts.

The long transaction inserts how many rows it counted; the short one adds a row meanwhile and commits first. In the log
the short one comes before the long one, whose count does not include its row.
"""

import json

import pytest
from delta.exceptions import ConcurrentAppendException

from tests.support.interleave import rivals
from tests.support.lake import Lake
from tests.upstream.acts import copied

LONG = "INSERT INTO {t} (id, g, v) SELECT 100, 'count', COUNT(*) FROM {t}"
SHORT = "INSERT INTO {t} (id, g, v) VALUES (9, 'b', 9)"


def counted(lake: Lake) -> list[int]:
    return [row.v for row in lake.sql("SELECT v FROM {t} WHERE g = 'count'")]


def level(lake: Lake) -> str:
    """The isolation level of the newest commit, according to its `commitInfo`."""
    newest = max((lake.root / "t" / "_delta_log").glob("*.json"))
    actions = [json.loads(line) for line in newest.read_text().splitlines()]
    return next(action["commitInfo"]["isolationLevel"] for action in actions if "commitInfo" in action)


def test_serializable_forbids_a_count_that_misses_an_earlier_commit(forms: Lake, lake: Lake) -> None:
    copied(forms, lake, "plain")
    with rivals(lake.spark, lambda: lake.sql(SHORT)), pytest.raises(ConcurrentAppendException):
        lake.sql(LONG)
    assert counted(lake) == []
    lake.sql(LONG)
    assert (counted(lake), level(lake)) == ([9], "Serializable")


def test_write_serializable_allows_it(forms: Lake, lake: Lake) -> None:
    """A serial order explains the result: the long transaction first. But the log and its feed have the other order."""
    copied(forms, lake, "write serializable")
    with rivals(lake.spark, lambda: lake.sql(SHORT)):
        lake.sql(LONG)
    assert (counted(lake), level(lake)) == ([8], "WriteSerializable")
    assert [commit.parameters["mode"] for commit in lake.commits("t")[-2:]] == ["Append", "Append"]
    assert len(lake.rows("t")) == 10


def test_a_table_keeps_the_level_that_open_source_delta_cannot_give_it(forms: Lake, lake: Lake) -> None:
    copied(forms, lake, "write serializable")
    lake.sql("ALTER TABLE {t} SET TBLPROPERTIES ('words' = 'some')")
    head = lake.ref("t").log(lambda: lake.spark).head()
    assert head is not None and head.properties["delta.isolationLevel"] == "WriteSerializable"
    with pytest.raises(Exception, match="must be Serializable"):
        lake.sql("ALTER TABLE {t} SET TBLPROPERTIES ('delta.isolationLevel' = 'WriteSerializable')")

"""Two zeros are one key: Spark groups and joins by 0.0 and -0.0 as one value, and so do touched keys and views."""

import pytest
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Table, View
from lakehouse.delta.limits import Limits, in_force
from tests.support.lake import Lake

KEYED = Table(key="x")
GREATEST = "SELECT x, max(v) AS v, count(*) AS n FROM o GROUP BY x"
JOINED = "SELECT o.id, o.v, r.w FROM o LEFT JOIN r ON o.x = r.x"


def by_hand(o: Changes) -> Merge:
    touched = o.touched("x")
    return Merge(touched.rows.groupBy("x").agg(F.max("v").alias("v"), F.count("*").alias("n")), touched)


def by_query(o: Changes) -> View:
    return View(GREATEST)


def joined(o: Changes, r: Changes) -> View:
    return View(JOINED)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["double", "float"])
def test_a_row_with_one_zero_touches_the_group_of_both(lake: Lake, kind: str) -> None:
    letter = kind[0].upper()
    lake.create("o", [(1, 0.0, 5), (2, 7.5, 1)], f"id int, x {kind}, v int")
    lake.create("r", [(7.5, 1), (8.5, 2)], f"x {kind}, w int")
    edits = [
        f"INSERT INTO {{o}} VALUES (3, -0.0{letter}, 1)",
        "DELETE FROM {o} WHERE id = 1",
        f"UPDATE {{o}} SET x = -0.0{letter} WHERE id = 2",
        f"INSERT INTO {{r}} VALUES (-0.0{letter}, 3)",
        f"UPDATE {{o}} SET x = 0.0{letter} WHERE id = 3",
        "DELETE FROM {r} WHERE w = 3",
    ]
    with in_force(Limits(whole_rows=0)):
        for edit in ["", *edits]:
            if edit:
                lake.sql(edit)
            lake.materialize(by_hand, KEYED)
            lake.materialize(by_query, KEYED)
            lake.materialize(joined, Table(key="id"))
            groups = [(x + 0.0, v, n) for x, v, n in lake.sql(GREATEST.replace("FROM o", "FROM {o}"))]
            for name in ("by_hand", "by_query"):
                assert sorted((x + 0.0, v, n) for x, v, n in lake.rows(name)) == sorted(groups), (name, edit)
            pairs = lake.sql(JOINED.replace("FROM o", "FROM {o} o").replace("JOIN r", "JOIN {r} r"))
            assert lake.rows("joined") == sorted(map(tuple, pairs), key=repr), edit

"""`touched_by` of a text: after any edits of all its tables, rows computed in Python are what a recompute gives."""

from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from pyspark.sql import functions as F

from lakehouse import Changes, Merge, Table, touched_by
from lakehouse.delta.limits import Limits, in_force
from lakehouse.errors import ReadError
from lakehouse.errors.views import ViewError
from tests.support.lake import Lake
from tests.support.model import DIM, SRC
from tests.support.slow import slow

pytestmark = pytest.mark.anywhere
KEY = ("name", "k")
PAIRS = "SELECT dim.name, k, src.v FROM src JOIN dim USING (k)"


def by_name(src: Changes, dim: Changes) -> Merge:
    touched = touched_by(PAIRS, KEY, src=src, dim=dim)
    pairs = src.source.join(dim.source.select("k", "name"), "k")
    return Merge(touched.of(pairs).groupBy(*KEY).agg(F.count("*").alias("n"), F.max("v").alias("top")), touched)


@pytest.mark.slow
def test_keys_of_two_sources_that_change_together_are_all_touched(lake: Lake):
    random = Random("two sources")
    lake.create("src", [(i, random.choice("abc"), i) for i in range(6)], SRC)
    lake.create("dim", [(k, k.upper(), 1) for k in "abc"], DIM)
    lake.materialize(by_name, Table(key=KEY))
    for number in range(2):
        lake.sql(f"UPDATE {{src}} SET k = '{random.choice('abc')}', v = v + 1 WHERE id % 3 = {number}")
        lake.sql(f"UPDATE {{dim}} SET name = 'N{number}' WHERE k = '{random.choice('abc')}'")
        if number == 1:
            lake.sql("DELETE FROM {dim} WHERE k = 'b'")
            lake.sql("DELETE FROM {src} WHERE id < 2")
        lake.materialize(by_name, Table(key=KEY))
        expected = lake.sql(
            "SELECT name, k, count(*) AS n, max(v) AS top FROM {src} JOIN {dim} USING (k) GROUP BY name, k"
        )
        assert lake.rows("by_name") == sorted((tuple(row) for row in expected), key=repr)


@pytest.mark.slow
def test_a_query_over_a_text_that_is_no_utf_8_leaves_out_no_key(lake: Lake):
    query = "SELECT md5(CAST(dim.name AS BINARY)) AS h, src.v FROM src JOIN dim ON src.k = dim.k"

    def by_hash(src: Changes, dim: Changes) -> Merge:
        touched = touched_by(query, "h", src=src, dim=dim)
        rows = src.source.join(dim.source.select("k", "name"), "k").selectExpr("md5(CAST(name AS BINARY)) AS h", "v")
        return Merge(touched.of(rows.groupBy("h").agg(F.sum("v").alias("v"))), touched)

    lake.create("src", [(1, "a", 10), (2, "b", 20)], SRC)
    lake.create("dim", [("a", "A", 1)], DIM)
    lake.materialize(by_hash, Table(key="h"))
    lake.sql("INSERT INTO {dim} SELECT 'b', CAST(X'FFFE' AS STRING), 1")
    lake.materialize(by_hash, Table(key="h"))
    assert sorted(row[1] for row in lake.rows("by_hash")) == [10, 20]


ONCE_WRONG = {
    "a left join": (
        """SELECT coalesce(d.name, 'none') AS name, count(*) AS n FROM src s LEFT JOIN dim d ON s.k = d.k
           GROUP BY coalesce(d.name, 'none')""",
        "name",
    ),
    "a self join": ("SELECT a.id, b.id AS other FROM src a JOIN src b ON a.k = b.k AND a.v < b.v", "id"),
    "an anti join": ("SELECT d.k, d.name FROM dim d LEFT ANTI JOIN src s ON d.k = s.k", "k"),
    "a row_number": (
        """SELECT id, k, v FROM (SELECT *, row_number() OVER (PARTITION BY k ORDER BY v DESC, id) AS place FROM src s)
           WHERE place = 1""",
        "id",
    ),
    "a scalar maximum": ("SELECT id, v FROM src WHERE v = (SELECT max(v) FROM src)", "id"),
    "a rank over more than the key": ("SELECT id, k, rank() OVER (PARTITION BY k ORDER BY v) AS place FROM src", "id"),
}


@pytest.mark.slow
@pytest.mark.parametrize("case", ["a left join", *map(slow, list(ONCE_WRONG)[1:])])
def test_what_a_query_of_inner_joins_could_not_say_is_followed(lake: Lake, case: str):
    sql, key = ONCE_WRONG[case]

    def kept(**sources: Changes) -> Merge:
        touched = touched_by(sql, key, **sources)
        for name, changes in sources.items():
            changes.source.createOrReplaceTempView(name)
        return Merge(touched.of(lake.spark.sql(sql)), touched)

    followed = [name for name in ("src", "dim") if f" {name} " in f"{sql} "]
    kept.__annotations__ = {**dict.fromkeys(followed, Changes), "return": Merge}
    random, table = Random(case), Table(key=("id", "other") if case == "a self join" else key)
    lake.create("src", [(i, random.choice("abcd"), random.randrange(9)) for i in range(30)], SRC)
    lake.create("dim", [(k, k.upper(), 1) for k in "abx"], DIM)
    lake.materialize(kept, table)
    for number in range(3):
        lake.sql(f"UPDATE {{src}} SET k = '{random.choice('abcx')}', v = v + 1 WHERE id % 11 = {number}")
        lake.sql(f"DELETE FROM {{src}} WHERE id = {random.randrange(30)}")
        lake.insert("dim", [("dcz"[number], "DCZ"[number], 1)])
        with in_force(Limits(whole_rows=0)):
            lake.materialize(kept, table)
        for name in ("src", "dim"):
            lake.frame(name).createOrReplaceTempView(name)
        assert lake.rows("kept") == sorted((tuple(row) for row in lake.spark.sql(sql).collect()), key=repr)


@pytest.mark.parametrize(
    ("ask", "error", "text"),
    [
        (lambda src: touched_by(PAIRS, (), src=src), ReadError, "needs the columns of a key"),
        (lambda src: touched_by(PAIRS, KEY), ReadError, "the changes of at least one source"),
        (lambda src: touched_by(PAIRS, KEY, src=src), ViewError, "dim is not an input"),
        (lambda src: touched_by("SELECT k FROM src", "j", src=src), ViewError, "no column j"),
        (lambda src: touched_by("SELECT k FROM src", "k", src=src, dim=src), ViewError, "does not name"),
        (lambda src: touched_by(lambda src: src, "k", src=src), TypeError, "takes a query as SQL text"),
    ],
)
def test_what_cannot_be_followed_is_refused(
    lake: Lake, ask: Callable[[Changes], Any], error: type[Exception], text: str
):
    def kept(src: Changes) -> Merge:
        return Merge(src.source, ask(src))

    lake.create("src", [(1, "a", 10)], SRC)
    with pytest.raises(error, match=text):
        lake.materialize(kept, Table(key="id"))

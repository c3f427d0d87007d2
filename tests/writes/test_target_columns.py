"""Columns of the table that its result cannot hold as they are: padded, filled by Delta, or ordered by a zone."""

import datetime as dt

import pytest

from lakehouse import Changes, Merge, Table
from tests.support.assets import copy
from tests.support.lake import Lake
from tests.support.model import SRC
from tests.support.raises import raises_code
from tests.writes.test_columns import narrowed

pytestmark = pytest.mark.anywhere
ROWS = [(1, "a", 10), (2, "b", 20), (3, "a", 30)]


@pytest.mark.slow
def test_a_sources_default_stays_with_the_source(lake: Lake) -> None:
    lake.create("src", [(1, 10)], "id int, v int", delta__feature__allowColumnDefaults="supported")
    lake.sql("ALTER TABLE {src} ALTER COLUMN v SET DEFAULT 7")
    lake.sql("INSERT INTO {src} (id) VALUES (2)")
    lake.materialize(narrowed, Table(key="id", columns={"id": "the key"}))
    assert lake.rows("narrowed") == [(1, 10), (2, 7)]
    fields = lake.frame("narrowed").schema.fields
    assert [field.metadata for field in fields] == [{"comment": "the key"}, {}]


@pytest.mark.slow
@pytest.mark.parametrize("source", ["string", "char(5)"])
def test_a_key_that_the_table_pads_is_the_sources_own_or_refused(lake: Lake, source: str) -> None:
    """Spark pads the key where it is compared with a literal, but not where it is joined."""
    for name, kind in (("src", source), ("narrowed", "char(5)")):
        lake.sql(
            f"CREATE TABLE {{{name}}} (id {kind}, v int) USING delta "
            f"TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')",
            **{name: lake.ref(name).identifier},
        )
    lake.sql("INSERT INTO {src} SELECT concat('a', id), 1 FROM range(150)")
    lake.keys["src"] = ("id",)
    lake.trust_key = True
    if source == "string":
        with raises_code("SCHEMA", match=r"id: is joined as char\(5\) in the table"):
            lake.materialize(narrowed, Table(key="id"))
        return
    for _ in range(3):
        lake.materialize(narrowed, Table(key="id"))
        held, wanted = (sorted(map(tuple, lake.frame(name).collect())) for name in ("narrowed", "src"))
        assert held == wanted
        lake.sql("UPDATE {src} SET v = v + 1")


@pytest.mark.slow
def test_instants_are_no_partitions_where_clocks_are_set_back(lake: Lake) -> None:
    lake.create("src", [(1, dt.datetime(2024, 11, 3, 6, 30, tzinfo=dt.UTC))], "id int, at timestamp")

    def placed(src: Changes) -> Merge:
        touched = src.touched("at", "id")
        return Merge(touched.rows, touched)

    lake.spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        with raises_code("SCHEMA", match="the session's zone is America/New_York"):
            lake.materialize(placed, Table(key=("at", "id"), partition_by="at"))
    finally:
        lake.spark.conf.set("spark.sql.session.timeZone", "UTC")
    lake.materialize(placed, Table(key=("at", "id"), partition_by="at"))
    assert lake.rows("placed") == lake.rows("src")


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("x INT GENERATED ALWAYS AS (v * 2)", r"Delta generates as v \* 2: add it to the result"),
        ("x BIGINT GENERATED ALWAYS AS IDENTITY", "an identity column, whose numbers no recompute gives again"),
        ("x INT DEFAULT 7", "whose default 7 is for INSERT statements: add it to the result, for example as 7"),
    ],
    ids=["generated", "identity", "default"],
)
def test_a_column_that_delta_fills_is_named_as_such_where_the_result_lacks_it(
    lake: Lake, column: str, words: str
) -> None:
    lake.create("src", ROWS, SRC)
    lake.sql(
        f"CREATE TABLE {lake.ref('copy').identifier} (id INT, k STRING, v INT, {column}) USING delta "
        f"TBLPROPERTIES ('delta.feature.allowColumnDefaults' = 'supported')"
    )
    with raises_code("SCHEMA", match=f"x: is missing from the result, .*{words}.*Nothing was written"):
        lake.materialize(copy, Table(key="id"))


@pytest.mark.slow
def test_the_values_of_a_generated_column_are_those_of_the_result(lake: Lake) -> None:
    def doubled(src: Changes) -> Merge:
        touched = src.touched("id")
        return Merge(touched.rows.selectExpr("id", "v", "v * 2 AS x"), touched)

    lake.create("src", ROWS, SRC)
    table = lake.ref("doubled").identifier
    lake.sql(f"CREATE TABLE {table} (id INT, v INT, x INT GENERATED ALWAYS AS (v * 2)) USING delta")
    lake.materialize(doubled, Table(key="id"))
    lake.sql("UPDATE {src} SET v = 11 WHERE id = 1")
    lake.materialize(doubled, Table(key="id"))
    assert lake.rows("doubled") == [(1, 11, 22), (2, 20, 40), (3, 30, 60)]

"""What people do to the tables of a view: after each act the view is what its query gives."""

import re
from collections.abc import Callable, Iterator

import pytest
from pyspark.sql import functions as F

from lakehouse import Changes, Policy, Table, View
from lakehouse.commit.outcome import Unchanged
from lakehouse.delta.limits import Limits, in_force
from tests.support.lake import Lake
from tests.support.views import Kept

pytestmark = [pytest.mark.slow, pytest.mark.anywhere]
BY_KEYS = Table(key="id", policy=Policy(refresh="incremental"))
MAPPED = {"delta.columnMapping.mode": "name"}


@pytest.fixture(autouse=True)
def no_table_is_small() -> Iterator[None]:
    with in_force(Limits(whole_rows=0)):
        yield


def starred(src: Changes) -> View:
    return View("SELECT * FROM src")


def named(src: Changes, dim: Changes) -> View:
    return View("SELECT s.id, d.name FROM src s LEFT JOIN dim d ON s.k = d.k")


def counted(src: Changes, dim: Changes) -> View:
    return View("SELECT d.name AS id, count(*) AS n FROM src s JOIN dim d ON s.k = d.k GROUP BY d.name")


QUERIES: dict[Callable[..., View], str] = {
    starred: "SELECT * FROM {src}",
    named: "SELECT s.id, d.name FROM {src} s LEFT JOIN {dim} d ON s.k = d.k",
    counted: "SELECT d.name, count(*) FROM {src} s JOIN {dim} d ON s.k = d.k GROUP BY d.name",
}


def follow(lake: Lake, *views: Callable[..., View]) -> None:
    for view in views:
        lake.materialize(view, BY_KEYS)
        assert lake.rows(view.__name__) == sorted(map(tuple, lake.sql(QUERIES[view])), key=repr)


def test_a_column_that_a_star_stands_for_comes_and_is_filled_in(lake: Lake) -> None:
    lake.create("src", [(1, "a"), (2, "b")], "id int, k string")
    follow(lake, starred)
    lake.sql("ALTER TABLE {src} ADD COLUMNS (w int)")
    lake.sql("INSERT INTO {src} VALUES (3, 'c', 7)")
    follow(lake, starred)
    lake.sql("UPDATE {src} SET w = 5 WHERE id = 1")
    follow(lake, starred)


def test_a_column_of_the_join_is_widened_renamed_and_another_has_its_name(lake: Lake) -> None:
    options = {"delta__enableTypeWidening": "true", "delta__columnMapping__mode": "name"}
    lake.create("src", [(1, 1), (2, 2), (3, 3), (4, 4)], "id int, k int", **options)
    lake.create("dim", [(1, "x"), (2, "y")], "k int, name string")
    follow(lake, named)
    for acts in (
        ("ALTER TABLE {src} ALTER COLUMN k TYPE BIGINT", "UPDATE {src} SET k = 2 WHERE id = 1"),
        ("UPDATE {dim} SET name = 'z' WHERE k = 2",),
        ("ALTER TABLE {src} RENAME COLUMN k TO former", "ALTER TABLE {src} ADD COLUMNS (k bigint)"),
        ("UPDATE {src} SET k = 1 WHERE id = 4", "DELETE FROM {dim} WHERE k = 2"),
    ):
        for act in acts:
            lake.sql(act)
        follow(lake, named)


MEANINGS: dict[str, tuple[str, dict[str, str], tuple[str, ...], tuple[str, ...]]] = {
    "NATURAL JOIN meets by a new column": (
        "SELECT a.id, b.city FROM a NATURAL JOIN b",
        {"a": "id int, k int", "b": "k int, city string"},
        ("INSERT INTO {a} VALUES (1, 1), (2, 1)", "INSERT INTO {b} VALUES (1, 'x')"),
        (
            "ALTER TABLE {a} ADD COLUMNS (at int)",
            "ALTER TABLE {b} ADD COLUMNS (at int)",
            "UPDATE {a} SET k = 1 WHERE id = 1",
        ),
    ),
    "columns of a branch change places": (
        "SELECT id, x, y FROM (SELECT * FROM a UNION ALL SELECT * FROM b)",
        {"a": "id int, x int, y int", "b": "id int, x int, y int"},
        ("INSERT INTO {a} VALUES (1, 1, 2)", "INSERT INTO {b} VALUES (2, 1, 2), (3, 1, 2)"),
        ("ALTER TABLE {b} ALTER COLUMN y AFTER id", "UPDATE {b} SET x = 5 WHERE id = 3"),
    ),
    "a new column has the name of an alias": (
        "SELECT id, k AS x, x + 1 AS y FROM a",
        {"a": "id int, k int"},
        ("INSERT INTO {a} VALUES (1, 1), (2, 1)",),
        ("ALTER TABLE {a} ADD COLUMNS (x int)", "UPDATE {a} SET x = 7 WHERE id = 1"),
    ),
    "a new column hides one of the query around": (
        "SELECT id FROM a WHERE EXISTS (SELECT 1 FROM b WHERE b.k = a.k AND city = 'x')",
        {"a": "id int, k int, city string", "b": "k int"},
        ("INSERT INTO {a} VALUES (1, 1, 'x'), (2, 1, 'x')", "INSERT INTO {b} VALUES (1)"),
        ("ALTER TABLE {b} ADD COLUMNS (city string)", "UPDATE {a} SET city = 'x' WHERE id = 1"),
    ),
    "a struct has one more field in a text": (
        "SELECT id, CAST(s AS STRING) AS t FROM a",
        {"a": "id int, s struct<p: int>"},
        ("INSERT INTO {a} VALUES (1, named_struct('p', 1)), (2, named_struct('p', 2))",),
        ("ALTER TABLE {a} ADD COLUMNS (s.q int)", "UPDATE {a} SET s.q = 3 WHERE id = 1"),
    ),
}


@pytest.mark.parametrize("name", MEANINGS)
def test_the_same_text_over_other_columns_is_another_query(lake: Lake, name: str) -> None:
    text, tables, rows, acts = MEANINGS[name]
    view = Kept("kept", text)
    for table, columns in tables.items():
        feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        lake.spark.sql(f"CREATE TABLE {lake.ref(table).identifier} ({columns}) USING delta {feed}")
    for act in rows:
        lake.sql(act)
    lake.materialize(view.asset, BY_KEYS)
    in_place = {table: "{" + table + "}" for table in tables}
    query = re.sub(r"(FROM|JOIN) (\w+)", lambda found: f"{found[1]} {in_place[found[2]]} {found[2]}", text)
    for act in acts:  # the first adds columns, and changes no row
        lake.sql(act)
        lake.materialize(view.asset, BY_KEYS)
        assert lake.rows("kept") == sorted(map(tuple, lake.sql(query)), key=repr)
        assert isinstance(lake.materialize(view.asset, BY_KEYS), Unchanged)


def test_a_column_that_came_with_a_write_of_no_row_is_noticed(lake: Lake) -> None:
    """A run upstream adds a column in which no row has a value: no operation shows this, only the schema does."""
    lake.create("a", [(1, 1), (2, 1)], "id int, k int")
    lake.create("b", [(1, "x")], "k int, city string")
    view = Kept("kept", "SELECT a.id, b.city FROM a NATURAL JOIN b")
    lake.materialize(view.asset, BY_KEYS)
    for table in ("a", "b"):
        wider = lake.frame(table).limit(0).withColumn("at", F.lit(None).cast("int"))
        wider.write.format("delta").mode("append").option("mergeSchema", "true").save(str(lake.root / table))
    assert lake.commits("a")[-1].is_quiet
    lake.materialize(view.asset, BY_KEYS)
    assert lake.rows("kept") == []
    assert isinstance(lake.materialize(view.asset, BY_KEYS), Unchanged)


def test_keys_that_a_table_pads_are_found(lake: Lake) -> None:
    for name, columns in (("src", "id int, k CHAR(5)"), ("dim", "k CHAR(5), name string")):
        feed = "TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
        lake.spark.sql(f"CREATE TABLE {lake.ref(name).identifier} ({columns}) USING delta {feed}")
    lake.sql("INSERT INTO {src} VALUES (1, 'a'), (2, 'b'), (3, 'a')")
    lake.sql("INSERT INTO {dim} VALUES ('a', 'x'), ('b', 'y')")
    follow(lake, named, counted)
    for act in (
        "UPDATE {dim} SET name = 'xx' WHERE k = 'a'",
        "INSERT INTO {src} VALUES (100, 'b')",
        "DELETE FROM {dim} WHERE k = 'b'",
        "UPDATE {src} SET k = 'a' WHERE id = 2",
    ):
        lake.sql(act)
        follow(lake, named, counted)
    assert lake.said[-1] == "counted computes the rows of touched keys (id)."


def test_a_mark_does_not_hide_that_a_name_belongs_to_another_column_of_the_view(lake: Lake) -> None:
    """No change of the source reaches a row of the view, so that the runs would only record their position."""
    lake.create("src", [(1, 1, "a"), (2, 2, "b")], "id int, k int, note string")
    view, table = Kept("kept", "SELECT id, k FROM src WHERE k < 9"), Table(key="id", properties=MAPPED)
    lake.materialize(view.asset, table)
    for acts in (("DROP COLUMN k", "ADD COLUMN k INT"), ("DROP COLUMN k",)):
        for act in acts:
            lake.sql(f"ALTER TABLE {{kept}} {act}")
        lake.sql("UPDATE {src} SET note = concat(note, 'x') WHERE id = 1")
        lake.materialize(view.asset, table)
        assert lake.rows("kept") == [(1, 1), (2, 2)]

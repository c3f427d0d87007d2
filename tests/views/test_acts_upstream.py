"""What people do to the tables of a view: after each act the view is what its query gives."""

from collections.abc import Callable, Iterator

import pytest

from lakehouse import Changes, Policy, Table, View
from lakehouse.delta.limits import Limits, in_force
from tests.support.lake import Lake

pytestmark = [pytest.mark.slow, pytest.mark.anywhere]
BY_KEYS = Table(key="id", policy=Policy(refresh="incremental"))


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

"""A folder of SQL files is a lakehouse: each run of its views gives what the queries give, and writes what differs."""

from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from lakehouse import Table, incremental, views_from
from lakehouse.errors import DefinitionError
from tests.support.dagster_house import House, failure, metadata
from tests.support.lake import Lake
from tests.support.raises import raises_code

pytestmark = pytest.mark.served
CUSTOMERS = """
CREATE MATERIALIZED VIEW gold.active (customer_id, city STRING COMMENT 'Where they live', PRIMARY KEY (customer_id))
AS SELECT id, city FROM silver.customers WHERE status = 'active'
"""
CITIES = """
CREATE OR REFRESH MATERIALIZED VIEW gold.cities (
  city STRING NOT NULL, orders INT, revenue DECIMAL(10, 2), CONSTRAINT pk PRIMARY KEY (city)
) COMMENT 'Revenue by city' CLUSTER BY (city)
AS SELECT coalesce(a.city, 'unknown'), count(*), sum(o.amount)
FROM silver.orders o LEFT JOIN gold.active a ON o.customer = a.customer_id GROUP BY coalesce(a.city, 'unknown')
"""
RATED = """
CREATE MATERIALIZED VIEW gold.rated (id INT PRIMARY KEY, euros DECIMAL(12, 2)) TBLPROPERTIES ('lakehouse.snapshot' = 'dim.rates')
AS SELECT o.id, o.amount * r.rate FROM silver.orders o JOIN dim.rates r ON r.currency = 'USD'
"""
NOTED = "CREATE MATERIALIZED VIEW gold.noted AS SELECT id FROM silver.customers"
SPECS = [dg.AssetSpec(key.split("/")) for key in ("silver/orders", "silver/customers", "dim/rates")]
VIEWS = ("gold/active", "gold/cities", "gold/rated")


@pytest.fixture
def sql(tmp_path: Path) -> Path:
    for name, text in {"active": CUSTOMERS, "cities": CITIES, "rated": RATED}.items():
        (tmp_path / "sql").mkdir(exist_ok=True)
        (tmp_path / "sql" / f"{name}.sql").write_text(text)
    return tmp_path / "sql"


@pytest.fixture
def tables(lake: Lake) -> Lake:
    lake.create("silver/orders", [(1, 1, 10), (2, 1, 20), (3, 2, 30), (4, 3, 40)], "id int, customer int, amount int")
    lake.create(
        "silver/customers",
        [(1, "Bonn", "active"), (2, "Köln", "active"), (3, "Bonn", "gone")],
        "id int, city string, status string",
    )
    lake.create("dim/rates", [("USD", 2)], "currency string, rate int")
    return lake


def house_of(lake: Lake, views: Sequence[Any], instance: dg.DagsterInstance) -> House:
    manager = House(lake, [], instance).io_manager
    complete = incremental(dg.Definitions(assets=[*views, *SPECS], resources={"io_manager": manager}))
    return House(lake, list(complete.assets or []), instance)


def change(lake: Lake, statement: str) -> None:
    names = [spec.key.to_user_string() for spec in SPECS]
    lake.sql(statement, **{name: lake.ref(name).identifier for name in names})


def cents(value: int) -> Decimal:
    return Decimal(value).quantize(Decimal("0.01"))


@pytest.mark.slow
def test_a_folder_of_three_files_follows_its_tables(tables: Lake, sql: Path, instance: dg.DagsterInstance):
    house = house_of(tables, views_from(sql), instance)
    result = house.run(*VIEWS)
    assert result.success
    assert tables.rows("gold/active") == [(1, "Bonn"), (2, "Köln")]
    assert tables.rows("gold/cities") == [("Bonn", 2, cents(30)), ("Köln", 1, cents(30)), ("unknown", 1, cents(40))]
    assert tables.rows("gold/rated") == [(1, cents(20)), (2, cents(40)), (3, cents(60)), (4, cents(80))]
    assert tables.frame("gold/cities").schema.simpleString() == "struct<city:string,orders:int,revenue:decimal(10,2)>"
    assert tables.frame("gold/active").schema["city"].metadata["comment"] == "Where they live"

    change(tables, "UPDATE {silver/customers} SET status = 'active' WHERE id = 3")
    change(tables, "UPDATE {silver/orders} SET amount = 21 WHERE id = 2")
    change(tables, "DELETE FROM {silver/orders} WHERE id = 3")
    change(tables, "UPDATE {dim/rates} SET rate = 3")
    result = house.run(*VIEWS)
    assert tables.rows("gold/active") == [(1, "Bonn"), (2, "Köln"), (3, "Bonn")]
    assert tables.rows("gold/cities") == [("Bonn", 3, cents(71))]
    assert tables.rows("gold/rated") == [(1, cents(20)), (2, cents(63)), (4, cents(80))]
    counts = metadata(result, "gold/cities")
    assert (counts["inserted"], counts["updated"], counts["deleted"]) == (0, 1, 2)
    assert counts["changes_read"] == 3, "two orders and a customer"
    assert metadata(house.run(*VIEWS), "gold/cities")["write"] == "nothing: no source has changes"


def test_a_property_names_a_key_in_which_null_is_allowed(sql: Path) -> None:
    (sql / "noted.sql").write_text(NOTED.replace("AS SELECT", "TBLPROPERTIES ('lakehouse.key' = 'id') AS SELECT"))
    [noted] = [view for view in views_from(sql) if view.key.path[-1] == "noted"]
    table = Table.from_metadata(noted.metadata_by_key[noted.key])
    assert (table.key_columns, table.properties) == (("id",), {})


def test_the_page_of_a_view_shows_what_its_file_says_of_it_as_markdown(sql: Path) -> None:
    (sql / "noted.sql").write_text(
        "-- **Active** customers:\n--\n-- - not those that left\n\n-- no part of it\n" + NOTED
    )
    (sql / "said.sql").write_text(
        "-- above\n" + NOTED.replace("noted", "said").replace("AS SELECT", "COMMENT 'in the head' AS SELECT")
    )
    views = {view.key.path[-1]: view for view in views_from(sql)}
    told = {name: views[name].descriptions_by_key.get(views[name].key) for name in ("noted", "said", "active")}
    assert told == {"noted": "**Active** customers:\n\n- not those that left", "said": "in the head", "active": None}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda text: text.replace("orders INT", "orders TINYINT").replace("count(*)", "count(*) + 200"), "TINYINT"),
        (lambda text: text.replace("'unknown'), count", "NULL), count").replace("'unknown')", "NULL)"), "city"),
        (lambda text: text.replace("city STRING", "city INT"), "head declares city as int, and the query gives string"),
        (
            lambda text: text.replace("orders INT,", ""),
            "sql/cities.sql: The head declares 2 columns, and the query gives 3",
        ),
    ],
    ids=["a value that does not fit", "NULL in the key", "a type to which INSERT casts nothing", "a column too few"],
)
def test_a_value_that_the_head_forbids_fails_the_run(
    tables: Lake, sql: Path, instance: dg.DagsterInstance, change: Callable[[str], str], words: str
):
    (sql / "cities.sql").write_text(change(CITIES))
    house = house_of(tables, views_from(sql), instance)
    assert house.run("gold/active").success
    result = house.run("gold/cities", raise_on_error=False)
    assert not result.success
    assert words in failure(result)
    assert not tables.exists("gold/cities")


@pytest.mark.slow
def test_another_query_is_compared_once_and_another_layout_of_the_text_is_not(
    tables: Lake, sql: Path, instance: dg.DagsterInstance
):
    house = house_of(tables, views_from(sql), instance)
    house.run("gold/active")
    version = tables.version("gold/active")
    (sql / "active.sql").write_text(CUSTOMERS.replace("SELECT", "-- those that buy\n  select"))
    house = house_of(tables, views_from(sql), instance)
    assert metadata(house.run("gold/active"), "gold/active")["write"] == "nothing: no source has changes"
    (sql / "active.sql").write_text(CUSTOMERS.replace("'active'", "'gone'"))
    house = house_of(tables, views_from(sql), instance)
    house.run("gold/active")
    assert tables.rows("gold/active") == [(3, "Bonn")]
    assert tables.version("gold/active") > version


def test_a_name_that_two_assets_have_is_refused_if_a_view_reads_it(tmp_path: Path) -> None:
    (tmp_path / "copied.sql").write_text("CREATE MATERIALIZED VIEW copied AS SELECT id FROM raw.orders")
    for pair in (["raw", "Orders"], ["raw", "orders"]), (["raw.orders"], ["raw", "orders"]):
        with pytest.raises(DefinitionError, match=r"A view reads raw\.orders, which may be"):
            views_from(tmp_path, specs=list(map(dg.AssetSpec, pair)))
    assert len(views_from(tmp_path, specs=[dg.AssetSpec(["raw", "orders"]), dg.AssetSpec("x"), dg.AssetSpec("X")])) == 1


def test_a_file_that_is_not_in_utf_8_is_named(tmp_path: Path) -> None:
    text = "CREATE MATERIALIZED VIEW copied AS\nSELECT 'Köln' AS city FROM orders"
    (tmp_path / "copied.sql").write_text(text, encoding="latin-1")
    with raises_code("VIEW_FILE", match=r"copied\.sql: the file is not in UTF-8\. Save the file as UTF-8") as raised:
        views_from(tmp_path)
    assert raised.value.line == 2  # type: ignore[attr-defined]

"""What a view's text shows to be impossible is refused when the code location loads; its function is not called."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import DataFrame

from lakehouse import (
    Changes,
    DeltaIOManager,
    Expect,
    LocalSpark,
    Policy,
    Read,
    Table,
    incremental,
    validate,
    views_from,
)
from lakehouse.errors import DefinitionError
from lakehouse.errors.views import ViewError
from lakehouse.writes.view import View

DAYS = dg.DailyPartitionsDefinition("2024-01-01")


def location(root: Path, *assets: Any) -> dg.Definitions:
    return dg.Definitions(
        assets=assets, resources={"io_manager": DeltaIOManager(spark=LocalSpark(root=str(root)), root=str(root))}
    )


def refused(root: Path, *assets: Any) -> ViewError:
    with pytest.raises(ViewError) as error:
        validate(location(root, *assets))
    with pytest.raises(ViewError, match=r"VIEW_|:"):
        incremental(location(root, *assets))
    return error.value


def view(function: Callable[..., View], **options: Any) -> dg.AssetsDefinition:
    return dg.asset(metadata=options.pop("metadata", Table(key="id")), **options)(function)


def an_unknown_table(orders: Changes) -> View:
    raise AssertionError("it is not called")
    return View(
        """SELECT o.id FROM orders o
        JOIN customers c ON o.c = c.id"""
    )


def an_unused_input(orders: Changes, customers: Changes) -> View:
    return View("SELECT id FROM orders")


def an_unused_snapshot(orders: Changes, rates: DataFrame) -> View:
    return View("SELECT id FROM orders")


def a_limit(orders: Changes) -> View:
    return View(
        """
        SELECT id FROM orders
        LIMIT 3"""
    )


def the_clock(orders: Changes) -> View:
    return View("SELECT id, now() AS at FROM orders")


def the_ids(orders: Changes) -> View:
    return View("SELECT id FROM orders")


def no_sql(orders: Changes) -> View:
    return View("SELECT id FROM orders WHERE (id > 1")


def one_of_two_texts(orders: Changes) -> View:
    if orders.name:
        return View("SELECT id FROM orders")
    return View("SELECT id FROM oders")


def a_parameter(orders: Changes) -> View:
    return View("SELECT id FROM orders WHERE day > :day", args={"days": 1})


def a_file_that_is_missing(orders: Changes) -> View:
    return View.of("missing.sql")


REFUSED = {
    an_unknown_table: ("VIEW_UNKNOWN_TABLE", "customers", "Name one of its inputs, orders"),
    an_unused_input: ("VIEW_UNUSED_INPUT", None, "customers"),
    an_unused_snapshot: ("VIEW_UNUSED_INPUT", None, "rates"),
    a_limit: ("VIEW_NOT_DETERMINISTIC", "LIMIT 3", ""),
    the_clock: ("VIEW_NOT_DETERMINISTIC", "now", ""),
    no_sql: ("VIEW_SYNTAX", "(id > 1", ""),
    one_of_two_texts: ("VIEW_UNKNOWN_TABLE", "oders", "orders"),
    a_parameter: ("VIEW_PARAMETER", ":day", "'day'"),
    a_file_that_is_missing: ("VIEW_FILE", None, "calling file"),
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda each: each.__name__)
def test_a_text_that_no_run_could_follow_is_refused_with_the_asset_its_place_and_the_way_out(
    tmp_path: Path, function: Callable[..., View]
):
    code, words, remedy = REFUSED[function]
    error = refused(tmp_path, view(function))
    assert error.code == code
    assert remedy in error.remedy
    assert function.__name__ in str(error) or code == "VIEW_FILE"
    if words is not None:
        assert error.place is not None
        line = Path(__file__).read_text().splitlines()[error.place.line - 1]
        assert line[error.place.column - 1 :].startswith(words)
        assert "definitions/test_views_at_load.py" in str(error)


def with_an_escape(orders: Changes) -> View:
    return View("SELECT o.id FROM orders o\n  JOIN customers c ON o.c = c.id")


def test_a_text_whose_letters_are_not_those_of_the_file_is_refused_where_it_begins(tmp_path: Path):
    line = with_an_escape.__code__.co_firstlineno + 1
    error = refused(tmp_path, view(with_an_escape))
    assert "in tests/dagster/definitions/test_views_at_load.py: " in str(error)
    assert f"(line {line}, column 17: customers)" in str(error)


TEXT = "SELECT id FROM nowhere"


def of_a_name(orders: Changes) -> View:
    return View(TEXT)


def of_a_class_of_that_name(orders: Changes) -> View:
    class View:
        def __init__(self, text: str) -> None: ...

    inner: Any = View("SELECT id FROM nowhere")
    return inner


def of_a_function_in_it(orders: Changes) -> View:
    def other() -> View:
        return View("SELECT id FROM nowhere")

    return View("SELECT id FROM orders") if orders else other()


@pytest.mark.parametrize(
    "function", [of_a_name, of_a_class_of_that_name, of_a_function_in_it], ids=lambda each: each.__name__
)
def test_a_text_that_is_not_constant_waits_for_the_run(tmp_path: Path, function: Callable[..., View]):
    validate(location(tmp_path, view(function)))


ORDERS = dg.AssetSpec(["silver", "Orders"])


def folder(root: Path, **files: str) -> Path:
    for name, text in files.items():
        (root / "sql" / "gold").mkdir(parents=True, exist_ok=True)
        (root / "sql" / "gold" / f"{name}.sql").write_text(text)
    return root / "sql"


CITIES = """
CREATE OR REFRESH MATERIALIZED VIEW Gold.cities (
  city STRING COMMENT 'Where they live', orders BIGINT NOT NULL, CONSTRAINT pk PRIMARY KEY (city)
) COMMENT 'Orders by city' CLUSTER BY (city)
  TBLPROPERTIES ('lakehouse.snapshot' = 'dim.rates', 'delta.appendOnly' = 'false', 'lakehouse.touch' = 'city')
AS SELECT c.city, count(*) FROM silver.orders o JOIN dim.rates r ON o.day = r.day JOIN gold.customers c ON c.id = o.c
GROUP BY c.city
"""
CUSTOMERS = (
    "CREATE MATERIALIZED VIEW gold.customers (id, city, PRIMARY KEY (id)) AS SELECT id, city FROM bronze.customers"
)


def test_a_subfolder_is_the_group_of_its_files_and_else_the_schema_is(tmp_path: Path):
    groups = {"marts/a": ("gold.a", "marts"), "marts/eu-west/b": ("b", "marts_eu_west"), "c": ("gold.c", "gold")}
    for file, (name, _) in {**groups, "d": ("d", "default")}.items():
        (tmp_path / "sql" / file).parent.mkdir(parents=True, exist_ok=True)
        text = f"CREATE MATERIALIZED VIEW {name} AS SELECT id FROM bronze.customers"
        (tmp_path / "sql" / f"{file}.sql").write_text(text)
    made = {view.key.path[-1]: spec.group_name for view in views_from(tmp_path / "sql") for spec in view.specs}
    assert made == {**{name.split(".")[-1]: group for name, group in groups.values()}, "d": "default"}
    named = views_from(tmp_path / "sql", group="all")
    assert {spec.group_name for view in named for spec in view.specs} == {"all"}


def test_each_file_is_an_asset_whose_dependencies_come_from_its_text(tmp_path: Path):
    sql = folder(tmp_path, cities=CITIES, customers=CUSTOMERS)
    cities, customers = views_from(
        sql,
        group="marts",
        owners=["team:orders"],
        tags={"tier": "gold"},
        automation_condition=dg.AutomationCondition.eager(),
        io_manager_key="tables",
        specs=[ORDERS],
    )
    assert (cities.key, customers.key) == (dg.AssetKey(["Gold", "cities"]), dg.AssetKey(["gold", "customers"]))
    assert dict(cities.keys_by_input_name) == {
        "silver__orders": dg.AssetKey(["silver", "Orders"]),
        "dim__rates": dg.AssetKey(["dim", "rates"]),
        "gold__customers": dg.AssetKey(["gold", "customers"]),
    }
    spec = cities.specs_by_key[cities.key]
    assert spec.description == "Orders by city"
    assert (spec.group_name, list(spec.owners), spec.tags["tier"]) == ("marts", ["team:orders"], "gold")
    assert spec.kinds == {"sql", "deltalake"}
    assert spec.automation_condition == dg.AutomationCondition.eager()
    assert cities.get_io_manager_key_for_asset_key(cities.key) == "tables"
    table = Table.from_metadata(spec.metadata)
    assert (table.key_columns, table.cluster_columns, table.partition_columns) == (("city",), ("city",), ())
    assert table.properties == {"delta.appendOnly": "false"}
    assert table.descriptions == {"city": "Where they live"}
    kinds = {input_.name: input_.dagster_type.typing_type for input_ in cities.op.input_defs}
    assert kinds == {"silver__orders": Changes, "dim__rates": DataFrame, "gold__customers": Changes}
    schema = spec.metadata["dagster/column_schema"]
    assert [(column.name, column.type, column.description) for column in schema.columns] == [
        ("city", "string", "Where they live"),
        ("orders", "bigint", None),
    ]
    assert "dagster/column_schema" not in customers.specs_by_key[customers.key].metadata
    assert spec.metadata["query"].value.startswith("```sql\nSELECT c.city")
    (reference,) = spec.metadata["dagster/code_references"].code_references
    assert reference.file_path == str(sql / "gold" / "cities.sql")


def test_a_path_begins_at_the_folder_of_the_calling_file():
    with pytest.raises(
        DefinitionError, match=r"views_from\('no_such_folder'\): .*/tests/dagster/definitions/no_such_folder"
    ):
        views_from("no_such_folder")


def test_a_folder_without_files_is_refused(tmp_path: Path):
    with pytest.raises(DefinitionError, match=r"has no file \*\.sql"):
        views_from(tmp_path)


def test_the_code_version_is_another_one_if_the_query_or_its_columns_are(tmp_path: Path):
    def version(text: str) -> str | None:
        (made,) = views_from(folder(tmp_path, customers=text))
        return made.specs_by_key[made.key].code_version

    first = version(CUSTOMERS)
    assert version(CUSTOMERS.replace("SELECT", "-- all\n  select").replace(" AS", " COMMENT 'All of them' AS")) == first
    for other in (
        CUSTOMERS.replace("id, city FROM", "id, town FROM"),
        CUSTOMERS.replace("(id, city,", "(id BIGINT, city,"),
        CUSTOMERS.replace(" AS", " TBLPROPERTIES ('lakehouse.snapshot' = 'bronze.customers') AS"),
    ):
        assert version(other) not in (first, None)


def test_a_name_that_nothing_defines_is_refused_unless_a_spec_does(tmp_path: Path):
    views = views_from(folder(tmp_path, cities=CITIES, customers=CUSTOMERS), specs=[ORDERS])
    rates, customers = dg.AssetSpec(["dim", "rates"]), dg.AssetSpec(["bronze", "customers"])
    validate(location(tmp_path, *views, ORDERS, rates, customers))
    error = refused(tmp_path, *views, ORDERS, customers)
    assert error.code == "VIEW_UNKNOWN_TABLE"
    assert error.place is not None and (error.place.line, error.place.column) == (6, 54)
    assert f"View 'Gold/cities' in {tmp_path}/sql/gold/cities.sql: " in str(error)
    assert "dg.AssetSpec(['dim', 'rates'])" in error.remedy
    lower = views_from(tmp_path / "sql")
    assert "specs=[...]" in refused(tmp_path, *lower, ORDERS, rates, customers).remedy


NAMES = {
    "itself": ("CREATE MATERIALIZED VIEW a.b AS SELECT 1 AS x FROM A.B", "VIEW_SELF", "itself"),
    "an operator": (
        "CREATE MATERIALIZED VIEW a.b AS\nSELECT x FROM c LIMIT 1",
        "VIEW_NOT_DETERMINISTIC",
        "line 2, column 17",
    ),
    "a parameter": ("CREATE MATERIALIZED VIEW a.b AS SELECT x FROM c WHERE x > :y", "VIEW_PARAMETER", ":y"),
    "an unknown property": (
        "CREATE MATERIALIZED VIEW a.b TBLPROPERTIES ('lakehouse.snapshots' = 'c') AS SELECT x FROM c",
        "VIEW_HEAD",
        "lakehouse.snapshots means nothing",
    ),
    "a snapshot that is not there": (
        "CREATE MATERIALIZED VIEW a.b TBLPROPERTIES ('lakehouse.snapshot' = 'c, d') AS SELECT x FROM c",
        "VIEW_HEAD",
        "names d",
    ),
    "an unsafe property": (
        "CREATE MATERIALIZED VIEW a.b TBLPROPERTIES (delta.setTransactionRetentionDuration = 'interval 1 day') AS SELECT x FROM c",
        "VIEW_HEAD",
        "is refused",
    ),
    "an expectation": (
        "CREATE MATERIALIZED VIEW a.b (x INT, CONSTRAINT p EXPECT (max(x) > 0)) AS SELECT x FROM c",
        "VIEW_EXPECT",
        "line 1, column 38",
    ),
    "a layout of no column": (
        "CREATE MATERIALIZED VIEW a.b (x INT) PARTITIONED BY (y) AS SELECT x FROM c",
        "VIEW_SYNTAX",
        "no column y",
    ),
}


@pytest.mark.parametrize(("text", "code", "words"), NAMES.values(), ids=NAMES)
def test_a_file_that_is_no_view_is_refused_where_the_folder_is_read(tmp_path: Path, text: str, code: str, words: str):
    with pytest.raises(ViewError) as error:
        views_from(folder(tmp_path, b=text))
    assert error.value.code == code
    assert words in str(error.value)
    assert "sql/gold/b.sql" in str(error.value)


def test_the_expectations_of_a_statement_are_those_of_the_table(tmp_path: Path):
    text = """CREATE MATERIALIZED VIEW v (a INT, b INT,
      CONSTRAINT positive EXPECT (a > 0) ON VIOLATION DROP ROW, CONSTRAINT known EXPECT (b IS NOT NULL)) AS SELECT a, b FROM c"""
    (made,) = views_from(folder(tmp_path, v=text))
    assert Table.from_metadata(made.specs_by_key[made.key].metadata).expectations == (
        Expect("a > 0", "drop", "positive"),
        Expect("b IS NOT NULL", "warn", "known"),
    )


def test_two_files_of_one_view_are_refused(tmp_path: Path):
    sql = folder(tmp_path, customers=CUSTOMERS, others=CUSTOMERS.replace("gold.customers", "GOLD.customers"))
    with pytest.raises(
        ViewError, match=r"sql/gold/others.sql: GOLD.customers is the view of .*/sql/gold/customers.sql, too"
    ) as error:
        views_from(sql)
    assert error.value.code == "VIEW_FILE"


def test_names_of_tables_that_dagster_gives_to_no_input_are_names_of_inputs_with_another_end(tmp_path: Path):
    text = "CREATE MATERIALIZED VIEW v AS SELECT a FROM input JOIN `from` JOIN type JOIN a.b JOIN a__b JOIN `a-b`"
    (made,) = views_from(folder(tmp_path, v=text))
    assert {name: key.to_user_string() for name, key in made.keys_by_input_name.items()} == {
        "input_": "input",
        "from_": "from",
        "type_": "type",
        "a__b": "a/b",
        "a__b_": "a__b",
        "a_b": "a-b",
    }


def test_the_refresh_policy_of_a_statement_is_the_policy_of_the_table(tmp_path: Path):
    text = CUSTOMERS.replace(" AS SELECT", " REFRESH POLICY INCREMENTAL STRICT AS SELECT")
    (made,) = views_from(folder(tmp_path, customers=text))
    assert Table.from_metadata(made.specs_by_key[made.key].metadata).policy.refresh == "strict"


@pytest.mark.parametrize(
    "part", [Read(start=3), Read(exclude_operations=("OPTIMIZE",)), Read(exclude_metadata=("ours",))], ids=str
)
def test_a_view_over_a_part_of_a_source_is_refused(tmp_path: Path, part: Read):
    asset = dg.asset(metadata=Table(key="id"), ins={"orders": dg.AssetIn(metadata=part)})(the_ids)
    error = refused(tmp_path, asset)
    assert error.code == "VIEW_PARTIAL_INPUT"
    assert "View 'the_ids': The query is over all rows of 'orders'" in str(error)


def test_a_strict_view_that_follows_nothing_is_refused(tmp_path: Path):
    def only_a_snapshot(orders: DataFrame) -> View:
        return View("SELECT id FROM orders")

    strict = Table(key="id", policy=Policy(refresh="strict"))
    error = refused(tmp_path, view(only_a_snapshot, metadata=strict))
    assert error.code == "VIEW_NOT_INCREMENTAL"
    validate(location(tmp_path, view(only_a_snapshot)))
    validate(location(tmp_path, view(the_ids, metadata=strict)))


def test_a_view_of_a_folder_is_compared_with_a_recompute(tmp_path: Path):
    (tmp_path / "cities.sql").write_text(
        "CREATE MATERIALIZED VIEW cities (city, PRIMARY KEY (city)) AS SELECT city FROM orders GROUP BY city"
    )
    complete = incremental(
        location(tmp_path, *views_from(tmp_path), dg.AssetSpec("orders")), nightly_checks="0 3 * * *"
    )
    checks = {key.name for check in complete.asset_checks or () for key in check.check_keys}
    assert "equals_full_recompute" in checks
    spec = next(spec for spec in complete.resolve_all_asset_specs() if spec.key == dg.AssetKey("cities"))
    assert str(spec.metadata["full_recompute"]).startswith("Compared with a recompute at night (0 3 * * *)")

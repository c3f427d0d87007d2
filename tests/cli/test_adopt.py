"""`lakehouse adopt`: every model of a dbt project is in the report, and what is moved gives the rows that dbt gives."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from lakehouse.cli.main import main
from tests.support import dbt_shop


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return dbt_shop.write(tmp_path / "shop")


def adopted(capsys: pytest.CaptureFixture[str], folder: Path, *options: str, code: int = 0) -> dict[str, Any]:
    """What the command reports about each model, by its name."""
    assert main(["adopt", str(folder), "--json", *options]) == code
    answer = json.loads(capsys.readouterr().out)
    return answer | {"models": {each["model"]: each for each in answer["models"]}}


MOVED = {
    "marts.cities": ("by sums", ["city"]),
    "marts.customers": ("by keys", ["customer_id", "newest_order"]),
    "marts.finance.large_orders": ("by keys", ["customer_id"]),
    "marts.orders": ("by keys", ["order_id"]),
    "marts.top": ("by keys", ["order_id"]),
    "staging.stg_customers": ("by keys", ["customer_id"]),
    "staging.stg_lines": ("inlined", []),
    "staging.stg_orders": ("by keys", ["order_id"]),
}
NOT_MOVED = {
    "marts.former": "it is disabled",
    "marts.loaded": "now gives another value in each run",
    "marts.scored": "it is Python",
    "marts.starred": "the macro dbt_utils.star is in no file of the project",
    "snapshots.prices": "it is a snapshot",
}


def test_each_model_of_a_project_has_a_verdict(shop: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    answer = adopted(capsys, shop, "--dialect", "duckdb", "--dry-run", "--to", str(tmp_path / "new"))
    models = answer["models"]
    assert {name: (models[name]["becomes"], models[name]["key"]) for name in MOVED} == MOVED
    assert models.keys() == MOVED.keys() | NOT_MOVED.keys()
    wrong = {name: models[name] for name, why in NOT_MOVED.items() if not models[name]["why"].startswith(why)}
    assert wrong == {}
    assert answer["tables"] == ["raw.customers", "raw.lines", "raw.orders"]
    assert answer["files"] == [] and not (tmp_path / "new").exists()


def test_what_is_written_is_a_lakehouse_that_check_refuses_nothing_of(
    shop: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    answer = adopted(capsys, shop, "--dialect", "duckdb", "--to", str(tmp_path / "new"))
    written = {file.relative_to(tmp_path / "new").as_posix() for file in (tmp_path / "new").rglob("*.*")}
    stored = {name for name, (becomes, _) in MOVED.items() if becomes != "inlined"}
    assert written == {"definitions.py"} | {f"views/{name.replace('.', '/')}.sql" for name in stored}
    assert set(answer["files"]) == {str(tmp_path / "new" / file) for file in written}
    monkeypatch.chdir(tmp_path / "new")
    assert main(["check"]) == 0, capsys.readouterr().out


def test_the_view_files_say_what_dbt_computes(shop: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    adopted(capsys, shop, "--dialect", "duckdb", "--to", str(tmp_path / "new"))
    rows = {"raw/orders": dbt_shop.ORDERS, "raw/customers": dbt_shop.CUSTOMERS, "raw/lines": dbt_shop.LINES}
    order = ["stg_orders", "stg_lines", "stg_customers", "orders", "customers", "cities", "large_orders", "top"]
    theirs, ours = dbt_shop.tables_of_dbt(rows, order), dbt_shop.tables_of_views(tmp_path / "new/views", rows, order)
    assert [*ours] == [name for name in order if name != "stg_lines"]
    assert {name: each for name, each in ours.items() if Counter(each) != Counter(theirs[name])} == {}


def test_no_file_is_overwritten_and_none_is_written_in_front_of_the_refusal(
    shop: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    there = tmp_path / "new/views/staging/stg_orders.sql"
    there.parent.mkdir(parents=True)
    there.write_text("mine")
    with pytest.raises(SystemExit, match="2"):
        main(["adopt", str(shop), "--dialect", "duckdb", "--to", str(tmp_path / "new")])
    assert "stg_orders.sql is there already" in capsys.readouterr().err
    assert [file.read_text() for file in (tmp_path / "new").rglob("*.*")] == ["mine"]


def test_a_manifest_has_the_dialect_the_macros_and_what_only_dbt_renders(
    shop: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    compiled = 'select order_id, amount from "dev"."main"."orders"'
    macro = "{% macro default__euros(column, digits) %}{{ column }}{% endmacro %}"
    manifest = {
        "metadata": {"adapter_type": "duckdb"},
        "macros": {"a": {"package_name": "dbt", "name": "default__euros", "macro_sql": macro}},
        "nodes": {
            "a": {"name": "starred", "resource_type": "model", "relation_name": None, "compiled_code": compiled},
            "b": {"name": "orders", "resource_type": "model", "relation_name": '"dev"."main"."orders"'},
        },
        "sources": {},
    }
    (shop / "target").mkdir()
    (shop / "target/manifest.json").write_text(json.dumps(manifest))
    answer = adopted(capsys, shop, "--to", str(tmp_path / "new"))
    assert answer["dialect"] == "duckdb"
    assert answer["models"]["marts.starred"]["becomes"] == "by keys"
    assert "FROM marts.orders" in (tmp_path / "new/views/marts/starred.sql").read_text()
    assert "/ 100" in (tmp_path / "new/views/marts/orders.sql").read_text(), "the project's own macro counts most"


ODD: dict[str, bytes] = {
    "models/marts/odd.yml": b"models: [3, {name: orders, columns: [x, {name: y, tests: [{unique: 3}, 4]}], tests: {a: 1}}]",
    "models/marts/broken.yml": b"models: [",
    "models/marts/list.yml": b"- 1",
    "models/marts/latin.sql": b"select 'caf\xe9' as x",
    "models/marts/jinja.sql": b"{% if %}",
    "models/marts/loop.sql": b"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
    "models/marts/runs.sql": b"{% set rows = run_query('select 1') %}{% if execute %}select 1 as x{% endif %}",
    "models/marts/secret.sql": b"select '{{ env_var.__globals__ }}' as x",
    "models/marts/empty.sql": b"{{ config(materialized='table') }}",
    "models/marts/parse.sql": b"select (1",
    "models/marts/wrong.sql": b"select o.nothing from {{ ref('orders') }} o",
    "models/marts/unset.sql": b"select {{ var('nothing') }} as x",
    "models/staging/cities.sql": b"select city from {{ var('nothing') }}",
    "models/marts/first.sql": b"select * from {{ ref('second') }}",
    "models/marts/second.sql": b"select * from {{ ref('first') }}",
    "macros/odd.sql": b"{% macro odd( %}{% endmacro %}{% materialization x, default %}{% endmaterialization %}",
}


def test_no_file_is_an_error_of_all_others(shop: Path, capsys: pytest.CaptureFixture[str]):
    for name, content in ODD.items():
        (shop / name).write_bytes(content)
    models = adopted(capsys, shop, "--dialect", "duckdb", "--dry-run")["models"]
    paths = [Path(name).relative_to("models").with_suffix("") for name in ODD if re.match(r"models/.*\.sql", name)]
    odd = {".".join(path.parts) for path in paths}
    assert models.keys() == MOVED.keys() | NOT_MOVED.keys() | odd
    assert {name: models[name] for name in odd - {"marts.second"} if models[name]["becomes"] != "not moved"} == {}
    assert {name: models[name]["becomes"] for name in MOVED} == {name: kind for name, (kind, _) in MOVED.items()}


def test_a_folder_of_sql_files_is_adopted_by_its_statements(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    for name, text in {
        "orders.sql": "CREATE OR REPLACE VIEW silver.orders AS\nSELECT id, amount FROM raw.orders -- all;\n;",
        "totals.sql": "-- two\nCREATE TABLE gold.totals USING delta AS SELECT id, sum(amount) AS s FROM silver.orders "
        "GROUP BY id; INSERT INTO gold.totals VALUES (1, 2);",
        "loop.sql": "CREATE TABLE gold.loop AS SELECT * FROM gold.loop",
        "named.sql": "CREATE VIEW gold.named (nr) AS SELECT id FROM raw.orders",
        "again.sql": "CREATE TABLE gold.again AS SELECT 1 AS id; CREATE TABLE gold.again AS SELECT 2 AS id",
        "typo.sql": "CREATE TABLE gold.typo AS SELECT (1 AS id",
    }.items():
        (tmp_path / name).write_text(text)
    models = adopted(capsys, tmp_path, "--to", str(tmp_path / "new"))["models"]
    assert {name: each["becomes"] for name, each in models.items()} == {
        "silver.orders": "inlined",
        "gold.totals": "by keys",
        "totals": "not moved",
        "gold.loop": "not moved",
        "named": "not moved",
        "gold.again": "not moved",
        "typo": "not moved",
    }
    assert (tmp_path / "new/views/gold/totals.sql").read_text() == (
        "CREATE MATERIALIZED VIEW gold.totals\nTBLPROPERTIES ('lakehouse.key' = 'id')\nAS\nWITH silver__orders AS (\nSELECT id, amount FROM "
        "raw.orders\n)\nSELECT id, sum(amount) AS s FROM silver__orders AS orders GROUP BY id\n"
    )


def test_a_folder_of_any_name_has_its_config_and_a_reference_means_its_version(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    files = {
        "dbt_project.yml": "name: 'my_shop'\nmodels:\n  my_shop:\n    old-stuff:\n      +enabled: false\n",
        "models/old-stuff/gone.sql": "SELECT id FROM {{ source('raw', 'orders') }}",
        "models/m_v1.sql": "{{ config(materialized='table') }} SELECT id FROM {{ source('raw', 'orders') }}",
        "models/last.sql": "{{ config(materialized='table') }} SELECT id FROM {{ ref('m', v=1) }}",
        "models/sources.yml": "sources: [{name: raw, tables: [{name: orders}]}]",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    answer = adopted(capsys, tmp_path, "--dialect", "duckdb", "--dry-run")
    [gone] = [each for name, each in answer["models"].items() if name.endswith("gone")]
    assert gone["why"] == "it is disabled"
    assert answer["tables"] == ["raw.orders"], "and not the version of m"

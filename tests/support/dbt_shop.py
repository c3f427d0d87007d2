"""A dbt project in DuckDB's SQL, and the rows that dbt gives its models, with templates read apart from the library."""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import duckdb
import sqlglot

from lakehouse.views.files.statement import read_statement

ORDERS = [
    (number, number % 4 or None, ("paid", "open", "gone")[number % 3], datetime(2026, 1, 1 + number % 5, 9, tzinfo=UTC))
    for number in range(1, 13)
]
LINES = [(number % 13, f"p{number % 4}", 250 * number + 9, number % 4) for number in range(1, 40)]
CUSTOMERS = [(1, "Ann", "Bonn"), (2, " ", None), (3, "Cem", "Bonn")]
FILES = {
    "dbt_project.yml": """
        name: shop
        vars: {least: 30}
        models: {shop: {staging: {+materialized: view}, marts: {+materialized: table}}}""",
    "macros/euros.sql": """
        {% macro euros(column, digits=2) %}{{ return(adapter.dispatch('euros', 'shop')(column, digits)) }}{% endmacro %}
        {% macro default__euros(column, digits) %}cast({{ column }} / 100 as decimal(12, {{ digits }})){% endmacro %}""",
    "models/staging/sources.yml": """
        sources:
          - name: raw
            tables:
              - name: orders
                columns: [{name: id, tests: [unique, not_null]}]
              - name: lines""",
    "models/staging/schema.yml": """
        models:
          - name: stg_orders
            columns: [{name: order_id, data_tests: [unique, not_null]}]
          - name: stg_customers
            description: Who buys, and it's one row for each.
            columns: [{name: customer_id, tests: [not_null, unique]}]""",
    "models/staging/stg_orders.sql": """
        with source as (select * from {{ source('raw', 'orders') }}),
        renamed as (select id as order_id, customer as customer_id, status, ordered_at::date as day from source)
        select * from renamed;""",
    "models/staging/stg_lines.sql": """
        {{ config(materialized='ephemeral') }}
        select order_id, product, {{ euros('cents') }} as price, quantity
        from {{ source('raw', 'lines') }} where quantity > 0""",
    "models/staging/stg_customers.sql": """
        select id as customer_id, nullif(trim(name), '') as name, coalesce(city, 'unknown') as city
        from {{ source('raw', 'customers') }}""",
    "models/marts/orders.sql": """
        {{ config(materialized='incremental', unique_key='order_id') }}
        with totals as (
            select stg_lines.order_id, sum(price * quantity) as amount, count(*) as lines
            from {{ ref('stg_lines') }} group by stg_lines.order_id
        )
        select o.order_id, o.customer_id, o.status, o.day, coalesce(t.amount, 0) as amount, coalesce(t.lines, 0) as lines
        from {{ ref('stg_orders') }} o left join totals t on t.order_id = o.order_id
        {% if is_incremental() %}
        where o.day >= (select max(day) from {{ this }})
        {% endif %}""",
    "models/marts/customers.sql": """
        with orders as (select * from {{ ref('orders') }}),
        ranked as (
            select *, row_number() over (partition by customer_id order by day desc, order_id desc) as place from orders
        )
        select c.*, r.order_id as newest_order, r.amount as newest_amount
        from {{ ref('stg_customers') }} c left join ranked r on r.customer_id = c.customer_id and r.place = 1""",
    "models/marts/cities.sql": "select city, count(*) as customers from {{ ref('stg_customers') }} group by city",
    "models/marts/finance/large_orders.sql": """
        {% set statuses = ['paid', 'open'] %}
        select customer_id
          {% for status in statuses %}, sum(case when status = '{{ status }}' then amount end) as {{ status }}{% endfor %}
        from {{ ref('orders') }} where amount >= {{ var('least') }} and customer_id is not null group by 1""",
    "models/marts/top.sql": "select order_id, amount from {{ ref('orders') }} order by amount desc, order_id limit 3",
    "models/marts/loaded.sql": "select order_id, now() as loaded_at from {{ ref('orders') }}",
    "models/marts/starred.sql": "select {{ dbt_utils.star(ref('orders')) }} from {{ ref('orders') }}",
    "models/marts/former.sql": "{{ config(enabled=false) }} select 1 as one",
    "models/marts/scored.py": "def model(dbt, session): ...",
    "snapshots/prices.sql": "{% snapshot prices %} select 1 {% endsnapshot %}",
    "seeds/countries.csv": "code,name\nde,Germany\n",
}
SOURCES = {
    "raw/orders": "id int, customer int, status string, ordered_at timestamp",
    "raw/customers": "id int, name string, city string",
    "raw/lines": "order_id int, product string, cents int, quantity int",
}
EUROS = "cast(cents / 100 as decimal(12, 2))"
PAID_AND_OPEN = "".join(f", sum(case when status = '{each}' then amount end) as {each}" for each in ("paid", "open"))


def write(folder: Path) -> Path:
    """Writes the files of the project."""
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def tables_of_views(folder: Path, rows: Mapping[str, list[tuple]], models: list[str]) -> dict[str, list[tuple]]:
    """The rows of adopted view files: their queries are parsed as Spark SQL and computed by DuckDB."""
    connection, made = duckdb.connect(), {}
    for name, columns in SOURCES.items():
        table = name.replace("/", ".")
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {table.partition('.')[0]}")
        connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[name][0]))})", rows[name])
    for name in models:
        for file in folder.rglob(f"{name}.sql"):
            statement = read_statement(file.read_text())
            [query] = sqlglot.transpile(statement.query, read="spark", write="duckdb")
            schema = "_".join(statement.name[:-1])
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {schema}")
            made[name] = connection.execute(f"CREATE TABLE {schema}.{name} AS {query}; FROM {schema}.{name}").fetchall()
    return made


def tables_of_dbt(rows: Mapping[str, list[tuple]], models: list[str]) -> dict[str, list[tuple]]:
    """The rows that dbt gives some models in a full refresh, over the rows of the sources."""
    connection = duckdb.connect()
    for name, columns in SOURCES.items():
        table = name.replace("/", "_")
        connection.execute(f"CREATE TABLE {table} ({columns})")
        connection.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(rows[name][0]))})", rows[name])
    made = {}
    for name in models:
        [text] = [text for file, text in FILES.items() if file.endswith(f"/{name}.sql")]
        for pattern, replacement in {
            r"\{% if is_incremental.*?endif %\}": "",
            r"\{% set.*?%\}|\{\{ config.*?\}\}": "",
            r"\{% for.*?endfor %\}": PAID_AND_OPEN,
            r"\{\{ euros\('cents'\) \}\}": EUROS,
            r"\{\{ var\('least'\) \}\}": "30",
            r"\{\{ source\('(\w+)', '(\w+)'\) \}\}": r"\1_\2",
            r"\{\{ ref\('(\w+)'\) \}\}": r"\1",
        }.items():
            text = re.sub(pattern, replacement, text, flags=re.DOTALL)
        connection.execute(f"CREATE TABLE {name} AS {text}")
        made[name] = connection.execute(f"SELECT * FROM {name}").fetchall()
    return made

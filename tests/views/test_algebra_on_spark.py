"""On Spark a text and its algebra have the same names and rows: the algebra resolves names as Spark does."""

from collections import Counter
from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from lakehouse.views.algebra import MarkJoin, nodes_of
from lakehouse.views.query import read
from tests.support.slow import slow
from tests.views.algebra_sql import sql_of
from tests.views.test_reading import READINGS

SCHEMAS = {
    "orders": {
        "id": "bigint",
        "cust": "bigint",
        "day": "date",
        "amount": "decimal(10,2)",
        "tags": "array<string>",
        "info": "struct<a:int,b:struct<c:int>>",
        "My Col": "string",
    },
    "customers": {"Id": "bigint", "seg": "string", "nat": "int"},
    "nations": {"nat": "int", "region": "string"},
    "items": {"oid": "bigint", "qty": "int"},
}
ROWS = {
    "orders": """
        (1, 1, DATE '2024-01-05', 3.00, array('a', 'b'), named_struct('a', 1, 'b', named_struct('c', 5)), 'x'),
        (1, 2, DATE '2024-01-06', 9.00, array(), named_struct('a', 1, 'b', named_struct('c', 5)), 'y'),
        (2, 1, DATE '2024-02-05', 4.00, array('b', NULL), named_struct('a', 2, 'b', NULL), 'x'),
        (3, NULL, NULL, NULL, NULL, NULL, NULL), (4, 3, DATE '2024-02-01', 4.00, array('c'), NULL, 'z'),
        (NULL, 2, DATE '2023-02-01', 1.00, array('c'), NULL, 'z')""",
    "customers": "(1, 'x', 1), (2, NULL, 2), (3, 'y', NULL), (NULL, 'x', 2), (3, 'z', 1)",
    "nations": "(1, 'x'), (2, 'r'), (NULL, 'n'), (2, 'x')",
    "items": "(1, 3), (1, 4), (2, NULL), (NULL, 1), (5, 2)",
}
NAMES = {
    "the case of the text is the name": "SELECT ID, o.CUST, `my col`, INFO.A, t.Deep.b.C FROM orders o CROSS JOIN "
    "(SELECT info AS deep FROM orders) t",
    "an alias is found after the columns": "SELECT amount + 1 AS cust, cust + 1 AS next, next + 1 AS after FROM orders",
    "GROUP BY takes the column": "SELECT cust % 2 AS id, count(*) AS n FROM orders GROUP BY id, cust % 2",
    "GROUP BY takes an alias": "SELECT cust % 2 AS odd, count(*) AS n FROM orders GROUP BY odd",
    "HAVING takes a group": "SELECT cust % 2 AS cust, sum(amount) AS amount FROM orders GROUP BY cust HAVING cust > 1",
    "HAVING takes an alias": "SELECT cust, sum(amount) AS amount FROM orders GROUP BY cust HAVING amount > 5",
    "HAVING takes a column in an aggregate": "SELECT cust, sum(amount) AS amount FROM orders GROUP BY cust "
    "HAVING max(amount) < 9 AND amount >= 4",
    "USING on the left": "SELECT NAT, nations.nat AS other, seg FROM customers LEFT JOIN nations USING (nat)",
    "USING on the right": "SELECT NAT, c.nat AS mine, region FROM customers c RIGHT JOIN nations USING (nat)",
    "USING on both sides": "SELECT nat, seg FROM customers FULL JOIN nations USING (nat) WHERE nat > 1",
    "a correlated count of nothing": "SELECT id, (SELECT count(*) + 1 FROM items WHERE oid = orders.id) AS n FROM orders",
    "a correlated sum of nothing": "SELECT id, (SELECT coalesce(sum(qty), 7) FROM items WHERE oid = orders.id) AS n FROM orders",
    "a join of items in brackets": "SELECT o.id, c.seg, n.region FROM orders o LEFT JOIN (customers c JOIN nations n "
    "ON c.nat = n.nat) ON o.cust = c.id",
    "a comma before a left join": "SELECT o.id, n.region, c.seg FROM orders o, nations n LEFT JOIN customers c ON n.nat = c.nat",
    "EXCEPT and INTERSECT": "SELECT cust FROM orders EXCEPT SELECT id FROM customers INTERSECT SELECT nat FROM nations",
    "a null-safe join": "SELECT o.id, c.seg FROM orders o JOIN customers c ON o.cust <=> c.id",
    "a lambda in other letters": "SELECT id, filter(tags, cust -> cust = 'a') AS t FROM orders",
}
TEXTS = {
    **{what: text for what, (text, _) in READINGS.items() if "silver." not in text and ":low" not in text},
    **NAMES,
}


@pytest.fixture(scope="module")
def tables(spark: SparkSession) -> Iterator[SparkSession]:
    for table, columns in SCHEMAS.items():
        names = ", ".join(f"`{name}`" for name in columns)
        casts = ", ".join(f"CAST(`{name}` AS {kind}) AS `{name}`" for name, kind in columns.items())
        spark.sql(f"SELECT {casts} FROM VALUES {ROWS[table]} AS t({names})").createOrReplaceTempView(table)
    yield spark
    for table in SCHEMAS:
        spark.catalog.dropTempView(table)


def bag(frame: DataFrame) -> Counter[Row]:
    return Counter(map(str, map(tuple, frame.collect())))


@pytest.mark.parametrize("what", [text if n % 3 == 0 else slow(text) for n, text in enumerate(TEXTS)])
def test_spark_has_the_names_and_the_rows_of_the_algebra(tables: SparkSession, what: str):
    query = read(TEXTS[what], SCHEMAS)
    frame = tables.sql(TEXTS[what])
    named = [output.name for output in query.outputs]
    assert frame.columns == named
    kinds = dict(frame.dtypes)
    known = {
        name: query.types[o.column] for name, o in zip(named, query.outputs, strict=True) if o.column in query.types
    }
    assert {name: kinds[name] for name in known} == known
    if not any(isinstance(node, MarkJoin) for node in nodes_of(query.root)):  # Spark has IN and EXISTS in filters only
        assert bag(frame) == bag(tables.sql(sql_of(query, "spark")))

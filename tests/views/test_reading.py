"""How the text of a view is read, operator by operator; tests/views/shown.py defines the notation used here."""

from lakehouse.views.algebra import Place, Query, Scan, nodes_of
from lakehouse.views.query import names_in, read
from tests.support.for_each import for_each
from tests.views.shown import shown

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
    "silver.customers": {"id": "bigint", "seg": "string", "nat": "int"},
    "nations": {"nat": "int", "region": "string"},
    "items": {"oid": "bigint", "qty": "int"},
}

READINGS = {
    "columns keep the case of the text, and fields are taken out of their columns": (
        """SELECT O.ID, amount * 2 AS Twice, `My Col`, info.a FROM orders AS o""",
        """
extend twice_8=amount_4 * 2, a_9=(info_6).`a`
  orders o
-> ID=id_1, Twice=twice_8, My Col=my_col_7, a=a_9""",
    ),
    "what the branches of OR have in common is a condition of its own": (
        """SELECT id FROM orders WHERE (amount > 1 AND cust = 2) OR (cust = 2 AND id IS NULL)""",
        """
join where cust_2 = 2, amount_4 > 1 OR id_1 IS NULL
  inner orders orders
-> id=id_1""",
    ),
    "left joins whose NULLs a condition rejects are inner": (
        """SELECT o.id, seg FROM orders o LEFT JOIN silver.customers ON o.cust = customers.id LEFT JOIN nations USING (nat) WHERE region = 'x'""",
        """
join where region_12 = 'x', nat_10 = nat_11, cust_2 = id_8
  inner orders o
  inner silver.customers customers
  inner nations nations
-> id=id_1, seg=seg_9""",
    ),
    "a left join stays one where NULL may pass": (
        """SELECT o.id FROM orders o LEFT JOIN customers c ON o.cust = c.id AND c.nat > 1 WHERE coalesce(c.seg, 'x') = 'x'""",
        """
join where COALESCE(seg_9, 'x') = 'x'
  inner orders o
  left customers c on cust_2 = id_8, nat_10 > 1
-> id=id_1""",
    ),
    "a full join with USING has the key of either side": (
        """SELECT * FROM customers FULL JOIN nations USING (nat)""",
        """
extend nat_6=COALESCE(nat_3, nat_4)
  full join on nat_3 = nat_4
    customers customers
    nations nations
-> nat=nat_6, Id=id_1, seg=seg_2, region=region_5""",
    ),
    "a right join is a left join the other way round, whose key is that of the right": (
        """SELECT * FROM customers c RIGHT JOIN nations USING (nat)""",
        """
join
  inner nations nations
  left customers c on nat_3 = nat_4
-> nat=nat_4, Id=id_1, seg=seg_2, region=region_5""",
    ),
    "a natural join is one by the columns that both sides have": (
        """SELECT * FROM customers NATURAL JOIN nations""",
        """
join where nat_3 = nat_4
  inner customers customers
  inner nations nations
-> nat=nat_3, Id=id_1, seg=seg_2, region=region_5""",
    ),
    "joins in brackets are joined": (
        """SELECT o.id FROM orders o JOIN (customers c JOIN nations n ON c.nat = n.nat) ON o.cust = c.id""",
        """
join where nat_10 = nat_11, cust_2 = id_8
  inner orders o
  inner customers c
  inner nations n
-> id=id_1""",
    ),
    "two occurrences of a table have columns of their own": (
        """SELECT a.id FROM orders a, orders b WHERE a.id = b.cust""",
        """
join where id_1 = cust_9
  inner orders a
  inner orders b
-> id=id_1""",
    ),
    "subqueries that rows match or not are marks": (
        """SELECT o.id FROM orders o LEFT SEMI JOIN customers c ON o.cust = c.id LEFT ANTI JOIN items ON oid = o.id WHERE o.cust NOT IN (SELECT nat FROM nations) AND (amount > 3 OR EXISTS (SELECT * FROM nations n WHERE n.nat = o.cust))""",
        """
filter semi_11, NOT semi_14, NOT in_17, amount_4 > 3 OR exists_20
  mark exists_20 any on nat_18 = cust_2
    mark in_17 negative (cust_2) in (nat_15)
      mark semi_14 negative on oid_12 = id_1
        mark semi_11 positive on cust_2 = id_8
          orders o
          customers c
        items items
      nations nations
    nations n
-> id=id_1""",
    ),
    "a scalar subquery is an item that joins, and a count of no rows is 0": (
        """SELECT id, (SELECT count(*) + coalesce(sum(qty), 0) FROM items WHERE oid = orders.id) AS n, (SELECT max(nat) FROM nations) AS m FROM orders WHERE amount > (SELECT avg(x.amount) FROM orders x WHERE x.cust = orders.cust)""",
        """
extend n_25=CASE WHEN matched_21 IS NULL THEN 0 + COALESCE(NULL, 0) ELSE count______coalesce_sum__20 END
  join where amount_4 > avg_15, cust_9 = cust_2
    inner orders orders
    inner group by cust_9: avg_15=AVG(amount_11)
      orders x
    left extend matched_21=TRUE on oid_16 = id_1
      extend count______coalesce_sum__20=count_18 + COALESCE(sum_19, 0)
        group by oid_16: count_18=COUNT(*), sum_19=SUM(qty_17)
          items items
    inner group by : max_24=MAX(nat_22)
      nations nations
-> id=id_1, n=n_25, m=max_24""",
    ),
    "aliases mean what SELECT gives them, after the columns of FROM": (
        """SELECT cust AS c, sum(amount) AS total, total * 2 AS twice, count(*) FILTER (WHERE day IS NULL) AS k FROM orders GROUP BY c HAVING total > 3 AND max(day) IS NOT NULL""",
        """
extend twice_11=sum_8 * 2
  join where sum_8 > 3, NOT max_10 IS NULL
    inner group by cust_2: sum_8=SUM(amount_4), count_9=COUNT(*) FILTER(WHERE day_3 IS NULL), max_10=MAX(day_3)
      orders orders
-> c=cust_2, total=sum_8, twice=twice_11, k=count_9""",
    ),
    "in HAVING a name is a group, then what SELECT gives, except within an aggregate": (
        """SELECT cust % 2 AS cust, sum(amount) AS amount FROM orders GROUP BY cust HAVING amount > max(amount) AND cust > 1""",
        """
extend cust_10=cust_2 % 2
  join where (sum_8) > max_9, cust_2 > 1
    inner group by cust_2: sum_8=SUM(amount_4), max_9=MAX(amount_4)
      orders orders
-> cust=cust_10, amount=sum_8""",
    ),
    "groups are expressions, columns of SELECT by their number, or fields": (
        """SELECT date_trunc('month', day) AS month, info.a, count(*) AS k FROM orders GROUP BY (1), info.a""",
        """
group by g_8, g_9: count_10=COUNT(*)
  extend g_8=DATE_TRUNC('month', day_3), g_9=(info_6).`a`
    orders orders
-> month=g_8, a=g_9, k=count_10""",
    ),
    "windows of one partition are one node": (
        """SELECT id, sum(amount) OVER (PARTITION BY cust) AS s, row_number() OVER (PARTITION BY cust, day ORDER BY id) AS rn, max(id) OVER (PARTITION BY cust) AS m FROM orders QUALIFY rn = 1""",
        """
filter w_9 = 1
  windows by cust_2, day_3: w_9=ROW_NUMBER() OVER (PARTITION BY cust_2, day_3 ORDER BY id_1)
    windows by cust_2: w_8=SUM(amount_4) OVER (PARTITION BY cust_2), w_10=MAX(id_1) OVER (PARTITION BY cust_2)
      orders orders
-> id=id_1, s=w_8, rn=w_9, m=w_10""",
    ),
    "a window may go over groups": (
        """SELECT cust, sum(amount) AS s, rank() OVER (PARTITION BY year(day) ORDER BY sum(amount)) AS r FROM orders GROUP BY cust, year(day)""",
        """
windows by g_8: w_10=RANK() OVER (PARTITION BY g_8 ORDER BY sum_9)
  group by cust_2, g_8: sum_9=SUM(amount_4)
    extend g_8=YEAR(day_3)
      orders orders
-> cust=cust_2, s=sum_9, r=w_10""",
    ),
    "a union of distinct rows groups by all columns": (
        """SELECT DISTINCT seg FROM customers UNION SELECT region FROM nations""",
        """
group by seg_6
  UNION ALL
    group by seg_2
      customers customers
    nations nations
-> seg=seg_6""",
    ),
    "set operations go by position": (
        """SELECT id FROM orders EXCEPT ALL (SELECT oid FROM items INTERSECT SELECT Id FROM customers)""",
        """
EXCEPT ALL
  orders orders
  INTERSECT
    items items
    customers customers
-> id=id_14""",
    ),
    "each use of a common table expression has columns of its own": (
        """WITH t (k, s) AS (SELECT cust, sum(amount) FROM orders GROUP BY cust), u AS (SELECT * FROM t WHERE s > :low) SELECT a.k, b.s FROM t a JOIN u b ON a.k = b.k + 1""",
        """
join where sum_16 > :low, cust_2 = cust_10 + 1
  inner group by cust_2: sum_8=SUM(amount_4)
    orders orders
  inner group by cust_10: sum_16=SUM(amount_12)
    orders orders
-> k=cust_2, s=sum_16""",
    ),
    "a lateral view makes rows of a row": (
        """SELECT c.* EXCEPT (seg), x FROM customers c LATERAL VIEW OUTER explode(array(c.nat)) t AS x WHERE x > 1""",
        """
join where x_4 > 1
  inner generate outer x_4 of EXPLODE(ARRAY(nat_3))
    customers c
-> Id=id_1, nat=nat_3, x=x_4""",
    ),
    "so does a generator in SELECT": (
        """SELECT id, posexplode_outer(tags) AS (p, tag) FROM orders""",
        """
generate outer p_8, tag_9 of POSEXPLODE_OUTER(tags_5)
  orders orders
-> id=id_1, p=p_8, tag=tag_9""",
    ),
    "the parameters of a lambda are no columns": (
        """SELECT transform(tags, x -> concat(x, `My Col`)) AS t, id FROM orders""",
        """
extend t_8=TRANSFORM(tags_5, x -> CONCAT(x, my_col_7))
  orders orders
-> t=t_8, id=id_1""",
    ),
    "what a derived table gives is found under its alias, and its fields too": (
        """SELECT t.id, t.info.b.c AS c FROM (SELECT * FROM orders) t, nations n WHERE t.cust = n.nat""",
        """
extend c_10=((info_6).`b`).`c`
  join where cust_2 = nat_8
    inner orders orders
    inner nations n
-> id=id_1, c=c_10""",
    ),
}


def reading(text: str) -> Query:
    return read(text, SCHEMAS, ["low"] if ":low" in text else [])


@for_each("what", READINGS)
def test_a_text_is_read(what: str):
    text, expected = READINGS[what]
    assert shown(reading(text)) == expected.lstrip("\n")


def test_the_tables_of_a_text_are_in_the_order_in_which_it_names_them():
    text = """WITH t AS (SELECT cust FROM Silver.`orders` /* FROM nobody */), nations AS (SELECT 1 AS a FROM nations)
              SELECT t.cust FROM t JOIN b.c USING (cust) WHERE cust IN (SELECT a FROM nations) AND '-- FROM x' = ''"""
    assert names_in(text) == ("silver.orders", "nations", "b.c")


def test_a_place_is_the_whole_name_of_a_table():
    text = "SELECT t.id FROM silver.customers JOIN orders AS t ON t.cust = customers.id JOIN `items` ON oid = t.id"
    scans = [node for node in nodes_of(reading(text).root) if isinstance(node, Scan)]
    assert [text[scan.place.start : scan.place.end] for scan in scans] == ["silver.customers", "orders", "`items`"]
    assert [scan.place.has_alias for scan in scans] == [False, True, False]
    assert [scan.alias for scan in scans] == ["customers", "t", "items"]


def test_both_uses_of_a_common_table_expression_have_one_place():
    text = "WITH t AS (SELECT id FROM orders) SELECT a.id FROM t a JOIN t b ON a.id = b.id"
    places = {node.place for node in nodes_of(reading(text).root) if isinstance(node, Scan)}
    assert places == {Place(text.index("orders"), text.index("orders") + len("orders"), has_alias=False)}


def test_a_column_has_the_type_of_what_it_is_computed_of_where_that_is_plain():
    query = reading(
        "SELECT max(day) AS d, count(*) AS n, cast(cust AS decimal(9, 2)) AS c, cust + 1 AS more, coalesce(cust, cust) AS k "
        "FROM orders GROUP BY cust UNION ALL SELECT day, id, amount, id, nat FROM orders, nations"
    )
    types = {output.name: query.types.get(output.column) for output in query.outputs}
    assert types == {"d": "date", "n": "bigint", "c": None, "more": None, "k": None}


def test_a_last_order_is_dropped_and_said():
    query = reading("SELECT id FROM orders ORDER BY id DESC")
    assert query.notes == ("ORDER BY is dropped: a table has no order.",)


def test_an_expression_without_a_name_has_the_words_of_the_text():
    query = reading("SELECT cust, count(*),\n sum( amount ) FROM orders GROUP BY cust")
    assert [output.name for output in query.outputs] == ["cust", "count(*)", "sum( amount )"]


def test_an_alias_may_be_called_as_a_function_is():
    text = "WITH log(a) AS (SELECT id FROM orders) SELECT year.a, log.a AS b FROM (SELECT id FROM orders) year(a) JOIN log USING (a)"
    assert [output.name for output in reading(text).outputs] == ["a", "b"]
    assert names_in(text) == ("orders",)


def test_a_hint_changes_nothing():
    text = "SELECT {}o.id FROM orders o JOIN items ON oid = o.id"
    assert shown(reading(text.format("/*+ repartition(3), BROADCAST(items) */ "))) == shown(reading(text.format("")))

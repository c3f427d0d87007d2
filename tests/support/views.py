"""Views of a small shop: a query of each operator, the tables that they follow, and random edits of all tables at once."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from lakehouse import Changes, Table, View
from lakehouse.views.query import names_in
from tests.support.lake import Lake

TABLES = {
    "orders": "id int, customer int, amount int, status string, tags string",
    "customers": "id int, city string, segment string",
    "cities": "city string, country string",
}
STATUS, CITIES, SEGMENTS = ("open", "paid", "cancelled", None), ("Rome", "Oslo", "Bonn", "Ulm", None), ("a", "b", None)


@dataclass(frozen=True)
class Kept:
    """A query whose result is kept as a table.

    Args:
        name: The name of the table.
        sql: The query.
        key: The key of the table; empty if none is declared.
    """

    name: str
    sql: str
    key: tuple[str, ...] = ()

    @property
    def tables(self) -> tuple[str, ...]:
        return names_in(self.sql)

    @property
    def table(self) -> Table:
        return Table(key=self.key) if self.key else Table()

    @property
    def asset(self) -> Callable[..., View]:
        """The asset as a user writes it: a function whose parameters are the tables of the query."""
        return asset_of(self.name, self.sql, self.tables)


def asset_of(name: str, sql: str, followed: Sequence[str], **options: Any) -> Callable[..., View]:
    def function(**_: Changes) -> View:
        return View(sql, **options)

    function.__name__ = name
    function.__annotations__ = {**dict.fromkeys(followed, Changes), "return": View}
    return function


VIEWS = [
    Kept("filtered", "SELECT id, amount * 2 AS twice, customer FROM orders WHERE status <> 'cancelled'", ("id",)),
    Kept(
        "revenue",
        """SELECT coalesce(c.city, 'unknown') AS city, count(*) AS orders, sum(o.amount) AS revenue
           FROM orders o LEFT JOIN customers c ON o.customer = c.id  -- {braces} in a comment
           WHERE o.status <> 'cancelled' GROUP BY coalesce(c.city, 'unknown') HAVING count(*) > 1""",
        ("city",),
    ),
    Kept(
        "pairs",
        "SELECT a.id AS one, b.id AS other FROM orders a JOIN orders b ON a.customer = b.customer AND a.amount < b.amount",
        ("one", "other"),
    ),
    Kept(
        "silent",
        "SELECT id, city FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id)",
        ("id",),
    ),
    Kept(
        "strange",
        "SELECT id, amount FROM orders WHERE customer NOT IN (SELECT id FROM customers WHERE segment = 'a')",
        ("id",),
    ),
    Kept(
        "largest",
        """SELECT customer, id, amount FROM (SELECT *, row_number() OVER (PARTITION BY customer ORDER BY amount DESC, id) AS n
           FROM orders) WHERE n = 1""",
        ("customer",),
    ),
    Kept(
        "sizes",
        "SELECT n, count(*) AS customers FROM (SELECT customer, count(*) AS n FROM orders GROUP BY customer) GROUP BY n",
        ("n",),
    ),
    Kept(
        "countries",
        """SELECT t.country, c.segment, max(o.amount) AS top, count(DISTINCT c.id) AS customers
           FROM orders o JOIN customers c ON o.customer = c.id LEFT JOIN cities t ON c.city <=> t.city
           GROUP BY t.country, c.segment""",
        ("country", "segment"),
    ),
    Kept(
        "either",
        "SELECT c.city AS home, t.city AS known, count(*) AS n FROM customers c FULL JOIN cities t ON c.city = t.city GROUP BY c.city, t.city",
        ("home", "known"),
    ),
    Kept(
        "above",
        "SELECT id, amount FROM orders WHERE amount > (SELECT avg(amount) FROM orders WHERE status = 'paid')",
        ("id",),
    ),
    Kept("all_of_it", "SELECT count(*) AS n, sum(amount) AS amount FROM orders WHERE status = 'paid'"),
    Kept(
        "twice",
        """WITH paid AS (SELECT customer, sum(amount) AS amount FROM orders WHERE status = 'paid' GROUP BY customer)
           SELECT c.id, p.amount, q.amount AS of_city FROM customers c LEFT JOIN paid p ON c.id = p.customer
           LEFT JOIN (SELECT d.city, sum(r.amount) AS amount FROM customers d JOIN paid r ON d.id = r.customer GROUP BY d.city) q
           ON c.city = q.city""",
        ("id",),
    ),
    Kept(
        "tagged",
        "SELECT tag, count(*) AS n FROM orders LATERAL VIEW explode(split(tags, ',')) t AS tag GROUP BY tag",
        ("tag",),
    ),
    Kept("places", "SELECT city FROM customers EXCEPT SELECT city FROM cities", ("city",)),
    Kept(
        "running",
        "SELECT id, customer, sum(amount) OVER (PARTITION BY customer ORDER BY id) AS so_far FROM orders",
        ("id",),
    ),
    Kept("all_groups", "SELECT status, count(*) AS n, sum(amount) AS amount FROM orders GROUP BY ALL", ("status",)),
    Kept(
        "spine",
        """SELECT s.day, count(o.id) AS n FROM (SELECT explode(sequence(0, 4)) AS day) s
           LEFT JOIN orders o ON o.amount % 5 = s.day GROUP BY s.day""",
        ("day",),
    ),
    Kept(
        "constants",
        """SELECT v.status, w.least, count(o.id) AS n FROM VALUES ('open', 1), ('lost', 2), (NULL, 3) AS v(status, most)
           CROSS JOIN (SELECT 5 AS least) w LEFT JOIN orders o ON o.status <=> v.status AND o.amount > w.least
           GROUP BY v.status, w.least""",
        ("status", "least"),
    ),
    Kept(
        "rolled_up",
        """SELECT c.city, o.status, grouping_id() AS g, count(*) AS n, sum(o.amount) AS amount
           FROM orders o JOIN customers c ON c.id = o.customer GROUP BY ROLLUP (c.city, o.status)""",
        ("city", "status", "g"),
    ),
    Kept(
        "rolled_up_within",
        """SELECT c.city, o.status, grouping(o.status) AS g, count(*) AS n
           FROM orders o LEFT JOIN customers c ON c.id = o.customer GROUP BY c.city, ROLLUP (o.status)""",
        ("city", "status", "g"),
    ),
    Kept(
        "sets",
        """SELECT city, segment, grouping(city) + 2 * grouping(segment) AS g, count(*) AS n FROM customers
           GROUP BY GROUPING SETS ((city), (segment), (city, segment))""",
        ("city", "segment", "g"),
    ),
    Kept(
        "lateral",
        """SELECT o.id, t.tag, row_number() OVER w AS place, max(t.tag) OVER w AS last
           FROM orders o LEFT JOIN LATERAL explode(split(nullif(o.tags, ''), ',')) AS t(tag) ON true
           WINDOW w AS (PARTITION BY o.customer ORDER BY o.id, t.tag)""",
    ),
    Kept(
        "beside",
        """SELECT c.id, t.orders, t.top, u.country, v.name FROM customers c,
           LATERAL (SELECT count(*) AS orders, max(amount) AS top FROM orders o WHERE o.customer = c.id AND o.status <=> 'paid') t
           LEFT JOIN LATERAL (SELECT country FROM cities WHERE cities.city = c.city GROUP BY country) AS u(country) ON true,
           LATERAL (SELECT concat_ws(' ', c.city, c.segment) AS name) v""",
        ("id", "country"),
    ),
    Kept(
        "by_status",
        """SELECT c.id, t.status, t.amount FROM customers c
           JOIN LATERAL (SELECT o.status, sum(o.amount) AS amount FROM orders o WHERE o.customer = c.id GROUP BY o.status) t""",
        ("id", "status"),
    ),
    Kept(
        "by_hour",
        """SELECT window.start AS hour, c.city, count(*) AS n, max(o.amount) AS top FROM orders o
           LEFT JOIN customers c ON c.id = o.customer GROUP BY window(timestamp_seconds(o.amount * 600), '2 hours', '1 hour'), c.city""",
        ("hour", "city"),
    ),
    Kept(
        "sessions",
        """SELECT o.customer, session_window.start AS began, session_window.end AS ended, c.city, count(*) AS n,
           sum(o.amount) AS amount FROM orders o LEFT JOIN customers c ON c.id = o.customer
           GROUP BY o.customer, c.city, session_window(timestamp_seconds(o.amount * 600), '1 hour')""",
        ("customer", "began", "city"),
    ),
    Kept(
        "longest_sessions",
        """SELECT city, count(*) AS sessions, max(unix_seconds(w.end) - unix_seconds(w.start)) AS longest FROM (
           SELECT c.city, o.status, session_window(timestamp_seconds(o.amount * 600), '90 minutes') AS w
           FROM orders o JOIN customers c ON c.id = o.customer WHERE o.status IS NOT NULL GROUP BY 1, 2, w
           HAVING count(*) > 1) GROUP BY city""",
        ("city",),
    ),
    Kept(
        "pivoted",
        """SELECT c.city, p.open_n, p.open_s, p.gone_n FROM customers c JOIN (
           SELECT * FROM (SELECT customer, status, amount FROM orders)
           PIVOT (count(*) AS n, sum(amount) AS s FOR status IN ('open', 'cancelled' AS gone))) p ON p.customer = c.id
           WHERE p.open_n IS NULL OR p.open_s > 3""",
    ),
    Kept(
        "unpivoted",
        """SELECT what, value, count(*) AS n FROM customers UNPIVOT (value FOR what IN (city, segment AS part))
           GROUP BY what, value""",
        ("what", "value"),
    ),
    Kept(
        "fields",
        """SELECT t.part.first AS first, array_size(t.part.every) AS size, max(t.id) AS last
           FROM (SELECT named_struct('first', split(tags, ',')[0], 'every', split(tags, ',')) AS part, id FROM orders) t
           GROUP BY t.part.first, array_size(t.part.every)""",
        ("first", "size"),
    ),
    Kept(
        "in_another_zone",
        """SELECT from_utc_timestamp(timestamp_seconds(amount * 3600), 'Asia/Tokyo') AS at, map('s', status)['s'] AS status,
           date_sub(DATE '2024-01-01', amount) AS day, max(id) AS last FROM orders
           GROUP BY from_utc_timestamp(timestamp_seconds(amount * 3600), 'Asia/Tokyo'), map('s', status)['s'],
           date_sub(DATE '2024-01-01', amount)""",
        ("at", "status", "day"),
    ),
]
"""Views that are followed by touched keys."""


@dataclass
class Shop:
    """The tables, and edits of all of them."""

    lake: Lake
    random: Random
    next_order: int = 0

    def open(self, customers: int = 24, orders: int = 70) -> None:
        self.lake.create("customers", [self._customer(number) for number in range(customers)], TABLES["customers"])
        self.lake.create("orders", [self._order() for _ in range(orders)], TABLES["orders"])
        self.lake.create("cities", [(city, city[:2]) for city in CITIES[:3] if city] + [(None, "??")], TABLES["cities"])

    def _order(self) -> tuple[Any, ...]:
        self.next_order += 1
        choose = self.random.choice
        customer = choose([*range(26), *([None] if self.random.random() < 0.1 else [])])
        tags = choose((None, "", "x", "x,y", "y,z,z"))
        return self.next_order, customer, self.random.randrange(50), choose(STATUS), tags

    def _customer(self, number: int) -> tuple[Any, ...]:
        return number, self.random.choice(CITIES), self.random.choice(SEGMENTS)

    def edit(self) -> None:
        """A few statements: inserts, deletes, moves between groups, changes that cancel, on several tables."""
        edits = [self._sell, self._move_orders, self._cancel, self._move_customers, self._name_cities, self._to_and_fro]
        for edit in self.random.sample(edits, k=self.random.randint(1, 3)):
            edit()

    def _sell(self) -> None:
        self.lake.insert("orders", [self._order() for _ in range(2)])

    def _move_orders(self) -> None:
        customer = self.random.choice(["NULL", *range(26)])
        self.lake.sql(f"UPDATE {{orders}} SET customer = {customer} WHERE id % 37 = {self.random.randrange(37)}")

    def _cancel(self) -> None:
        which = self.random.randrange(29)
        self.lake.sql(f"DELETE FROM {{orders}} WHERE id % 29 = {which}")
        self.lake.sql(f"UPDATE {{orders}} SET status = 'paid', amount = amount + 1 WHERE id % 29 = {(which + 3) % 29}")

    def _move_customers(self) -> None:
        number, city = self.random.randrange(24), self.random.choice(CITIES)
        city = "NULL" if city is None else f"'{city}'"
        self.lake.sql(f"UPDATE {{customers}} SET city = {city} WHERE id = {number}")
        self.lake.sql(f"DELETE FROM {{customers}} WHERE id = {(number + 7) % 24}")
        self.lake.insert("customers", [self._customer((number + 7) % 24)])

    def _name_cities(self) -> None:
        self.lake.sql(f"DELETE FROM {{cities}} WHERE city = '{self.random.choice(CITIES[:4])}'")
        self.lake.insert("cities", [(self.random.choice(CITIES[:3]), f"c{self.random.randrange(3)}")])

    def _to_and_fro(self) -> None:
        where = f"WHERE id % 31 = {self.random.randrange(31)}"
        self.lake.sql(f"UPDATE {{orders}} SET amount = amount + 5 {where}")
        self.lake.sql(f"UPDATE {{orders}} SET amount = amount - 5 {where}")

    def expected(self, sql: str) -> list[tuple[Any, ...]]:
        """The query's result over the current tables; temporary views stand for the tables, so the text stays."""
        for table in TABLES:
            self.lake.frame(table).createOrReplaceTempView(table)
        rows = [tuple(row) for row in self.lake.spark.sql(sql).collect()]
        for table in TABLES:
            self.lake.spark.catalog.dropTempView(table)
        return sorted(rows, key=repr)

"""Intervals of time have the rows that Spark has in them, and are followed by keys; else their view is computed whole."""

from random import Random

import pytest
from pyspark.sql import SparkSession

from lakehouse import View
from lakehouse.views.analysis import ByKeys, Whole
from lakehouse.views.query import read
from tests.views.algebra_sql import sql_of

SCHEMAS = {
    "orders": {"id": "bigint", "at": "timestamp", "local": "timestamp_ntz", "day": "date", "ms": "bigint"},
    "others": {"id": "bigint"},
    "odd": {"id": "bigint", "at": "timestamp", "window": "string"},
}
KEYS = dict.fromkeys(SCHEMAS, ("id",))
DURATIONS = (
    *(
        "'1 hour'",
        "'90 minutes'",
        "'1 day'",
        "'INTERVAL 2 weeks'",
        "'1 HOUR 30 Minutes 5 seconds'",
        "' 250 milliseconds'",
    ),
    *("'2 hours', '1 hour'", "'1 day', '7 hours', '15 minutes'", "'1 second', '10 milliseconds'"),
    *("'7 days', '7 days', '4 days'", "'1 hour', '60 minutes', '15 minutes'", "'1500000 microseconds'"),
)
FOLLOWED = {
    "SELECT window.start AS hour, count(*) AS n FROM orders GROUP BY window(at, '1 hour')": ("hour",),
    "SELECT WINDOW.`start`, window.END, count(*) AS n FROM orders GROUP BY Window(at, '1 hour')": ("start",),
    "SELECT window(at, '1 day').start AS day, count(*) AS n FROM orders GROUP BY 1": ("day",),
    "SELECT window(at, '1 day') AS w, count(*) AS n FROM orders GROUP BY w": ("w",),
    "SELECT window(at, '1 day') AS w, count(*) AS n FROM orders GROUP BY ALL": ("w",),
    "SELECT w.start, count(*) AS n FROM (SELECT *, window(at, '1 day') AS w FROM orders) GROUP BY w": ("start",),
    "SELECT *, window(at, '1 hour') FROM orders": ("id",),
    "SELECT window.start, id, count(*) AS n FROM orders GROUP BY window(at, '1 hour'), ROLLUP (id)": ("start", "id"),
    (
        "SELECT window.start, id, rank() OVER (PARTITION BY window ORDER BY count(*)) AS r FROM orders "
        "GROUP BY window(at, '1 hour'), id HAVING window.end > '2024-01-01'"
    ): ("start", "id"),
    (
        "SELECT window.start, c.id AS other, count(*) AS n FROM orders o JOIN others c ON o.id = c.id "
        "GROUP BY window(timestamp_millis(o.ms), '1 hour'), c.id"
    ): ("start", "other"),
    "SELECT window.start, count(*) AS n FROM orders GROUP BY window(CAST(day AS TIMESTAMP), '1 week')": ("start",),
    "SELECT window.start AS s, count(*) AS n FROM orders GROUP BY window(at, '3 hours', '2 hours') HAVING count(*) > 1": (
        "s",
    ),
    "SELECT window.start AS s, count(*) AS n FROM orders GROUP BY window(at, '1 hour') ORDER BY s DESC LIMIT 3": ("s",),
}
WHOLE = (
    "SELECT window.start, count(*) AS n FROM orders GROUP BY window(at, '2 hours', '1 second')",
    "SELECT window.start, count(*) AS n FROM orders GROUP BY window(local, '1 hour')",
    "SELECT window.start, count(*) AS n FROM orders GROUP BY window(day, '1 hour')",
    "SELECT window.start, count(*) AS n FROM orders GROUP BY window(at, '1 hour -5 minutes')",
    "SELECT window.start, count(*) AS n FROM orders GROUP BY window(at, 3600000000)",
    "SELECT window.start, count(*) AS n FROM odd GROUP BY window(at, '1 hour')",
    "SELECT id, window(at, '1 hour') AS a, window(at, '2 hours') AS b FROM orders",
    "SELECT id FROM orders WHERE window(at, '1 hour').start > '2024-01-01'",
    "SELECT session_window.start, count(*) AS n FROM orders GROUP BY session_window(at, '1 hour')",
    "SELECT session_window.start, count(*) AS n FROM orders GROUP BY session_window(at, '1 hour'), day",
    "SELECT day, session_window(at, '1 hour') AS w, count(*) AS n FROM orders GROUP BY ALL",
    "SELECT day, session_window.start, count(*) AS n FROM orders GROUP BY ROLLUP (day), session_window(at, '1 hour')",
    "SELECT day, session_window.start, count(*) AS n FROM orders GROUP BY day, session_window(at, ms * INTERVAL 1 SECOND)",
    "SELECT day, session_window.start, count(*) AS n FROM orders GROUP BY day, session_window(local, '1 hour')",
    "SELECT day, session_window(at, '1 hour') FROM orders",
    "SELECT day, session_window(at, '1 hour').end AS e, count(*) AS n FROM orders GROUP BY day, e, session_window.start",
)
SESSIONS = {
    "SELECT day, session_window.start, count(*) AS n FROM orders GROUP BY day, session_window(at, '1 hour')": ("day",),
    "SELECT day AS d, SESSION_WINDOW(at, '1 hour').end AS e FROM orders GROUP BY d, Session_Window(at, '1 hour')": (
        "d",
    ),
    "SELECT id % 3 AS k, session_window(at, '90 minutes') AS w, max(ms) AS m FROM orders GROUP BY 1, 2": ("k",),
    (
        "SELECT o.day, session_window, c.id AS other FROM orders o JOIN others c ON o.id = c.id "
        "GROUP BY session_window(timestamp_millis(o.ms), '1 hour'), c.id, o.day HAVING session_window.end > '2024-01-01'"
    ): ("day", "other"),
}
"""Sessions are followed by the other columns of their groups."""


def times(random: Random, count: int) -> str:
    """Times before and after 1970, at and around the edges of intervals, and NULL."""
    near = [0, 3_600_000_000, 86_400_000_000, 604_800_000_000, 1_710_054_000_000_000]
    edges = [sign * (edge * random.randrange(1, 9) + off) for edge in near for sign in (1, -1) for off in (-1, 0, 1)]
    micros = [*edges, *(random.randrange(-(10**15), 3 * 10**15) for _ in range(count))]
    listed = ", ".join(f"({n}L, timestamp_micros({n}L))" for n in micros)
    return f"SELECT * FROM VALUES (NULL, NULL), {listed} AS t(id, at)"


@pytest.mark.parametrize("zone", ["UTC", "America/New_York", "Asia/Kathmandu"])
def test_every_time_is_in_the_intervals_in_which_spark_has_it(spark: SparkSession, zone: str) -> None:
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        spark.sql(times(Random(zone), 60)).createOrReplaceTempView("orders")
        wrong = list[str]()
        for duration in DURATIONS:
            text = f"SELECT id, window(at, {duration}) AS w FROM orders"
            ours = spark.sql(sql_of(read(text, {"orders": {"id": "bigint", "at": "timestamp"}}), "spark"))
            spark_s = spark.sql(text)
            assert [kind for _, kind in ours.dtypes] == [kind for _, kind in spark_s.dtypes]
            wrong += [f"{duration}: {row}" for row in ours.exceptAll(spark_s).union(spark_s.exceptAll(ours)).collect()]
        assert not wrong
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
        spark.catalog.dropTempView("orders")


def test_intervals_are_followed_by_keys() -> None:
    for text, by in (FOLLOWED | SESSIONS).items():
        verdict = View(text).check(SCHEMAS, KEYS).verdict
        assert isinstance(verdict, ByKeys), (text, verdict)
        assert set(verdict.touch) <= set(by), (text, verdict)


def test_what_is_followed_says_what_spark_says(spark: SparkSession) -> None:
    values = ", ".join(
        f"({n}L, timestamp_micros({n}L * 1700000001L), NULL, date_add(DATE '2024-03-01', {n % 50}), {n}L * 1700000L, 'w')"
        for n in range(40)
    )
    for table, columns in SCHEMAS.items():
        named = (
            f"SELECT * FROM VALUES {values}, (NULL, NULL, NULL, NULL, NULL, NULL) AS t(id, at, local, day, ms, window)"
        )
        spark.sql(f"SELECT {', '.join(columns)} FROM ({named})").createOrReplaceTempView(table)
    try:
        for text in FOLLOWED:
            query, spark_s = read(text, SCHEMAS), spark.sql(text)
            assert [output.name for output in query.outputs] == spark_s.columns, text
            if query.top is None:
                ours = spark.sql(sql_of(query, "spark"))
                assert sorted(map(repr, map(tuple, ours.collect()))) == sorted(
                    map(repr, map(tuple, spark_s.collect()))
                ), text
    finally:
        for table in SCHEMAS:
            spark.catalog.dropTempView(table)


def test_other_intervals_are_computed_whole() -> None:
    for text in WHOLE:
        assert isinstance(View(text).check(SCHEMAS, KEYS).verdict, Whole), text

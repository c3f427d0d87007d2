"""Tables that own the rows of some days, one for each kind of write that can; an oracle that keeps the frozen rows."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Aggregate, Changes, Expect, Merge, Overwrite, Table, View
from lakehouse.commit.outcome import Committed, Outcome
from lakehouse.delta.policy import Policy
from lakehouse.delta.text import literal
from tests.support.lake import Lake
from tests.support.raises import raises_code

Row = tuple[Any, ...]
FIRST = date(2026, 1, 1)
ORDERS, CUSTOMERS = "id int, day date, customer int, amount int", "id int, city string"


def per_day(orders: Changes) -> Merge:
    touched = orders.touched("day")
    return Merge(touched.rows.groupBy("day").agg(F.sum("amount").alias("amount")), touched)


def copied(orders: Changes) -> Merge:
    touched = orders.touched("id")
    return Merge(touched.rows.select("id", "day", "amount"), touched)


def summed(orders: Changes) -> Aggregate:
    return Aggregate(orders, by="day", count="n", sums={"amount": "amount"})


def listed(orders: DataFrame) -> Overwrite:
    return Overwrite(orders.select("day", "amount"))


def largest(orders: Changes, customers: Changes) -> View:
    return View("""SELECT o.day, c.city, max(o.amount) AS amount FROM orders o JOIN customers c ON o.customer = c.id
                   GROUP BY o.day, c.city""")


def counted(orders: Changes, customers: Changes) -> View:
    return View("""SELECT o.day, c.city, count(*) AS n FROM orders o JOIN customers c ON o.customer = c.id
                   GROUP BY o.day, c.city""")


def added(orders: Changes) -> View:
    return View("SELECT day, count(*) AS n, sum(amount) AS amount FROM orders GROUP BY day")


def foremost(orders: Changes) -> View:
    return View("SELECT id, day, amount FROM orders ORDER BY amount DESC, id LIMIT 4")


def by_city(orders: Changes, customers: Changes) -> Merge:
    """A correction in the dimension reaches its facts by `via`."""
    of_customers = customers.touched("id").via(orders.source.selectExpr("customer AS id", "day"), "day")
    touched = orders.touched("day") | of_customers
    joined = touched.of(orders.source).join(customers.source.withColumnRenamed("id", "customer"), "customer")
    return Merge(joined.groupBy("day", "city").agg(F.max("amount").alias("amount")), touched)


def by_customer(orders: Changes) -> Merge:
    """A column outside the key touches keys, and another column outside it decides whether a row is owned."""
    touched = orders.touched("customer")
    return Merge(touched.rows.select("id", "day", "customer"), touched)


def shares(orders: Changes) -> View:
    return View("SELECT id, day, customer, sum(amount) OVER (PARTITION BY customer) AS amount FROM orders")


def ranked(orders: Changes) -> View:
    return View("SELECT id, day, rank() OVER (PARTITION BY day ORDER BY amount) AS place FROM orders")


def kept_apart(orders: Changes) -> Merge:
    return per_day(orders)


def computed_whole(orders: Changes, customers: Changes) -> View:
    return largest(orders, customers)


def of_frozen(largest: Changes) -> View:
    """Reads the feed of a table whose past stays, and owns all of its rows."""
    return View("SELECT city, sum(amount) AS amount, max(day) AS day FROM largest GROUP BY city")


def _by_day(orders: Iterable[Row], _: Iterable[Row]) -> Iterable[Row]:
    return _summed([(day, amount) for _, day, _, amount in orders], lambda amounts: (sum(amounts),))


def _summed(pairs: Iterable[tuple[Any, int]], of: Callable[[list[int]], Row]) -> list[Row]:
    groups = dict[Any, list[int]]()
    for group, value in pairs:
        groups.setdefault(group, []).append(value)
    return [(*(group if isinstance(group, tuple) else (group,)), *of(values)) for group, values in groups.items()]


def _joined(orders: Iterable[Row], customers: Iterable[Row]) -> list[tuple[tuple[date, str], int]]:
    cities = {row[0]: row[1] for row in customers}
    return [((day, cities[one]), amount) for _, day, one, amount in orders if one in cities]


@dataclass(frozen=True)
class Kept:
    """A table: its asset, its key, the position of the day in its rows, and its recompute in plain Python."""

    asset: Callable[..., Any]
    key: tuple[str, ...]
    day: int
    oracle: Callable[[Iterable[Row], Iterable[Row]], Iterable[Row]]
    policy: Policy = Policy()
    options: dict[str, Any] = field(default_factory=dict[str, Any])
    of: str = "orders"

    @property
    def name(self) -> str:
        return self.asset.__name__

    @property
    def may_change_sides(self) -> bool:
        return self.key == ("id",)

    def table(self, owns: str | None) -> Table:
        return Table(key=self.key, owns=owns if self.of == "orders" else None, policy=self.policy, **self.options)

    def rows(self, lake: Lake) -> list[Row]:
        """The rows of the table, and those of its quarantine."""
        rejected = lake.rows(f"{self.name}_quarantine") if "expect" in self.options else []
        return [*lake.rows(self.name), *(row[:2] for row in rejected)]


def _counts_and_sums(orders: Iterable[Row], _: Iterable[Row]) -> Iterable[Row]:
    return _summed([(day, amount) for _, day, _, amount in orders], lambda amounts: (len(amounts), sum(amounts)))


def _foremost(orders: Iterable[Row], _: Iterable[Row]) -> Iterable[Row]:
    first = sorted(orders, key=lambda order: (-order[3], order[0]))[:4]
    return [(id_, day, amount) for id_, day, _, amount in first]


def _shares(orders: Iterable[Row], _: Iterable[Row]) -> Iterable[Row]:
    totals = Counter[int]()
    for _, _, customer, amount in (orders := [*orders]):
        totals[customer] += amount
    return [(id_, day, customer, totals[customer]) for id_, day, customer, _ in orders]


def _ranked(orders: Iterable[Row], _: Iterable[Row]) -> Iterable[Row]:
    orders = [*orders]
    return [(o[0], o[1], 1 + sum(each[1] == o[1] and each[3] < o[3] for each in orders)) for o in orders]


def _largest(orders: Iterable[Row], customers: Iterable[Row]) -> Iterable[Row]:
    return _summed(_joined(orders, customers), lambda amounts: (max(amounts),))


def _of_frozen(frozen: Iterable[Row], _: Iterable[Row]) -> Iterable[Row]:
    frozen = [*frozen]
    cities = {row[1] for row in frozen}
    return [(c, sum(r[2] for r in frozen if r[1] == c), max(r[0] for r in frozen if r[1] == c)) for c in cities]


TABLES = (
    Kept(per_day, ("day",), 0, _by_day),
    Kept(largest, ("day", "city"), 0, _largest),
    Kept(listed, (), 0, lambda orders, _: [(day, amount) for _, day, _, amount in orders]),
    Kept(added, ("day",), 0, _counts_and_sums),
    Kept(summed, ("day",), 0, _counts_and_sums),
    Kept(copied, ("id",), 1, lambda orders, _: [(id_, day, amount) for id_, day, _, amount in orders]),
    Kept(counted, ("day", "city"), 0, lambda o, c: _summed(_joined(o, c), lambda amounts: (len(amounts),))),
    Kept(foremost, ("id",), 1, _foremost),
    Kept(by_city, ("day", "city"), 0, _largest, options={"partition_by": "day"}),
    Kept(by_customer, ("id",), 1, lambda orders, _: [order[:3] for order in orders]),
    Kept(shares, ("id",), 1, _shares, options={"partition_by": "day"}),
    Kept(ranked, ("day", "id"), 1, _ranked),
    Kept(kept_apart, ("day",), 0, _by_day, options={"expect": Expect("amount % 2 = 0", "quarantine")}),
    Kept(computed_whole, ("day", "city"), 0, _largest, Policy(refresh="full")),
    Kept(of_frozen, ("city",), 2, _of_frozen, of="largest"),
)


def drawn(chance: Random, number: int) -> tuple[Kept, ...]:
    """Random tables, each after the table that it reads."""
    names = {name for kept in chance.sample(TABLES, number) for name in (kept.name, kept.of)}
    return tuple(kept for kept in TABLES if kept.name in names)


@dataclass
class OwnedHouse:
    """The sources, the day of the next run, the rows that the tables own, and the rows that they must hold."""

    lake: Lake
    kept: tuple[Kept, ...] = TABLES
    owned_days: int = 10
    day: date = FIRST + timedelta(days=20)
    orders: dict[int, Row] = field(default_factory=dict[int, Row])
    customers: dict[int, Row] = field(default_factory=dict[int, Row])
    due: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    last: dict[str, date] = field(default_factory=dict[str, date])
    versions: dict[tuple[str, int], tuple[list[Row], date]] = field(
        default_factory=dict[tuple[str, int], tuple[list[Row], date]]
    )
    code: int = 0

    def begin(self) -> None:
        self.customers = {n: (n, city) for n, city in enumerate(("Rome", "Oslo", "Bonn"))}
        self.orders = {n: (n, FIRST + timedelta(days=n), n % 3, 10 + n) for n in range(20)}
        self.lake.create("orders", self.orders.values(), ORDERS)
        self.lake.create("customers", self.customers.values(), CUSTOMERS)

    @property
    def owns(self) -> str:
        return f"day >= date_sub(:today, {self.owned_days})"

    @property
    def edge(self) -> date:
        return self.day - timedelta(days=self.owned_days)

    @property
    def moment(self) -> datetime:
        return datetime(self.day.year, self.day.month, self.day.day, 12, tzinfo=UTC)

    def insert(self, *orders: Row) -> None:
        self.orders |= {order[0]: order for order in orders}
        self.lake.insert("orders", orders)

    def delete(self, ids: Iterable[int]) -> None:
        for id_ in (gone := [*ids]):
            del self.orders[id_]
        self.lake.sql(f"DELETE FROM {{orders}} WHERE id IN ({', '.join(map(str, gone))})") if gone else None

    def change(self, id_: int, amount: int) -> None:
        self.alter(id_, 3, amount)

    def alter(self, id_: int, place: int, value: Any) -> None:
        column = ("id", "day", "customer", "amount")[place]
        self.orders[id_] = (*self.orders[id_][:place], value, *self.orders[id_][place + 1 :])
        self.lake.sql(f"UPDATE {{orders}} SET {column} = {literal(value)} WHERE id = {id_}")

    def move(self, customer: int, city: str) -> None:
        """Corrects a dimension, after which a recompute gives other rows for each day of the customer."""
        self.customers[customer] = (customer, city)
        self.lake.sql(f"UPDATE {{customers}} SET city = '{city}' WHERE id = {customer}")

    def purge(self, before: date) -> None:
        self.delete([id_ for id_, order in self.orders.items() if order[1] < before])

    def run(self, thaw: tuple[date, date] | None = None, **options: Any) -> dict[str, Outcome]:
        """Runs each table once, and checks its rows against the oracle after the run."""
        return {kept.name: self.run_one(kept, thaw, **options) for kept in self.kept}

    def run_one(
        self, kept: Kept, thaw: tuple[date, date] | None = None, *, unread: bool = False, **options: Any
    ) -> Outcome:
        """One run of a table. If a row would change sides, the run is refused, and the next one thaws all rows."""
        if kept.of != "orders":
            thaw = None
        asked = {} if thaw is None else {"thaw": "unread" if unread else f"day >= '{thaw[0]}' AND day <= '{thaw[1]}'"}
        named: dict[str, Any] = {
            "moment": self.moment,
            "code_version": str(self.code) if self.code else None,
            **asked,
            **options,
        }
        if kept.may_change_sides and self.changes_sides(kept, thaw):
            with raises_code("CHANGED_SIDES"):
                self.lake.materialize(kept.asset, kept.table(self.owns), **named)
            self.check(kept)
            return self.run_one(kept, (date.min, date.max))
        expected = self.expected(kept, thaw)
        outcome = self.lake.materialize(kept.asset, kept.table(self.owns), **named)
        if isinstance(outcome, Committed) and kept.name in self.due:
            self.last[kept.name] = max(self.day, self.last.get(kept.name, self.day))
        self.due[kept.name] = expected
        self.check(kept)
        return outcome

    def rows_of(self, kept: Kept) -> list[Row]:
        """What a recompute gives."""
        source = self.orders.values() if kept.of == "orders" else self.due[kept.of]
        return [*kept.oracle(source, self.customers.values())]

    def is_owned(self, kept: Kept, thaw: tuple[date, date] | None) -> Callable[[Row], bool]:
        edge = max(self.day, self.last.get(kept.name, self.day)) - timedelta(days=self.owned_days)

        def is_owned(row: Row) -> bool:
            day = row[kept.day]
            return day >= edge or (thaw is not None and thaw[0] <= day <= thaw[1])

        return is_owned

    def changes_sides(self, kept: Kept, thaw: tuple[date, date] | None) -> bool:
        """Whether the row of a key is owned in the result and frozen in the table, or the reverse."""
        stored, is_owned = {row[0]: row for row in self.due.get(kept.name, ())}, self.is_owned(kept, thaw)
        return any(row[0] in stored and is_owned(row) != is_owned(stored[row[0]]) for row in self.rows_of(kept))

    def expected(self, kept: Kept, thaw: tuple[date, date] | None) -> list[Row]:
        """Owned rows from a recompute, frozen rows as the table had them; a first run computes all rows."""
        rows = self.rows_of(kept)
        if kept.name not in self.due or kept.of != "orders":
            return rows
        is_owned = self.is_owned(kept, thaw)
        return [*filter(is_owned, rows), *(row for row in self.due[kept.name] if not is_owned(row))]

    def check(self, kept: Kept) -> None:
        assert Counter(kept.rows(self.lake)) == Counter(self.due[kept.name]), (kept.name, self.day, self.owns)
        last = self.last.get(kept.name, date.min)
        self.versions[kept.name, self.lake.version(kept.name)] = self.due[kept.name], last

    def restore(self, back: int) -> None:
        """Restores each table to some versions ago, together with the rows that it must hold."""
        for kept in self.kept:
            at = [version for name, version in self.versions if name == kept.name][-1 - back]
            self.lake.sql(f"RESTORE TABLE {{{kept.name}}} TO VERSION AS OF {at}")
            self.due[kept.name], self.last[kept.name] = self.versions[kept.name, at]

    def act(self, chance: Random) -> str:
        """Does something random to the sources or to the tables; what it was."""
        next_id = max(self.orders, default=0) + 1
        frozen = [id_ for id_, order in self.orders.items() if order[1] < self.edge]
        word = chance.choice(
            (
                *("new", "new", "late", "purge", "change", "move", "days", "pause", "owns", "thaw", "restore"),
                *("redate", "hand over", "back", "full", "code", "gap", "rewrite"),
            )
        )
        match word:
            case "new":
                days = [self.day - timedelta(days=chance.randrange(5)) for _ in range(3)]
                self.insert(
                    *((next_id + n, day, chance.randrange(4), chance.randrange(50)) for n, day in enumerate(days))
                )
            case "late":
                self.insert((next_id, self.edge - timedelta(days=chance.randrange(1, 6)), 0, chance.randrange(99)))
            case "purge":
                self.purge(self.edge - timedelta(days=chance.randrange(-1, 5)))
            case "change" if self.orders:
                self.change(chance.choice([*(frozen or self.orders), *self.orders]), chance.randrange(99))
            case "move":
                self.move(chance.randrange(3), chance.choice(("Rome", "Ulm", "Oslo")))
            case "redate" if self.orders:
                id_ = chance.choice([*(frozen or self.orders), *self.orders])
                self.alter(id_, 1, self.day - timedelta(days=chance.randrange(20)))
            case "hand over" if self.orders:
                self.alter(chance.choice([*(frozen or self.orders), *self.orders]), 2, chance.randrange(4))
            case "back":
                self.day -= timedelta(days=chance.randrange(1, 6))
            case "full":
                self.run(compare="a full refresh was asked for")
                return "full"
            case "code":
                self.code += 1
            case "gap":
                for on in ("false", "true"):
                    self.lake.sql(f"ALTER TABLE {{orders}} SET TBLPROPERTIES (delta.enableChangeDataFeed = {on})")
                    self.insert((next_id + (on == "true"), self.day, 1, 5))
            case "rewrite":
                rows = self.lake.values(self.orders.values(), ORDERS).write.format("delta").mode("overwrite")
                rows.save(str(self.lake.root / "orders"))
            case "days":
                self.day += timedelta(days=1)
            case "pause":
                self.day += timedelta(days=chance.randrange(3, 9))
            case "owns":
                self.owned_days = chance.choice((5, 10, 15, 25))
            case "thaw":
                first = FIRST + timedelta(days=chance.randrange(30))
                self.run((first, first + timedelta(days=6)))
                return "thaw"
            case "restore" if all(len([v for n, v in self.versions if n == kept.name]) > 1 for kept in self.kept):
                self.restore(1)
            case other:
                return f"no {other}"
        self.run()
        return word

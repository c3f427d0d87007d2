"""Tables that own the rows of some days, of each kind of write that can; and an oracle that keeps the frozen rows."""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from random import Random
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Aggregate, Changes, Merge, Overwrite, Table, View
from lakehouse.commit.outcome import Outcome
from lakehouse.delta.policy import Policy
from tests.support.lake import Lake

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
    """A table: its asset, its key, the place of the day in its rows, and what a recompute gives, in plain Python."""

    asset: Callable[..., Any]
    key: tuple[str, ...]
    day: int
    oracle: Callable[[Iterable[Row], Iterable[Row]], Iterable[Row]]
    policy: Policy = Policy()

    @property
    def name(self) -> str:
        return self.asset.__name__

    def table(self, owns: str | None) -> Table:
        return Table(key=self.key, owns=owns, policy=self.policy)


def _counts_and_sums(orders: Iterable[Row], _: Iterable[Row]) -> Iterable[Row]:
    return _summed([(day, amount) for _, day, _, amount in orders], lambda amounts: (len(amounts), sum(amounts)))


def _foremost(orders: Iterable[Row], _: Iterable[Row]) -> Iterable[Row]:
    first = sorted(orders, key=lambda order: (-order[3], order[0]))[:4]
    return [(id_, day, amount) for id_, day, _, amount in first]


TABLES = (
    Kept(per_day, ("day",), 0, _by_day),
    Kept(largest, ("day", "city"), 0, lambda o, c: _summed(_joined(o, c), lambda amounts: (max(amounts),))),
    Kept(listed, (), 0, lambda orders, _: [(day, amount) for _, day, _, amount in orders]),
    Kept(added, ("day",), 0, _counts_and_sums),
    Kept(summed, ("day",), 0, _counts_and_sums),
    Kept(copied, ("id",), 1, lambda orders, _: [(id_, day, amount) for id_, day, _, amount in orders]),
    Kept(counted, ("day", "city"), 0, lambda o, c: _summed(_joined(o, c), lambda amounts: (len(amounts),))),
    Kept(foremost, ("id",), 1, _foremost),
)


@dataclass
class OwnedHouse:
    """The sources, the day of the next run, what the tables own, and what they must hold."""

    lake: Lake
    kept: tuple[Kept, ...] = TABLES
    owned_days: int = 10
    day: date = FIRST + timedelta(days=20)
    orders: dict[int, Row] = field(default_factory=dict[int, Row])
    customers: dict[int, Row] = field(default_factory=dict[int, Row])
    due: dict[str, list[Row]] = field(default_factory=dict[str, list[Row]])
    versions: dict[tuple[str, int], list[Row]] = field(default_factory=dict[tuple[str, int], list[Row]])

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
        self.orders[id_] = (*self.orders[id_][:3], amount)
        self.lake.sql(f"UPDATE {{orders}} SET amount = {amount} WHERE id = {id_}")

    def move(self, customer: int, city: str) -> None:
        """Corrects a dimension: each day of the customer would get other rows."""
        self.customers[customer] = (customer, city)
        self.lake.sql(f"UPDATE {{customers}} SET city = '{city}' WHERE id = {customer}")

    def purge(self, before: date) -> None:
        self.delete([id_ for id_, order in self.orders.items() if order[1] < before])

    def run(self, thaw: tuple[date, date] | None = None, **options: Any) -> dict[str, Outcome]:
        """One run of each table, each of which then holds what the oracle says."""
        asked = {} if thaw is None else {"thaw": f"day BETWEEN '{thaw[0]}' AND '{thaw[1]}'"}
        outcomes = dict[str, Outcome]()
        for kept in self.kept:
            named: dict[str, Any] = {"moment": self.moment, **asked, **options}
            outcomes[kept.name] = self.lake.materialize(kept.asset, kept.table(self.owns), **named)
            self.due[kept.name] = self.expected(kept, thaw)
            self.check(kept)
        return outcomes

    def expected(self, kept: Kept, thaw: tuple[date, date] | None) -> list[Row]:
        """Inside, what a recompute gives; outside, what was there. A first run computes everything."""
        rows = [*kept.oracle(self.orders.values(), self.customers.values())]
        if kept.name not in self.due:
            return rows

        def is_owned(row: Row) -> bool:
            day = row[kept.day]
            return day >= self.edge or (thaw is not None and thaw[0] <= day <= thaw[1])

        return [*filter(is_owned, rows), *(row for row in self.due[kept.name] if not is_owned(row))]

    def check(self, kept: Kept) -> None:
        assert Counter(self.lake.rows(kept.name)) == Counter(self.due[kept.name]), (kept.name, self.day, self.owns)
        self.versions[kept.name, self.lake.version(kept.name)] = self.due[kept.name]

    def restore(self, back: int) -> None:
        """Takes each table back by some versions, to what it held then."""
        for kept in self.kept:
            at = [version for name, version in self.versions if name == kept.name][-1 - back]
            self.lake.sql(f"RESTORE TABLE {{{kept.name}}} TO VERSION AS OF {at}")
            self.due[kept.name] = self.versions[kept.name, at]

    def act(self, chance: Random) -> str:
        """Something that happens at random, to the sources or to the tables."""
        next_id = max(self.orders, default=0) + 1
        frozen = [id_ for id_, order in self.orders.items() if order[1] < self.edge]
        match chance.choice(
            ("new", "new", "late", "purge", "change", "move", "days", "pause", "owns", "thaw", "restore")
        ):
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
        return "run"

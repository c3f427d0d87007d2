"""A tiny warehouse of TPC-H's tables: random rows with values that its queries look for, and random edits of them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any, TypeAlias

from tests.views.tpch import SCHEMAS

Row: TypeAlias = dict[str, Any]
Key: TypeAlias = tuple[Any, ...]

KEYS: dict[str, tuple[str, ...]] = {
    "region": ("r_regionkey",),
    "nation": ("n_nationkey",),
    "supplier": ("s_suppkey",),
    "customer": ("c_custkey",),
    "part": ("p_partkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
}
SIZES = {
    "region": 3,
    "nation": 8,
    "supplier": 40,
    "customer": 60,
    "part": 60,
    "partsupp": 200,
    "orders": 220,
    "lineitem": 900,
}
WEIGHTS = {"partsupp": 3, "customer": 5, "orders": 5, "lineitem": 15}
"""How many rows of a table an edit changes for each row that it changes in any other table."""
VALUES: dict[str, Sequence[Any]] = {
    "r_name": ("ASIA", "EUROPE", "AMERICA"),
    "n_name": ("FRANCE", "GERMANY", "BRAZIL", "CANADA", "INDIA", "CHINA", "JAPAN", "SAUDI ARABIA"),
    "s_comment": ("quick", "even", "Customer some Complaints"),
    "c_mktsegment": ("BUILDING", "MACHINERY", "FURNITURE"),
    "c_phone": ("13-1", "31-2", "23-3", "29-4", "30-5", "18-6", "17-7", "11-8"),
    "c_acctbal": (-10, 100, 300, 900),
    "p_name": ("forest green", "forest red", "green apple", "red lace"),
    "p_brand": ("Brand#12", "Brand#23", "Brand#23", "Brand#34", "Brand#45"),
    "p_type": ("SMALL BRASS", "LARGE BRASS", "ECONOMY ANODIZED STEEL", "PROMO TIN", "MEDIUM POLISHED TIN"),
    "p_container": ("SM CASE", "MED BOX", "LG BOX"),
    "p_size": (15, 3, 3, 9),
    "ps_availqty": (1, 40, 9999),
    "o_orderstatus": ("F", "O"),
    "o_orderpriority": ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-LOW", "5-LATER", "6-SOME DAY", "7-NEVER"),
    "o_comment": ("plain", "plain", "special requests"),
    "l_quantity": (1, 3, 8, 15, 20, 25, 30, 151),
    "l_discount": (Decimal("0.05"), Decimal("0.06"), Decimal("0.07"), Decimal("0.10")),
    "l_returnflag": ("R", "A", "N"),
    "l_linestatus": ("O", "F", "P", "Q", "S", "T"),
    "l_shipinstruct": ("DELIVER IN PERSON", "NONE"),
    "l_shipmode": ("MAIL", "SHIP", "AIR", "AIR REG"),
}
MONTHS = [(1993, 8), (1993, 11), (1994, 3), (1994, 9), (1995, 2), (1995, 8), (1996, 1)]
SMALL = ("region", "nation")
"""Tables whose changes reach large parts of most results; only few rounds change them."""


@dataclass
class Warehouse:
    """The rows of all tables.

    Args:
        random: Draws the rows and the edits.
    """

    random: Random
    rows: dict[str, dict[Key, Row]] = field(default_factory=dict[str, dict[Key, Row]])

    def __post_init__(self) -> None:
        for table, size in SIZES.items():
            self.rows[table] = {}
            while len(self.rows[table]) < size:
                self.insert(table)

    def edit(self, most: int) -> None:
        """Inserts, updates, moves to other keys and deletes: in each table up to `most`, times its weight, of each."""
        for table in SIZES:
            if table in SMALL and self.random.random() < 0.7:
                continue
            for act in (self.insert, self.delete, self.update, self.move):
                for _ in range(self.random.randint(0, most * WEIGHTS.get(table, 1))):
                    act(table)

    def insert(self, table: str) -> None:
        new = self._row(table)
        self.rows[table].setdefault(_key(table, new), new)

    def delete(self, table: str) -> None:
        del self.rows[table][self._one(table)]

    def update(self, table: str) -> None:
        """Changes one to three columns outside the key, which queries group, join, filter or sum by."""
        key, new = self._one(table), self._row(table)
        columns = [name for name in SCHEMAS[table] if name not in KEYS[table]]
        changed = {
            name: new[name] for name in self.random.sample(columns, self.random.randint(1, min(3, len(columns))))
        }
        self.rows[table][key] = {**self.rows[table][key], **changed}

    def move(self, table: str) -> None:
        """Moves a row to another key; its other values stay."""
        key, new = self._one(table), self._row(table)
        if _key(table, new) not in self.rows[table]:
            moved = self.rows[table].pop(key) | {name: new[name] for name in KEYS[table]}
            self.rows[table][_key(table, moved)] = moved

    def _one(self, table: str) -> Key:
        return self.random.choice(list(self.rows[table]))

    def _row(self, table: str) -> Row:
        """A new row; it refers to keys that other tables have or had."""
        chosen = self._keys_of_others(table)
        columns = SCHEMAS[table].items()
        row = {name: chosen[name] if name in chosen else self._value(name, kind) for name, kind in columns}
        number = row[KEYS[table][0]]
        names = {"region": "r_name", "nation": "n_name"}
        if table in names and number <= len(VALUES[names[table]]):
            row[names[table]] = VALUES[names[table]][number - 1]
        if table == "supplier":
            row["s_name"] = f"Supplier {number}"
        if table == "lineitem":
            row["l_commitdate"] = row["l_shipdate"] + timedelta(self.random.randint(10, 40))
            row["l_shipdate"] = row["l_shipdate"] + timedelta(self.random.randint(1, 30))
            row["l_receiptdate"] = row["l_shipdate"] + timedelta(self.random.randint(1, 30))
        return row

    def _keys_of_others(self, table: str) -> Row:
        one = self.random.randint
        match table:
            case "region":
                return {"r_regionkey": one(1, 3)}
            case "nation":
                return {"n_nationkey": one(1, 8), "n_regionkey": one(1, 3)}
            case "supplier" | "customer":
                return {f"{table[0]}_nationkey": one(1, 8)}
            case "partsupp":
                return {"ps_partkey": one(1, 64), "ps_suppkey": one(1, 42)}
            case "orders":  # a third of the customers have no orders
                return {"o_custkey": 3 * one(0, 21) + one(1, 2)}
            case "lineitem":
                part, supplier = self._one("partsupp")
                return {"l_orderkey": one(1, 240), "l_partkey": part, "l_suppkey": supplier, "l_linenumber": one(1, 9)}
            case _:
                return {}

    def _value(self, name: str, kind: str) -> Any:
        if name in VALUES:
            value = self.random.choice(VALUES[name])
            return Decimal(value) if kind.startswith("decimal") else value
        if name.endswith("key"):
            table = next(table for table, key in KEYS.items() if name in key)
            return self.random.randint(1, SIZES[table] + SIZES[table] // 10 + 1)
        match kind:
            case "string":
                return f"{name} {self.random.randint(1, 50)}"
            case "date":
                return date(*self.random.choice(MONTHS), self.random.randint(1, 28))
            case _:
                number = self.random.randint(1, 900)
                return Decimal(number) / 4 if kind.startswith("decimal") else number


def _key(table: str, row: Row) -> Key:
    return tuple(row[name] for name in KEYS[table])

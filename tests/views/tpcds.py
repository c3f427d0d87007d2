"""TPC-DS, from the file next to this one: its tables, their keys, its 99 queries by their numbers, and random rows."""

import re
from collections.abc import Mapping
from datetime import date, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import sqlglot
from sqlglot import exp

from tests.support.views_in_duckdb import NewRow, Row

_TEXT = Path(__file__).with_suffix(".sql").read_text()
_TABLES = re.findall(r"^CREATE TABLE (\w+) \((.*), PRIMARY KEY \((.*)\)\);$", _TEXT, re.MULTILINE)

SCHEMAS = {name: dict(re.findall(r"(\w+) (\w+(?:\([\d,]+\))?)(?:, |$)", columns)) for name, columns, _ in _TABLES}
KEYS = {name: tuple(key.split(", ")) for name, _, key in _TABLES}
QUERIES = dict(re.findall(r"^-- (\d+[ab]?)\n(.*);$", _TEXT, re.MULTILINE))
FACTS = ("sales", "returns", "inventory")
"""The endings of the names of the tables that have many rows."""


class NewRowOfStores(NewRow):
    """Random rows of TPC-DS's tables: few keys, values that a query compares with, and days whose columns agree."""

    replaced = frozenset({"date_dim"})

    def __init__(self, schemas: Mapping[str, Mapping[str, str]], random: Random, text: str) -> None:
        super().__init__(schemas, random)
        self.compared: dict[str, list[str]] = {}
        for node in sqlglot.parse_one(text, read="spark").find_all(exp.EQ, exp.In, exp.Between, exp.GTE, exp.LTE):
            for column in node.this.find_all(exp.Column):
                self.compared.setdefault(column.name, []).extend(each.name for each in node.find_all(exp.Literal))
        self.days = [date.fromisoformat(day) for day in re.findall(r"'(\d{4}-\d\d-\d\d)'", text)]
        self.years = self._numbers("d_year", 1900, 2100) or [day.year for day in self.days] or [2000]

    def __call__(self, table: str) -> Row:
        row = dict(zip(self.schemas[table], super().__call__(table), strict=True))
        return tuple((row | self._parts(self._day()) if table == "date_dim" else row).values())

    def _numbers(self, column: str, least: int, most: int) -> list[int]:
        numbers = [int(text) for text in self.compared.get(column, ()) if text.isdecimal()]
        return [number for number in numbers if least <= number <= most]

    def _day(self) -> date:
        choose = self.random.choice
        if self.days and self.random.random() < 0.7:
            return choose(self.days) + timedelta(choose([0, 0, 1, 7, 14, 20]))
        months = self._numbers("d_month_seq", 100, 3000)
        if months:
            year, month = divmod(choose(months) + self.random.randint(0, 11), 12)
            return date(1900 + year, month + 1, 1)
        month = choose(self._numbers("d_moy", 1, 12) or [1, 3, 6, 11])
        return date(
            choose(self.years) + choose([0, 0, 0, 1, -1]), month, choose(self._numbers("d_dom", 1, 28) or [1, 8])
        )

    @staticmethod
    def _parts(day: date) -> dict[str, Any]:
        quarter = (day.month + 2) // 3
        return {
            "d_date": day,
            "d_year": day.year,
            "d_moy": day.month,
            "d_dom": day.day,
            "d_qoy": quarter,
            "d_dow": day.isoweekday() % 7,
            "d_day_name": day.strftime("%A"),
            "d_quarter_name": f"{day.year}Q{quarter}",
            "d_month_seq": (day.year - 1900) * 12 + day.month - 1,
            "d_week_seq": (day - date(1900, 1, 1)).days // 7 + 1,
        }

    def value(self, name: str, kind: str) -> Any:
        choose, texts = self.random.choice, self.compared.get(name, [])
        if self.random.random() < 0.04:
            return None
        if name.endswith(("_sk", "_ticket_number", "_order_number")):
            return self.random.randint(1, 3)
        numbers = [Decimal(text) for text in texts if re.fullmatch(r"\d+(\.\d+)?", text)]
        match kind:
            case "string":
                return choose([*(text.replace("%", "") for text in texts), *texts[:1], "one"])
            case "date":
                return date(2000, self.random.randint(1, 3), 1)
            case "int":
                return int(choose(numbers or [Decimal(number) for number in (1, 2, 5, 20, 60)])) + choose([0, 0, 1])
            case _:
                return choose(numbers or [Decimal(number) for number in (1, 5, 50, 99)])

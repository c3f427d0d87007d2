"""TPC-DS, from the file beside this one: its tables, their keys, and its 99 queries, by their numbers."""

import re
from pathlib import Path

_TEXT = Path(__file__).with_suffix(".sql").read_text()
_TABLES = re.findall(r"^CREATE TABLE (\w+) \((.*), PRIMARY KEY \((.*)\)\);$", _TEXT, re.MULTILINE)

SCHEMAS = {name: dict(re.findall(r"(\w+) (\w+(?:\([\d,]+\))?)(?:, |$)", columns)) for name, columns, _ in _TABLES}
KEYS = {name: tuple(key.split(", ")) for name, _, key in _TABLES}
QUERIES = dict(re.findall(r"^-- (\d+[ab]?)\n(.*);$", _TEXT, re.MULTILINE))

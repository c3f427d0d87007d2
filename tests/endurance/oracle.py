"""What each table of the soak must hold, computed by DuckDB and plain Python from the files of its inputs."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import duckdb
import pyarrow as pa

from tests.endurance.sources import ARROW, BASE
from tests.reliability.checker import Asset
from tests.reliability.delta_files import History, Row
from tests.reliability.laws import Law, Span, continued, differs, takes

SQL = Path(__file__).parent / "sql"
Tables = Mapping[str, list[Row]]
QUERIES = {file.stem: file.read_text().split(" AS\n", 1)[1].rstrip(";\n") for file in SQL.glob("*.sql")}
QUERIES |= {
    "current": "SELECT * FROM orders WHERE amount < 400",
    "totals": "SELECT product, count(*) AS n, sum(amount) AS total FROM current GROUP BY product",
    "judged": "SELECT * FROM orders WHERE amount < 450",
    "calm": "SELECT id, points FROM events WHERE points < 50",
    "kinds": "SELECT kind, max(points) AS most, count(*) AS n FROM events GROUP BY kind",
    "shares": "SELECT e.id AS id, e.kind AS kind, c.points AS points, k.most AS most, k.n AS n "
    "FROM events e LEFT JOIN calm c ON e.id = c.id LEFT JOIN kinds k ON e.kind = k.kind",
    "prices": "SELECT id, price, shelf FROM extracts WHERE number = (SELECT max(number) FROM extracts)",
}


def sources_of(name: str) -> list[str]:
    """The tables that a query reads."""
    words = re.findall(r"(?:FROM|JOIN) (\w+)", QUERIES[name])
    return [word for word in dict.fromkeys(words) if word in QUERIES or word in BASE]


def computed(name: str, tables: Tables) -> list[Row]:
    """The rows of a query's table, by DuckDB."""
    return _result(name, tables).to_pylist()


def _result(name: str, tables: Tables) -> pa.Table:
    with duckdb.connect() as connection:
        connection.execute("SET threads = 1")
        for table in sources_of(name):
            connection.register(table, _arrow(table, tables[table]))
        return connection.execute(QUERIES[name]).to_arrow_table()


def _arrow(table: str, rows: list[Row]) -> pa.Table:
    """The rows with all columns that any row has; without a row, the columns of the source or of the query."""
    if rows:
        return pa.Table.from_pylist(rows)
    if table in BASE:
        return pa.table({name: pa.array([], ARROW[kind]) for name, kind in BASE[table].items()})
    return _result(table, {source: [] for source in sources_of(table)}).slice(0, 0)


def whole(rows: Iterable[Row]) -> list[Row]:
    """The rows without their NULLs, so that a column that was added later equals one that is NULL."""
    return [{name: value for name, value in row.items() if value is not None} for row in rows]


def _equals(name: str) -> Law:
    def law(_before: list[Row] | None, spans: Mapping[str, Span], rows: list[Row]) -> str | None:
        return differs(whole(computed(name, {table: span.rows for table, span in spans.items()})), whole(rows))

    return law


@dataclass
class Fold:
    """A law: the table is the history of its source. The expected history is kept and continued at the next call.

    Args:
        tracked: The columns whose changes begin another row.
    """

    tracked: tuple[str, ...]
    _version: int = field(init=False, default=-1)
    _rows: list[Row] = field(init=False, default_factory=list[Row])

    def __call__(self, _before: list[Row] | None, spans: Mapping[str, Span], rows: list[Row]) -> str | None:
        (span,) = spans.values()
        if span.upto < self._version:  # the table was restored
            self._version, self._rows = -1, []
        moments = span.history.moments(span.upto)
        for version in range(self._version + 1, span.upto + 1):
            self._rows = continued(self._rows, span.history.rows(version), moments[version], self.tracked)
        self._version = span.upto
        return differs(whole(self._rows), whole(rows))


def _archives(before: list[Row] | None, spans: Mapping[str, Span], rows: list[Row]) -> str | None:
    """The table keeps its rows and gets the new rows of each version; a RESTORE gives all rows of the files it adds."""
    (span,) = spans.values()
    history, held = span.history, list(before or [])
    if span.after is None:
        return differs([*held, *(_archived(row, span.upto) for row in span.rows)], rows)
    for version in range(span.after + 1, span.upto + 1):
        known = {row["token"] for row in history.rows(version - 1)}
        is_restored = history.entries[version].restored is not None
        told = history.brought(version) if is_restored else history.rows(version)
        held += [_archived(row, version) for row in told if is_restored or row["token"] not in known]
    return differs(held, rows)


def _archived(row: Row, version: int) -> Row:
    return {"id": row["id"], "token": row["token"], "commit_version": version}


def _delivered(extracts: list[Row]) -> tuple[int, list[Row]]:
    newest = max(row["number"] for row in extracts)
    columns = ("id", "price", "shelf")
    return newest, [{name: row[name] for name in columns} for row in extracts if row["number"] == newest]


def _number(extracts: list[Row]) -> int:
    return _delivered(extracts)[0]


def assets(root: Path) -> list[Asset]:
    """Every table, for the checker."""

    def at(name: str, law: Law, *sources: str, extract: Callable[[list[Row]], int] | None = None) -> Asset:
        return Asset(name, root / name, {source: root / source for source in sources}, law, extract=extract)

    by_query = [
        at(name, _equals(name), *sources_of(name), extract=_number if name == "prices" else None) for name in QUERIES
    ]
    return [
        *by_query,
        at("archive", _archives, "events"),
        at("orders_past", Fold(("product", "amount")), "current"),
        at("customers_past", Fold(("city", "tier")), "customers"),
        at("prices_past", takes(_delivered, ("price", "shelf")), "extracts", extract=_number),
    ]


def recomputed(root: Path) -> dict[str, str]:
    """How tables differ from a recompute of the whole graph from the newest versions of the sources alone."""
    tables = {name: _now(root / name) for name in BASE}
    waiting = set(QUERIES)
    while waiting:
        for name in sorted(name for name in waiting if set(sources_of(name)) <= tables.keys()):
            tables[name] = computed(name, tables)
            waiting.remove(name)
    quarantine = [row for row in tables["orders"] if row["amount"] >= 450]
    pairs = {name: (tables[name], _now(root / name)) for name in QUERIES}
    kept = [{n: v for n, v in row.items() if not n.startswith("__")} for row in _now(root / "judged_quarantine")]
    pairs["judged_quarantine"] = quarantine, kept
    found = {name: differs(whole(due), whole(rows)) for name, (due, rows) in pairs.items()}
    return {name: problem for name, problem in found.items() if problem is not None}


def _now(path: Path) -> list[Row]:
    history = History(path)
    return history.rows(history.newest)

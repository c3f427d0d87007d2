"""Partition definitions of every kind, the values of their columns, and how logs write these values; without Spark."""

import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import dagster as dg
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from hypothesis import strategies as st

from lakehouse import Table
from lakehouse.dagster.slices import slice_of
from lakehouse.errors import WriteError
from tests.support.marked_tables import FEED
from tests.support.predicates import Test, selects

Definition: TypeAlias = dg.PartitionsDefinition[Any]

ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Sydney"]
"""Not Lord Howe, whose clocks are set by half an hour: Dagster lists hours there that it then does not know."""
STARTS = [*map(datetime.fromisoformat, ("2026-01-01", "2026-03-06", "2026-03-27", "2026-10-23", "2026-04-03"))]
"""Days shortly before clocks are set in one of the zones, and one ordinary day."""
DAY_FORMATS = [None, "%Y-%d-%m", "%Y%m%d", "%d.%m.%Y"]
CRONS = ["0 6,18 * * *", "30 4 * * 1-5", "15 3 1,16 * *", "*/20 * * * *", "0 0,23 * * *"]
NAMES = ["01", "1", "a", "A", "10", "-5", "007", "true", "FALSE", "2026-01-02", "2026-02-01", "é b", "300", "x/y=%20"]
SHOPS = "shops"
"""The name of the dynamic partitions; a Dagster instance has their keys."""
TIME_TYPES = ["string", "date", "timestamp", "timestamp_ntz", "int", "bigint", "smallint"]
NAME_TYPES = ["string", "int", "bigint", "smallint", "tinyint", "date", "boolean"]


@st.composite
def of_time(draw: st.DrawFn) -> dg.TimeWindowPartitionsDefinition:
    """A definition of few partitions, around times when clocks are set."""
    start, zone = draw(st.sampled_from(STARTS)), draw(st.sampled_from(ZONES))
    minute, hour = draw(st.sampled_from([0, 0, 17])), draw(st.sampled_from([0, 0, 1, 2, 5, 23]))
    kind = draw(st.sampled_from(["daily", "weekly", "monthly", "hourly", "cron"]))
    days = {"daily": 9, "weekly": 40, "monthly": 100, "hourly": 4, "cron": 4}[kind]
    given: dict[str, Any] = {
        "start": start,
        "end": start + timedelta(days=days),
        "timezone": zone,
        "end_offset": draw(st.sampled_from([0, 0, 1])),
    }
    match kind:
        case "cron":
            cron = draw(st.sampled_from(CRONS))
            fmt = draw(st.sampled_from(["%Y-%m-%d-%H:%M", "%Y%m%d%H%M"]))
        case "hourly":
            cron, fmt = f"{minute} * * * *", draw(st.sampled_from(["%Y-%m-%d-%H:%M", "%Y%m%d%H%M"]))
        case "daily":
            cron, fmt = f"{minute} {hour} * * *", draw(st.sampled_from(DAY_FORMATS))
        case "weekly":
            cron, fmt = (
                f"{minute} {hour} * * {draw(st.integers(0, 6))}",
                draw(st.sampled_from([*DAY_FORMATS, "%G-W%V-%u"])),
            )
        case _:
            cron, fmt = (
                f"{minute} {hour} {draw(st.integers(1, 28))} * *",
                draw(st.sampled_from([*DAY_FORMATS, "%Y-%m"])),
            )
    return dg.TimeWindowPartitionsDefinition(cron_schedule=cron, fmt=fmt or "%Y-%m-%d", **given)


def of_fixed_names() -> st.SearchStrategy[Definition]:
    return st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True).map(dg.StaticPartitionsDefinition)


def of_dynamic_names() -> st.SearchStrategy[Definition]:
    return st.just(dg.DynamicPartitionsDefinition(name=SHOPS))


def of_names() -> st.SearchStrategy[Definition]:
    return of_fixed_names() | of_dynamic_names()


def of_one_dimension() -> st.SearchStrategy[Definition]:
    return of_time() | of_names()


def of_several() -> st.SearchStrategy[dg.MultiPartitionsDefinition]:
    return st.builds(lambda a, b: dg.MultiPartitionsDefinition({"a": a, "b": b}), of_one_dimension(), of_names())


def types_of(definition: Definition) -> Sequence[str]:
    """The column types for which a definition could be meant."""
    return TIME_TYPES if isinstance(definition, dg.TimeWindowPartitionsDefinition) else NAME_TYPES


def fitting_types_of(definition: Definition) -> Sequence[str]:
    """The column types that can hold at least one key of a definition."""
    if isinstance(definition, dg.DynamicPartitionsDefinition):
        return ["string", "int", "smallint", "date"]
    keys, fitting = definition.get_partition_keys(), ["string"]
    if isinstance(definition, dg.TimeWindowPartitionsDefinition):
        fitting += ["timestamp", "timestamp_ntz", "date"]
    fitting += ["bigint", "int"] if any(re.fullmatch("-?[0-9]{1,8}", key) for key in keys) else []
    fitting += ["date"] if "2026-01-02" in keys else []
    fitting += ["boolean"] if {"true", "FALSE"} & {*keys} else []
    return [*dict.fromkeys(fitting)]


def values_of(definition: Definition, column_type: str) -> list[Any]:
    """Values that a column may hold: within each partition, at its edges, and outside all partitions."""
    keys = definition.get_partition_keys()
    if column_type in ("date", "timestamp", "timestamp_ntz") and isinstance(
        definition, dg.TimeWindowPartitionsDefinition
    ):
        return [*dict.fromkeys(_times(definition, keys, column_type)), None]
    match column_type:
        case "string":
            return [*keys, "1", "01", "nobody", None]
        case "date":
            return [*(date(2026, month, day) for month in (1, 2) for day in (1, 2, 3)), None]
        case "boolean":
            return [True, False, None]
        case _:
            bits = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}[column_type]
            numbers = {int(key) for key in keys if key.lstrip("-").isdecimal()} | {0, 1, 7, -5}
            return [*sorted(n for n in numbers if -(2 ** (bits - 1)) <= n < 2 ** (bits - 1)), None]


def _times(definition: dg.TimeWindowPartitionsDefinition, keys: Iterable[str], column_type: str) -> Iterable[Any]:
    zone = ZoneInfo(definition.timezone)
    for key in keys:
        window = definition.time_window_for_partition_key(key)
        for edge in (window.start, window.end):
            for step in (-timedelta(days=1), -timedelta(microseconds=1), timedelta(0), timedelta(minutes=35)):
                moment = edge.astimezone(UTC) + step
                local = moment.astimezone(zone)
                yield {"date": local.date(), "timestamp": moment, "timestamp_ntz": local.replace(tzinfo=None, fold=0)}[
                    column_type
                ]


def texts_of(value: Any) -> Mapping[str, str | None]:
    """The text of a value in a log, by the writer of the log."""
    match value:
        case None:
            return {"any": None}
        case bool():
            return {"any": str(value).lower()}
        case datetime():
            spark, rust = value.replace(tzinfo=None).isoformat(timespec="microseconds"), value.replace(tzinfo=None)
            short = value.replace(tzinfo=None).isoformat(" ")
            texts = {"delta-rs": rust.isoformat(" ", timespec="microseconds"), "short": short}
            return texts | ({"Spark": f"{spark}Z"} if value.tzinfo is not None else {})
        case date():
            return {"any": value.isoformat()}
        case _:
            return {"any": str(value)}


ARROW: Mapping[str, Any] = {
    "string": pa.string(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


@dataclass
class Sales:
    """A partitioned source, the definition of the table that follows it, and the rows that it has.

    Args:
        definition: The partitions of the source.
        types: The type of each partition column.
        own: The partitions of the table that follows.
        own_columns: The partition columns of that table.
    """

    definition: Definition
    types: Mapping[str, str]
    own: Definition
    own_columns: tuple[str, ...]
    rows: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    written: int = 0

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(self.types)

    @property
    def spec(self) -> dg.AssetSpec:
        return dg.AssetSpec(
            "sales", partitions_def=self.definition, metadata=Table(key="id", partition_by=self.columns)
        )

    def some(self) -> st.SearchStrategy[list[tuple[Any, ...]]]:
        """Draws partition values of new rows."""
        columns = [st.sampled_from(values_of(of, self.types[name])) for name, of in self._dimensions()]
        return st.lists(st.tuples(*columns), min_size=2, max_size=5)

    def within(self) -> st.SearchStrategy[tuple[Any, ...]]:
        """Draws partition values of a new row that belongs to the slice of some run."""
        columns = list[st.SearchStrategy[Any]]()
        for name, dimension in self._dimensions():
            kind, table = self.types[name], Table(partition_by=name)
            tests = list[Test]()
            for key in dimension.get_partition_keys():
                with suppress(WriteError):
                    tests.append(selects(slice_of("sales", table, dimension, [key]).predicate({name: kind})))
            values = values_of(dimension, kind)
            columns.append(st.sampled_from([v for v in values if any(test({name: v}) for test in tests)]))
        return st.tuples(*columns)

    def _dimensions(self) -> list[tuple[str, Definition]]:
        if isinstance(self.definition, dg.MultiPartitionsDefinition):
            return [(dimension.name, dimension.partitions_def) for dimension in self.definition.partitions_defs]
        return [(self.columns[0], self.definition)]

    def added(self, values: Iterable[tuple[Any, ...]]) -> list[dict[str, Any]]:
        """Adds a new row for each tuple of partition values; the new rows, as dictionaries."""
        rows = list[dict[str, Any]]()
        for each in values:
            self.written += 1
            rows.append({"id": self.written, **dict(zip(self.columns, each, strict=True))})
        self.rows += rows
        return rows

    def arrow(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        fields = [("id", pa.int32()), *((name, ARROW[kind]) for name, kind in self.types.items())]
        return pa.Table.from_pylist([dict(row) for row in rows], schema=pa.schema(fields))

    def append(self, root: Path, values: Iterable[tuple[Any, ...]]) -> None:
        path, rows = root / "sales", self.arrow(self.added(values))
        options: dict[str, Any] = {"mode": "append"} if path.exists() else {"configuration": FEED}
        write_deltalake(str(path), rows, partition_by=list(self.columns), **options)

    def delete(self, root: Path, row: int) -> None:
        self.rows = [each for each in self.rows if each["id"] != row]
        DeltaTable(str(root / "sales")).delete(f"id = {row}")


@st.composite
def sales(draw: st.DrawFn, definitions: st.SearchStrategy[Definition] | None = None) -> Sales:
    everything = of_one_dimension() | of_several()
    definition = draw(everything if definitions is None else definitions)
    if isinstance(definition, dg.MultiPartitionsDefinition):
        types = {d.name: draw(st.sampled_from(fitting_types_of(d.partitions_def))) for d in definition.partitions_defs}
        first, second = definition.partitions_defs
        one = draw(st.sampled_from([None, first, second]))
        if one is not None and first.partitions_def != second.partitions_def:  # else Dagster cannot tell which is meant
            return Sales(definition, types, one.partitions_def, (one.name,))
        return Sales(definition, types, definition, tuple(types))
    types = {"at": draw(st.sampled_from(fitting_types_of(definition)))}
    return Sales(definition, types, definition, ("at",))

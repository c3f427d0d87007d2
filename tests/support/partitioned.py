"""Partition definitions of every kind, the values that their columns may hold, and how logs write those. No Spark."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import dagster as dg
from hypothesis import strategies as st

Definition: TypeAlias = dg.PartitionsDefinition[Any]

ZONES = ["UTC", "America/New_York", "Europe/Berlin", "Asia/Kolkata", "Australia/Lord_Howe"]
STARTS = [*map(datetime.fromisoformat, ("2026-01-01", "2026-03-06", "2026-03-27", "2026-10-23", "2026-04-03"))]
"""Days before clocks are set in one of the zones, and one day like others."""
DAY_FORMATS = [None, "%Y-%d-%m", "%Y%m%d", "%d.%m.%Y"]
CRONS = ["0 6,18 * * *", "30 4 * * 1-5", "15 3 1,16 * *", "*/20 * * * *", "0 0,23 * * *"]
NAMES = ["01", "1", "a", "A", "10", "-5", "007", "true", "FALSE", "2026-01-02", "2026-02-01", "é b", "300", "x/y=%20"]
SHOPS = "shops"
"""The name of the dynamic partitions, whose keys are in an instance."""
TIME_TYPES = ["string", "date", "timestamp", "timestamp_ntz", "int", "bigint", "smallint"]
NAME_TYPES = ["string", "int", "bigint", "smallint", "tinyint", "date", "boolean"]


@st.composite
def of_time(draw: st.DrawFn) -> dg.TimeWindowPartitionsDefinition:
    """Few partitions, at times when something happens to clocks."""
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


def of_names() -> st.SearchStrategy[Definition]:
    names = st.lists(st.sampled_from(NAMES), min_size=1, max_size=6, unique=True)
    return names.map(dg.StaticPartitionsDefinition) | st.just(dg.DynamicPartitionsDefinition(name=SHOPS))


def of_one_dimension() -> st.SearchStrategy[Definition]:
    return of_time() | of_names()


def of_several() -> st.SearchStrategy[dg.MultiPartitionsDefinition]:
    return st.builds(lambda a, b: dg.MultiPartitionsDefinition({"a": a, "b": b}), of_one_dimension(), of_names())


def types_of(definition: Definition) -> Sequence[str]:
    """The types of column for which a definition could be meant."""
    return TIME_TYPES if isinstance(definition, dg.TimeWindowPartitionsDefinition) else NAME_TYPES


def values_of(definition: Definition, column_type: str) -> list[Any]:
    """What a column may hold: within each partition, at its edges, and beyond all of them."""
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
    """A value as a log has it, by who writes it."""
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

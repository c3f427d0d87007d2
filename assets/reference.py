"""Reference: planes, airlines, airports, the weather and the fleet, delivered whole and written where they differ."""

from datetime import date

import dagster as dg
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse import Overwrite, Snapshot, Table
from resources.nycflights import FlightRecords

AIRLINES = {"carrier": "The airline's two-letter code", "name": "Its name"}
AIRPORTS = {
    "faa": "FAA code",
    "name": "Name",
    "lat": "Latitude",
    "lon": "Longitude",
    "alt": "Altitude in feet",
    "tz": "Hours from UTC in winter",
    "dst": "Daylight saving: A as in the USA, U unknown, N none",
    "tzone": "IANA time zone",
}
PLANES = {
    "tailnum": "Tail number",
    "year": "Year of manufacture",
    "type": "Type of aircraft",
    "manufacturer": "Manufacturer",
    "model": "Model",
    "engines": "Number of engines",
    "seats": "Number of seats",
    "speed": "Average cruising speed in miles an hour",
    "engine": "Type of engine",
}
FLEET = {
    "tailnum": "Tail number",
    "carrier": "The airline that the plane flew for last",
    "flights": "Departures from New York in the week",
    "last_flown": "The day of the last one",
}
WEATHER = {
    "origin": "EWR, JFK or LGA",
    "hour": "When the hour begins",
    "temp": "Temperature in °F",
    "dewp": "Dew point in °F",
    "humid": "Relative humidity in %",
    "wind_dir": "Wind direction in degrees",
    "wind_speed": "Wind speed in miles an hour",
    "wind_gust": "Gusts in miles an hour",
    "precip": "Precipitation in inches",
    "pressure": "Pressure at sea level in millibars",
    "visib": "Visibility in miles",
}


@dg.asset(key_prefix="reference", metadata=Table(key="carrier", columns=AIRLINES))
def airlines(flight_records: FlightRecords) -> Overwrite:
    """The airlines by their codes."""
    return Overwrite(flight_records.airlines())


@dg.asset(key_prefix="reference", metadata=Table(key="faa", columns=AIRPORTS))
def airports(flight_records: FlightRecords) -> Overwrite:
    """The airports of the United States."""
    return Overwrite(flight_records.airports())


@dg.asset(key_prefix="reference", metadata=Table(key="tailnum", columns=PLANES))
def planes(flight_records: FlightRecords) -> Overwrite:
    """The planes in the register of the Federal Aviation Administration."""
    return Overwrite(flight_records.planes())


@dg.asset(key_prefix="reference", metadata=Table(key=("origin", "hour"), columns=WEATHER))
def weather(flight_records: FlightRecords) -> Overwrite:
    """The weather at New York's airports, by the hour."""
    return Overwrite(flight_records.weather())


class Extract(dg.Config):
    """Which extract a run takes.

    Args:
        day: Its day, as 2013-01-31. A run without a day takes the first extract, which is ignored once the table has a
            later one.
    """

    day: str = "2013-01-01"


@dg.asset(key_prefix="reference", metadata=Table(key="tailnum", columns=FLEET))
def fleet(flight_records: FlightRecords, config: Extract) -> Snapshot:
    """The planes that departed from New York in the week up to a day, as the extract of that day lists them.

    A plane that the next extract lacks is deleted. The extract of an earlier day leaves the table as it is.
    """
    day = date.fromisoformat(config.day)
    return Snapshot(flight_records.fleet(day), version=day, on_older="ignore")


@dg.asset_check(asset=fleet, description="The table holds its newest extract, row for row.")
def equals_newest_extract(fleet: DataFrame, flight_records: FlightRecords) -> dg.AssetCheckResult:
    day: date = fleet.agg(F.max("last_flown")).collect()[0][0]  # planes depart on every day
    extract = flight_records.fleet(day).select(*fleet.columns)
    differing = extract.exceptAll(fleet).count() + fleet.exceptAll(extract).count()
    return dg.AssetCheckResult(passed=differing == 0, metadata={"rows": fleet.count(), "differing": differing})

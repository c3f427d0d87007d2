"""Reference: planes, airlines, airports and the weather, read whole and written where they differ."""

import dagster as dg

from lakehouse import Overwrite, Table
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

"""Silver: flights with what is known about their airline, plane, airports and weather."""

import dagster as dg

from assets import flights as silver
from lakehouse import Changes, Table, View

REFERENCE = dg.AssetIn(key_prefix="reference")
COLUMNS = silver.COLUMNS | {
    "airline": "The airline's name",
    "manufacturer": "The plane's manufacturer",
    "model": "The plane's model",
    "seats": "The plane's seats",
    "built": "The plane's year of manufacture",
    "origin_airport": "The origin's name",
    "dest_airport": "The destination's name",
    "temp": "Temperature at the origin in °F, in the hour of the scheduled departure",
    "wind_speed": "Wind speed there in miles an hour",
    "precip": "Precipitation there in inches",
    "visib": "Visibility there in miles",
}


@dg.asset(
    key_prefix="silver",
    ins={
        "flights": dg.AssetIn(key_prefix="silver"),
        "airlines": REFERENCE,
        "planes": REFERENCE,
        "airports": REFERENCE,
        "weather": REFERENCE,
    },
    metadata=Table(key="flight_id", columns=COLUMNS),
)
def flights_enriched(flights: Changes, airlines: Changes, planes: Changes, airports: Changes, weather: Changes) -> View:
    """Flights joined with the reference tables; a change on any side reaches the flights it is about."""
    return View("""
        SELECT f.*, a.name AS airline, p.manufacturer, p.model, p.seats, p.year AS built,
            o.name AS origin_airport, d.name AS dest_airport, w.temp, w.wind_speed, w.precip, w.visib
        FROM flights f
        LEFT JOIN airlines a ON a.carrier = f.carrier
        LEFT JOIN planes p ON p.tailnum = f.tailnum
        LEFT JOIN airports o ON o.faa = f.origin
        LEFT JOIN airports d ON d.faa = f.dest
        LEFT JOIN weather w ON w.origin = f.origin AND w.hour = f.hour""")

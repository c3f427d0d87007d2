"""Silver: flights with what is known about their airline, plane, airports and weather."""

import dagster as dg
from pyspark.sql import functions as F

from assets import flights as silver
from lakehouse import Changes, Merge, Table

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
def flights_enriched(
    flights: Changes, airlines: Changes, planes: Changes, airports: Changes, weather: Changes
) -> Merge:
    """Flights joined with the reference tables; a change on any side reaches the flights it is about."""
    by_origin = flights.source.withColumnRenamed("origin", "faa")
    by_dest = flights.source.withColumnRenamed("dest", "faa")
    touched = (
        flights.touched("flight_id")
        | airlines.touched("carrier").via(flights.source, "flight_id")
        | planes.touched("tailnum").via(flights.source, "flight_id")
        | airports.touched("faa").via(by_origin, "flight_id")
        | airports.touched("faa").via(by_dest, "flight_id")
        | weather.touched("origin", "hour").via(flights.source, "flight_id")
    )
    airline = airlines.source.select("carrier", F.col("name").alias("airline"))
    plane = planes.source.select("tailnum", "manufacturer", "model", "seats", F.col("year").alias("built"))
    origin = airports.source.select(F.col("faa").alias("origin"), F.col("name").alias("origin_airport"))
    dest = airports.source.select(F.col("faa").alias("dest"), F.col("name").alias("dest_airport"))
    outside = weather.source.select("origin", "hour", "temp", "wind_speed", "precip", "visib")
    rows = (
        touched.of(flights.source)
        .join(airline, "carrier", "left")
        .join(plane, "tailnum", "left")
        .join(origin, "origin", "left")
        .join(dest, "dest", "left")
        .join(outside, ["origin", "hour"], "left")
    )
    return Merge(rows.select(*COLUMNS), touched)

"""Gold: what the lakehouse is asked for."""

import dagster as dg
from pyspark.sql import DataFrame

from assets import flights as silver
from assets.flight_events import DAYS
from lakehouse import Aggregate, Changes, History, Overwrite, Table, View

GOLD = dg.AssetIn(key_prefix="gold")
SILVER = dg.AssetIn(key_prefix="silver")
REFERENCE = dg.AssetIn(key_prefix="reference")

CARRIER_DELAYS = {
    "carrier": "The airline's two-letter code",
    "day": "The day of the flights",
    "airline": "The airline's name",
    "flights": "Flights scheduled",
    "cancelled": "Flights cancelled",
    "late": "Flights that departed 15 minutes late or more",
    "mean_dep_delay": "Mean delay at departure in minutes, early departures counted as negative",
    "worst_dep_delay": "The longest delay at departure in minutes",
    "mean_arr_delay": "Mean delay at arrival in minutes, early arrivals counted as negative",
}
CARRIER_DELAYS_HISTORY = CARRIER_DELAYS | {
    "__START_AT": "When the table began to say so",
    "__END_AT": "When it ceased to; none: it says so now",
}
ROUTE_PUNCTUALITY = {
    "origin": "EWR, JFK or LGA",
    "dest": "Destination, by its FAA code",
    "dest_airport": "The destination's name",
    "flights": "Flights scheduled",
    "arrived": "Flights that arrived, diverted ones left out",
    "on_time": "Flights that arrived less than 15 minutes late",
    "punctuality": "Share of the arrived flights that were on time",
}
PLANE_HOURS = {
    "tailnum": "The plane's tail number",
    "flights": "Flights that arrived",
    "miles": "Miles between their airports",
    "minutes": "Minutes in the air, those of diverted flights left out",
}
BUSIEST_HOURS = {
    "origin": "EWR, JFK or LGA",
    "day": "The day of the flights",
    "hour": "When the busiest hour began; of two equal ones the earlier",
    "flights": "Departures scheduled in that hour",
    "late": "Those that departed 15 minutes late or more",
    "temp": "Temperature in °F",
    "wind_speed": "Wind speed in miles an hour",
    "precip": "Precipitation in inches",
    "visib": "Visibility in miles",
}


@dg.asset(
    key_prefix="gold",
    ins={"flights_enriched": SILVER},
    metadata=Table(key=("carrier", "day"), columns=CARRIER_DELAYS),
)
def carrier_delays(flights_enriched: Changes) -> View:
    """The delays of each airline on each day."""
    return View("""
        SELECT carrier, day, max(airline) AS airline, count(*) AS flights,
            count_if(status = 'cancelled') AS cancelled, count_if(dep_delay >= 15) AS late,
            CAST(avg(dep_delay) AS decimal(8, 2)) AS mean_dep_delay, max(dep_delay) AS worst_dep_delay,
            CAST(avg(arr_delay) AS decimal(8, 2)) AS mean_arr_delay
        FROM flights_enriched
        GROUP BY carrier, day""")


@dg.asset(
    key_prefix="gold",
    ins={"carrier_delays": GOLD},
    metadata=Table(key=("carrier", "day"), columns=CARRIER_DELAYS_HISTORY),
)
def carrier_delays_history(carrier_delays: Changes) -> History:
    """What was published about the delays of each airline on each day, and from when to when: corrections revise it."""
    return History(carrier_delays)


@dg.asset(
    key_prefix="gold",
    ins={"flights_enriched": SILVER},
    metadata=Table(key=("origin", "dest"), columns=ROUTE_PUNCTUALITY),
)
def route_punctuality(flights_enriched: Changes) -> View:
    """How many flights of each route arrive on time."""
    return View("""
        SELECT origin, dest, max(dest_airport) AS dest_airport, count(*) AS flights,
            count(arr_delay) AS arrived, count_if(arr_delay < 15) AS on_time,
            CAST(try_divide(count_if(arr_delay < 15), count(arr_delay)) AS decimal(5, 4)) AS punctuality
        FROM flights_enriched
        GROUP BY origin, dest""")


@dg.asset(key_prefix="gold", ins={"flights": SILVER}, metadata=Table(key="tailnum", columns=PLANE_HOURS))
def plane_hours(flights: Changes) -> Aggregate:
    """What each plane has flown. Its flights are spread over all days; only those that changed are read."""
    return Aggregate(
        flights,
        by="tailnum",
        count="flights",
        sums={"miles": "distance", "minutes": "air_time"},
        where="status = 'arrived'",
    )


@dg.asset(
    key_prefix="gold",
    ins={"flights": SILVER, "weather": REFERENCE},
    metadata=Table(key=("origin", "day"), columns=BUSIEST_HOURS),
)
def busiest_hours(flights: Changes, weather: Changes) -> View:
    """The hour of each day in which most departures are scheduled at an airport, and its weather."""
    return View("""
        WITH hours AS (
            SELECT origin, day, hour, count(*) AS flights, count_if(dep_delay >= 15) AS late
            FROM flights
            GROUP BY origin, day, hour
        ), ranked AS (
            SELECT *, row_number() OVER (PARTITION BY origin, day ORDER BY flights DESC, hour) AS place FROM hours
        )
        SELECT r.origin, r.day, r.hour, r.flights, r.late, w.temp, w.wind_speed, w.precip, w.visib
        FROM ranked r LEFT JOIN weather w ON w.origin = r.origin AND w.hour = r.hour
        WHERE r.place = 1""")


@dg.asset(
    key_prefix="gold",
    partitions_def=DAYS,
    ins={"flights": SILVER},
    metadata=Table(key="flight_id", partition_by="day", columns=silver.COLUMNS),
)
def flights_by_day(flights: DataFrame) -> Overwrite:
    """The flights, in one partition per day: what leaves the lakehouse in daily files."""
    return Overwrite(flights)

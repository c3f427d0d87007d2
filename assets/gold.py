"""Gold: what the lakehouse is asked for."""

import dagster as dg
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from assets import flights as silver
from assets.flight_events import DAYS
from lakehouse import Aggregate, Changes, History, Merge, Overwrite, Table

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
def carrier_delays(flights_enriched: Changes) -> Merge:
    """The delays of each airline on each day."""
    touched = flights_enriched.touched("carrier", "day")
    rows = touched.rows.groupBy("carrier", "day").agg(
        F.max("airline").alias("airline"),
        F.count("*").alias("flights"),
        F.count_if(F.col("status") == "cancelled").alias("cancelled"),
        F.count_if(is_late("dep_delay")).alias("late"),
        minutes("dep_delay").alias("mean_dep_delay"),
        F.max("dep_delay").alias("worst_dep_delay"),
        minutes("arr_delay").alias("mean_arr_delay"),
    )
    return Merge(rows, touched)


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
def route_punctuality(flights_enriched: Changes) -> Merge:
    """How many flights of each route arrive on time."""
    touched = flights_enriched.touched("origin", "dest")
    arrived = F.col("arr_delay").isNotNull()
    on_time = arrived & ~is_late("arr_delay")
    rows = touched.rows.groupBy("origin", "dest").agg(
        F.max("dest_airport").alias("dest_airport"),
        F.count("*").alias("flights"),
        F.count_if(arrived).alias("arrived"),
        F.count_if(on_time).alias("on_time"),
        (F.count_if(on_time) / F.nullif(F.count_if(arrived), F.lit(0))).cast("decimal(5,4)").alias("punctuality"),
    )
    return Merge(rows, touched)


@dg.asset(key_prefix="gold", ins={"flights": SILVER}, metadata=Table(key="tailnum", columns=PLANE_HOURS))
def plane_hours(flights: Changes) -> Aggregate:
    """What each plane has flown. Its flights lie on all days; of these only those that changed are read."""
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
def busiest_hours(flights: Changes, weather: Changes) -> Merge:
    """The hour of each day in which most departures are scheduled at an airport, and its weather."""
    touched = flights.touched("origin", "day") | weather.touched("origin", "hour").via(flights.source, "origin", "day")
    outside = weather.source.select("origin", "hour", "temp", "wind_speed", "precip", "visib")
    rows = busiest(touched.of(flights.source)).join(outside, ["origin", "hour"], "left")
    return Merge(rows.select(*BUSIEST_HOURS), touched)


@dg.asset(
    key_prefix="gold",
    partitions_def=DAYS,
    ins={"flights": SILVER},
    metadata=Table(key="flight_id", partition_by="day", columns=silver.COLUMNS),
)
def flights_by_day(flights: DataFrame) -> Overwrite:
    """The flights, in one partition a day: what leaves the lakehouse in daily files."""
    return Overwrite(flights)


def busiest(flights: DataFrame) -> DataFrame:
    """The busiest hour of each airport and day."""
    hours = flights.groupBy("origin", "day", "hour").agg(
        F.count("*").alias("flights"), F.count_if(is_late("dep_delay")).alias("late")
    )
    earlier = -F.unix_timestamp("hour")
    first = F.max_by(F.struct("hour", "flights", "late"), F.struct("flights", earlier))
    return hours.groupBy("origin", "day").agg(first.alias("busiest")).select("origin", "day", "busiest.*")


def is_late(delay: str) -> Column:
    return F.coalesce(F.col(delay) >= 15, F.lit(False))


def minutes(delay: str) -> Column:
    """The mean of a column of whole minutes, exact to a hundredth in whatever order it is computed."""
    return F.avg(delay).cast("decimal(8,2)")

"""Silver: one row per flight, the states that each flight was in, and every change of those rows."""

import dagster as dg
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from assets import flight_events as events
from lakehouse import Append, Changes, Merge, Table, scd

COLUMNS = {name: text for name, text in events.COLUMNS.items() if name not in ("event", "reported_at")} | {
    "hour": "The hour of the scheduled departure, by which the weather is known",
    "status": "scheduled, departed, arrived or cancelled",
    "reported_at": "When the last event was reported",
    "dep_delay": "Minutes after the scheduled departure, negative if earlier; none before it, or if cancelled",
    "arr_delay": "Minutes after the scheduled arrival; none before it, if cancelled or diverted",
    "air_time": "Minutes in the air; none before the arrival, if cancelled or diverted",
}
HISTORY = {name: COLUMNS[name] for name in ("flight_id", "carrier", "origin", "dest", "sched_dep")} | {
    "status": "scheduled, departed or arrived",
    "dep_delay": "Minutes after the scheduled departure, as known then",
    "arr_delay": "Minutes after the scheduled arrival, as known then",
    "__START_AT": "When the row began to be true: the report that says so",
    "__END_AT": "When it ceased to be: the next report that says otherwise, or a cancellation; none: it is true",
}
SCHEDULE = ("day", "carrier", "flight", "tailnum", "origin", "dest", "sched_dep", "sched_arr", "distance")
OUTCOME = ("dep_delay", "arr_delay", "air_time")


@dg.asset(
    key_prefix="silver",
    ins={"flight_events": dg.AssetIn(key_prefix="bronze")},
    metadata=Table(key="flight_id", columns=COLUMNS),
)
def flights(flight_events: Changes) -> Merge:
    """Every flight as last reported, whatever the order in which its events arrived."""
    touched = flight_events.touched("flight_id")
    return Merge(as_last_reported(touched.rows), touched)


@dg.asset(
    key_prefix="silver",
    ins={"flight_events": dg.AssetIn(key_prefix="bronze")},
    metadata=Table(key=("flight_id", "__START_AT"), columns=HISTORY),
)
def flights_history(flight_events: Changes) -> Merge:
    """The states that each flight was in, each from when to when: a slowly changing dimension of type 2.

    A late report takes its place among the others; a cancellation ends the flight's last row.
    """
    touched = flight_events.touched("flight_id")
    states = scd.type2(
        touched.rows.withColumnRenamed("event", "status"),
        keys="flight_id",
        sequence_by="reported_at",
        apply_as_deletes="status = 'cancelled'",
        ignore_null_updates=True,
        column_list=[name for name in HISTORY if name not in ("__START_AT", "__END_AT")],
    )
    return Merge(states.rows.select(*HISTORY), touched)


@dg.asset(key_prefix="silver", ins={"flights": dg.AssetIn(key_prefix="silver")})
def flights_archive(flights: Changes) -> Append:
    """Every change of every flight, kept longer than the table's own change feed."""
    return Append(flights.log())


def as_last_reported(events: DataFrame) -> DataFrame:
    """One row per flight, with the last value of each attribute that was reported."""
    flown = F.col("status") != "cancelled"
    return (
        events.groupBy("flight_id")
        .agg(
            *(last_reported(name).alias(name) for name in SCHEDULE + OUTCOME),
            last_reported("event").alias("status"),
            F.max("reported_at").alias("reported_at"),
        )
        .withColumns({name: F.when(flown, F.col(name)) for name in OUTCOME})
        .withColumn("hour", F.timestamp_seconds(F.floor(F.unix_timestamp("sched_dep") / 3600) * 3600))
        .select(*COLUMNS)
    )


def last_reported(name: str) -> Column:
    """A column's last value; among reports of the same moment, the flight's later stage wins, then the larger value."""
    stage = F.array_position(F.array(*map(F.lit, ("scheduled", "departed", "arrived", "cancelled"))), F.col("event"))
    report = F.struct("reported_at", stage.alias("stage"), F.col(name).alias("value"))
    return F.max(F.when(F.col(name).isNotNull(), report))["value"]

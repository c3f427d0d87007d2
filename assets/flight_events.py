"""Bronze: what the airports reported, as it was reported."""

from datetime import date

import dagster as dg

from lakehouse import Append, Table
from resources.nycflights import FlightRecords

DAYS = dg.DailyPartitionsDefinition("2013-01-01", "2014-01-01")

COLUMNS = {
    "day": "The day the flight is scheduled for, in New York",
    "flight_id": "Day, carrier, flight number and origin: one flight",
    "event": "scheduled, departed, arrived or cancelled",
    "reported_at": "When it happened; of a correction, when it was sent",
    "carrier": "The airline's two-letter code",
    "flight": "Flight number",
    "tailnum": "The plane's tail number, where it was assigned",
    "origin": "EWR, JFK or LGA",
    "dest": "Destination, by its FAA code",
    "sched_dep": "Scheduled departure",
    "sched_arr": "Scheduled arrival",
    "distance": "Miles between the airports",
    "dep_delay": "Minutes after the scheduled departure, negative if earlier; known from the departure on",
    "arr_delay": "Minutes after the scheduled arrival, negative if earlier; known from the arrival on",
    "air_time": "Minutes in the air; known from the arrival on",
}


@dg.asset(key_prefix="bronze", partitions_def=DAYS, metadata=Table(partition_by="day", columns=COLUMNS))
def flight_events(context: dg.AssetExecutionContext, flight_records: FlightRecords) -> Append:
    """What happened to the flights of a day: scheduled, departed, arrived or cancelled, one row per event.

    A day's last events fall on the next day, and airlines send corrections much later. Materializing a day again
    adds what was sent since; no row that is already here is ever changed.
    """
    return Append(flight_records.events(date.fromisoformat(day) for day in context.partition_keys))

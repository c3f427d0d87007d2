"""The real graph on real days: what each step reads and writes, and that the result is what a recompute gives."""

import datetime as dt
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from assets import demo
from assets.automation import next_day_of_flights
from assets.definitions import defs, tables
from assets.flight_events import flight_events
from assets.flights import as_last_reported
from assets.gold import busiest_hours
from lakehouse import DeltaIOManager, Table, checks
from resources.nycflights import EVENTS, FlightRecords, corrections, events_of
from tests.support.dagster_house import Running, metadata
from tests.support.lake import Lake

DAY = dt.date(2013, 1, 1)
REVISED, CANCELLED = "2013-01-01-UA1545-EWR", "2013-01-01-UA1714-LGA"
UNITED = 165
CARRIED = ("dep_delay", "arr_delay", "dest")
"""Columns of `flights_history` that a report may leave out."""


class Airports:
    """The project's tables, in a lakehouse of the test's own."""

    def __init__(self, spark: SparkSession, root: Path, instance: dg.DagsterInstance) -> None:
        self.lake = Lake(spark, root)
        self.landing = root / "landing"
        running: Any = Running(spark)
        self._resources = {
            "io_manager": DeltaIOManager(spark=running, root=str(root)),
            "flight_records": FlightRecords(spark=running, landing=str(self.landing)),
        }
        self._instance = instance

    def extract(self, day: dt.date) -> Mapping[str, Any]:
        """The metadata with which `fleet` took the extract of a day."""
        config = {"ops": {"reference__fleet": {"config": {"day": day.isoformat()}}}}
        return self.run([demo.FLEET], config=config)["reference/fleet"]

    def run(
        self, keys: list[dg.AssetKey], day: dt.date | None = None, config: dict[str, Any] | None = None
    ) -> Mapping[str, Mapping[str, Any]]:
        """The metadata of each materialized asset."""
        result = dg.materialize(
            tables,
            selection=keys,
            resources=self._resources,
            run_config=config,
            instance=self._instance,
            partition_key=None if day is None else day.isoformat(),
        )
        return {key.to_user_string(): metadata(result, key.to_user_string()) for key in keys}

    def differing(self) -> list[str]:
        """The incremental tables that differ from a full recompute."""
        definitions = dg.Definitions(
            assets=tables,
            asset_checks=checks(tables),
            resources=self._resources,
            jobs=[dg.define_asset_job("all_checks", dg.AssetSelection.all_asset_checks())],
        )
        result = definitions.resolve_job_def("all_checks").execute_in_process(instance=self._instance)
        found = result.get_asset_check_evaluations()
        assert len(found) == 8
        return [str(evaluation) for evaluation in found if not evaluation.passed]


@pytest.fixture(scope="module")
def airports(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Airports]:
    """One day of flights that has passed through the whole graph."""
    with dg.DagsterInstance.ephemeral() as instance:
        airports = Airports(spark, tmp_path_factory.mktemp("airports"), instance)
        airports.run(demo.REFERENCE)
        airports.run([demo.EVENTS], DAY)
        airports.run(demo.INCREMENTAL)
        yield airports


@pytest.fixture(scope="module")
def corrected(airports: Airports) -> Mapping[str, Mapping[str, Any]]:
    """The metadata of the step after two corrections and a new name of an airline."""
    demo.send_corrections(DAY, airports.landing)
    said = airports.run([demo.EVENTS], DAY)
    airports.lake.sql("UPDATE {airlines} SET name = 'United' WHERE carrier = 'UA'", airlines=path(airports, "airlines"))
    return {**said, **airports.run(demo.INCREMENTAL)}


def path(airports: Airports, name: str) -> str:
    return f"delta.`{airports.lake.root}/reference/{name}`"


def test_a_day_becomes_one_row_a_flight(airports: Airports) -> None:
    """The source is read at its first versions: later ones contain the corrections."""
    first = airports.lake.spark.read.format("delta").option("versionAsOf", 0)
    flights = first.load(str(airports.lake.root / "silver/flights"))
    assert dict(flights.groupBy("status").count().collect()) == {"arrived": 837, "departed": 1, "cancelled": 4}
    assert flights.where("status = 'cancelled' AND dep_delay IS NOT NULL").isEmpty()
    enriched = first.load(str(airports.lake.root / "silver/flights_enriched"))
    assert enriched.count() == flights.count()
    assert enriched.where("airline IS NULL OR origin_airport IS NULL").isEmpty()


def test_every_column_is_described(airports: Airports) -> None:
    for table in tables:
        name = table.key.to_user_string()
        if table.key in (demo.BY_DAY, demo.FLEET) or name == "silver/flights_archive":
            continue
        described = Table.from_metadata(table.specs_by_key[table.key].metadata).descriptions
        assert set(described) == set(airports.lake.frame(name).columns), name


@pytest.mark.slow
def test_corrections_change_the_rows_they_are_about(
    airports: Airports, corrected: Mapping[str, Mapping[str, Any]]
) -> None:
    assert counts(corrected["bronze/flight_events"]) == (2, 0, 0)
    assert counts(corrected["silver/flights"]) == (0, 2, 0)
    assert counts(corrected["silver/flights_archive"]) == (4, 0, 0)
    assert counts(corrected["silver/flights_history"]) == (1, 2, 0), "one row begins and two end"
    rows = {row["flight_id"]: row for row in airports.lake.frame("silver/flights").collect()}
    assert (rows[REVISED]["status"], rows[REVISED]["dep_delay"], rows[REVISED]["arr_delay"]) == ("arrived", 2, 56)
    assert (rows[CANCELLED]["status"], rows[CANCELLED]["dep_delay"]) == ("cancelled", None)
    assert rows[CANCELLED]["dest"] == "IAH"


@pytest.mark.slow
def test_the_history_of_the_flights_is_their_events_in_order_one_after_the_other(
    airports: Airports, corrected: Mapping[str, Mapping[str, Any]]
) -> None:
    sent = [row for table in corrections(str(airports.landing), DAY) for row in table.to_pylist()]
    columns = ("flight_id", "status", "dep_delay", "arr_delay", "dest", "__START_AT", "__END_AT")
    rows = airports.lake.frame("silver/flights_history").select(*columns).toArrow().to_pylist()
    assert sorted((tuple(row.values()) for row in rows), key=by_start) == list(past([*events_of([DAY]), *sent]))


def past(events: list[dict[str, Any]]) -> Iterator[tuple[Any, ...]]:
    """The states of each flight: values that a report leaves out stay, and a cancellation ends the last state."""
    by_flight = sorted(events, key=lambda event: (event["flight_id"], event["reported_at"]))
    for flight, reports in groupby(by_flight, key=lambda event: event["flight_id"]):
        state: dict[str, Any] = {}
        for report in reports:
            if state:
                yield flight, *state.values(), report["reported_at"]
            values = {name: state.get(name) if report.get(name) is None else report[name] for name in CARRIED}
            state = {"status": report["event"], **values, "start": report["reported_at"]}
            if report["event"] == "cancelled":
                state = {}
        if state:
            yield flight, *state.values(), None


def by_start(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return row[0], row[-2]


@pytest.mark.slow
def test_the_history_of_the_delays_holds_what_each_version_said_at_its_time(
    airports: Airports, corrected: Mapping[str, Mapping[str, Any]]
) -> None:
    published = airports.lake.commits("gold/carrier_delays")
    assert counts(corrected["gold/carrier_delays_history"]) == (1, 1, 0), "one row begins and one ends"
    history = airports.lake.frame("gold/carrier_delays_history")
    for commit in published:
        then = f"timestamp_millis({commit.timestamp}L)"
        at = history.where(f"__START_AT <= {then} AND (__END_AT > {then} OR __END_AT IS NULL)")
        version = airports.lake.spark.read.format("delta").option("versionAsOf", commit.version)
        table = version.load(str(airports.lake.root / "gold/carrier_delays"))
        assert sorted(map(str, at.select(*table.columns).collect())) == sorted(map(str, table.collect()))
    assert len(published) == 2


@pytest.mark.slow
def test_the_fleet_is_its_newest_extract(spark: SparkSession, tmp_path: Path, instance: dg.DagsterInstance) -> None:
    """A plane that has not departed for a week is no longer in it."""
    airports = Airports(spark, tmp_path, instance)
    airports.extract(DAY)
    said = airports.extract(DAY + dt.timedelta(days=9))
    week = events_of(DAY + dt.timedelta(days=days) for days in range(3, 10))
    departed = {event["tailnum"] for event in week if event["event"] == "departed"}
    assert {row["tailnum"] for row in airports.lake.frame("reference/fleet").collect()} == departed
    assert said["deleted"] > 0


@pytest.mark.slow
def test_a_change_of_an_airline_reaches_its_flights_and_no_other(corrected: Mapping[str, Mapping[str, Any]]) -> None:
    assert counts(corrected["silver/flights_enriched"]) == (0, UNITED, 0)
    assert counts(corrected["gold/carrier_delays"]) == (0, 1, 0)
    read = {source["table"]: source["changed"] for source in corrected["silver/flights_enriched"]["read"]}
    assert read["reference/airlines"] == "1 updated"
    assert read["reference/planes"] == "0 rows"


@pytest.mark.slow
def test_a_flight_that_was_cancelled_after_all_is_taken_from_what_its_plane_has_flown(
    airports: Airports, corrected: Mapping[str, Mapping[str, Any]]
) -> None:
    assert counts(corrected["gold/plane_hours"]) == (0, 0, 1), "it was the plane's only flight"
    (plane,) = airports.lake.frame("silver/flights").where(F.col("flight_id") == CANCELLED).collect()
    hours = airports.lake.frame("gold/plane_hours")
    assert hours.where(F.col("tailnum") == plane["tailnum"]).isEmpty()
    (flown,) = hours.selectExpr("sum(flights)", "sum(miles)", "sum(minutes)").collect()
    arrived = airports.lake.frame("silver/flights").where("status = 'arrived'")
    assert [tuple(flown)] == [
        tuple(row) for row in arrived.selectExpr("count(*)", "sum(distance)", "sum(air_time)").collect()
    ]


def test_every_incremental_table_is_what_a_full_recompute_gives(airports: Airports) -> None:
    assert airports.differing() == []


@pytest.mark.slow
def test_every_incremental_table_is_what_a_full_recompute_gives_after_corrections(
    airports: Airports, corrected: Mapping[str, Mapping[str, Any]]
) -> None:
    assert airports.differing() == []


@pytest.mark.slow
def test_a_step_with_nothing_new_writes_nothing(airports: Airports, corrected: Mapping[str, Mapping[str, Any]]) -> None:
    said = airports.run(demo.INCREMENTAL)
    assert {name: said[name]["version"] for name in said} == {name: corrected[name]["version"] for name in said}


def test_a_partition_holds_the_flights_of_its_day(airports: Airports) -> None:
    airports.run([demo.BY_DAY], DAY)
    airports.run([demo.BY_DAY], DAY + dt.timedelta(days=1))
    assert airports.lake.frame("gold/flights_by_day").count() == 842


def test_the_last_report_counts_whatever_the_order_of_arrival(spark: SparkSession) -> None:
    def event(kind: str, hour: int, **values: Any) -> tuple[Any, ...]:
        known = {"day": DAY, "flight_id": "a", "event": kind, "reported_at": at(hour), **values}
        return tuple(known.get(name) for name in EVENTS.names)

    events = [
        event("scheduled", 5, tailnum="N1", sched_dep=at(10) + dt.timedelta(minutes=29)),
        event("departed", 11, tailnum="N2", dep_delay=3),
        event("arrived", 14, arr_delay=9),
        event("arrived", 14, arr_delay=7),
        event("departed", 14, dep_delay=4),
    ]
    schema = (
        "day date, flight_id string, event string, reported_at timestamp, carrier string, flight int, tailnum string, "
        "origin string, dest string, sched_dep timestamp, sched_arr timestamp, distance int, dep_delay int, "
        "arr_delay int, air_time int"
    )
    for order in (events, events[::-1]):
        rows = as_last_reported(spark.createDataFrame(order, schema))
        (row,) = rows.withColumn("hour", F.unix_timestamp("hour")).collect()
        assert (row["status"], row["tailnum"], row["dep_delay"], row["arr_delay"]) == ("arrived", "N2", 4, 9)
        assert row["hour"] == at(10).timestamp()


@pytest.mark.slow
def test_of_two_equally_busy_hours_the_earlier_is_the_busiest(
    spark: SparkSession, tmp_path: Path, instance: dg.DagsterInstance
) -> None:
    airports = Airports(spark, tmp_path, instance)
    flights = [("JFK", DAY, at(hour), delay) for hour, delay in [(9, 20), (8, 20), (8, 14), (9, 20), (7, None)]]
    weather = [("JFK", at(hour), float(hour), 5.0, 0.0, 10.0) for hour in (7, 8, 9)]
    airports.lake.create("silver/flights", flights, "origin string, day date, hour timestamp, dep_delay int")
    columns = "origin string, hour timestamp, temp double, wind_speed double, precip double, visib double"
    airports.lake.create("reference/weather", weather, columns)
    airports.run([busiest_hours.key])
    (row,) = airports.lake.frame("gold/busiest_hours").withColumn("hour", F.unix_timestamp("hour")).collect()
    assert (row["hour"], row["flights"], row["late"], row["temp"]) == (at(8).timestamp(), 2, 1, 8.0)


def test_every_asset_reads_well_in_the_ui() -> None:
    for spec in defs.resolve_all_asset_specs():
        assert spec.description, spec.key
        assert spec.kinds == {"pyspark", "deltalake"}
        assert spec.group_name == spec.key.path[0]
        assert spec.owners == ["team:flights"]


def test_the_schedule_asks_for_the_first_day_that_is_missing() -> None:
    with dg.instance_for_test() as instance:
        for day in ("2013-01-01", "2013-01-03"):
            instance.report_runless_asset_event(dg.AssetMaterialization(flight_events.key, partition=day))
        with dg.build_schedule_context(instance) as context:
            request = next_day_of_flights(context)
        assert isinstance(request, dg.RunRequest)
        assert request.partition_key == "2013-01-02"
        assert demo.next_days(instance) == ["2013-01-02", "2013-01-04", "2013-01-05"]


def test_nothing_but_the_nights_that_a_schedule_names_asks_for_runs_before_it_is_switched_on() -> None:
    repository = defs.get_repository_def()
    stopped, running = dg.DefaultScheduleStatus.STOPPED, dg.DefaultScheduleStatus.RUNNING
    assert {s.name for s in repository.schedule_defs if s.default_status is running} == {"nightly_checks"}
    assert {s.default_status for s in repository.schedule_defs} == {stopped, running}
    assert {s.default_status for s in repository.sensor_defs} == {dg.DefaultSensorStatus.STOPPED}


def test_the_demo_shows_a_line_for_each_source_with_changes() -> None:
    read = [
        {"table": "silver/flights", "after": 0, "upto": 1, "changed": "2 updated", "how": "change feed"},
        {"table": "reference/planes", "after": 0, "upto": 0, "changed": "0 rows", "how": "no row changed"},
        {"table": "reference/weather", "after": -1, "upto": 3, "changed": "all rows", "how": "first read"},
    ]
    values = {"version": 4, "inserted": 0, "updated": 2, "deleted": 0, "seconds": 1.25}
    table = dg.AssetMaterialization(
        ["gold", "busiest"],
        metadata={**values, "read": dg.MetadataValue.table([dg.TableRecord(row) for row in read])},
    )
    first, second = demo.lines_of(table)
    assert first.split() == ["gold/busiest", "flights", "(0,", "1]:", "2", "updated", "0", "2", "0", "4", "1.2"]
    assert second.strip() == "all of weather at version 3"


def counts(said: Mapping[str, Any]) -> tuple[int, int, int]:
    return said["inserted"], said["updated"], said["deleted"]


def at(hour: int) -> dt.datetime:
    return dt.datetime(2013, 1, 1, hour, tzinfo=dt.UTC)

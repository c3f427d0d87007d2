"""The records become the events that happened, at the moments at which they happened."""

from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest

from resources import nycflights
from resources.nycflights import NEW_YORK, PUERTO_RICO, at_clock, corrections, events, events_of, next_at_clock

DAY = date(2013, 1, 1)
FLIGHT: dict[str, Any] = {
    "year": 2013,
    "month": 1,
    "day": 1,
    "sched_dep_time": 515,
    "dep_delay": 2,
    "arr_time": 830,
    "sched_arr_time": 819,
    "arr_delay": 11,
    "carrier": "UA",
    "flight": 1545,
    "tailnum": "N14228",
    "origin": "EWR",
    "dest": "IAH",
    "air_time": 227,
    "distance": 1400,
}
CHICAGO = ZoneInfo("America/Chicago")


def story(zone: ZoneInfo = CHICAGO, **changed: Any) -> list[tuple[str, str]]:
    return [(e["event"], e["reported_at"].isoformat()[:16]) for e in events(FLIGHT | changed, zone)]


def test_a_flight_is_reported_as_it_happens():
    assert story() == [
        ("scheduled", "2013-01-01T05:00"),
        ("departed", "2013-01-01T10:17"),
        ("arrived", "2013-01-01T14:30"),
    ]


def test_an_event_says_what_was_known_by_then():
    scheduled, departed, arrived = events(FLIGHT, CHICAGO)
    assert not {"dep_delay", "arr_delay", "air_time"} & scheduled.keys()
    assert departed["dep_delay"] == 2 and not {"arr_delay", "air_time"} & departed.keys()
    assert arrived["arr_delay"] == 11 and arrived["air_time"] == 227
    assert {e["flight_id"] for e in (scheduled, departed, arrived)} == {"2013-01-01-UA1545-EWR"}


def test_a_delay_past_midnight_is_counted_on():
    told = story(sched_dep_time=2330, dep_delay=90, sched_arr_time=145, arr_delay=80)
    assert told[1:] == [("departed", "2013-01-02T06:00"), ("arrived", "2013-01-02T09:05")]


def test_an_early_flight_may_depart_on_the_day_before():
    assert story(sched_dep_time=5, dep_delay=-10)[1] == ("departed", "2013-01-01T04:55")


def test_a_cancelled_flight_never_departs():
    cancelled = {"dep_delay": None, "arr_time": None, "arr_delay": None, "air_time": None}
    assert story(**cancelled) == [("scheduled", "2013-01-01T05:00"), ("cancelled", "2013-01-01T10:15")]


def test_a_diverted_flight_arrives_without_a_delay_or_not_at_all():
    reached = list(events(FLIGHT | {"arr_time": 1500, "arr_delay": None, "air_time": None}, CHICAGO))
    assert reached[-1]["event"] == "arrived"
    assert reached[-1]["arr_delay"] is None
    assert reached[-1]["reported_at"] == datetime(2013, 1, 1, 21, tzinfo=UTC)
    assert story(arr_time=None, arr_delay=None, air_time=None)[-1][0] == "departed"


def test_clock_times_are_those_of_the_airport():
    assert at_clock(DAY, 2400, NEW_YORK) == at_clock(date(2013, 1, 2), 0, NEW_YORK)
    assert at_clock(date(2013, 7, 1), 600, NEW_YORK) == datetime(2013, 7, 1, 10, tzinfo=UTC)
    noon = datetime(2013, 7, 1, 16, tzinfo=UTC)
    assert next_at_clock(noon, 1200, PUERTO_RICO) == noon + timedelta(days=1)
    assert next_at_clock(noon, 1201, PUERTO_RICO) == noon + timedelta(minutes=1)


@pytest.fixture(scope="module")
def sample() -> list[dict[str, Any]]:
    """The first day of each month, the two days on which clocks were changed, and the whole of a stormy week."""
    days = [date(2013, month, 1) for month in range(1, 13)]
    return list(events_of([*days, date(2013, 3, 10), date(2013, 11, 3), *(date(2013, 2, d) for d in range(5, 12))]))


def test_no_flight_lands_before_it_can_have(sample: list[dict[str, Any]]):
    """Time in the air is measured on its own, so time on the ground shows whether every moment is right."""
    departed = {e["flight_id"]: e["reported_at"] for e in sample if e["event"] == "departed"}
    flown = [e for e in sample if e["event"] == "arrived" and e["air_time"] is not None]
    on_ground = [(e["reported_at"] - departed[e["flight_id"]]) / timedelta(minutes=1) - e["air_time"] for e in flown]
    assert len(flown) > 15_000
    assert min(on_ground) >= 5
    assert max(on_ground) <= 240


def test_events_of_a_day_stay_together_though_some_happen_on_the_next(sample: list[dict[str, Any]]):
    late = [e for e in sample if e["reported_at"].astimezone(NEW_YORK).date() > e["day"]]
    assert {e["event"] for e in late} == {"departed", "arrived"}


def test_the_same_days_give_the_same_events():
    assert list(events_of([DAY])) == list(events_of([DAY]))
    assert Counter(e["event"] for e in events_of([DAY])) == {
        "scheduled": 842,
        "departed": 838,
        "arrived": 837,
        "cancelled": 4,
    }
    assert list(events_of([date(2014, 1, 1)])) == []


def test_every_flight_of_the_year_has_an_id_of_its_own():
    columns = ("year", "month", "day", "carrier", "flight", "origin")
    flights = nycflights.flights_of_2013()
    assert len(set(zip(*(flights[name].to_pylist() for name in columns), strict=True))) == 336_776


@pytest.fixture
def landing(tmp_path: Path) -> str:
    (tmp_path / "2013-01-01").mkdir()
    return str(tmp_path)


def send(landing: str, text: str) -> None:
    Path(landing, "2013-01-01", "sent.csv").write_text(text)


def test_corrections_are_events_that_need_not_repeat_everything(landing: str):
    send(landing, "flight_id,event,reported_at,arr_delay\n2013-01-01-UA1545-EWR,arrived,2013-01-02T17:00:00Z,41\n")
    (sent,) = corrections(landing, DAY)
    assert sent.schema == nycflights.EVENTS
    (row,) = sent.to_pylist()
    assert {name: value for name, value in row.items() if value is not None} == {
        "day": DAY,
        "flight_id": "2013-01-01-UA1545-EWR",
        "event": "arrived",
        "reported_at": datetime(2013, 1, 2, 17, tzinfo=UTC),
        "arr_delay": 41,
    }
    assert corrections(landing, date(2013, 1, 2)) == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("flight_id,event,reported_at,delay\nx,arrived,2013-01-02T17:00:00Z,4\n", "has a column 'delay'"),
        ("flight_id,event,reported_at\nx,landed,2013-01-02T17:00:00Z\n", "has an event 'landed'"),
        ("flight_id,event,reported_at\n,arrived,2013-01-02T17:00:00Z\n", "has an event without flight_id"),
        ("flight_id,event\nx,arrived\n", "has an event without reported_at"),
        ("flight_id,event,reported_at\nx,arrived,2013-01-02T17:00:00\n", "cannot be read as events"),
        ("flight_id,event,reported_at,arr_delay\nx,arrived,2013-01-02T17:00:00Z,soon\n", "cannot be read as events"),
        ("day,flight_id,event,reported_at\n2013-01-09,x,arrived,2013-01-02T17:00:00Z\n", "of another day"),
        ("", "cannot be read as events"),
    ],
)
def test_a_file_that_holds_no_events_is_refused_by_name(landing: str, text: str, message: str):
    send(landing, text)
    with pytest.raises(ValueError, match=message) as error:
        corrections(landing, DAY)
    assert "sent.csv" in str(error.value)


def test_a_landing_folder_elsewhere_is_refused_not_taken_for_empty():
    with pytest.raises(ValueError, match="LAKEHOUSE_LANDING"):
        corrections("s3a://bucket/lake/landing/events", DAY)

"""S3 compared with this disk: a step on ten million rows, and a tick of the sensor over a thousand tables."""

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import dagster as dg
import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake

from benchmarks.contestants.ours import Laps, Ours, untimed
from benchmarks.harness import gateway, race
from benchmarks.harness.data import FEED, KEY, Pair, change, neighbours
from benchmarks.harness.gateway import Store
from benchmarks.harness.lab import Lab
from benchmarks.harness.meter import Cost, medians
from benchmarks.harness.report import Goal, Result
from lakehouse import Changes, DeltaIOManager, Merge, Table, change_sensor
from lakehouse.cursor.generation import FIRST_GENERATION
from lakehouse.cursor.mark import Mark, Position
from lakehouse.delta.location import Location

ROWS = 10_000_000
TABLES, COMMITS, AWAKE = 500, 5, 5
"""How many sources there are, each read by one table; how many commits each log has, which is half the interval of
checkpoints; how many of the sources have moved on."""
COLUMNS = ("", "wall s", "CPU s", "MB read", "MB written", "requests")
DISK, S3 = "this disk", "S3"
Measured: TypeAlias = dict[tuple[str, str], tuple[Cost, float]]
"""Costs and numbers of requests, by what was done and where."""


def run(lab: Lab) -> Result:
    program = gateway.program()
    if program is None:
        raise SystemExit("This suite needs an S3 server. Run: make bench-stores")
    os.environ.update(gateway.KEYS)  # Spark reads the keys there
    with lab.room() as room, gateway.served(program, room) as store:
        own = replace(lab, settings=store.spark_settings)
        few = steps(own, store, "one row", lambda turn: neighbours(lab.rows(ROWS) // 3 + 50 * turn))
        many = steps(own, store, "1 %", lambda turn: f"{KEY} % 100 = {7 + turn}")
        ticks = ticked(own, store)
    rows = [line(f"{what}, {place}", *each) for (what, place), each in (few | many | ticks).items()]
    per_table = ticks["a tick", S3][1] / (2 * lab.times(TABLES))
    more = few["one row", S3][0].cpu / few["one row", DISK][0].cpu
    return Result(
        "stores",
        "On S3, beside this disk",
        f"A step on {lab.rows(ROWS):,} rows in two columns, of which one row or 1 % (in every file) has changed; a "
        f"tick of the sensor over {lab.times(TABLES):,} sources and as many tables that read one each, {COMMITS} "
        f"commits in each log, {AWAKE} of the tables behind, with 32 threads. S3 is versitygw on loopback: it answers "
        "within a millisecond, which a store in a network does not, so its seconds are a lower bound. Requests do not "
        "depend on that. The server's own CPU is not counted, and its files lie on the same disk.",
        COLUMNS,
        rows,
        [
            Goal("requests of a tick on S3 for each table", f"{per_table:.1f}", None),
            Goal("requests of a step of one changed row on S3", f"{few['one row', S3][1]:.0f}", None),
            Goal("CPU of a step of one changed row on S3, against this disk", f"{more:.2f}x", None),
        ],
    )


def line(what: str, cost: Cost, requests: float) -> tuple[str, ...]:
    mb = 1e6
    bytes_ = f"{cost.read / mb:.1f}", f"{cost.written / mb:.2f}"
    return (what, f"{cost.wall:.2f}", f"{cost.cpu:.2f}", *bytes_, f"{requests:,.0f}")


@dataclass
class Counted(Ours):
    """This project's step, with the requests to the store that each one made."""

    answered: Callable[[], int] = int
    requests: list[int] = field(default_factory=list[int])

    def step(self, pair: Pair, lap: Laps = untimed) -> None:
        before = self.answered()
        super().step(pair, lap)
        self.requests.append(self.answered() - before)


def steps(lab: Lab, store: Store, what: str, where: Callable[[int], str]) -> Measured:
    """The same steps in both places, side by side, on lasting tables."""
    table, directory = lab.table(ROWS, 2), what.replace(" ", "")
    pairs = {DISK: Pair.of(table, lab.scratch / directory), S3: Pair.of(table, store.bucket / directory)}
    store.adopt(pairs[S3].root)
    contestants = {
        DISK: Counted(lab.ours(), DISK, answered=store.count),
        S3: Counted(lab.ours(), S3, where=store.of, answered=store.count),
    }
    for place, contestant in contestants.items():
        contestant.prepare(pairs[place])
    costs = {place: list[Cost]() for place in pairs}
    for turn in range(race.WARM + lab.rounds):
        for place, contestant in race.rotated([*contestants.items()], turn):
            pair = pairs[place]
            change(lab.spark, contestant.where(pair.source).address, where(turn))
            costs[place] += race.measured(lab.meter, f"{what}, {place}", contestant, pair).costs
    for place, contestant in contestants.items():
        race.checked(lab.spark, contestant, pairs[place])
        shutil.rmtree(pairs[place].root)
    last = slice(race.WARM, None)
    return {
        (what, place): (medians(costs[place][last]), median(contestant.requests[last]))
        for place, contestant in contestants.items()
    }


def ticked(lab: Lab, store: Store) -> Measured:
    """A tick over the same logs, in both places."""
    tables = lab.times(TABLES)
    lay_out(store.bucket / "many", tables)
    places = {DISK: Location(str(store.bucket / "many")), S3: store.at("many")}
    sensors = {place: sensor_of(location, tables) for place, location in places.items()}
    costs = {place: list[Cost]() for place in places}
    requests = {place: list[int]() for place in places}
    for _ in range(lab.rounds + 1):
        for place, sensor in sensors.items():
            before = store.count()
            result, lap = lab.meter.measure(place, lambda sensor=sensor: tick(sensor))
            requests[place].append(store.count() - before)
            costs[place].append(lap.cost)
            assert awake(result) == AWAKE, f"the sensor asks for {awake(result)} tables, and {AWAKE} are behind"
    return {("a tick", place): (medians(costs[place][1:]), median(requests[place][1:])) for place in places}


def tick(sensor: dg.SensorDefinition) -> Any:
    with dg.DagsterInstance.ephemeral() as instance:
        return sensor(dg.build_sensor_context(instance=instance))


def awake(result: Any) -> int:
    return sum(len(request.asset_selection) for request in result.run_requests)


def sensor_of(location: Location, tables: int) -> dg.SensorDefinition:
    """The sensor over the tables that `lay_out` makes."""
    manager = DeltaIOManager(
        spark=object(), root=location.address, storage_options=dict(location.options or {}) or None
    )
    return change_sensor("follow", list(graph(tables)), resources={"io_manager": manager})


def graph(tables: int) -> Iterator[dg.AssetSpec | dg.AssetsDefinition]:
    for number in range(tables):
        yield dg.AssetSpec(f"source{number}", metadata=Table(key=KEY))
        yield follower(number)


def follower(number: int) -> dg.AssetsDefinition:
    @dg.asset(name=f"table{number}", ins={"source": dg.AssetIn(f"source{number}")}, metadata=Table(key=KEY))
    def asset(source: Changes) -> Merge: ...

    return asset


def lay_out(root: Path, tables: int) -> None:
    """Writes sources of a few commits, and tables that have read them all; a few sources have moved on since."""
    row = pa.table({KEY: [1]})
    for number in range(tables):
        source, table = f"source{number}", f"table{number}"
        for version in range(COMMITS):
            write_deltalake(str(root / source), row, mode="append", configuration={FEED: "true"})
            read = Position(str(DeltaTable(str(root / source)).metadata().id), version)
            mark = Mark(
                table, (), FIRST_GENERATION, version + 1, "run", f"attempt {version}", version - 1, reads={source: read}
            )
            told = CommitProperties(
                custom_metadata={"userMetadata": mark.to_json()},
                app_transactions=[Transaction(mark.application_id, mark.epoch)],
            )
            write_deltalake(str(root / table), row, mode="append", commit_properties=told, configuration={FEED: "true"})
        if number < AWAKE:
            write_deltalake(str(root / source), row, mode="append")

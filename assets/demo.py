"""`make demo`: three days of flights, one of them late, and what each step of the lakehouse reads and writes.

It adds to the local lakehouse and removes nothing; run again, it goes on with the next three days. Its runs are kept
where `make dev` finds them.
"""

import csv
import os
import sys
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from time import monotonic
from typing import Any

import dagster as dg

from assets.flight_events import DAYS
from assets.reference import fleet
from lakehouse import LakehouseError
from lakehouse.delta.log import NOTHING_READ
from resources.environments import PROJECT
from resources.nycflights import ARRIVED, CANCELLED, NEW_YORK, at_clock, events_of

try:
    from assets.definitions import defs, landing, resources, tables
except LakehouseError as error:  # the value of an environment variable is not known
    sys.exit(str(error))

UI = "http://127.0.0.1:3000"
SILENT = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
TERMINAL = os.dup(1)
"""The program's own output: during a run, Dagster captures descriptor 1 and passes the output on late or not at all."""
LINE = "   {:<31}  {:<49} {:>8} {:>7} {:>7} {:>7} {:>7}"

KEYS = {table.key.to_python_identifier(): table.key for table in tables}
EVENTS, BY_DAY = (table.key for table in tables if table.partitions_def is not None)
FLEET = fleet.key
REFERENCE = [key for key in KEYS.values() if key.path[0] == "reference" and key != FLEET]
INCREMENTAL = [key for key in KEYS.values() if key not in (EVENTS, BY_DAY, FLEET, *REFERENCE)]


def main() -> None:
    Path(os.environ.setdefault("DAGSTER_HOME", str(PROJECT / ".dagster"))).mkdir(exist_ok=True)
    with dg.DagsterInstance.get() as instance:
        days = next_days(instance)
        if len(days) < 3:
            sys.exit("Every day of 2013 is in the lakehouse, so nothing is left to show. To start over: make clean")
        start_spark()
        say("\n" + LINE.format("table", "read", "inserted", "updated", "deleted", "version", "seconds"))
        show(Steps(instance), *days)
        equal = verify(instance)
    say(f"\nTo see the same lakehouse in Dagster, run `make dev` and open {UI}")
    sys.exit(None if equal else 1)


def say(*lines: str) -> None:
    os.write(TERMINAL, "".join(f"{line}\n" for line in lines).encode())


def start_spark() -> None:
    began = monotonic()
    say("Starting Spark ...")
    try:
        spark = resources["spark"].spark_session
    except LakehouseError as error:
        sys.exit(str(error))
    say(f"Spark {spark.version} started in {monotonic() - began:.0f} s.")


def show(steps: "Steps", first: str, late: str, third: str) -> None:
    steps.begin(f"Reference tables, and the fleet by its extract of {first}")
    steps.materialize(REFERENCE)
    steps.extract(first)
    steps.begin(f"Two days of flights, {first} and {third}, through the whole graph")
    steps.materialize([EVENTS], first)
    steps.materialize([EVENTS], third)
    steps.materialize(INCREMENTAL)
    steps.materialize([BY_DAY], first)
    steps.materialize([BY_DAY], third)
    steps.begin("Once more, with nothing new: nothing is written")
    steps.materialize(REFERENCE)
    steps.materialize([EVENTS], first)
    steps.materialize(INCREMENTAL)
    steps.begin(
        f"{late} arrives late, {first} is corrected (a delay revised, a flight cancelled), the fleet's next extract"
    )
    send_corrections(date.fromisoformat(first), Path(landing))
    steps.materialize([EVENTS], late)
    steps.materialize([EVENTS], first)
    steps.extract(third)
    steps.begin("The incremental step: from what changed to the rows that differ, which alone are written")
    steps.materialize(INCREMENTAL)
    steps.materialize([BY_DAY], first)
    steps.materialize([BY_DAY], late)
    steps.begin("Every incremental table against a full recompute of what it has read")


class Steps:
    """Numbered steps, each a heading and a line per materialized table."""

    def __init__(self, instance: dg.DagsterInstance) -> None:
        self._instance = instance
        self._number = 0
        without_checks = dg.Definitions(assets=tables, resources=resources, executor=dg.in_process_executor)
        self._job = without_checks.resolve_implicit_global_asset_job_def().with_hooks({print_materialization})

    def begin(self, title: str) -> None:
        self._number += 1
        say(f"\n{self._number}. {title}")

    def extract(self, day: str) -> None:
        """Takes the fleet's extract of a day."""
        self._run([FLEET], {"ops": {FLEET.to_python_identifier(): {"config": {"day": day}}}})

    def materialize(self, keys: Sequence[dg.AssetKey], day: str | None = None) -> None:
        self._run(keys, {}, day)

    def _run(self, keys: Sequence[dg.AssetKey], config: dict[str, Any], day: str | None = None) -> None:
        result = self._job.execute_in_process(
            run_config=SILENT | config,
            instance=self._instance,
            asset_selection=keys,
            partition_key=day,
            raise_on_error=False,
        )
        stop_if_failed(result)


@dg.success_hook
def print_materialization(context: dg.HookContext) -> None:
    entry = context.instance.get_latest_materialization_event(KEYS[context.step_key])
    if entry is not None and entry.asset_materialization is not None:
        say(*lines_of(entry.asset_materialization))


def lines_of(table: dg.AssetMaterialization) -> Iterator[str]:
    """What one materialization read and wrote; one line per source that has changes."""
    values: dict[str, Any] = {name: value.value for name, value in table.metadata.items()}
    name = " ".join([table.asset_key.to_user_string(), table.partition or ""])
    read, *more = list(sources_of(table.metadata["read"])) or ["nothing new"]
    counts = (values.get(count, "") for count in ("inserted", "updated", "deleted", "version"))
    yield LINE.format(name, read, *counts, f"{values['seconds']:.1f}")
    yield from (LINE.format("", source, *[""] * 5).rstrip() for source in more)


def sources_of(read: dg.MetadataValue[Any]) -> Iterator[str]:
    if not isinstance(read, dg.TableMetadataValue):
        yield "the records"
        return
    for source in (record.data for record in read.records):
        name, after, upto = str(source["table"]).split("/")[-1], source["after"], source["upto"]
        if after in ("", NOTHING_READ):
            yield f"all of {name} at version {upto}"
        elif source["changed"] != "0 rows":
            yield f"{name} ({after}, {upto}]: {source['changed']}"


def verify(instance: dg.DagsterInstance) -> bool:
    """Whether every table with a check equals a full recompute, and passes its other checks; prints the verdicts."""
    job = defs.resolve_job_def("every_check")
    result = job.execute_in_process(run_config=SILENT, instance=instance, raise_on_error=False)
    stop_if_failed(result)
    evaluations = result.get_asset_check_evaluations()
    for evaluation in evaluations:
        if evaluation.check_name.startswith("equals_"):
            verdict = "equal" if evaluation.passed else "DIFFERENT"
            say(f"   {evaluation.asset_key.to_user_string():<31}  {verdict}, {evaluation.metadata['rows'].value} rows")
        elif not evaluation.passed:
            say(f"   {evaluation.asset_key.to_user_string():<31}  {evaluation.check_name}: {evaluation.description}")
    return all(evaluation.passed for evaluation in evaluations)


def stop_if_failed(result: dg.ExecuteInProcessResult) -> None:
    """Ends the demo with the message of the first step that failed."""
    for event in result.all_events:
        if event.is_step_failure:
            refused, error = event.step_failure_data.user_failure_data, event.step_failure_data.error
            raised = error and (error.cause or error).message.strip()
            sys.exit(f"{event.step_key} failed. {refused.description if refused else raised}")


def next_days(instance: dg.DagsterInstance) -> list[str]:
    """The first three days that are not in the lakehouse yet."""
    here = instance.get_materialized_partitions(EVENTS)
    return [day for day in DAYS.get_partition_keys() if day not in here][:3]


def send_corrections(day: date, landing: Path) -> None:
    """Sends what an airline reports two days later: one flight arrived 45 minutes later than known, one never flew."""
    delayed, cancelled, *_ = (e for e in events_of([day]) if e["event"] == ARRIVED and e["arr_delay"] is not None)
    sent = at_clock(day + timedelta(days=2), 900, NEW_YORK).isoformat()
    rows = [
        {"flight_id": delayed["flight_id"], "event": ARRIVED, "arr_delay": delayed["arr_delay"] + 45},
        {"flight_id": cancelled["flight_id"], "event": CANCELLED},
    ]
    folder = landing / day.isoformat()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "demo.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["flight_id", "event", "reported_at", "arr_delay"])
        writer.writeheader()
        writer.writerows(row | {"reported_at": sent} for row in rows)


if __name__ == "__main__":
    main()

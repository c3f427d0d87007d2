"""The nights that make the checks which no run of their assets makes: a job, and the schedule that starts it.

A night is one op that yields an evaluation of each check that it made. A run for each check would be a process for each
table. With a step for each check, those that the limit stops would be shown as skipped; and Dagster orders steps by
their graph, not by how long they have waited.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import dagster as dg

from lakehouse.cursor.definition import digest
from lakehouse.dagster.contexts import to_log
from lakehouse.dagster.definitions.checks import (
    EXPENSIVE,
    NAMES,
    CheckableTable,
    CheckLimits,
    CheckName,
    finding_of,
    id_of,
    shown,
)
from lakehouse.dagster.definitions.findings import Finding, lasting
from lakehouse.dagster.definitions.night_schedule import NIGHTLY, Nightly, end_of_night, night_schedule
from lakehouse.dagster.definitions.past_checks import last_made
from lakehouse.dagster.run_tags import NIGHTS_OF
from lakehouse.delta.commit_info import count_of
from lakehouse.spark.diagnosis import first_line
from lakehouse.spark.progress import listening


@dataclass(frozen=True)
class _Check:
    """A check that a night may make."""

    table: CheckableTable
    name: CheckName
    limits: CheckLimits

    @property
    def key(self) -> dg.AssetCheckKey:
        return dg.AssetCheckKey(self.table.key, id_of(self.name))


def nightly(checks: Iterable[Any], tables: Mapping[dg.AssetKey, CheckableTable], night: Nightly) -> dg.Definitions:
    """The job that makes the library's checks, the longest waiting first, and the schedule that starts the job."""
    listed = list(_library_checks(checks, tables))
    of = {NIGHTS_OF: digest(sorted(check.key.to_user_string() for check in listed))}

    @dg.op(
        out={},
        required_resource_keys={name for check in listed for name in check.table.resources.values()},
        description="Makes the checks of tables, those that have waited longest first; starts none after the limit.",
    )
    def make_checks(context: dg.OpExecutionContext) -> Iterator[dg.AssetCheckEvaluation]:
        yield from _made(context, longest_waiting_first(listed, context.instance), night.limit)

    @dg.job(name=NIGHTLY, tags=of, description="The checks of tables that no run of their assets makes.")
    def job() -> None:
        make_checks()

    text = "Compares tables with full recomputes, and makes the other checks of tables, at night."
    return dg.Definitions(jobs=[job], schedules=[night_schedule(job, night.cron_schedule, night.timezone, text)])


def longest_waiting_first(checks: Sequence[_Check], instance: dg.DagsterInstance) -> list[_Check]:
    """The checks in the order in which a night makes them: never made, then long ago; among equals, cheap first."""

    def waiting(check: _Check) -> tuple[float, bool]:
        last = last_made(instance, check.key)
        return 0.0 if last is None else last.at, check.name in EXPENSIVE

    return sorted(checks, key=waiting)


def _library_checks(checks: Iterable[Any], tables: Mapping[dg.AssetKey, CheckableTable]) -> Iterator[_Check]:
    names: Mapping[str, CheckName] = {id_of(name): name for name in NAMES}
    for definition in checks:
        for spec in definition.check_specs if isinstance(definition, dg.AssetChecksDefinition) else ():
            limits, table = CheckLimits.of(spec), tables.get(spec.asset_key)
            if limits is not None and table is not None:
                yield _Check(table, names[spec.name], limits)


def _made(
    context: dg.OpExecutionContext, checks: Sequence[_Check], limit: timedelta
) -> Iterator[dg.AssetCheckEvaluation]:
    """What each check finds, until the limit is reached; an error in one check keeps no other from being made."""
    until, errors = end_of_night(context, limit), list[str]()
    dynamic_keys = dg.partition_loading_context(dynamic_partitions_store=context.instance)
    with listening(to_log(context.log)), dynamic_keys:
        for place, check in enumerate(checks):
            if time.time() >= until:
                context.log.warning(
                    f"The night's limit of {lasting(limit.total_seconds())} is reached: "
                    f"{count_of(len(checks) - place, 'check')} were not started and come first in the next night."
                )
                break
            try:
                finding = finding_of(
                    check.name, check.table.table_now(context.resources, context.instance), check.limits
                )
            except Exception as error:  # other checks are made all the same
                named = f"{check.key.name} of {check.key.asset_key.to_user_string()}"
                context.log.exception(f"{named} ended with an error.")
                errors.append(named)
                finding = Finding.unavailable(f"This check ended with an error: {first_line(error)}")
            yield dg.AssetCheckEvaluation(
                asset_key=check.key.asset_key, check_name=check.key.name, blocking=False, **shown(finding)
            )
    if errors:
        raise dg.Failure(f"These checks ended with an error: {', '.join(errors)}.", allow_retries=False)

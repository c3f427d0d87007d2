"""The end of a soak: everything catches up, the checker reads all files, and every table is compared with a recompute."""

import json
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import dagster as dg

from tests.endurance.agreement import torn
from tests.endurance.oracle import assets, recomputed
from tests.reliability.checker import Ack, Asset, behind, check
from tests.reliability.delta_files import History, log_files


def unread(root: Path) -> list[str]:
    """What the tables have not read yet, by the ends of the logs."""
    return [
        f"{asset.name} has read {name} up to {upto}, and version {changed} changed rows"
        for asset in assets(root)
        for name, path in asset.sources.items()
        if (changed := _last_change(path)) > (upto := _position(asset, name))
    ]


def _last_change(table: Path) -> int:
    """The last version that changed rows, or may have."""
    for file in reversed(log_files(table)):
        actions = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
        moved = [action.get("add") or action.get("remove") or action.get("cdc") for action in actions]
        if any(each is not None and each.get("dataChange", True) for each in moved):
            return int(file.stem)
    return -1


def _position(asset: Asset, source: str) -> int:
    """How far a table has read a source; -1 if no commit records that."""
    files = {int(file.stem): file for file in log_files(asset.path)}
    version = max(files, default=-1)
    while version >= 0:
        for line in files[version].read_text().splitlines():
            info: dict[str, Any] = json.loads(line).get("commitInfo") or {}
            mark = json.loads(info.get("userMetadata") or "{}").get("lakehouse", {})
            if mark.get("asset") == asset.name:
                return mark["reads"][source]["version"]
            if info.get("operation") == "RESTORE":  # the mark of the restored version holds
                version = int(info["operationParameters"]["version"]) + 1
        version -= 1
    return -1


def problems(root: Path, home: Path) -> list[str]:
    """Everything that is wrong with the tables, as sentences."""
    tables, opened = assets(root), cache(History)
    with dg.DagsterInstance.from_config(str(home)) as instance:
        acks = [ack for table in tables for ack in _acks(instance, table.name)]
        died = [run.run_id for run in instance.get_runs() if not run.is_success]
    violations = [*check(tables, acks, died, opened), *behind(tables, opened)]
    split = torn(tables, opened)
    differences = [f"{name} is not its recompute: {problem}" for name, problem in recomputed(root).items()]
    return [*map(str, violations), *split, *differences]


def _acks(instance: dg.DagsterInstance, name: str) -> Iterator[Ack]:
    """The commits of a table that Dagster's event log shows."""
    cursor, more = None, True
    while more:
        page = instance.fetch_materializations(dg.AssetKey(name), limit=500, cursor=cursor)
        cursor, more = page.cursor, page.has_more
        for record in page.records:
            made = record.asset_materialization
            how = None if made is None else made.metadata.get("write")
            if made is None or how is None or str(how.value).startswith("nothing"):
                continue
            is_own = not str(how.value).startswith("already applied")
            yield Ack(name, record.run_id, int(str(made.metadata["version"].value)), is_own)


def runs(home: Path) -> tuple[dict[str, int], list[dict[str, Any]]]:
    """How many runs ended in each status; and the time and the errors of each failed run."""
    with dg.DagsterInstance.from_config(str(home)) as instance:
        records = instance.get_run_records()
        failed = [record for record in records if record.dagster_run.status is dg.DagsterRunStatus.FAILURE]
        counted = Counter(record.dagster_run.status.value for record in records)
        return dict(counted), [
            {
                "at": record.end_time or record.create_timestamp.timestamp(),
                "run": record.dagster_run.run_id,
                "errors": _errors(instance, record),
            }
            for record in failed
        ]


def _errors(instance: dg.DagsterInstance, record: dg.RunRecord) -> list[str]:
    found = list[str]()
    for entry in instance.all_logs(record.dagster_run.run_id):
        event = entry.dagster_event
        if event is not None and event.is_step_failure:
            data = event.step_failure_data
            described = data.user_failure_data.description if data.user_failure_data else None
            cause = data.error.cause if data.error and data.error.cause else data.error
            found.append(f"{event.step_key}: {described or (cause.message if cause else '')}"[:400])
        elif event is not None and "unexpectedly" in (event.message or ""):
            found.append(str(event.message)[:200])
    return found

"""`lakehouse run`: one run of some assets, in the queue of Dagster's instance if its daemon is alive, else here."""

import shutil
import sys
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args

from lakehouse.cli.command import (
    Answer,
    Command,
    Target,
    UsageError,
    add_json,
    add_target,
    checking_config,
    definitions,
    document,
    target,
)
from lakehouse.cli.runs.run_result import RunLog, RunRequest, RunResult
from lakehouse.delta.expect import SUFFIX
from lakehouse.delta.location import Storage
from lakehouse.errors import ALLOW, FULL_REFRESH, GO_ON_FROM, RESTATE_FROM, THAW, Allowed
from lakehouse.upkeep.registration import registered_limits

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.code_location import AssetTable


_NOTHING = RunResult(None, is_here=True, succeeded=True, assets=(), checks=0, failed_checks=(), seconds=0.0)
"""What became of a run that was not needed."""


def _add_arguments(parser: ArgumentParser) -> None:
    add_target(parser)
    parser.add_argument(
        "assets", metavar="ASSET", nargs="*", help="asset keys or selections: gold/x, gold/x+, +gold/x, group:gold"
    )
    parser.add_argument("--all", action="store_true", help="every asset")
    parser.add_argument("--behind", action="store_true", help="what status calls behind, and what has to run after it")
    parser.add_argument("--partition", metavar="KEY", help="the partition, if the assets have partitions")
    parser.add_argument(
        "--full-refresh", action="store_true", help="compute everything, and write the rows that differ"
    )
    parser.add_argument("--rebuild", action="store_true", help="in development: delete the tables and make them anew")
    parser.add_argument(
        "--go-on-from", metavar="V", help="of an Append: the version of its source after which it continues, or now"
    )
    parser.add_argument("--restate-from", metavar="T", help="of a History: from when on it is computed again")
    parser.add_argument(
        "--thaw", metavar="CONDITION", help="of a table that owns some rows: which others this run may rewrite too"
    )
    parser.add_argument(
        "--allow",
        choices=get_args(Allowed),
        action="append",
        default=[],
        help="let through once what is held back; may be repeated",
    )
    parser.add_argument("--checks", action="store_true", help="also make the checks that read whole tables")
    parser.add_argument("--config", metavar="JSON", type=document, help="the run config, as Dagster takes it")
    add_json(parser)


def _run(given: Namespace) -> Answer:
    if bool(given.assets) + given.all + given.behind != 1:
        raise UsageError("Name assets, or give --all or --behind.")
    source, defs = target(given), definitions(given)
    assets, left_out = _chosen(given, defs)
    if left_out:
        sys.stderr.write(f"Left out, because {left_out}.\n")
    if not assets:
        return Answer(_NOTHING.as_document(), "Nothing is behind.")
    request = RunRequest(assets, given.partition, tags_of_options(given, assets))
    tables = tables_of(request, defs)
    from lakehouse.cli.pages.run_page import run_page
    from lakehouse.cli.runs.submit import instance_here

    rebuilt = tables if given.rebuild else []
    for table in rebuilt:
        refuse_rebuild(table)
    with checking_config(), instance_here() as instance, rebuilding(rebuilt):
        result = _result(instance, source, defs, request, tables, given)
    sys.stderr.writelines(asset.stack for asset in result.assets)
    is_good = result.succeeded and not any(check.is_error for check in result.failed_checks)
    return Answer(result.as_document(), run_page(result), 0 if is_good else 1)


def tags_of_options(given: Namespace, assets: Sequence[str]) -> dict[str, str]:
    """The run tags that the options of a command line stand for.

    Raises:
        UsageError: An option that is about one asset is given with several assets.
    """
    from lakehouse.dagster.run_tags import CHECKS

    of_one = {
        "--go-on-from": (GO_ON_FROM, given.go_on_from),
        "--restate-from": (RESTATE_FROM, given.restate_from),
        "--thaw": (THAW, given.thaw),
        "--allow": (ALLOW, ",".join(dict.fromkeys(given.allow)) or None),
    }
    named = [option for option, (_, value) in of_one.items() if value]
    if named and len(assets) > 1:
        raise UsageError(f"{named[0]} is about one asset, and {len(assets)} are named. Run them one by one.")
    tags = {tag + assets[0]: value for tag, value in of_one.values()}
    tags |= {FULL_REFRESH: ",".join(assets)} if given.full_refresh else {}
    tags |= {CHECKS: "true"} if given.checks else {}
    return {tag: value for tag, value in tags.items() if value is not None}


def _chosen(given: Namespace, defs: "dg.Definitions") -> tuple[tuple[str, ...], str]:
    """The assets of the run, and which others are left out, and why; empty if none are."""
    from lakehouse.cli.graph import behind, groups_in_order, select_assets
    from lakehouse.cli.tables import readable_logs
    from lakehouse.dagster.io_manager import code_location_of
    from lakehouse.status.table_status import TableState, table_statuses

    code_location = code_location_of(defs)
    if given.behind:
        logs = readable_logs(code_location).logs
        statuses = [*table_statuses(logs)]
        gaps = ", ".join(each.name for each in statuses if each.state is TableState.GAP)
        why = f"changes that they have not read can no longer be read (`lakehouse status`): {gaps}"
        return tuple(behind(code_location, groups_in_order(defs, logs), statuses)), why if gaps else ""
    words = ["*"] if given.all else given.assets
    names, left_out = select_assets(words, defs, code_location, by_partition=given.partition is not None)
    why = f"they have {'partitions' if given.partition is None else 'no partitions'}: {', '.join(left_out)}"
    return tuple(names), why if left_out else ""


def tables_of(request: RunRequest, defs: "dg.Definitions") -> "list[AssetTable]":
    """What the definitions declare of each asset of a run.

    Raises:
        UsageError: An asset has partitions and none is named, or the other way round.
        LakehouseError: An asset does not allow a run tag.
    """
    from lakehouse.dagster.io_manager import code_location_of, managers_of
    from lakehouse.dagster.run_tags import request_by

    code_location, managers = code_location_of(defs), managers_of(defs.resources)
    tables = code_location.by_name
    for name in request.assets:
        table = tables[name]
        if (table.partitions_def is None) != (request.partition is None):
            raise UsageError(
                f"{name} has partitions. Say which: --partition KEY."
                if request.partition is None
                else f"{name} has no partitions. Leave --partition out."
            )
        if table.asset is not None and table.manager in managers and table.is_written:
            request_by(request.tags, managers[table.manager].asset_of(table.asset, table.key))
    return [tables[name] for name in request.assets]


def _result(
    instance: "dg.DagsterInstance",
    source: Target,
    defs: "dg.Definitions",
    request: RunRequest,
    tables: "Sequence[AssetTable]",
    given: Namespace,
) -> RunResult:
    """Executes the run, shows what happens meanwhile, and returns what became of it."""
    from lakehouse.cli.pages.run_page import asset_line, progress, queue_line
    from lakehouse.cli.pages.screen import apart_from_capture, working
    from lakehouse.cli.runs.submit import enqueue, execute_here, has_daemon, tags_of_request, wait_for

    began = time.time()
    quarantines = [table.name + SUFFIX for table in tables if table.declared.quarantines]
    width = max(map(len, (*request.assets, *quarantines)))
    is_here, config = not has_daemon(instance, began), cast("dict[str, Any]", given.config or {})
    steps = {table.asset.op.name: (table.name,) for table in tables if table.asset is not None}
    # With --json the output is the document, so progress goes to the error output.
    progress_output = sys.stderr if given.json else sys.stdout
    with apart_from_capture(progress_output) as output, working("The run is starting", output) as work:
        log = RunLog(steps, lambda result: work.say(asset_line(result, width)))

        def look(status: str) -> None:
            work.update(progress(log, status, len(tables)))

        tags = tags_of_request(instance, defs, request)
        if is_here:
            run, succeeded = execute_here(instance, defs, request, tags, config, log, look)
        else:
            run = enqueue(instance, source, request, tags, config)
            work.say(queue_line(run))
            succeeded = wait_for(instance, run, log, look)
    seconds = round(time.time() - began, 2)
    return RunResult(run, is_here, succeeded, tuple(log.results), log.checks, tuple(log.failed), seconds)


_ASIDE = "_rebuilt"
"""The suffix that a directory's name has while its table is made anew."""


def refuse_rebuild(table: "AssetTable") -> None:
    """Refuses to make a table anew if no run could compute its rows again, or if it is not a developer's own.

    Raises:
        UsageError: With the reason.
    """
    why = _why_not_rebuilt(table)
    if why is not None:
        raise UsageError(
            f"--rebuild deletes a table and makes it anew, and {table.name} {why}. "
            f"docs/how-to/change-a-table.md says how columns of such a table are changed."
        )


def _why_not_rebuilt(table: "AssetTable") -> str | None:
    """Why a table may not be made anew, as the end of a sentence."""
    from lakehouse.delta.file_log import FileLog
    from lakehouse.read.asset import PastRows

    files = None if table.ref is None else table.ref.files
    if files is None or files.storage is not Storage.FILES:
        return "is not a directory on this machine"
    if table.past is not PastRows.COMPUTED or table.declared.owns is not None:
        return "holds rows that its sources cannot give again"
    if table.partitions_def is not None:
        return "has partitions, and one run makes only its own"
    if table.policy.max_changed is not None:
        return "has a policy with max_changed, as in production"
    if _beside(Path(files.path)).exists():
        return f"was put aside by a run that was killed: look at {_beside(Path(files.path))}"
    head = FileLog(files, table.name).head()
    readers = () if head is None else registered_limits(head.properties)
    return f"has registered readers ({', '.join(readers)})" if readers else None


def _beside(path: Path) -> Path:
    return path.with_name(path.name + _ASIDE)


@contextmanager
def rebuilding(tables: "Sequence[AssetTable]") -> Generator[None]:
    """Puts tables and their quarantines aside while a run makes them anew, and puts back what it does not make."""
    refs = (table.ref for table in tables)
    paths = [Path(ref.files.path) for ref in refs if ref is not None and ref.files is not None]
    aside = [(path, each) for path in paths for each in (path, path.with_name(path.name + SUFFIX)) if each.is_dir()]
    for _, each in aside:
        each.rename(_beside(each))
    try:
        yield
    finally:
        made = {path for path in paths if any((path / "_delta_log").glob("*.json"))}  # a failed CREATE leaves no commit
        for path, each in aside:
            if path in made:
                shutil.rmtree(_beside(each))
            else:
                shutil.rmtree(each, ignore_errors=True)
                _beside(each).rename(each)


RUN = Command(_add_arguments, _run)

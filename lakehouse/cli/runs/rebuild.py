"""`lakehouse run --rebuild`: a table is made anew, under columns that its result has now. For development."""

import shutil
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.cli.command import UsageError
from lakehouse.delta.expect import SUFFIX
from lakehouse.delta.file_log import FileLog
from lakehouse.delta.location import Storage
from lakehouse.upkeep.registration import registered_limits

if TYPE_CHECKING:
    from lakehouse.dagster.code_location import AssetTable

_ASIDE = "_rebuilt"
"""What stands behind the name of a directory while the table is made anew."""


def refuse_rebuild(table: "AssetTable") -> None:
    """Refuses to make a table anew whose rows no run could compute again, or which is not one of a developer's.

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
    from lakehouse.read.asset import PastRows

    files = None if table.ref is None else table.ref.files
    if files is None or files.storage is not Storage.FILES:
        return "is not a directory on this machine"
    if table.past is not PastRows.COMPUTED:
        return "holds rows that its sources cannot give again"
    if table.partitions_def is not None:
        return "has partitions, of which one run makes only its own"
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
    """Puts tables and their quarantines aside while a run makes them anew; back if the run does not make the table."""
    paths = [Path(path) for table in tables if table.ref is not None and (path := table.ref.path) is not None]
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

